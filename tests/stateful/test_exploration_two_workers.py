"""Every interleaving of two workers, breadth first over visited states."""

from __future__ import annotations

import pytest

from interlock.testing.exploration.report import schedule_lines
from interlock.testing.exploration.scope import Figures, all_profiles
from interlock.testing.exploration.search import Explored, explore
from interlock.testing.exploration.state import Faults
from interlock.testing.exploration.world import World

EVERYTHING = Faults()
LESS = Faults(orphans=1, locks_are_lost=False, resolve=False)
FITS = ((0, EVERYTHING), (2, EVERYTHING), (5, EVERYTHING), (6, EVERYTHING), (7, EVERYTHING), (8, EVERYTHING), (17, LESS))
"""The profiles that are explored to the end in seconds, and with which faults."""


def _nothing_is_wrong(found: Explored, number: int) -> None:
    words = [line for violation, schedule in found.violations.items() for line in schedule_lines(violation, schedule)]
    assert found.violations == {}, "\n".join(words)
    assert found.stuck == 0, "\n".join(schedule_lines("stuck", found.stuck_schedule))
    profile = list(all_profiles())[number]
    print(f"{profile}: {found.states:,} states, {found.steps:,} steps, {found.runs:,} runs, complete: {found.complete}")  # noqa: T201 - pytest -rP


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("number", "faults"),
    [pytest.param(*each, marks=pytest.mark.xdist_group(f"exploration-{place % 2}")) for place, each in enumerate(FITS)],
)
def test_two_workers_to_the_end(number: int, faults: Faults) -> None:
    """No interleaving breaks an invariant or gets stuck; nothing else can happen in this world."""
    found = explore(World(list(all_profiles())[number], faults))
    assert found.complete
    _nothing_is_wrong(found, number)


@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("number", range(33))
def test_two_workers_with_every_profile(number: int) -> None:
    """The same, for all profiles, with as many states as fit into the memory of a small machine."""
    found = explore(World(list(all_profiles())[number], LESS), most_states=6_000_000)
    _nothing_is_wrong(found, number)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(9))
def test_longer_deadlines_change_nothing(number: int) -> None:
    """With a send that may be written in either of two ticks the same holds: only the order of instants matters."""
    profile = list(all_profiles(Figures(deadline=2, claim_ttl=3)))[number]
    found = explore(World(profile, LESS), most_states=6_000_000)
    _nothing_is_wrong(found, number)
