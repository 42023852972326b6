"""Whom the kit blames: a target that lies, a world that contradicts itself, or the gate; and how it says so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import ModuleType
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import settings

from interlock import (
    Absent,
    Answer,
    BurnAnswer,
    Burned,
    CapabilityProfile,
    Deadline,
    Declined,
    Done,
    Effect,
    Found,
    Judgement,
    LookupAnswer,
    NotSent,
    Premise,
    Purpose,
)
from interlock.domain.premises import Facts
from interlock.testing import (
    PROFILES,
    Arm,
    Call,
    ChangeKind,
    Crash,
    CrashTest,
    CrashTestFailure,
    Fault,
    Fire,
    GateViolation,
    Instant,
    JournalFault,
    LedgerEntry,
    LiarReport,
    PassTime,
    Place,
    SimulatedProvider,
    SimulatedTarget,
    TargetLies,
    WorldClock,
    WorldLies,
    run_crash_test,
)
from interlock.testing.drawing import KINDS
from interlock.testing.faults import FAULTS_OF
from interlock.testing.journals import Folder
from interlock.testing.machine import owner_of
from interlock.testing.outside_steps import ArmJournal
from interlock.testing.provider import AccountPremises, Transfer
from interlock.testing.schedule import as_test, in_words, source
from interlock.testing.stage import Stage
from interlock.testing.steps import Step

MOST = 600
"""How many schedules a planted bug may take to be found."""

ALL = PROFILES["keys-lookup-burn"]


def crash_test(
    target: Callable[[SimulatedProvider], SimulatedTarget] = SimulatedTarget,
    world: Callable[[WorldClock, CapabilityProfile], SimulatedProvider] = SimulatedProvider,
    profile: CapabilityProfile = ALL,
) -> CrashTest[SimulatedProvider, SimulatedTarget]:
    """Return a crash test of a target or a world that is not as it should be."""
    return CrashTest(
        world=lambda clock: world(clock, profile), target=target, effect=lambda _world, simulated: simulated.transfer(2000)
    )


# --- targets that lie


class ReadsTimeoutsAsNo(SimulatedTarget):
    """Takes a time-out for a definite no."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        try:
            return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        except TimeoutError:
            return Declined("unreachable", "the provider did not answer")


class ReadsTimeoutsAsNotSent(SimulatedTarget):
    """Takes a time-out for a connection that was never made."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        try:
            return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        except TimeoutError:
            return NotSent("no connection")


class ReadsFailedLookupsAsAbsence(SimulatedTarget):
    """Takes a lookup that failed for an absence."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        try:
            return super()._lookup(effect, action_id=action_id, deadline=deadline)
        except (TimeoutError, ConnectionError):
            return Absent(self._provider.clock.now())


class StopsAtPageOne(SimulatedTarget):
    """Looks at the first entry of the ledger only."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        found = super()._lookup(effect, action_id=action_id, deadline=deadline)
        first = self._provider.ledger()[:1]
        if isinstance(found, Found) and found.evidence.reference not in {entry.reference for entry in first}:
            return Absent(self._provider.clock.now())
        return found


class ForgetsItsDeadline(SimulatedTarget):
    """Sends however late it is."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del deadline
        return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=Endless())


class Endless:
    """A deadline that never comes."""

    def remaining_s(self) -> float:
        return 60.0


class BurnsNothing(SimulatedTarget):
    """Says that a key is burned, and does nothing about it."""

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, idempotency_key, deadline
        return Burned()


class SendsWithoutKeys(SimulatedTarget):
    """Makes up a key for every send."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del idempotency_key
        return super()._send(effect, action_id=action_id, idempotency_key=str(uuid4()), deadline=deadline)


class SendsUnmarked(SimulatedTarget):
    """Marks every effect with an action id of its own."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del action_id
        return super()._send(effect, action_id=uuid4(), idempotency_key=idempotency_key, deadline=deadline)


class SaysDoneTooEarly(SimulatedTarget):
    """Answers Done without having sent anything."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        answer = super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return Done(replace(answer.evidence, reference="tx_99")) if isinstance(answer, Done) else answer


class TriesAgainUnderAnotherKey(SimulatedTarget):
    """Has a client that tries again by itself, and makes up a key for that."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        try:
            return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        except TimeoutError:
            return super()._send(effect, action_id=action_id, idempotency_key=str(uuid4()), deadline=deadline)


class SendsAHundredth(SimulatedTarget):
    """Takes the amount for one in the major unit, and says nothing about it."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        small = replace(effect.parameters, amount_minor=effect.parameters.amount_minor // 100)
        effect = replace(effect, parameters=small)
        return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)


class LookupFailsWhereThereIsMore(SimulatedTarget):
    """Finds what it sent while that is all there is."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        if len(self._provider.ledger()) > 1:
            raise KeyError("page two")
        return super()._lookup(effect, action_id=action_id, deadline=deadline)


class ObservesNow(SimulatedTarget):
    """Can't always be read."""

    _seen = 0

    def _observe(self, subject: str) -> Premise:
        self._seen += 1
        if self._seen % 3 == 0:
            raise OSError("not now")
        return super()._observe(subject)


class FailsOnAnEntry(AccountPremises):
    """Expects what no entry has."""

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        if now["entries"]:
            raise KeyError("who made it")
        return super().judge(decided, now, purpose)


class HasAPolicyThatFails(SimulatedTarget):
    """Has a policy that can't judge its own effect."""

    policy = FailsOnAnEntry()


LYING_TARGETS: list[type[SimulatedTarget]] = [
    TriesAgainUnderAnotherKey,
    SendsAHundredth,
    LookupFailsWhereThereIsMore,
    ObservesNow,
    HasAPolicyThatFails,
    ReadsTimeoutsAsNo,
    ReadsTimeoutsAsNotSent,
    ReadsFailedLookupsAsAbsence,
    StopsAtPageOne,
    ForgetsItsDeadline,
    BurnsNothing,
    SendsWithoutKeys,
    SendsUnmarked,
    SaysDoneTooEarly,
]


@pytest.mark.parametrize("target", LYING_TARGETS)
def test_target_that_lies_is_reported_as_that(target: type[SimulatedTarget]) -> None:
    """A target whose answers are not so is blamed for it, and never the gate."""
    with pytest.raises(TargetLies):
        crash_test(target).run(MOST)


class TriesAgain(SimulatedTarget):
    """Has a client that tries again by itself, under the same key."""

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        for _ in range(2):
            with suppress(TimeoutError):
                return super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        raise TimeoutError


@pytest.mark.parametrize("profile", ["nothing", "lookup"])
def test_client_that_tries_again_by_itself_is_reported_as_that(profile: str) -> None:
    """What one call of the target carries out twice, where nothing is deduped, is not a double send of the gate's."""
    with pytest.raises(TargetLies, match="its send was called 1 times under one key, and carried out 2 times"):
        crash_test(TriesAgain, profile=PROFILES[profile]).run(MOST)


@pytest.mark.parametrize(
    "claims",
    [
        {"dedupe_window_s": 3 * 86_400.0},
        {"settle_s": 0.0, "roll_forward_s": 0.0},
        {"roll_forward_s": 0.0},
        {"lookup_staleness_s": 0.0},
        {"lookup_staleness_s": None},
    ],
    ids=str,
)
def test_capabilities_that_promise_too_much_are_reported_as_that(claims: dict[str, Any]) -> None:
    """A profile that the provider does not keep is the target's lie: a longer window, a nearer horizon, a fresher lookup."""
    true = PROFILES["keys-lookup-stale-burn-roll-known"]

    class Claims(SimulatedTarget):
        @property
        def capabilities(self) -> CapabilityProfile:
            return replace(true, **claims)

    with pytest.raises(TargetLies):
        crash_test(Claims, profile=true).run(MOST)


# --- worlds that contradict themselves


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


# --- what a failure says


def test_failure_has_the_shortest_schedule_in_words_and_as_a_test() -> None:
    """A failure prints its steps in plain words, and a test that replays them; that test finds the same again."""
    with pytest.raises(TargetLies) as caught:
        crash_test(ReadsTimeoutsAsNo).run(MOST)
    text = str(caught.value)
    assert text.startswith("the target under test lies, and the gate can't know: it answered Declined, and tx_1 ")
    assert "The schedule:\n  1. the next send arrives" in text
    namespace = {"CRASH_TEST": crash_test(ReadsTimeoutsAsNo)}
    exec(text.partition("As a test:")[2], namespace)  # noqa: S102 - what the kit has just written is the claim under test
    (test,) = (value for name, value in namespace.items() if name.startswith("test_"))
    with pytest.raises(TargetLies, match="it answered Declined, and tx_1 "):
        test()  # type: ignore[operator]


LETS_GO = crash_test()


def test_regression_imports_the_crash_test_from_where_it_is() -> None:
    """The test that is printed names the module and the variable of its crash test."""
    assert owner_of(LETS_GO) == f"{__name__}:LETS_GO"
    written = as_test([Fire("A")], "I2: twice", owner_of(LETS_GO))
    assert f"from {__name__} import LETS_GO" in written
    assert "LETS_GO.replay(" in written
    assert "def test_i2() -> None:" in written


def test_every_kind_of_step_can_be_said_and_written_down() -> None:
    """Each step has words, and its source makes an equal step."""
    import interlock.testing as kit

    names = {name: getattr(kit, name) for name in dir(kit)}
    for step in (*every_step(), Fire("B", "2", Place("before", "Send"), other_effect=True), PassTime(Instant.CLAIM, -1)):
        assert eval(source(step), names) == step  # noqa: S307 - as above
        assert step.words in in_words([step])


def every_step() -> list[Step]:
    """Return a step of every kind, with every fault."""
    steps: list[Step] = [Arm(call, fault) for call, faults in FAULTS_OF.items() for fault in faults]
    steps += [ArmJournal(fault) for fault in JournalFault]
    with Folder() as folder, Stage(crash_test().setup, folder) as stage:
        stage.begin_fire("A", "1")
        steps += [step for kind in KINDS if (step := kind.draw(stage, lambda among: among[-1])) is not None]
    return steps


def test_any_part_of_a_schedule_is_a_schedule() -> None:
    """Steps that make no sense where they stand do nothing, so that a schedule can be shortened by leaving steps out."""
    LETS_GO.replay(*every_step(), *reversed(every_step()))


def test_replay_finds_nothing_where_nothing_is_wrong() -> None:
    """A lost answer and a kill: the next gate finds out."""
    LETS_GO.replay(
        Arm(Call.SEND, Fault.LOST_ANSWER),
        Fire("A", until=Place("after", "Send")),
        Crash("A"),
        PassTime(Instant.HORIZON),
        Fire("B"),
    )


def test_run_crash_test_is_the_short_way() -> None:
    """One call runs a crash test and returns its counts."""
    report = run_crash_test(
        world=lambda clock: SimulatedProvider(clock, ALL),
        target=SimulatedTarget,
        effect=lambda _world, simulated: simulated.transfer(2000),
        schedules=5,
    )
    assert report.schedules == 5
    assert "5 schedules" in str(report)


def test_failures_are_of_one_tree() -> None:
    """Whoever catches `CrashTestFailure` catches all of them, and a lie is no violation."""
    assert issubclass(LiarReport, CrashTestFailure)
    assert issubclass(GateViolation, CrashTestFailure)
    assert not issubclass(LiarReport, GateViolation)
    assert issubclass(CrashTestFailure, AssertionError)


def test_whatever_a_provider_says_the_regression_is_python() -> None:
    """Quotes and backslashes in a provider's own words don't break the test that is printed."""
    words = """it answered Done with 'o\'"\\x', and "nothing\""""
    namespace: dict[str, Any] = {}
    exec(as_test([], words), namespace)  # noqa: S102 - as above
    (test,) = (value for name, value in namespace.items() if name.startswith("test_"))
    assert test.__doc__ == words


def test_regression_of_a_program_imports_it_by_its_own_name() -> None:
    """What is printed by a program that is run as such names the file, and not `__main__`."""
    program = ModuleType("__main__")
    vars(program).update(__file__="somewhere/payouts.py", PAYOUTS=(mine := crash_test()))
    before, sys.modules["__main__"] = sys.modules["__main__"], program
    try:
        assert owner_of(mine) == "payouts:PAYOUTS"
    finally:
        sys.modules["__main__"] = before


@pytest.fixture
def repeatable() -> Iterator[None]:
    """Let Hypothesis draw the same schedules each time: the claim is about its report, and not about its luck."""
    settings.register_profile("repeatable", settings.default, derandomize=True, database=None)
    before = settings.get_current_profile_name()
    settings.load_profile("repeatable")
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("repeatable")
def test_hypothesis_reports_the_same_failure_with_the_schedule() -> None:
    """The state machine says what the seeded run says: whom it blames, and the schedule."""
    case = crash_test(ReadsTimeoutsAsNo).as_test_case(schedules=5_000, steps=10)
    with pytest.raises(TargetLies, match="The schedule:"):
        case("test_crash_schedules").debug()
