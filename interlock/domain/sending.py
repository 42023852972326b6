"""One send: announced, made, and its answer taken. What it leaves is an ending, or doubt."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from interlock.domain.action import Claim, Door, Doubt, GatedAction, SendPurpose, Via
from interlock.domain.answers import Declined, Done, KeyState, NotSent, SendAnswer, Unknown
from interlock.domain.approvals import Approval
from interlock.domain.checking import Checked, check
from interlock.domain.endings import Pending, PendingReason, Refusal, Step, record_done, record_refusal
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.progress import DECLINED
from interlock.domain.requests import Anchor, Append, AppendAnswer, Now, Protocol, Send, SleepUntil, StillAt

CLAIM_MARGIN_S = 5
"""How far inside the claim's time to live a send's deadline has to be (DESIGN: claims)."""

NOT_SENT_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""How long to wait before a request that was not sent is tried again; the last pause repeats until the deadline."""

TOO_LATE = "its deadline was over before the write"
"""Why a send was not made whose sender was stopped, or waited, for too long."""


@dataclass(slots=True, kw_only=True)
class Sender:
    """The gate that runs the protocol, and the profile of the target that it sends to.

    Args:
        holder: the gate's random id.
        host: where it runs.
        pid: its process.
        lock: the handle of its liveness lock, where it has one.
        claim_ttl_s: for how long its claims hold.
        profile: what the target promises.
        sends_per_pass: after how many unanswered sends it lets the caller decide when to go on.
        anchors: whether a send waits until its Dispatched stands under a checkpoint of the log.
    """

    holder: str
    host: str
    pid: int
    lock: str | None
    claim_ttl_s: float
    profile: CapabilityProfile
    sends_per_pass: int = 2
    anchors: bool = False

    def claim(self, action: GatedAction, at: datetime) -> Claim:
        """Return a claim of the next term."""
        return Claim(
            holder=self.holder,
            term=action.claim.term + 1 if action.claim else 1,
            host=self.host,
            pid=self.pid,
            lock=self.lock,
            expires_at=at + timedelta(seconds=self.claim_ttl_s),
        )


def key_still_deduped(action: GatedAction, attempt: int, profile: CapabilityProfile, at: datetime) -> bool:
    """Whether the provider still knows this attempt's key, counted from the *first* dispatch of that key."""
    expires = profile.key_expires(action.first_dispatch_of(attempt).timestamp)
    return expires is not None and at < expires


def announce(
    action: GatedAction, sender: Sender, checked: Checked, attempt: int, purpose: SendPurpose = SendPurpose.EXECUTE
) -> Protocol[AppendAnswer]:
    """Make the next send durable before it is made (I1), with the approval reserved or asserted beside it (I3)."""
    now = yield from Now()
    if purpose is SendPurpose.EXECUTE and not checked.outlives(now):
        return AppendAnswer.APPROVAL_MOVED
    claim, deadline_s = action.claim, sender.profile.send_deadline_s
    if claim is None or claim.expires_at < now + timedelta(seconds=deadline_s + CLAIM_MARGIN_S):
        action.take_claim(sender.claim(action, now), "sending" if claim else "first", now)
    action.dispatch(attempt, purpose, checked.checks, sender.profile, now)
    if purpose is SendPurpose.READ_STORED:
        # Its key is used up, so it can only replay: a revoked approval must not keep the stored answer from being read.
        return (yield from Append(action))
    if checked.approval is not None:
        checked.approval.reserve(action.id, action.intent.effect, now)
    return (yield from Append(action, checked.approval))


def announce_and_send(action: GatedAction, sender: Sender, checked: Checked, attempt: int, doubt: Doubt) -> Protocol[Step]:
    """Announce a send, make it, and take its answer; what was provably not sent is tried again until the deadline."""
    while True:
        announced = yield from announce(action, sender, checked, attempt)
        if announced is not AppendAnswer.APPENDED:
            return announced
        answer = yield from send(action, sender, fresh_key=doubt.nothing_sent)
        if answer is None:
            return AppendAnswer.ACTION_MOVED
        if not isinstance(answer, NotSent) or not doubt.nothing_sent:
            return (yield from take_answer(action, sender, doubt, answer, checked.approval))
        waited = yield from _wait_to_try_again(action, sender, doubt, answer.why)
        if not isinstance(waited, Checked):
            return waited
        checked = waited


def send(action: GatedAction, sender: Sender, *, fresh_key: bool) -> Protocol[SendAnswer | None]:
    """Anchor it, check term, deadline and key window right before the write, and send.

    None: somebody else took over; nothing was sent.

    Args:
        action: its last dispatch is the send to make.
        sender: who sends.
        fresh_key: whether nothing was ever sent under the key, so that its window does not matter.
    """
    dispatch = action.last_dispatch
    if sender.anchors:
        why_not = yield from Anchor(action.id, action.version)
        if why_not is not None:
            return NotSent(why_not)  # what has to be known before it happens was not; nothing left
    if not (yield from StillAt(action.id, action.version)):
        return None
    now = yield from Now()
    if now >= dispatch.deadline_at:
        return NotSent(TOO_LATE)
    if not fresh_key and sender.profile.dedupes and not key_still_deduped(action, dispatch.attempt, sender.profile, now):
        return NotSent("its key's window was over before the write")
    return (yield from Send(action.id, action.intent.effect, dispatch.idempotency_key, dispatch.deadline_at))


def take_answer(
    action: GatedAction, sender: Sender, doubt: Doubt, answer: SendAnswer, at_hand: Approval | None
) -> Protocol[Step]:
    """Turn the answer into an ending where it is definite, and into doubt where it is not (I6)."""
    sends = doubt.sends + 1
    match answer:
        case Done(evidence):
            via = Via.FIRST_SEND if doubt.nothing_sent and not evidence.replayed else Via.RETRY_IDEMPOTENT
            return (yield from record_done(action, evidence, via, at_hand=at_hand))
        case Declined(replayed=replayed) if replayed or doubt.nothing_sent:
            return (yield from refuse_declined(action, answer, at_recovery=not doubt.nothing_sent))
        case Declined():
            return replace(doubt, sends=sends, declined=answer)  # rule 4: a no to a resend is not a no to the action
        case NotSent(why):
            return (yield from pend(action, sender, doubt, PendingReason.NOT_SENT, why))
        case Unknown(why, KeyState.IN_PROGRESS):
            kept = replace(doubt, nothing_sent=False)
            return (yield from pend(action, sender, kept, PendingReason.PROVIDER_BUSY, why))
        case Unknown(_, key):
            key = doubt.key if key is KeyState.OPEN else key
            return replace(doubt, nothing_sent=False, key=key, sends=sends)


def declined_refusal(declined: Declined, door: Door, *, at_recovery: bool) -> Refusal:
    """Return the refusal that the provider's own definite no makes."""
    return Refusal(
        code=f"{DECLINED}{declined.code}",
        words=declined.words,
        door=door,
        at_recovery=at_recovery,
        possible="decide again on what the provider says, under a new approval",
    )


def refuse_declined(action: GatedAction, declined: Declined, *, at_recovery: bool) -> Protocol[Step]:
    """End the action with the provider's own definite no."""
    refusal = declined_refusal(declined, Door.ANSWERED, at_recovery=at_recovery)
    return (yield from record_refusal(action, refusal, None))


def _wait_to_try_again(action: GatedAction, sender: Sender, doubt: Doubt, why: str) -> Protocol[Checked | Step]:
    """Write down that nothing was sent, wait, and check everything again; give up at the deadline of the key's first send."""
    until = action.first_dispatch_of(action.attempt).deadline_at
    if not (yield from _write_down(action, sender, doubt, "not sent")):
        return AppendAnswer.ACTION_MOVED
    for tries in itertools.count(len(action.dispatches) - 1):
        now = yield from Now()
        again_at = now + timedelta(seconds=NOT_SENT_PAUSES_S[min(tries, len(NOT_SENT_PAUSES_S) - 1)])
        if again_at >= until:
            break
        yield from SleepUntil(again_at)
        checked = yield from check(action.id, action.intent)
        if checked.objection is not None and checked.unreadable is None:
            return (yield from refuse_unsent(action, checked, at_recovery=False))
        if checked.unreadable is None:
            return checked
    return (yield from pend(action, sender, doubt, PendingReason.NOT_SENT, why))


def refuse_unsent(action: GatedAction, checked: Checked, *, at_recovery: bool) -> Protocol[Step]:
    """Refuse an action of which nothing was ever sent."""
    objection = checked.objection
    assert objection is not None, "it refuses because of an objection"
    refusal = Refusal(
        code=objection.code,
        words=objection.words,
        possible=objection.possible,
        door=Door.NOTHING_SENT,
        at_recovery=at_recovery,
    )
    return (yield from record_refusal(action, refusal, checked.checks))


def pend(
    action: GatedAction,
    sender: Sender,
    doubt: Doubt,
    reason: PendingReason,
    words: str,
    retry_at: datetime | None = None,
) -> Protocol[Step]:
    """Leave the action as it is until `retry_at`, with what was learned written down first."""
    if not (yield from _write_down(action, sender, doubt, f"waiting: {reason}")):
        return AppendAnswer.ACTION_MOVED
    now = yield from Now()
    return Pending(action, reason, retry_at or now + timedelta(seconds=1), words)


def _write_down(action: GatedAction, sender: Sender, doubt: Doubt, why: str) -> Protocol[bool]:
    """Make durable what was learned, with a claim of the next term; return False where the action moved."""
    kept = doubt.to_keep()
    if not doubt.worth_keeping or kept == action.doubt:
        return True
    now = yield from Now()
    action.take_claim(sender.claim(action, now), why, now, kept)
    return (yield from Append(action)) is AppendAnswer.APPENDED
