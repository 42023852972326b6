"""Crash tests of the simulated provider, with a target or a world that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable

from interlock import CapabilityProfile
from interlock.testing import PROFILES, CrashTest, SimulatedProvider, SimulatedTarget, WorldClock

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
