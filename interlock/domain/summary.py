"""The summary of an action: what the journal keeps in a row, in the events' own transaction, to find actions by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from interlock.domain.account import IN_FLIGHT
from interlock.domain.action import GatedAction, Status
from interlock.domain.answers import Settlement

__all__ = ["IN_FLIGHT", "ActionSummary", "needs_attention", "summarize"]


@dataclass(slots=True, kw_only=True)
class ActionSummary:
    """What an action is found by.

    Args:
        action_id: the action.
        version: of its last event.
        key: the caller's name for it; None after erasure, as what was acted on, the amount and the approval are empty then.
        status: COMMITTED, REFUSED, AMBIGUOUS, or IN_FLIGHT.
        target: the target's name.
        subject: what is acted on.
        approval_id: under whose authority.
        amount_minor: in the currency's minor unit, where money is moved.
        currency: of the amount.
        via: how a commit was established.
        code: why it was refused, or why nobody knows.
        attention: whether a person has to look at it.
        claim_lock: the liveness lock of the gate that has it in flight, where that has one.
        claim_expires_at: when an action in flight may be taken over at the latest.
        intended_at: the time of its first event.
        changed_at: the time of its last event.
    """

    action_id: str
    version: int
    key: str | None
    status: str
    target: str
    subject: str
    approval_id: str
    amount_minor: int | None
    currency: str | None
    via: str | None
    code: str | None
    attention: bool
    claim_lock: str | None
    claim_expires_at: datetime | None
    intended_at: datetime
    changed_at: datetime


def summarize(action: GatedAction) -> ActionSummary:
    """Return the summary of an action as it is in memory, pending events included."""
    if action.erased is not None:
        return summary_of_erased(action.erased)
    effect, ending = action.intent.effect, action.ending
    claim = None if action.ended else action.claim
    return ActionSummary(
        action_id=action.id.hex,
        version=action.version,
        key=action.key,
        status=action.status.value if action.ended else IN_FLIGHT,
        target=effect.target,
        subject=effect.subject,
        approval_id=action.intent.approval.id,
        amount_minor=effect.amount_minor,
        currency=effect.currency,
        via=action.commit_event.via.value if action.commit_event else None,
        code=ending.code if isinstance(ending, GatedAction.Refused | GatedAction.Ambiguous) else None,
        attention=needs_attention(action),
        claim_lock=claim.lock if claim else None,
        claim_expires_at=claim.expires_at if claim else None,
        intended_at=action.created_on,
        changed_at=action.modified_on,
    )


def summary_of_erased(erased: GatedAction.Erased) -> ActionSummary:
    """Return the summary of an erased action, from its last event alone."""
    remains = erased.remains
    return ActionSummary(
        action_id=erased.originator_id.hex,
        version=erased.originator_version,
        key=None,
        status=remains.status.value,
        target=remains.target,
        subject="",
        approval_id="",
        amount_minor=None,
        currency=None,
        via=remains.via.value if remains.via else None,
        code=remains.code,
        attention=False,
        claim_lock=None,
        claim_expires_at=None,
        intended_at=remains.intended_at,
        changed_at=erased.timestamp,
    )


def needs_attention(action: GatedAction) -> bool:
    """Whether a person has to look: it is Ambiguous, refused with a way forward, or done and not final at the provider."""
    ending = action.ending
    if action.status is Status.AMBIGUOUS:
        return True
    if isinstance(ending, GatedAction.Refused):
        return bool(ending.possible)
    if isinstance(ending, GatedAction.Committed) and ending.evidence is not None:
        return ending.evidence.settlement is not Settlement.FINAL
    return False
