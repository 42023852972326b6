"""Events as the fold of `domain/legality.py` takes them, and what it says of one more."""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from interlock.domain.action import GatedAction
from interlock.domain.legality import Progress, after, breaches
from interlock.domain.states import STATES_BY_TOPIC, DispatchedState, EventState
from tests.scripted import ACTION_ID


def states_of(action: GatedAction) -> list[tuple[type[EventState], EventState]]:
    """Return an action's events as a fold takes them."""
    history = cast("list[EventState]", action.history)
    return [(STATES_BY_TOPIC[state.TOPIC], state) for state in history]


def last_send(action: GatedAction) -> DispatchedState:
    """Return what an action's last Dispatched holds, without what makes an event of it."""
    event = action.last_dispatch
    return DispatchedState(**{one.name: getattr(event, one.name) for one in fields(DispatchedState)})


def folded(action: GatedAction) -> Progress:
    """Fold an action's events."""
    progress = Progress()
    for kind, state in states_of(action):
        assert not list(breaches(action.id, progress, kind, state))
        progress = after(progress, kind, state)
    return progress


def words(progress: Progress, state: EventState) -> list[str]:
    """Return what is said of one more event."""
    return [breach.words for breach in breaches(ACTION_ID, progress, STATES_BY_TOPIC[state.TOPIC], state)]
