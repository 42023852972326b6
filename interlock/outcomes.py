"""What `fire`, `recover` and `resolve` report. An outcome is not an exception: each is something that a host has to deal with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from interlock.domain.action import GatedAction, Status
from interlock.domain.endings import Pending, PendingReason
from interlock.projections.receipts import Receipt, receipt_of


@dataclass(frozen=True, slots=True)
class Committed:
    """It happened, once."""

    key: str
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Refused:
    """It did not happen, and it can't any more under this key."""

    key: str
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Nobody can know whether it happened. A person decides, with `Gate.resolve`, or `Gate.reconcile` finds it later."""

    key: str
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class InFlight:
    """Not known yet. Firing again after `retry_after_s` seconds always comes to an end.

    Attributes:
        key: the caller's name for the action.
        reason: `held`, `settling`, `provider_busy` or `not_sent`.
        words: the reason in words.
        retry_after_s: when asking again makes sense, in seconds from now.
        retry_at: the same as a time, in UTC.
        receipt: what is known so far.
    """

    key: str
    reason: PendingReason
    words: str
    retry_after_s: float
    retry_at: datetime
    receipt: Receipt


Outcome = Committed | Refused | Ambiguous | InFlight


def outcome_of(action: GatedAction, pending: Pending | None, now: datetime) -> Outcome:
    """Return what the protocol came to, with the receipt.

    Args:
        action: the action, as it stands.
        pending: why it has no ending yet; None where it has one.
        now: the present, for `retry_after_s`.
    """
    receipt = receipt_of(action)
    if pending is not None:
        retry_after_s = max(0.0, (pending.retry_at - now).total_seconds())
        return InFlight(action.key, pending.reason, pending.words, retry_after_s, pending.retry_at, receipt)
    endings: dict[Status, type[Committed | Refused | Ambiguous]] = {
        Status.COMMITTED: Committed,
        Status.REFUSED: Refused,
        Status.AMBIGUOUS: Ambiguous,
    }
    return endings[action.status](action.key, receipt)
