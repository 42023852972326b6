"""interlock: the saved decision is fired through the gate, and fired again after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec

from harness.agent import Decision
from harness.clocks import ShiftedClock
from harness.columns.job import Answer, Job, KillPoint, Reached, Status, ask, save
from interlock import Ambiguous, Committed, Effect, Gate, GateConfig, InFlight, Outcome, Premise, Receipt, Refused, Target
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.ports import Deadline
from interlock.domain.profiles import CapabilityProfile
from interlock.stripe import Refund, StripeRefunds

APPROVAL_LASTS_S = 7 * 86_400
WAIT_S = 30.0


class CrashingTarget(Target[Refund]):
    """Stripe's refunds, with the two points around the send at which a worker can die.

    Args:
        inner: the real target.
        reached: called at each point.
    """

    def __init__(self, inner: StripeRefunds, reached: Reached) -> None:
        self.name, self.version, self.codec, self.policy = inner.name, inner.version, inner.codec, inner.policy
        self._inner = inner
        self._reached = reached

    @property
    def capabilities(self) -> CapabilityProfile:
        """The real target's."""
        return self._inner.capabilities

    def check(self, effect: Effect[Refund], premises: tuple[Premise, ...]) -> None:
        """Ask the real target."""
        self._inner.check(effect, premises)

    def _observe(self, subject: str) -> Premise:
        return self._inner.observe(subject)

    def _send(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        self._reached(KillPoint.BEFORE_SEND)
        answer = self._inner.send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        self._reached(KillPoint.AFTER_ANSWER)
        return answer

    def _lookup(self, effect: Effect[Refund], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        return self._inner.lookup(effect, action_id=action_id, deadline=deadline)

    def _burn(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        return self._inner.burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)


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
    """Carry the case to its end. A second start fires the same decision again, and the gate finds out what happened."""
    stripe = _target(job)
    decided = _decide_once(job, stripe.observe)
    config = GateConfig(claim_ttl_s=job.settings.claim_ttl_s)
    clock = ShiftedClock(job.clock_ahead_s) if job.clock_ahead_s else None  # the journal's own where nothing is moved
    with Gate.open(job.journal_url, targets=[CrashingTarget(stripe, reached)], config=config, clock=clock) as gate:
        outcome = gate.fire(
            f"refund:{job.case_id}",
            stripe.refund(payment=job.payment, amount_minor=job.approved_minor, currency=job.currency, reference=job.case_id),
            approval=job.case_id,
            premises=[decided.premise],
            decision=_for_receipt(decided.decision),
            wait_s=WAIT_S,
        )
    return _answer(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    """A decision, with the premise that it rests on."""

    decision: Decision
    premise: Premise


def _decide_once(job: Job, observe: Callable[[str], Premise]) -> _Decided:
    path = job.home / "decided.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=_Decided)
    seen: list[Premise] = []

    def get_payment(payment: str) -> dict[str, object]:
        seen.append(observe(payment))
        return dict(seen[-1].facts)

    decided = _Decided(decision=ask(job, get_payment), premise=seen[-1])
    save(path, msgspec.json.encode(decided))
    return decided


def _target(job: Job) -> StripeRefunds:
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


def _for_receipt(decision: Decision) -> dict[str, Any]:
    return {
        "model": decision.model,
        "message": decision.message_id,
        "tool_use": decision.tool_use_id,
        "arguments": decision.arguments_json,
        "wording": decision.wording,
    }


def _answer(outcome: Outcome) -> Answer:
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
