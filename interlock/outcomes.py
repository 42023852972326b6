"""What `fire`, `recover` and `resolve` report. An outcome is not an exception: each is something that a host has to deal with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from interlock.domain.action import GatedAction, Status
from interlock.domain.endings import Pending, PendingReason
from interlock.projections.receipts import Receipt, receipt_of


@dataclass(frozen=True)
class _OfAction:
    """What all outcomes have: the caller's name for the action, and its receipt."""

    key: str
    _action: GatedAction = field(repr=False, compare=False)

    @cached_property
    def receipt(self) -> Receipt:
        """The gate's statement about the action, derived when it is first asked for."""
        return receipt_of(self._action)


@dataclass(frozen=True)
class Committed(_OfAction):
    """It happened, once."""


@dataclass(frozen=True)
class Refused(_OfAction):
    """It did not happen, and it can't any more under this key."""


@dataclass(frozen=True)
class Ambiguous(_OfAction):
    """Nobody can know whether it happened. A person decides, with `Gate.resolve`, or `Gate.reconcile` finds it later."""


@dataclass(frozen=True)
class InFlight(_OfAction):
    """Not known yet. Firing again after `retry_after_s` seconds always comes to an end.

    Attributes:
        reason: `held`, `settling`, `provider_busy` or `not_sent`.
        words: the reason in words.
        retry_after_s: when asking again makes sense, in seconds from now.
        retry_at: the same as a time, in UTC.
    """

    reason: PendingReason
    words: str
    retry_after_s: float
    retry_at: datetime


Outcome = Committed | Refused | Ambiguous | InFlight


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass of `recover` or `reconcile` came to.

    Attributes:
        outcomes: one for each action that it could work on.
        skipped: keys of actions whose target is not registered here, or only in an older version, or whose premise policy or
            approval source is not, with what they need.
        failed: keys (or ids, where the key can't be read) of actions that raised. They are tried again by a later pass. A pass
            that failed as a whole has the empty key.
    """

    outcomes: tuple[Outcome, ...]
    skipped: Mapping[str, str]
    failed: Mapping[str, Exception]


_ENDINGS: dict[Status, type[Committed | Refused | Ambiguous]] = {
    Status.COMMITTED: Committed,
    Status.REFUSED: Refused,
    Status.AMBIGUOUS: Ambiguous,
}


def outcome_of(action: GatedAction) -> Committed | Refused | Ambiguous:
    """Return what an action came to that has its ending.

    Args:
        action: the action, as it stands.
    """
    return _ENDINGS[action.status](action.key, action)


def pending_outcome(pending: Pending, now: datetime) -> InFlight:
    """Return what an action came to that has no ending yet.

    Args:
        pending: why not.
        now: the present, for `retry_after_s`.
    """
    action, retry_after_s = pending.action, max(0.0, (pending.retry_at - now).total_seconds())
    return InFlight(action.key, action, pending.reason, pending.words, retry_after_s, pending.retry_at)
