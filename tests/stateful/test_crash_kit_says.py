"""What a crash test says of what it found: whom it blames, the shortest schedule in words, and a test that plays it again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings

from interlock import Absent, Deadline, Effect, LookupAnswer
from interlock.testing import (
    Arm,
    Call,
    Crash,
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
    run_crash_test,
)
from interlock.testing.drawing import KINDS
from interlock.testing.faults import FAULTS_OF
from interlock.testing.journals import Folder
from interlock.testing.machine import owner_of
from interlock.testing.outside_steps import ArmJournal
from interlock.testing.provider import Transfer
from interlock.testing.schedule import as_test, in_words, source
from interlock.testing.stage import Stage
from interlock.testing.steps import Step
from tests.crash_kit import ALL, MOST, ReadsTimeoutsAsNo, crash_test


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


class FindsNothing(SimulatedTarget):
    """Has a lookup that finds nothing, ever."""

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, action_id, deadline
        return Absent(self._provider.clock.now())


class DividesByZero(SimulatedProvider):
    """Has a mistake in the first thing that is asked of it."""

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry | None:
        raise ZeroDivisionError(f"{effect} of {action_id} under {idempotency_key}")


def test_what_is_found_before_the_first_schedule_says_so() -> None:
    """A failure of the rehearsal has no schedule to print, and says why, and how to see it again."""
    with pytest.raises(TargetLies, match=r"in the rehearsal, .* before the first schedule: run\(schedules=1\) finds it again"):
        crash_test(FindsNothing).run(1)
    with pytest.raises(ZeroDivisionError) as caught:
        crash_test(world=DividesByZero).run(1)
    assert "in the rehearsal" in caught.value.__notes__[0]


def test_judge_does_not_ask_the_journal_whether_an_approval_was_revoked() -> None:
    """A gate whose journal lost a revocation, or granted it away again, is found out: the judge was told by who revoked."""
    with Folder() as folder, Stage(crash_test().setup, folder) as stage:
        stage.judge.revoked = True  # and the journal knows nothing of it
        stage.begin_fire("A", "1")
        stage.finish_run("A")
        with pytest.raises(GateViolation, match=r"I3: .* was dispatched after its approval was revoked"):
            stage.check()
