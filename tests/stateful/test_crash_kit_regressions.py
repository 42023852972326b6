"""What the crash kit prints: the shortest schedule, and a test that plays it again in a fresh file, or says that it can't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from interlock import Declined, Done
from interlock.errors import InvalidConfiguration
from interlock.testing import (
    PROFILES,
    Arm,
    ArmProvider,
    Call,
    Change,
    ChangeKind,
    Crash,
    CrashTest,
    Fault,
    Fire,
    Instant,
    PassTime,
    Place,
    Recover,
    SimulatedProvider,
    SimulatedTarget,
    Step,
    TargetLies,
)
from interlock.testing.machine import simpler
from interlock.testing.provider import ProviderFault
from tests.crash_kit import ReadsTimeoutsAsNo
from tests.gates import AwaitedTarget

ROOT = Path(__file__).resolve().parents[2]
BEFORE_SEND = Place("before", "Send")


def forgetful(*, awaited: bool) -> CrashTest[SimulatedProvider, Any]:
    """Return the crash test of it, as a target that is called or one that is awaited."""
    return CrashTest(
        world=lambda clock: SimulatedProvider(clock, PROFILES["keys-lookup"]),
        target=lambda provider: AwaitedTarget(ReadsTimeoutsAsNo(provider)) if awaited else ReadsTimeoutsAsNo(provider),
        effect=lambda provider, _target: SimulatedTarget(provider).transfer(2000),
    )


CALLED, AWAITED = forgetful(awaited=False), forgetful(awaited=True)


@pytest.mark.parametrize("name", ["CALLED", "AWAITED"])
def test_what_is_printed_is_a_test_that_fails_for_the_same_reason(name: str, tmp_path: Path) -> None:
    """Taken as it is into a file of its own, it fails with what was found."""
    crash_test: CrashTest[SimulatedProvider, Any] = globals()[name]
    with pytest.raises(TargetLies) as found:
        crash_test.run(300)
    printed = str(found.value).partition("As a test:\n")[2]
    assert f"import {name}" in printed
    (tmp_path / "test_printed.py").write_text(printed, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"TargetLies: the target under test lies, and the gate can't know: {found.value.words}" in done.stdout


def test_a_program_that_only_imports_the_crash_test_does_not_own_it() -> None:
    """The test is to import it from where it is made."""
    script = dedent("""
        from tests.stateful.test_crash_kit_regressions import CALLED as mine
        from interlock.testing.machine import owner_of
        print(owner_of(mine))
    """)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{__name__}:CALLED\n"


class ByChance(SimulatedTarget):
    """A target that lies about the fortieth effect of its life, whatever the schedule."""

    effects = 0

    def _send(self, *args: object, **more: object) -> object:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride] # all of them are handed on
        answer = super()._send(*args, **more)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        ByChance.effects += isinstance(answer, Done)
        return Declined("no", "no") if ByChance.effects == 40 else answer


def test_a_failure_that_does_not_come_again_is_not_printed_as_one_that_does() -> None:
    """The test would pass, and it is said why."""
    ByChance.effects = 0
    crash_test = CrashTest(
        world=lambda clock: SimulatedProvider(clock, PROFILES["nothing"]),
        target=ByChance,
        effect=lambda _provider, target: target.transfer(2000),
    )
    with pytest.raises(TargetLies, match="Played again it shows nothing"):
        crash_test.run(200)


def test_a_death_is_plainer_than_a_wait() -> None:
    """Where an action can be taken over because its gate died, no claim has to run out, and no answer has to be lost."""
    fire, change = Fire("A", until=BEFORE_SEND), Change(ChangeKind.CONFLICTING)
    found = [ArmProvider(ProviderFault.HANGS), fire, PassTime(Instant.KEY_WINDOW), Recover("B"), change]
    assert [ArmProvider(ProviderFault.HANGS), fire, Crash("A"), Recover("B"), change] in list(simpler(found))
    lost: list[Step] = [Arm(Call.SEND, Fault.LOST_REQUEST), Arm(Call.SEND, Fault.LATE), Fire("A"), change]
    assert [fire, Crash("A"), change] in list(simpler(lost))


def test_two_steps_that_need_each_other_go_together() -> None:
    """One alone can't be left out, where the other makes no sense without it."""
    fire, change = Fire("A"), Change(ChangeKind.CONFLICTING)
    assert [fire] in list(simpler([change, fire, Crash("A")]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Fire("A", until="Send"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # what a person may write
        lambda: Arm("send", Fault.LATE),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        lambda: Arm(Call.LOOKUP, Fault.LATE),
        lambda: PassTime("claim"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        lambda: Change("conflicting"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        lambda: Place("during", "Send"),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        lambda: Place("before", "Nope"),
        lambda: CALLED.replay(Fire),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
        lambda: CALLED.replay([Fire("A")]),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # as above
    ],
)
def test_a_schedule_that_is_written_wrong_is_an_error(wrong: Any) -> None:
    """It would do nothing, and pass."""
    with pytest.raises((TypeError, ValueError)):
        wrong()


@pytest.mark.parametrize(("schedules", "max_steps"), [(0, 20), (-1, 20), (1, 1)])
def test_a_run_that_plays_nothing_is_an_error(schedules: int, max_steps: int) -> None:
    """It would pass whatever the target does."""
    with pytest.raises(InvalidConfiguration, match="test nothing"):
        CALLED.run(schedules, max_steps=max_steps)
