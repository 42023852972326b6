"""The crash test of the gate itself: every profile of the simulated provider, at random, with a fixed budget."""

import pytest

from harness.crash_test import batches, simulated, until_found
from interlock.testing import PROFILES, SimulatedProvider, SimulatedTarget, WorldClock

SCHEDULES = 40
LONG = 3_000


@pytest.mark.parametrize("profile", PROFILES)
def test_no_drawn_schedule_breaks_an_invariant(profile: str) -> None:
    """Whatever crashes, faults, changes and interleavings are drawn, I1 to I10 hold, and everything comes to a wanted end."""
    report = simulated(PROFILES[profile]).run(SCHEDULES, seed=100_000 * list(PROFILES).index(profile))
    print(f"{profile}: {report}")  # noqa: T201 - the counts say what the claim rests on
    assert report.schedules == SCHEDULES
    assert min(report.crashes, report.sends, report.effects, report.endings["COMMITTED"], report.endings["REFUSED"]) > 0


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("profile", PROFILES)
def test_no_drawn_schedule_of_many_breaks_an_invariant(profile: str) -> None:
    """As above, with many more schedules."""
    print(f"{profile}: {simulated(PROFILES[profile]).run(LONG, seed=1_000_000)}")  # noqa: T201 - the counts say what the claim rests on


@pytest.mark.parametrize("profile", ["keys-lookup-burn-roll-unknown", "nothing"])
def test_hypothesis_finds_nothing_either(profile: str) -> None:
    """The same steps as a Hypothesis state machine."""
    case = simulated(PROFILES[profile]).as_test_case(schedules=40, steps=15)
    case("test_crash_schedules").debug()


def test_one_seed_is_one_schedule() -> None:
    """The same seed plays the same schedules."""
    crash_test = simulated(PROFILES["keys-lookup-burn"])
    assert str(crash_test.run(20, seed=7)) == str(crash_test.run(20, seed=7))
    assert str(crash_test.run(20, seed=7)) != str(crash_test.run(20, seed=8))


def test_batches_play_every_schedule_once() -> None:
    """The harness shares out exactly as many schedules as were asked for, no seed twice for a profile."""
    shared = batches(20_011, 5)
    assert sum(batch.schedules for batch in shared) == 20_011
    seeds = [(batch.profile, seed) for batch in shared for seed in range(batch.seed, batch.seed + batch.schedules)]
    assert len(seeds) == len(set(seeds)) == 20_011
    assert {batch.profile for batch in shared} == set(PROFILES)


def test_where_nothing_is_wrong_nothing_is_found() -> None:
    """However many schedules are played until something is."""
    assert until_found(len(PROFILES), seed=0) is None


def test_simulated_target_is_what_its_provider_is() -> None:
    """The target promises what its provider's profile says."""
    for profile in PROFILES.values():
        assert SimulatedTarget(SimulatedProvider(WorldClock(), profile)).capabilities is profile
