"""Erasure: an action's events are given up, and that they were is written down first."""

from __future__ import annotations

from interlock.domain.action import GatedAction, Status
from interlock.domain.answers import Settlement
from interlock.domain.requests import Append, AppendAnswer, LoadAction, Now, Protocol
from interlock.errors import NotErasable


def mark_erased(action: GatedAction, reason: str, by: str) -> Protocol[None]:
    """Write down that an action is erased. What its events say may be forgotten when this is durable, and not before.

    Args:
        action: the action.
        reason: why, as a code or a few words that name nobody: this stays.
        by: an opaque id of who asked for it.

    Raises:
        NotErasable: it has no ending, or one that can still change.
    """
    while True:
        _require_erasable(action)
        now = yield from Now()
        action.erase(reason, by, now)
        if (yield from Append(action)) is AppendAnswer.APPENDED:
            return
        action = yield from LoadAction(action.id)


def _require_erasable(action: GatedAction) -> None:
    """Raise unless everything about the action is over: what is still open has to be found again at the provider."""
    if action.status not in (Status.COMMITTED, Status.REFUSED):
        raise NotErasable(
            f"action {action.key!r} is {action.status}; nothing was erased. Bring it to its end first, with recover, reconcile "
            "or resolve"
        )
    ending = action.ending
    evidence = ending.evidence if isinstance(ending, GatedAction.Committed) else None
    if evidence is not None and evidence.settlement is Settlement.OPEN:
        raise NotErasable(
            f"the provider still has {action.key!r} as {evidence.state}, which may fail; nothing was erased. Run reconcile "
            "first, and erase it when the provider is done"
        )
