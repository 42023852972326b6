"""interlock: the model's tool is the gate, which records what was asked for, and a second start ends what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from harness.clocks import ShiftedClock
from harness.columns.job import Answer, Job, KillPoint, Reached, Status, WrongDecision, save
from harness.gated_agent import carry_out, recorded_decision
from harness.trace import note
from interlock import Ambiguous, Committed, Effect, Gate, GateConfig, InFlight, Outcome, Premise, Receipt, Refused, Target
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.ports import Deadline
from interlock.domain.profiles import CapabilityProfile
from interlock.stripe import Refund, StripeRefunds

APPROVAL_LASTS_S = 7 * 86_400


class CrashingTarget(Target[Refund]):
    """Stripe's refunds, with the two points around the send at which a worker can die.

    Args:
        inner: the real target.
        reached: called at each point.
        home: the case's folder, where what was asked and answered is noted for whoever watches.
    """

    def __init__(self, inner: StripeRefunds, reached: Reached, home: Path) -> None:
        self.name, self.version, self.codec, self.policy = inner.name, inner.version, inner.codec, inner.policy
        self._inner = inner
        self._reached = reached
        self._home = home

    @property
    def capabilities(self) -> CapabilityProfile:
        """The real target's."""
        return self._inner.capabilities

    def check(self, effect: Effect[Refund], premises: tuple[Premise, ...]) -> None:
        """Ask the real target."""
        self._inner.check(effect, premises)

    def _observe(self, subject: str) -> Premise:
        premise = self._inner.observe(subject)
        note(self._home, "read", subject=subject)
        return premise

    def _send(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        self._reached(KillPoint.BEFORE_SEND)
        answer = self._inner.send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        self._reached(KillPoint.AFTER_ANSWER)
        return answer

    def _lookup(self, effect: Effect[Refund], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        answer = self._inner.lookup(effect, action_id=action_id, deadline=deadline)
        note(self._home, "looked_up", answer=type(answer).__name__)
        return answer

    def _burn(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        answer = self._inner.burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        note(self._home, "burned", answer=type(answer).__name__)
        return answer


class GateApprovals:
    """Approvals in the case's own journal."""

    def grant(self, job: Job) -> None:
        """Approve the case's refund."""
        with Gate.open(job.journal_url) as gate:
            gate.approve(
                job.case_id, cap_minor=job.approved_minor, currency=job.currency, by="user:17", expires_in_s=APPROVAL_LASTS_S
            )

    def revoke(self, job: Job) -> None:
        """Take the approval back."""
        with Gate.open(job.journal_url) as gate:
            gate.revoke(job.case_id, by="user:17", note="the customer withdrew")


APPROVALS = GateApprovals()


def run(job: Job, reached: Reached) -> Answer:
    """Carry the case to its end. A second start asks no model: the gate finds out what happened to what was recorded."""

    def saved(point: KillPoint) -> None:
        # For whoever reads the results: the journal has the decision already, and nothing reads it from here.
        save(job.home / "decision.json", recorded_decision(job).to_json().encode())
        reached(point)

    stripe = target_of(job)
    with open_gate(job, stripe, saved) as gate:
        outcome = carry_out(job, gate, stripe)
    if outcome is None:
        raise WrongDecision("the model asked for no refund that was approved; nothing was sent")
    return answer_of(outcome)


def target_of(job: Job) -> StripeRefunds:
    """Return the target, set up as the row wants it."""
    settings = job.settings
    return StripeRefunds(
        job.stripe_key,
        api_base=job.stripe_api_base,
        lookup=settings.lookup,
        burn=settings.burn,
        roll_forward_s=settings.roll_forward_s,
        settle_s=settings.settle_s,
        send_deadline_s=settings.send_deadline_s,
    )


def open_gate(job: Job, stripe: StripeRefunds, reached: Reached) -> Gate:
    """Open the gate on the case's journal, at the time that it is in the case."""
    return Gate.open(
        job.journal_url,
        targets=[CrashingTarget(stripe, reached, job.home)],
        config=GateConfig(claim_ttl_s=job.settings.claim_ttl_s),
        clock=ShiftedClock(job.clock_ahead_s) if job.clock_ahead_s else None,  # the journal's own where nothing is moved
    )


def answer_of(outcome: Outcome) -> Answer:
    """Return an outcome as a worker reports it."""
    receipt = outcome.receipt
    told: dict[str, Any] = {"receipt": receipt.to_dict(), "receipt_text": receipt.to_text()}
    match outcome:
        case Committed():
            return _refunded(receipt, told)
        case Refused():
            refusal = receipt.refusal
            assert refusal is not None, "a refusal says why"
            return Answer(status=Status.REFUSED, via=f"{refusal.code}, door {refusal.door}", words=refusal.words, **told)
        case Ambiguous():
            return Answer(status=Status.AMBIGUOUS, via="nobody can know", words=receipt.ambiguity or "", **told)
        case InFlight():
            return Answer(
                status=Status.NOT_YET, via=outcome.reason, words=outcome.words, retry_after_s=outcome.retry_after_s, **told
            )


def _refunded(receipt: Receipt, told: dict[str, Any]) -> Answer:
    evidence = receipt.evidence
    assert evidence is not None, "nobody resolved it by hand, so the provider said so"
    amount_minor = msgspec.json.decode(evidence.json)["amount"]
    words = f"{evidence.reference}, {amount_minor} {receipt.currency}, {evidence.state}"
    return Answer(
        status=Status.REFUNDED,
        via=receipt.via or "",
        words=words,
        refund=evidence.reference,
        amount_minor=amount_minor,
        **told,
    )
