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
    ErasedState,
    EventState,
    IntendedState,
    RefusedState,
    Remains,
    Status,
    Via,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
REFUSED = RefusedState(AT, "code", "words", "", at_recovery=False, door=Door.BURNED, checks=None, by=None, note=None)
Events = list[tuple[type[EventState] | None, EventState | None]]


def _committed(settlement: Settlement | None, via: Via = Via.FIRST_SEND) -> CommittedState:
    evidence = None if settlement is None else Evidence(reference="tx", state="s", settlement=settlement, json="{}")
    return CommittedState(AT, via, evidence, None, None, None)


def _erased(status: Status, via: Via | None, settlement: Settlement | None) -> ErasedState:
    remains = Remains(status=status, via=via, code=None, settlement=settlement, target="t", intended_at=AT)
    return ErasedState(AT, "request", "u", remains)


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


@pytest.mark.parametrize(
    ("status", "via", "settlement", "said"),
    [
        (Status.COMMITTED, Via.FIRST_SEND, Settlement.FINAL, Happened.YES),
        (Status.COMMITTED, Via.FIRST_SEND, Settlement.REVERSED, Happened.NO),
        (Status.COMMITTED, Via.RESOLUTION, None, Happened.YES),
        (Status.COMMITTED, None, None, Happened.YES),
        (Status.REFUSED, None, None, Happened.NO),
    ],
)
def test_what_is_left_of_a_commit_says_what_it_came_to(
    status: Status, via: Via | None, settlement: Settlement | None, said: Happened
) -> None:
    """After an erasure the states are gone, and nothing is unknown that the last event still says, whatever it says."""
    events: Events = [(IntendedState, None), (CommittedState, None), (ErasedState, _erased(status, via, settlement))]
    told = account_of(status, 1, events)
    assert told == Account(status=status.value, happened=said, via=via.value if via else None, door=None)


def test_what_is_left_of_a_refusal_does_not_say_what_made_it_final() -> None:
    """That is in its state alone; that it did not happen is in the order."""
    told = account_of(Status.REFUSED, 1, [(RefusedState, None), (ErasedState, _erased(Status.REFUSED, None, None))])
    assert told == Account(status="REFUSED", happened=Happened.NO, via=None, door=None, unknown=frozenset({"door"}))


def test_a_later_commit_that_was_withheld_hides_what_it_came_to_and_not_how() -> None:
    """And the other way round."""
    newer: Events = [(CommittedState, _committed(Settlement.OPEN)), (CommittedState, None)]
    assert account_of(Status.COMMITTED, 1, newer) == Account(
        status="COMMITTED", happened=None, via="first-send", door=None, unknown=frozenset({"happened"})
    )
    older: Events = [(CommittedState, None), (CommittedState, _committed(Settlement.FINAL))]
    assert account_of(Status.COMMITTED, 1, older) == Account(
        status="COMMITTED", happened=Happened.YES, via=None, door=None, unknown=frozenset({"via"})
    )


def test_an_action_of_which_nothing_is_known_is_in_flight() -> None:
    """Nothing was sent, so nothing happened."""
    assert account_of(None, 0, []) == Account(status=IN_FLIGHT, happened=Happened.NO, via=None, door=None)
