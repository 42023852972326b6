"""Endings: each is appended at the version that was read (rule 5), together with what becomes of the approval (I3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from interlock.domain.action import Checks, Door, Doubt, GatedAction, Status, Via
from interlock.domain.answers import Evidence
from interlock.domain.approvals import Approval
from interlock.domain.requests import Append, AppendAnswer, LoadAction, LoadApproval, Now, Protocol
from interlock.errors import JournalError, OutcomeNotRecorded

T = TypeVar("T")


class PendingReason(StrEnum):
    """Why an action has no outcome yet."""

    HELD = "held"
    """Somebody else has the claim."""
    SETTLING = "settling"
    """What happened is not known yet: a read failed, or a send can still land."""
    PROVIDER_BUSY = "provider_busy"
    """The provider is still at work on a request under this key."""
    NOT_SENT = "not_sent"
    """The provider could not be reached; nothing was sent."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The action has a recorded outcome."""

    action: GatedAction


@dataclass(frozen=True, slots=True)
class Pending:
    """The action has no outcome yet; asking again at `retry_at` makes sense."""

    action: GatedAction
    reason: PendingReason
    retry_at: datetime
    words: str


Conclusion = Ended | Pending
Step = Conclusion | AppendAnswer | Doubt
"""What a part of the protocol comes to: a conclusion; that somebody else wrote, so think again; or doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an action is refused.

    Args:
        code: for programs.
        words: for people.
        door: what rules out that it was carried out, or still will be.
        at_recovery: whether that was found out at recovery.
        possible: what would still be possible.
        by: who decided it, where a person did.
        note: what they said.
        past_at: when a horizon was found to be past, where that closed the door: the refusal is no earlier, wherever the
            clock is set back to meanwhile.
    """

    code: str
    words: str
    door: Door
    at_recovery: bool
    possible: str = ""
    by: str | None = None
    note: str | None = None
    past_at: datetime | None = None


def held_approval(action: GatedAction) -> Protocol[Approval | None]:
    """Load the action's approval, where the journal holds it."""
    if action.intent.approval.source is not None:
        return None
    return (yield from LoadApproval(action.intent.approval.id))


def end(
    action: GatedAction,
    write: Callable[[GatedAction, datetime], None],
    settle: Callable[[Approval, datetime], None] = lambda _approval, _at: None,
    at_hand: Approval | None = None,
) -> Protocol[Step]:
    """Append an ending at the version that was read. A moved action is not forced: the caller thinks again (rule 5).

    Args:
        action: the action.
        write: adds the ending.
        settle: says what becomes of the approval.
        at_hand: the approval as the send's own commit left it; if it has moved since, it is loaded again.
    """
    version, approval = action.version, at_hand
    while True:
        now = yield from Now()
        write(action, now)
        approval = approval or (yield from held_approval(action))
        if approval is not None:
            settle(approval, now)
        moves = approval if approval is not None and approval.pending_events else None
        answer = yield from Append(action, moves)
        if answer is AppendAnswer.APPENDED:
            return Ended(action)
        if action.is_draft:
            return answer  # nothing of it was written: somebody else has the key, or the approval moved
        action, approval = (yield from LoadAction(action.id)), None
        if action.version != version:
            return AppendAnswer.ACTION_MOVED


def record_refusal(action: GatedAction, refusal: Refusal, checks: Checks | None) -> Protocol[Step]:
    """End the action as not done, and give its reservation back."""

    def write(current: GatedAction, at: datetime) -> None:
        current.refuse(
            refusal.code,
            refusal.words,
            max(at, refusal.past_at or at),
            door=refusal.door,
            at_recovery=refusal.at_recovery,
            possible=refusal.possible,
            checks=checks,
            by=refusal.by,
            note=refusal.note,
        )

    return (yield from end(action, write, lambda approval, at: approval.release(action.id, at)))


def record_ambiguity(
    action: GatedAction, code: str, words: str, checks: Checks | None = None, evidence: Evidence | None = None
) -> Protocol[Step]:
    """End the action as not known; the approval keeps its reservation."""
    return (
        yield from end(action, lambda current, at: current.leave_ambiguous(code, words, at, evidence=evidence, checks=checks))
    )


def record_done(
    action: GatedAction, evidence: Evidence, via: Via, checks: Checks | None = None, at_hand: Approval | None = None
) -> Protocol[Step]:
    """Record a definite Done, whatever our term, on a Dispatched or an Ambiguous action (rule 6).

    Raises:
        OutcomeNotRecorded: the journal failed, or says Refused.
    """
    if evidence.disagreements and action.status is Status.AMBIGUOUS:
        return Ended(action)  # that is what it says already
    if evidence.disagreements:
        words = "the provider's answer disagrees with the effect: " + "; ".join(evidence.disagreements)
        return (
            yield from _or_not_recorded(action, evidence, record_ambiguity(action, "evidence_disagrees", words, checks, evidence))
        )

    def write(current: GatedAction, at: datetime) -> None:
        current.commit(via, evidence, at, checks=checks)

    def settle(approval: Approval, at: datetime) -> None:
        approval.spend(action.id, action.intent.effect, at)

    current = action
    while True:
        step = yield from _or_not_recorded(current, evidence, end(current, write, settle, at_hand))
        if step is not AppendAnswer.ACTION_MOVED:
            return step
        current, at_hand = (yield from _or_not_recorded(current, evidence, LoadAction(action.id).__iter__())), None
        if current.status is Status.REFUSED:
            raise OutcomeNotRecorded(current.key, evidence, "the journal has it as refused")
        known = current.ending.evidence if isinstance(current.ending, GatedAction.Committed) else None
        if known is not None and known.reference != evidence.reference:
            words = f"the journal has it as committed by {known.reference}, so there may be two"
            raise OutcomeNotRecorded(current.key, evidence, words)
        if known is not None:
            return Ended(current)


def _or_not_recorded(action: GatedAction, evidence: Evidence, part: Protocol[T]) -> Protocol[T]:
    try:
        return (yield from part)
    except JournalError as error:
        raise OutcomeNotRecorded(action.key, evidence, str(error)) from error
