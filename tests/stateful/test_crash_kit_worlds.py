"""Models of a provider: one that contradicts itself is blamed for it, and an honest one is not, whatever it is like."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID, uuid4

import pytest

from interlock import Answer, CapabilityProfile, Deadline, Declined, Effect
from interlock.domain.answers import SendAnswer
from interlock.testing import (
    PROFILES,
    Arm,
    ArmProvider,
    Call,
    Change,
    ChangeKind,
    Fault,
    Fire,
    Instant,
    LedgerEntry,
    PassTime,
    Place,
    SimulatedProvider,
    SimulatedTarget,
    Step,
    TargetLies,
    WorldClock,
    WorldLies,
)
from interlock.testing.provider import ProviderFault, Transfer
from interlock.testing.world import START
from tests.crash_kit import MOST, ReadsTimeoutsAsNotSent, crash_test


class LedgerLeavesOut(SimulatedProvider):
    """Carries out what its ledger does not have."""

    def ledger(self) -> list[LedgerEntry]:
        return super().ledger()[1:]


class LedgerForgets(SimulatedProvider):
    """Has an entry, and later not any more."""

    def ledger(self) -> list[LedgerEntry]:
        return [entry for entry in super().ledger() if (self.clock.now() - entry.at).total_seconds() < 60]


class LedgerWithoutMarks(SimulatedProvider):
    """Does not say whose an entry is."""

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        del action_id, idempotency_key
        return super()._enter(amount_minor)


class NeverForgets(SimulatedProvider):
    """Was told to forget a key, and does not."""

    def forget_key(self, idempotency_key: str) -> None:
        del idempotency_key


class DeclinesEverything(SimulatedProvider):
    """Says no to a fresh world's first request."""

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry | None:
        del effect, action_id, idempotency_key
        return None


class HasAClockOfItsOwn(SimulatedProvider):
    """Writes down what the machine's clock says."""

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        entry = super()._enter(amount_minor, action_id, idempotency_key)
        self._entries[-1] = replace(entry, at=datetime.max.replace(tzinfo=UTC))
        return self._entries[-1]


class HasNoZone(SimulatedProvider):
    """Writes down times without a zone."""

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        entry = super()._enter(amount_minor, action_id, idempotency_key)
        self._entries[-1] = replace(entry, at=entry.at.replace(tzinfo=None))
        return self._entries[-1]


class OthersHaveKeys(SimulatedProvider):
    """Gives what others do a key, as if a gate had sent it."""

    def change(self, kind: ChangeKind, effect: Effect[Any], reference: str) -> None:
        del kind, effect, reference
        self._enter(100, None, "by hand")


class ChangesWhatIsOurs(SimulatedProvider):
    """Lets others do what only the action itself can."""

    @property
    def changes(self) -> tuple[ChangeKind, ...]:
        return (ChangeKind.OWN,)


@pytest.mark.parametrize(
    "world",
    [
        LedgerLeavesOut,
        LedgerForgets,
        LedgerWithoutMarks,
        NeverForgets,
        DeclinesEverything,
        HasAClockOfItsOwn,
        HasNoZone,
        OthersHaveKeys,
        ChangesWhatIsOurs,
    ],
)
def test_world_that_contradicts_its_ledger_is_reported_as_that(world: type[SimulatedProvider]) -> None:
    """A model whose ledger is not what it did is blamed for it, and neither the target nor the gate."""
    with pytest.raises(WorldLies):
        crash_test(world=world).run(MOST)


class Raises(SimulatedProvider):
    """Has a mistake in it."""

    def change(self, kind: ChangeKind, effect: Effect[Any], reference: str) -> None:
        raise ZeroDivisionError(f"{kind} of {effect} under {reference}")


def test_what_the_users_own_code_raises_is_raised_with_its_schedule() -> None:
    """A mistake in the model is nobody's lie: it is raised as it is, with the steps that led to it."""
    with pytest.raises(ZeroDivisionError) as caught:
        crash_test(world=Raises).run(MOST)
    (note,) = caught.value.__notes__
    assert "raised by the code under test" in note
    assert "change at the provider" in note


class SeesNoConflict(SimulatedProvider):
    """Changes what the target's policy can't see."""

    def change(self, kind: ChangeKind, effect: Effect[Any], reference: str) -> None:
        if kind is not ChangeKind.CONFLICTING:
            super().change(kind, effect, reference)


def test_policy_that_misses_a_change_is_reported_as_that() -> None:
    """A conflicting change that the target's policy lets pass is the target's lie."""
    with pytest.raises(TargetLies, match="premise policy"):
        crash_test(world=SeesNoConflict).run(MOST)


# --- models that keep a mark and no key


class MarksOnly(SimulatedProvider):
    """Writes down whose an entry is, and not under which key it came."""

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        del idempotency_key
        return super()._enter(amount_minor, action_id)


class TriesAgain(SimulatedTarget):
    """Has a client that tries again by itself."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        for _ in range(2):
            with suppress(TimeoutError):
                return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        raise TimeoutError


class MarksItsOwn(SimulatedTarget):
    """Marks what it sends after the first day with an id of its own."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        mark = uuid4() if self._provider.clock.now() > START else action_id
        return super()._send(effect, action_id=mark, idempotency_key=idempotency_key, deadline=deadline)


class TakesLonger(SimulatedTarget):
    """Is done sooner, it says, than its provider is."""

    @property
    def capabilities(self) -> CapabilityProfile:
        return replace(self._provider.profile, roll_forward_s=0)


@pytest.mark.parametrize(
    ("target", "steps", "words"),
    [
        (TriesAgain, [Arm(Call.SEND, Fault.LOST_ANSWER)], "called 1 times for one action, and carried out 2 times"),
        (ReadsTimeoutsAsNotSent, [Arm(Call.SEND, Fault.LATE)], "it answered NotSent, and tx_2 was carried out all the same"),
        (MarksItsOwn, [PassTime(Instant.APPROVAL, -1)], "tx_1 was carried out under a mark that its send was not given"),
        (
            TakesLonger,
            [ArmProvider("answers 500, and carries it out later")],
            "it claims that nothing is carried out more than 35 s after a send; tx_2 was",
        ),
    ],
    ids=["tries again", "not sent", "another mark", "too late"],
)
def test_lies_are_found_where_a_ledger_keeps_marks_alone(target: type[SimulatedTarget], steps: list[Step], words: str) -> None:
    """A provider that keeps no key of a request is none on which a target may lie, and have it taken for the gate's doing."""
    with pytest.raises(TargetLies, match=words):
        crash_test(target, world=MarksOnly, profile=PROFILES["lookup-stale-roll-known"]).replay(*steps, Fire("A"))


def test_model_that_keeps_marks_alone_is_honest() -> None:
    """With a mark on each entry there is all that the judge needs."""
    crash_test(world=MarksOnly).run(20)


# --- more that contradicts itself


class MarksOtherwise(SimulatedProvider):
    """Writes down another action than it was given."""

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        return super()._enter(amount_minor, uuid4() if action_id else None, idempotency_key)


class WritesDownYesterday(SimulatedProvider):
    """Writes down a time at which the entry was not there."""

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        entry = super()._enter(amount_minor, action_id, idempotency_key)
        self._entries[-1] = replace(entry, at=entry.at - timedelta(days=1))
        return self._entries[-1]


class KeepsItsLedger(SimulatedProvider):
    """Has the ledger of all schedules in one list."""

    every: ClassVar[list[LedgerEntry]] = []

    def __init__(self, clock: WorldClock, profile: CapabilityProfile) -> None:
        super().__init__(clock, profile)
        self._entries = self.every


class HasNoLedger(SimulatedProvider):
    """Forgets to return."""

    def ledger(self) -> list[LedgerEntry]:
        return None  # type: ignore[return-value]  # that is the mistake


class HasRows(SimulatedProvider):
    """Has its ledger in a form of its own."""

    def ledger(self) -> list[LedgerEntry]:
        return [{"reference": entry.reference} for entry in super().ledger()]  # type: ignore[misc]  # as above


class AppliesRows(SimulatedProvider):
    """Returns what it carried out in a form of its own."""

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry | None:
        super().apply(effect, action_id=action_id, idempotency_key=idempotency_key)
        return {"reference": "tx_1"}  # type: ignore[return-value]  # as above


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (MarksOtherwise, "under another action_id than it was given"),
        (WritesDownYesterday, "and it was not there at"),
        (KeepsItsLedger, "keeps nothing from the one before"),
        (HasNoLedger, r"its ledger\(\) returned NoneType"),
        (HasRows, r"its ledger\(\) has a dict in it"),
        (AppliesRows, "its apply returned dict"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(world: type[SimulatedProvider], words: str) -> None:
    """A mistake in a model that makes every verdict worthless is told before the first schedule, in its own terms."""
    with pytest.raises(WorldLies, match=words):
        crash_test(world=world).run(1)


@pytest.mark.parametrize("wrong", [{"action_id": "a text"}, {"amount_minor": "2000"}, {"at": "today"}, {"reference": 1}], ids=str)
def test_ledger_entry_of_another_type_is_refused_where_it_is_made(wrong: dict[str, Any]) -> None:
    """An entry that equals nothing that it is compared with would make liars of everybody."""
    (name,) = wrong
    given: dict[str, Any] = {"reference": "tx_1", "at": START, **wrong}
    with pytest.raises(TypeError, match=rf"LedgerEntry\.{name} is "):
        LedgerEntry(**given)


class ChangesNothing(SimulatedProvider):
    """Lets others do nothing."""

    def change(self, kind: ChangeKind, effect: Effect[Any], reference: str) -> None:
        del kind, effect, reference


def test_change_that_nobody_can_see_is_told_as_that() -> None:
    """Whether the model changed nothing or the target did not look, only the user can say: both are named."""
    with pytest.raises(TargetLies, match="either the model's change changes nothing, or the target does not observe it"):
        crash_test(world=ChangesNothing).replay(Change(ChangeKind.CONFLICTING))


# --- honest models that are not like the others


class HasAHistory(SimulatedProvider):
    """Was in use before the first schedule."""

    def __init__(self, clock: WorldClock, profile: CapabilityProfile) -> None:
        super().__init__(clock, profile)
        for number in range(3):
            at = clock.now() - timedelta(days=number + 1)
            self._entries.append(LedgerEntry(reference=f"old_{number}", at=at, idempotency_key=f"order {number}", amount_minor=7))


class HasTwoThousandLeft(SimulatedProvider):
    """Has what one transfer takes, and no more."""

    def _carry_out(self, body: Transfer, action_id: UUID, idempotency_key: str, fault: ProviderFault | None) -> SendAnswer:
        if any(entry.action_id for entry in self._entries):
            return Declined("insufficient", "there is not enough left")
        return super()._carry_out(body, action_id, idempotency_key, fault)


class ClosesByItself(SimulatedProvider):
    """Closes the account after a day."""

    def __init__(self, clock: WorldClock, profile: CapabilityProfile) -> None:
        super().__init__(clock, profile)
        clock.later(86_400, lambda: setattr(self, "state", "closed"))


class IsUsedByOthers(SimulatedProvider):
    """Has somebody else's transfers now and then, which no schedule made."""

    def __init__(self, clock: WorldClock, profile: CapabilityProfile) -> None:
        super().__init__(clock, profile)
        for after_s in (5, 50, 7_000):
            clock.later(after_s, lambda: self._enter(3))


@pytest.mark.parametrize("world", [HasAHistory, HasTwoThousandLeft, ClosesByItself, IsUsedByOthers])
def test_honest_model_is_not_blamed_whatever_it_is_like(world: type[SimulatedProvider]) -> None:
    """A history, a limit, a deadline of its own, other people: none of it is a contradiction, a lie or a violation."""
    crash_test(world=world).run(60)


class NotEnoughLeft(Exception):
    """What the next provider raises."""


class RaisesItsNo(SimulatedProvider):
    """Says no with an exception, as Python does."""

    def arrive(self, body: Transfer, action_id: UUID, idempotency_key: str) -> SendAnswer:
        answer = super().arrive(body, action_id, idempotency_key)
        if isinstance(answer, Declined):
            raise NotEnoughLeft(answer.code, answer.words, answer.replayed)
        return answer


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST_ANSWER, Fault.SLOW_ANSWER])
def test_answer_that_a_model_raises_is_lost_like_any_other(fault: Fault) -> None:
    """Where the answer is lost or comes late, the target does not hear what the model raises, and nobody else does."""
    heard: list[Exception] = []

    class Listens(SimulatedTarget):
        def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
            try:
                return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
            except NotEnoughLeft as no:
                heard.append(no)
                return Declined(*no.args)
            except Exception as error:
                heard.append(error)
                raise

    crash_test(Listens, world=RaisesItsNo).replay(
        Arm(Call.SEND, fault), ArmProvider("says no, and stores that under the key"), Fire("A", until=Place("after", "Send"))
    )
    assert type(heard[0]) is TimeoutError
