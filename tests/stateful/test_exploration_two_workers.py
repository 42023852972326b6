"""Every interleaving of two workers, breadth first over visited states."""

from __future__ import annotations

import pytest

from interlock.testing.exploration.counts import explored
from interlock.testing.exploration.families import FAMILIES, families_of, profiles_of
from interlock.testing.exploration.report import schedule_lines
from interlock.testing.exploration.scope import Figures, SmallProfile, all_profiles

PROFILES = list(all_profiles())
FITS = (
    *((number, "everything") for number in (0, 2, 5, 6, 7, 8, 17, 20)),
    *((6, family) for family in FAMILIES if family not in ("everything", "forgotten key", "clock set back")),
    (12, "forgotten key"),
    (29, "late request"),
    (0, "clock set back"),  # a horizon forgotten there shows with profile 0, and not with 6
)
"""The profiles, by number, and the families of faults that are explored in seconds."""
MORE = {
    number: tuple(
        family for family in FAMILIES if family not in families_of(profile) and profile in set(profiles_of(family, PROFILES))
    )
    for number, profile in enumerate(PROFILES)
    if not profile.burns
}
"""For each profile that can't burn keys, the families of rarer faults."""


def _nothing_is_wrong(profile: SmallProfile, *families: str) -> None:
    for family, found in explored(profile, families, most_states=500_000_000):
        words = [line for violation, schedule in found.violations.items() for line in schedule_lines(violation, schedule)]
        assert found.complete
        assert found.violations == {}, "\n".join(words)
        assert found.stuck == 0, "\n".join(schedule_lines("stuck", found.stuck_schedule))
        print(f"{profile}, {family}: {found.states:,} states, {found.steps:,} steps, {found.runs:,} runs")  # noqa: T201 - pytest -rP


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("number", "family"), FITS)
def test_two_workers_to_the_end(number: int, family: str) -> None:
    """No interleaving breaks an invariant or gets stuck; nothing else can happen in this world."""
    _nothing_is_wrong(PROFILES[number], family)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("number", range(len(PROFILES)))
def test_two_workers_with_every_profile(number: int) -> None:
    """The same for all profiles; where keys can be burned, the faults are split into families."""
    _nothing_is_wrong(PROFILES[number], *families_of(PROFILES[number]))


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize("number", MORE)
def test_two_workers_with_rarer_faults(number: int) -> None:
    """The same with an approval that expires, evidence that disagrees, another effect, a clock set back and more."""
    _nothing_is_wrong(PROFILES[number], *MORE[number])


@pytest.mark.timeout(300)
def test_slower_requests_change_nothing() -> None:
    """With a request that is on its way for a tick, and at work for another, the same holds: the horizon counts both."""
    profile = next(all_profiles(Figures(landing=2)))
    _nothing_is_wrong(profile, "late request", "revocation")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(9))
def test_longer_deadlines_change_nothing(number: int) -> None:
    """With a send that may be written in either of two ticks the same holds: only the order of instants matters."""
    profile = list(all_profiles(Figures(deadline=2, claim_ttl=3)))[number]
    _nothing_is_wrong(profile, "everything")
