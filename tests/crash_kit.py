"""Crash tests of the simulated provider, with a target or a world that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from interlock import Answer, CapabilityProfile, Deadline, Declined, Effect, NotSent
from interlock.testing import PROFILES, CrashTest, SimulatedProvider, SimulatedTarget, WorldClock
from interlock.testing.provider import Transfer

MOST = 600
"""How many schedules a planted bug may take to be found."""

ALL = PROFILES["keys-lookup-burn"]


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


def crash_test(
    target: Callable[[SimulatedProvider], SimulatedTarget] = SimulatedTarget,
    world: Callable[[WorldClock, CapabilityProfile], SimulatedProvider] = SimulatedProvider,
    profile: CapabilityProfile = ALL,
) -> CrashTest[SimulatedProvider, SimulatedTarget]:
    """Return a crash test of a target or a world that is not as it should be."""
    return CrashTest(
        world=lambda clock: world(clock, profile), target=target, effect=lambda _world, simulated: simulated.transfer(2000)
    )
