"""MOCK: the same rows and the same ways of working, in memory. There is no process to kill and no provider to ask.

What is simulated is the provider, the model and the death of the worker. The gate is the real one, on a journal that is thrown
away, so that what the page shows of it can't differ from what it does.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from harness import trace
from harness.agent import Decision
from harness.carrier import KILLED, Carrier
from harness.case import Case
from harness.columns import by_hand, interlock
from harness.columns.job import Answer, Job, KillPoint, Reached, Status, save
from harness.demo.journal import JournalTail
from harness.demo.playing import Performance, SideBySide, Staging
from harness.demo.runs import Run
from harness.demo.stories import Track, Way
from harness.moments import Tell, WorkerEnded, WorkerStarted
from harness.scenarios import CURRENCY, PAYMENT_MINOR, Scenario
from harness.standins.stripe.client import LOCAL_API_KEY
from harness.world import Provider, ProviderRecord, RefundAtProvider, World
from interlock.domain.answers import Absent, AlreadyUsed, BurnAnswer, Burned, Done, Found, LookupAnswer, SendAnswer
from interlock.domain.effects import Effect
from interlock.domain.ports import Deadline
from interlock.domain.premises import Premise, facts_text
from interlock.stripe import Refund, StripeRefunds, facts, marks
from interlock.stripe.evidence import Json, evidence_of

PAUSE_S = 0.3
"""Between two things that happen, so that they can be seen to happen one after the other."""

_NOWHERE = "http://127.0.0.1:0"
_NO_PROCESS = 0
_WAIT_S = 30.0


class MockProvider:
    """Payments, refunds and idempotency keys, in memory."""

    api_base: str | None = _NOWHERE

    def __init__(self) -> None:
        self._refunds: dict[str, list[dict[str, Any]]] = {}
        self._keys: dict[str, dict[str, Any] | None] = {}

    def create_payment(self) -> str:
        payment = f"pi_MOCK{secrets.token_hex(8)}"
        self._refunds[payment] = []
        return payment

    def hand_refund(self, payment: str, amount_minor: int) -> None:
        self._enter(payment, amount_minor, {})

    def forget_keys(self, payment: str) -> None:
        del payment
        self._keys.clear()

    def pass_time(self, seconds: float) -> None:
        del seconds
        self._keys.clear()

    def record_of(self, payment: str) -> ProviderRecord:
        refunds = tuple(
            RefundAtProvider(id=one["id"], amount_minor=one["amount"], status=one["status"], metadata=one["metadata"])
            for one in self._refunds[payment]
        )
        return ProviderRecord(refunds, ())

    def refund(self, payment: str, amount_minor: int, key: str, metadata: dict[str, str]) -> tuple[Json, bool]:
        """Refund, unless the key is known: then answer as before. Return the refund, and whether it was answered from memory."""
        known = self._keys.get(key)
        if known is not None:
            return known, True
        refund = self._enter(payment, amount_minor, metadata)
        self._keys[key] = refund
        return refund, False

    def burn(self, key: str) -> BurnAnswer:
        """Use a key up."""
        used = self._keys.setdefault(key, None)
        return AlreadyUsed() if used else Burned()

    def refunds(self, payment: str) -> list[Json]:
        """Return a payment's refunds, newest first."""
        return list(reversed(self._refunds[payment]))

    def payment(self, payment: str) -> Json:
        """Return a payment."""
        paid = {"amount": PAYMENT_MINOR, "amount_received": PAYMENT_MINOR, "currency": CURRENCY, "status": "succeeded"}
        return {"id": payment, "livemode": False, "latest_charge": {"disputed": False}, **paid}

    def _enter(self, payment: str, amount_minor: int, metadata: dict[str, str]) -> dict[str, Any]:
        refund = {
            "object": "refund",
            "id": f"re_MOCK{secrets.token_hex(8)}",
            "payment_intent": payment,
            "amount": amount_minor,
            "currency": CURRENCY,
            "status": "succeeded",
            "metadata": metadata,
        }
        self._refunds[payment].append(refund)
        return refund


class MockRefunds(StripeRefunds):
    """The real target's rules, with a provider in memory behind it.

    Args:
        provider: the provider.
        job: the case.
    """

    def __init__(self, provider: MockProvider, job: Job) -> None:
        settings = job.settings
        super().__init__(
            LOCAL_API_KEY,
            api_base=_NOWHERE,
            lookup=settings.lookup,
            burn=settings.burn,
            roll_forward_s=settings.roll_forward_s,
            settle_s=settings.settle_s,
            send_deadline_s=settings.send_deadline_s,
        )
        self._provider = provider

    def _observe(self, subject: str) -> Premise:
        seen = facts.facts_of(self._provider.payment(subject), self._provider.refunds(subject))
        told = facts_text(facts.as_json(seen))
        return Premise(target=self.name, subject=subject, facts_json=told, read_at=datetime.now(UTC), policy=self.policy.name)

    def _send(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        del deadline
        metadata = marks.refund_marks(action_id, idempotency_key, effect.parameters.reference)
        refund, replayed = self._provider.refund(effect.subject, effect.parameters.amount_minor, idempotency_key, metadata)
        return Done(evidence_of(refund, effect, replayed=replayed))

    def _lookup(self, effect: Effect[Refund], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        if not self.capabilities.looks_up:
            return super()._lookup(effect, action_id=action_id, deadline=deadline)
        ours = [one for one in self._provider.refunds(effect.subject) if marks.action_of(one["metadata"]) == action_id.hex]
        return Found(evidence_of(ours[-1], effect)) if ours else Absent(datetime.now(UTC))

    def _burn(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, deadline
        return self._provider.burn(idempotency_key)


class _Killed(BaseException):
    """Unwinds a simulated worker. Nothing that handles errors may catch it, as nothing catches a SIGKILL."""


class _InMemory(Carrier):
    """Carries a case in this thread: a death is an exception that nobody catches."""

    _module = ""

    def __init__(self, world: World, tell: Tell, way: Way, provider: MockProvider, pause_s: float) -> None:
        super().__init__(world, tell)
        self._way, self._provider, self._pause_s = way, provider, pause_s

    def crash(self, job: Job) -> None:
        self._pause()
        self._tell(WorkerStarted(_NO_PROCESS))
        try:
            self._work(job)
            self.problem = "the simulated worker did not die"
        except _Killed:
            self._ended(KILLED)
        self._pause()

    def finish(self, job: Job) -> Answer | None:
        self._pause()
        self._tell(WorkerStarted(_NO_PROCESS))
        answer = self._work(job)
        while answer.status is Status.NOT_YET and not self._stopped.wait(answer.retry_after_s):
            answer = self._work(job)
        self._ended(0)
        return answer

    def decision(self, job: Job) -> dict[str, Any] | None:
        del job
        return None

    def _work(self, job: Job) -> Answer:
        work = {Way.PLAIN: _plain, Way.CHECKED: _checked, Way.GATE: _through_the_gate}[self._way]
        return work(job, self._provider, self._reached_in(job))

    def _reached_in(self, job: Job) -> Reached:
        def reached(point: KillPoint) -> None:
            trace.note(job.home, point)
            self._pause()
            if point is job.kill_at:
                raise _Killed

        return reached

    def _ended(self, exit_code: int) -> None:
        self.exit_codes.append(exit_code)
        self._tell(WorkerEnded(_NO_PROCESS, exit_code))

    def _pause(self) -> None:
        self._stopped.wait(self._pause_s)


def _plain(job: Job, provider: MockProvider, reached: Reached) -> Answer:
    _decide_once(job, provider)
    return _send(job, provider, reached)


def _checked(job: Job, provider: MockProvider, reached: Reached) -> Answer:
    decision = _decide_once(job, provider)
    refunds = provider.refunds(job.payment)
    for refund in refunds:
        if refund["metadata"].get("case") == job.case_id:
            return _refunded(refund, "own mark found")
    if not by_hand.ApprovalFile().read(job).covers(job):
        return by_hand.refused("the approval is revoked, expired or too small")
    if _summary(refunds) != decision.seen["refunds"]:
        return by_hand.refused("the payment's refunds changed since the decision")
    return _send(job, provider, reached)


def _send(job: Job, provider: MockProvider, reached: Reached) -> Answer:
    reached(KillPoint.BEFORE_SEND)
    refund, _ = provider.refund(job.payment, job.approved_minor, f"refund-{job.case_id}", {"case": job.case_id})
    reached(KillPoint.AFTER_ANSWER)
    return _refunded(refund, "sent")


def _through_the_gate(job: Job, provider: MockProvider, reached: Reached) -> Answer:
    target = MockRefunds(provider, job)
    premise, decision = _premise_once(job, target), _decide_once(job, provider)
    with interlock.open_gate(job, target, reached) as gate:
        outcome = gate.fire(
            f"refund:{job.case_id}",
            target.refund(payment=job.payment, amount_minor=job.approved_minor, currency=CURRENCY, reference=job.case_id),
            approval=job.case_id,
            premises=[premise],
            decision={"model": decision.model, "wording": decision.wording},
            wait_s=_WAIT_S,
        )
    return interlock.answer_of(outcome)


def _premise_once(job: Job, target: MockRefunds) -> Premise:
    path = job.home / "premise.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Premise)
    premise = target.observe(job.payment)
    save(path, msgspec.json.encode(premise))
    return premise


def _decide_once(job: Job, provider: MockProvider) -> Decision:
    path = job.home / "decision.json"
    if path.exists():
        return Decision.from_json(path.read_text(encoding="utf-8"))
    payment = provider.payment(job.payment)
    seen = {name: payment[name] for name in ("id", "amount", "currency", "status")}
    decision = _decision(job, seen | {"refunds": _summary(provider.refunds(job.payment))})
    save(path, decision.to_json().encode())
    return decision


def _decision(job: Job, seen: Mapping[str, object]) -> Decision:
    """Return what the model of the mock always decides: to refund what was approved."""
    return Decision(
        payment=job.payment,
        amount_minor=job.approved_minor,
        currency=job.currency,
        reason="requested_by_customer",
        wording="The payment succeeded, the complaint is plain, and a person has approved this amount. I ask for the refund.",
        model="simulated",
        message_id="msg_MOCK",
        tool_use_id="toolu_MOCK",
        arguments_json="{}",
        seen=seen,
        asked_at=datetime.now(UTC).isoformat(),
    )


def _summary(refunds: Sequence[Json]) -> list[dict[str, object]]:
    return [{"id": one["id"], "amount": one["amount"], "status": one["status"]} for one in refunds]


def _refunded(refund: Json, via: str) -> Answer:
    words = f"{refund['id']}, {refund['amount']} {refund['currency']}, {refund['status']}"
    return Answer(status=Status.REFUNDED, via=via, words=words, refund=refund["id"], amount_minor=refund["amount"])


class _MockWorld:
    """A world in memory, for one run."""

    live = False
    rehearsal = False
    cases_at_once = 1
    model = "simulated"
    anthropic_base_url: str | None = _NOWHERE
    database: str | None = None
    temporal: str | None = None

    def __init__(self) -> None:
        self.memory = MockProvider()

    def provider(self, scenario: Scenario) -> Provider:
        del scenario
        return self.memory

    def begin(self) -> None:
        """Begin at once."""

    def worker_environment(self) -> dict[str, str]:
        return {}


class MockPlayer:
    """Plays a run in memory. Its journal is kept until the next one is played, so that its receipt can be verified.

    Args:
        scenario: the row.
        tracks: the columns.
        folder: where its journal and its cases are; it is emptied first.
        pause_s: how long it waits between two things that happen, in seconds.
    """

    def __init__(self, scenario: Scenario, tracks: Sequence[Track], folder: Path, pause_s: float = PAUSE_S) -> None:
        self._scenario, self._tracks, self._folder, self._pause_s = scenario, tracks, folder, pause_s
        self._inner: SideBySide | None = None
        self._stopped = False

    def play(self, run: Run) -> None:
        """Play all columns to their end."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        journal = JournalTail(f"sqlite:///{self._folder / 'journal.db'}")
        try:
            self._inner = SideBySide(self._scenario, self._tracks, journal, self._staging(journal.url))
            if self._stopped:
                self._inner.stop()
            self._inner.play(run)
        finally:
            journal.close()

    def stop(self) -> None:
        """End it."""
        self._stopped = True
        if self._inner is not None:
            self._inner.stop()

    def _staging(self, journal_url: str) -> Staging:
        world = _MockWorld()

        def stage(track: Track, tell: Tell) -> Performance:
            carrier = _InMemory(world, tell, track.way, world.memory, self._pause_s)
            journal = journal_url if track.way is Way.GATE else None
            column = {Way.PLAIN: "standard", Way.CHECKED: "checked", Way.GATE: "interlock"}[track.way]
            return Case(world, self._scenario, column, self._folder, tell=tell, journal=journal, carrier=carrier)

        return stage
