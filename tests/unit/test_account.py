"""What an action came to: told from its events, and not told where the state that would is missing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from interlock.domain.account import IN_FLIGHT, Account, Happened, account_of, happened
from interlock.domain.answers import Evidence, Settlement
from interlock.domain.states import (
    AmbiguousState,
    CommittedState,
    DispatchedState,
    Door,
    EventState,
    IntendedState,
    RefusedState,
    Status,
    Via,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
REFUSED = RefusedState(AT, "code", "words", "", at_recovery=False, door=Door.BURNED, checks=None, by=None, note=None)
Events = list[tuple[type[EventState] | None, EventState | None]]


def _committed(settlement: Settlement | None, via: Via = Via.FIRST_SEND) -> CommittedState:
    evidence = None if settlement is None else Evidence(reference="tx", state="s", settlement=settlement, json="{}")
    return CommittedState(AT, via, evidence, None, None, None)


@pytest.mark.parametrize(
    ("status", "sends", "committed", "said"),
    [
        (Status.INTENDED, 0, None, Happened.NO),
        (Status.CLAIMED, 0, None, Happened.NO),
        (Status.DISPATCHED, 1, None, Happened.UNKNOWN),
        (Status.AMBIGUOUS, 1, None, Happened.UNKNOWN),
        (Status.REFUSED, 1, None, Happened.NO),
        (Status.COMMITTED, 1, _committed(Settlement.FINAL), Happened.YES),
        (Status.COMMITTED, 1, _committed(Settlement.OPEN), Happened.UNKNOWN),
        (Status.COMMITTED, 1, _committed(Settlement.REVERSED), Happened.NO),
        (Status.COMMITTED, 1, _committed(None), Happened.YES),
    ],
)
def test_whether_it_happened(status: Status, sends: int, committed: CommittedState | None, said: Happened) -> None:
    """Nothing sent is no, something sent is unknown until it has ended, and a commit is what the provider makes of it."""
    assert happened(status, sends, committed) is said


def test_the_first_commit_says_how_and_the_last_one_what() -> None:
    """Newer evidence moves `happened`, and not how it was established."""
    events: Events = [
        (CommittedState, _committed(Settlement.OPEN)),
        (CommittedState, _committed(Settlement.REVERSED, Via.RECOVERY_QUERY)),
    ]
    told = account_of(Status.COMMITTED, 1, events)
    assert told == Account(status="COMMITTED", happened=Happened.NO, via="first-send", door=None)


def test_a_refusal_says_what_made_it_final() -> None:
    """Its door."""
    assert account_of(Status.REFUSED, 1, [(RefusedState, REFUSED)]).door == "burned"


@pytest.mark.parametrize(
    ("status", "kind", "unknown"),
    [
        (Status.COMMITTED, CommittedState, {"happened", "via"}),
        (Status.REFUSED, RefusedState, {"door"}),
        (Status.AMBIGUOUS, AmbiguousState, set()),
        (Status.DISPATCHED, DispatchedState, set()),
    ],
)
def test_what_was_withheld_is_not_guessed(status: Status, kind: type[EventState], unknown: set[str]) -> None:
    """The status is in the order of the events; the rest is in states."""
    told = account_of(status, 1, [(IntendedState, None), (kind, None)])
    assert told.status == (status.value if status.ended else IN_FLIGHT)
    assert told.unknown == unknown
    assert {getattr(told, name) for name in unknown} <= {None}
