"""Families of faults: which of them are explored together, to the end, with two workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.testing.exploration.scope import SmallProfile
from interlock.testing.exploration.state import Faults

FAMILIES: dict[str, Faults] = {
    "everything": Faults(),
    "late request, revocation": Faults(orphans=1, locks_are_lost=False, resolve=False),
    "late request, lost lock": Faults(orphans=1, revocations=False, resolve=False),
    "revocation, lost lock, person": Faults(orphans=0),
    "late request": Faults(orphans=1, revocations=False, locks_are_lost=False, resolve=False),
    "revocation": Faults(orphans=0, locks_are_lost=False, resolve=False),
    "lost lock": Faults(orphans=0, revocations=False, resolve=False),
    "expiry after 1": Faults(orphans=1, revocations=False, resolve=False, expires_after=1),
    "expiry after 2": Faults(orphans=1, revocations=False, resolve=False, expires_after=2),
    "expiry after 3": Faults(orphans=1, revocations=False, resolve=False, expires_after=3),
    "disagreeing evidence": Faults(orphans=1, locks_are_lost=False, disagreements=True),
    "forgotten key": Faults(orphans=1, revocations=False, resolve=False, keys_are_forgotten=True),
    "another effect": Faults(orphans=1, revocations=False, locks_are_lost=False, resolve=False, another_effect=True),
    "clock set back": Faults(orphans=1, revocations=False, locks_are_lost=False, resolve=False, clock_steps_back=True),
    "premises": Faults(orphans=1, revocations=False, locks_are_lost=False, resolve=False, premises_change=True),
    "failed reads": Faults(orphans=1, revocations=False, locks_are_lost=False, resolve=False, reads=True),
    "journal failures": Faults(orphans=1, revocations=False, locks_are_lost=False, resolve=False, journal=True),
}
"""By name. In all of them workers may be killed or paused anywhere, answers may be lost, and the provider may say no or fail."""
APART = ("revocation, lost lock, person", "late request, lost lock", "late request, revocation")
"""What everything is split into where all of it together is too much."""


def families_of(profile: SmallProfile) -> tuple[str, ...]:
    """Return under which families a profile is explored: everything at once, or in parts where its keys can be burned."""
    return APART if profile.burns else ("everything",)


def profiles_of(family: str, profiles: Iterable[SmallProfile]) -> Iterator[SmallProfile]:
    """Yield the profiles that a family makes sense with."""
    for profile in profiles:
        # Without a lookup, or with a failure that may be carried to its end, a key that is forgotten early is money sent twice.
        if family != "forgotten key" or (profile.dedupes and profile.lookup != "none"):
            yield profile
