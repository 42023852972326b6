"""Approvals, as a host handles them: granting, revoking, and how they stand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from interlock.domain.action import require_key
from interlock.domain.approvals import Approval, ApprovalTerms
from interlock.domain.effects import MAX_SAFE_INTEGER, Money, require_currency
from interlock.domain.requests import AppendAnswer, LoadApproval, NewActionId, Now, Protocol
from interlock.errors import InvalidApproval, InvalidEffect, NotErasable, UnknownApproval
from interlock.inputs import require_opaque, require_text
from interlock.requests import AppendApproval, ForgetApproval

MAX_EXPIRES_IN_S = 10 * 365 * 86_400
"""Ten years: what holds longer than that is no approval of one action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """An approval as it stands: what `approve`, `revoke` and `approval` return.

    Attributes:
        id: its id; make the action's key from it.
        cap_minor: what it covers, in the minor unit.
        currency: of the cap.
        remaining_minor: what is neither reserved nor spent.
        uses: how many actions it allows.
        uses_left: how many it still allows.
        by: the opaque id of the person who gave it.
        expires_at: until when, in UTC.
        revoked_at: when it was taken back.
    """

    id: str
    cap_minor: int | None
    currency: str | None
    remaining_minor: int | None
    uses: int
    uses_left: int
    by: str
    expires_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExternalApproval:
    """An approval that lives in a source registered under `source`: read, and not held."""

    source: str
    id: str


def grant(approval_id: str, terms: ApprovalTerms) -> Protocol[ApprovalView]:
    """Grant an approval; the same terms again return the same approval.

    Raises:
        InvalidApproval: the id was granted under other terms.
    """
    require_key(approval_id)
    while True:
        granted = yield from LoadApproval(approval_id)
        if granted is not None and granted.terms != terms:
            raise InvalidApproval(
                f"approval {approval_id!r} was granted under other terms; it is unchanged. Approve again under another id"
            )
        if granted is not None:
            return view_of(granted)
        new_id = yield from NewActionId()
        now = yield from Now()
        approval = Approval.grant(new_id, approval_id, terms, now)
        if (yield from AppendApproval(approval)) is AppendAnswer.APPENDED:
            return view_of(approval)


def revoke(approval_id: str, by: str, note: str) -> Protocol[ApprovalView]:
    """Take an approval back; twice changes nothing.

    Raises:
        UnknownApproval: there is no such approval.
    """
    while True:
        approval = yield from _known(approval_id)
        now = yield from Now()
        approval.revoke(require_opaque("by", by), require_text("note", note), now)
        if not approval.pending_events or (yield from AppendApproval(approval)) is AppendAnswer.APPENDED:
            return view_of(approval)


def erase(approval_id: str, reason: str, by: str) -> Protocol[None]:
    """Give up what an approval's events say. Where that was begun already, go on with it.

    Raises:
        NotErasable: something is or may still be sent under it.
        UnknownApproval: there is no such approval.
    """
    require_key(approval_id)
    checked_by, checked_reason = require_opaque("by", by), require_opaque("reason", reason)
    appended = AppendAnswer.APPROVAL_MOVED
    while appended is not AppendAnswer.APPENDED:
        approval = yield from LoadApproval(approval_id)
        if approval is None:
            break  # it was erased, or is not there: whoever forgets it finds out
        now = yield from Now()
        if not approval.is_over(now):
            raise NotErasable(
                f"approval {approval_id!r} is still reserved for an action, or can still be used; nothing was erased. Bring its "
                "actions to their end, and revoke it"
            )
        approval.erase(checked_reason, checked_by, now)
        appended = yield from AppendApproval(approval)
    yield from ForgetApproval(approval_id)


def view(approval_id: str) -> Protocol[ApprovalView]:
    """Return an approval as it stands.

    Raises:
        UnknownApproval: there is no such approval.
    """
    return view_of((yield from _known(approval_id)))


def checked_terms(
    by: str, expires_in_s: int, cap_minor: int | None, currency: str | None, uses: int, fingerprint: str | None
) -> ApprovalTerms:
    """Return the terms of an approval.

    Raises:
        InvalidApproval: they are malformed.
    """
    if (cap_minor is None) != (currency is None):
        raise InvalidApproval("a cap needs a currency, and a currency a cap")
    if type(expires_in_s) is not int or not 0 < expires_in_s <= MAX_EXPIRES_IN_S:
        raise InvalidApproval(f"expires_in_s must be an integer of 1 to {MAX_EXPIRES_IN_S}, not {expires_in_s!r}")
    if type(uses) is not int or not 0 < uses <= MAX_SAFE_INTEGER:
        raise InvalidApproval(f"uses must be a positive integer of at most 2**53 - 1, not {uses!r}")
    try:
        if cap_minor is not None and currency is not None:
            Money(cap_minor, require_currency(currency))
    except InvalidEffect as error:
        raise InvalidApproval(f"the cap is no amount of money: {error}") from None
    return ApprovalTerms(
        cap_minor=cap_minor,
        currency=currency,
        by=require_opaque("by", by),
        expires_in_s=expires_in_s,
        fingerprint=fingerprint,
        uses=uses,
    )


def view_of(approval: Approval) -> ApprovalView:
    """Return what a host sees of an approval."""
    terms = approval.terms
    return ApprovalView(
        id=approval.approval_id,
        cap_minor=terms.cap_minor,
        currency=terms.currency,
        remaining_minor=approval.remaining_minor(),
        uses=terms.uses,
        uses_left=max(0, terms.uses - len(approval.reserved) - len(approval.spent)),
        by=terms.by,
        expires_at=approval.expires_at,
        revoked_at=approval.revoked_at,
    )


def _known(approval_id: str) -> Protocol[Approval]:
    approval = yield from LoadApproval(require_key(approval_id))
    if approval is None:
        raise UnknownApproval(f"there is no approval {approval_id!r}; nothing was written")
    return approval
