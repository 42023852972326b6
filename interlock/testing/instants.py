"""The instants that matter in a schedule, and when in the world they are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from interlock.domain.action import GatedAction
from interlock.testing.stage import Stage


class Instant(StrEnum):
    """An instant that matters, and that time can pass to."""

    ARRIVAL = "the next thing under way happens"
    RETRY = "the time to ask again"
    DEADLINE = "the deadline of the last send"
    CLAIM = "the end of the claim"
    HORIZON = "the horizon"
    KEY_HALF = "the middle of the key's window"
    KEY_MARGIN = "the time when the key no longer counts as deduped"
    KEY_WINDOW = "the end of the key's window, however late its first request came"
    APPROVAL = "the expiry of the approval"


def when(stage: Stage[Any, Any], instant: Instant) -> datetime | None:
    """Return when in the world the instant is: the next one ahead; None where there is none."""
    return _next(stage, instant, stage.actions())


def ahead(stage: Stage[Any, Any]) -> list[Instant]:
    """Return the instants that time can pass to."""
    actions = stage.actions()
    return [instant for instant in Instant if _next(stage, instant, actions) is not None]


def _next(stage: Stage[Any, Any], instant: Instant, actions: list[GatedAction]) -> datetime | None:
    return min((at for at in _instants(stage, instant, actions) if at > stage.clock.now()), default=None)


def _instants(stage: Stage[Any, Any], instant: Instant, actions: list[GatedAction]) -> Iterator[datetime]:
    if instant is Instant.ARRIVAL:
        if stage.clock.next_at is not None:
            yield stage.clock.next_at
        return
    yield from map(stage.gate_clock.in_the_world, _gate_times(stage, instant, actions))


def _gate_times(stage: Stage[Any, Any], instant: Instant, actions: list[GatedAction]) -> list[datetime]:
    match instant:
        case Instant.APPROVAL:
            return [stage.expires_at()]
        case Instant.RETRY:
            return stage.retry_times()
        case _:
            return [at for action in actions for at in _of_action(stage, action, instant)]


def _of_action(stage: Stage[Any, Any], action: GatedAction, instant: Instant) -> Iterator[datetime]:
    if action.claim is not None and instant is Instant.CLAIM:
        yield action.claim.expires_at
    if not action.dispatches or action.ended:
        return
    first = action.first_dispatch_of(action.attempt)
    expires = stage.profile.key_expires(first.timestamp)
    match instant:
        case Instant.DEADLINE:
            yield action.last_dispatch.deadline_at
        case Instant.HORIZON:
            yield action.horizon_at
        case Instant.KEY_HALF if expires is not None:
            yield first.timestamp + (expires - first.timestamp) / 2
        case Instant.KEY_MARGIN if expires is not None:
            yield expires
        case Instant.KEY_WINDOW if expires is not None:
            # However late its first request came: the provider counts from there.
            yield first.horizon_at + timedelta(seconds=stage.profile.dedupe_window_s or 0)
        case _:
            pass
