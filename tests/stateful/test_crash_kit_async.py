"""The crash kit with a target that is awaited: the protocol is the same, and so are the schedules and their ends."""

import asyncio

import pytest

from harness.crash_test import simulated
from interlock.testing import PROFILES, CrashTest, SimulatedProvider, SimulatedTarget, TargetLies
from tests.crash_kit import ReadsTimeoutsAsNo
from tests.gates import AwaitedTarget

SCHEDULES = 60


def awaited(profile: str, target: type[SimulatedTarget] = SimulatedTarget) -> CrashTest[SimulatedProvider, AwaitedTarget]:
    """Return the crash test of the same provider, with a target that is awaited."""
    return CrashTest(
        world=lambda clock: SimulatedProvider(clock, PROFILES[profile]),
        target=lambda provider: AwaitedTarget(target(provider)),
        effect=lambda provider, _target: SimulatedTarget(provider).transfer(2000),
        other_effect=lambda provider, _target: SimulatedTarget(provider).transfer(1999),
    )


@pytest.mark.parametrize("profile", ["nothing", "keys-lookup-burn-roll-unknown"])
def test_the_same_schedules_come_to_the_same_ends(profile: str) -> None:
    """Step for step, request for request and end for end."""
    report = awaited(profile).run(SCHEDULES)
    assert report == simulated(PROFILES[profile]).run(SCHEDULES)
    assert min(report.crashes, report.sends, report.effects) > 0


def test_a_lie_is_found_and_shortened() -> None:
    """What an awaited target makes of a time-out is tested like any other's."""
    with pytest.raises(TargetLies) as found:
        awaited("keys-lookup", ReadsTimeoutsAsNo).run(300)
    assert "tx_1" in str(found.value)
    assert "The schedule:" in str(found.value)


def test_inside_an_event_loop_it_says_that_it_can_not() -> None:
    """Called from a coroutine it says what to do, and blames nobody; in a thread it works."""

    async def inside() -> None:
        with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
            awaited("nothing").run(1)
        report = await asyncio.to_thread(awaited("nothing").run, 1)
        assert report.schedules == 1

    asyncio.run(inside())
