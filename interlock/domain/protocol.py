"""The protocol, without I/O: `fire`, `propose`, `recover`, `reconcile` and `resolve` as generators of requests.

A driver performs each request and sends the answer back; a crash can be put before or after any of them. Committing costs two
durable appends: {Intended, Claimed, Dispatched, approval reserved} before the send, {Committed, approval spent} after it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from interlock.domain.action import Checks, Door, Doubt, GatedAction, Intent, Status, Via
from interlock.domain.answers import CannotTell, Found, Settlement
from interlock.domain.checking import Checked, check, read_approval, require_readable, require_usable
from interlock.domain.endings import (
    Conclusion,
    Ended,
    Pending,
    PendingReason,
    Refusal,
    Step,
    end,
    record_done,
    record_refusal,
)
from interlock.domain.recovery import look_again, resolve_doubt
from interlock.domain.requests import (
    Append,
    AppendAnswer,
    FindAction,
    Liveness,
    LoadAction,
    LookUp,
    NewActionId,
    Now,
    ProbeHolder,
    Protocol,
    ReadPremises,
)
from interlock.domain.sending import Sender, announce_and_send, refuse_unsent
from interlock.errors import NotResolvable, OutcomeNotRecorded


def fire(intent: Intent, sender: Sender) -> Protocol[Conclusion]:
    """Carry the intent out, once; or go on with the action that has its key; or report that action's recorded outcome.

    Raises:
        ActionMismatch: the key names an action with another effect (I5).
        ApprovalNotUsable: the approval can never cover the effect; nothing was written or sent.
        PremiseUnreadable: a fact can't be read before the first commit; nothing was written or sent.
        OutcomeNotRecorded: it was sent, and could not be recorded.
    """
    moved = False
    while True:
        action = yield from FindAction(intent.key, _asked_next(intent))
        if action is not None and moved:
            yield from _require_not_refused_behind_our_back(action, sender)
        if action is not None:
            action.require_same_effect(intent)
            return (yield from recover(action, sender))
        step = yield from _begin(intent, sender)
        if not isinstance(step, AppendAnswer):
            return step
        moved = True


def propose(intent: Intent) -> Protocol[GatedAction]:
    """Make the intent durable, and send nothing: whoever recovers next carries it out.

    Raises:
        ActionMismatch: the key names an action with another effect (I5).
        ApprovalNotUsable: the approval can never cover the effect; nothing was written.
    """
    while True:
        action = yield from FindAction(intent.key)
        if action is not None:
            action.require_same_effect(intent)
            return action
        action_id = yield from NewActionId()
        _, reading = yield from read_approval(action_id, intent)
        require_usable(reading)
        now = yield from Now()
        action = GatedAction.intend(action_id, intent, now)
        if (yield from Append(action)) is AppendAnswer.APPENDED:
            return action


def recover(action: GatedAction, sender: Sender) -> Protocol[Conclusion]:
    """Bring an action to its end, if nobody else is at it: take the claim over, and then do what the recovery table allows."""
    while not action.ended:
        claimed = yield from _take_over(action, sender)
        if isinstance(claimed, Pending):
            return claimed
        if claimed is AppendAnswer.APPENDED:
            step = yield from (resolve_doubt(action, sender, action.doubt) if action.dispatches else _start(action, sender))
            if isinstance(step, Ended | Pending):
                return step
        # Somebody else wrote: think again about what the journal has now (rule 5).
        action = yield from LoadAction(action.id)
        yield from _require_not_refused_behind_our_back(action, sender)
    return Ended(action)


def reconcile(action: GatedAction, sender: Sender) -> Protocol[Conclusion]:
    """Ask the provider again about an action that has ended; see `recovery.look_again`."""
    if not action.ended:
        return (yield from recover(action, sender))
    while True:
        step = yield from look_again(action, sender)
        if isinstance(step, Ended | Pending):
            return step
        action = yield from LoadAction(action.id)


def resolve(
    action: GatedAction,
    *,
    happened: bool,
    by: str,
    note: str,
    looks_up: bool,
    despite_roll_forward: bool,
) -> Protocol[Conclusion]:
    """Let a person decide an Ambiguous action.

    "It did not happen" is taken only behind a closed door (rule 7): past the horizon of every send, after a lookup that does
    not find it, where there is one; and where a stored failure may roll forward at any time, only on the person's own risk.

    Raises:
        NotResolvable: the action is not Ambiguous, or its door is still open.
    """
    while True:
        if action.status is not Status.AMBIGUOUS:
            raise NotResolvable(f"action {action.key!r} is {action.status}, not AMBIGUOUS; nothing was written")
        if happened:
            step = yield from _resolve_as_done(action, by, note)
        else:
            now = yield from Now()
            _require_closed_door(action, now, despite_roll_forward=despite_roll_forward)
            step = yield from _resolve_as_not_done(action, by, note, now, looks_up=looks_up)
        if isinstance(step, Ended | Pending):
            return step
        action = yield from LoadAction(action.id)


def _asked_next(intent: Intent) -> str | None:
    """Return the approval that can be read with the key: after premises, which take time, it is read as late as can be."""
    return None if intent.premises or intent.approval.source is not None else intent.approval.id


def _begin(intent: Intent, sender: Sender) -> Protocol[Conclusion | AppendAnswer]:
    """Check everything, as late as possible, and open the action with its first commit."""
    action_id = yield from NewActionId()
    premises = yield from ReadPremises(action_id, intent)
    while True:
        approval, reading = yield from read_approval(action_id, intent)
        checked = Checked(Checks(approval=reading, premises=premises), approval)
        require_usable(reading)
        require_readable(checked)
        now = yield from Now()
        action = GatedAction.intend(action_id, intent, now)
        step = yield from _open(action, sender, checked, at_recovery=False)
        if step is not AppendAnswer.APPROVAL_MOVED or not action.is_draft:
            return step


def _start(action: GatedAction, sender: Sender) -> Protocol[Conclusion | AppendAnswer]:
    """Go on with an action that never reached Dispatched, and so has sent nothing."""
    checked = yield from check(action.id, action.intent)
    if checked.unreadable is not None:
        now = yield from Now()
        return Pending(action, PendingReason.NOT_SENT, now + timedelta(seconds=1), checked.unreadable)
    return (yield from _open(action, sender, checked, at_recovery=True))


def _open(action: GatedAction, sender: Sender, checked: Checked, *, at_recovery: bool) -> Protocol[Conclusion | AppendAnswer]:
    if checked.objection is not None:
        step: Step = yield from refuse_unsent(action, checked, at_recovery=at_recovery)
    else:
        step = yield from announce_and_send(action, sender, checked, 1, Doubt(nothing_sent=True))
    if isinstance(step, Doubt):
        step = yield from resolve_doubt(action, sender, step)
    assert not isinstance(step, Doubt), "doubt was resolved"
    return step


def _require_not_refused_behind_our_back(action: GatedAction, sender: Sender) -> Protocol[None]:
    """Look once more where somebody else refused an action that we may have sent, without an answer, a moment ago.

    Behind a horizon, a sender that was stopped right before its write can still land (see docs/residual-risk.md). It is too late
    to undo that, and not too late to say so.

    Raises:
        OutcomeNotRecorded: the provider has it.
    """
    claims = (event.claim for event in action.history if isinstance(event, GatedAction.Claimed))
    ours = any(claim.holder == sender.holder for claim in claims)
    if action.status is not Status.REFUSED or not action.dispatches or not ours or not sender.profile.looks_up:
        return
    seen = yield from LookUp(action.id, action.intent.effect)
    if isinstance(seen, Found):
        raise OutcomeNotRecorded(action.key, seen.evidence, "the journal has it as refused")


def _take_over(action: GatedAction, sender: Sender) -> Protocol[Pending | AppendAnswer]:
    """Get the claim: ours already, or of a holder that is gone, or run out. What may be done with it is not decided here (I7)."""
    claim = action.claim
    liveness = yield from ProbeHolder(action.id, claim)
    now = yield from Now()
    expired = claim is not None and now >= claim.expires_at
    if liveness is Liveness.IDLE and not expired:
        return AppendAnswer.APPENDED
    if liveness in (Liveness.ALIVE, Liveness.UNKNOWN) and not expired:
        return _held(action, now)
    why = "expired" if expired else "first" if claim is None else "holder gone"
    action.take_claim(sender.claim(action, now), why, now)
    return (yield from Append(action))


def _held(action: GatedAction, now: datetime) -> Pending:
    retry_at, claim = now + timedelta(seconds=1), action.claim
    if claim is None:
        return Pending(action, PendingReason.HELD, retry_at, "another thread of this gate is at work on it")
    words = f"a gate on {claim.host}, pid {claim.pid}, holds the claim"
    return Pending(action, PendingReason.HELD, min(claim.expires_at, retry_at), words)


def _require_closed_door(action: GatedAction, now: datetime, *, despite_roll_forward: bool) -> None:
    if now < action.horizon_at:
        raise NotResolvable(
            f"a send of {action.key!r} may still land until {action.horizon_at.isoformat()}; "
            "nothing was written, say so again after that"
        )
    if not action.absence_can_be_final and not despite_roll_forward:
        raise NotResolvable(
            f"the provider may still carry a stored failure of {action.key!r} to its end and does not say for how long; nothing "
            "was written. If you have made sure with the provider, say so with despite_roll_forward=True"
        )


def _resolve_as_done(action: GatedAction, by: str, note: str) -> Protocol[Step]:
    return (
        yield from end(
            action,
            lambda current, at: current.commit(Via.RESOLUTION, None, at, by=by, note=note),
            lambda approval, at: approval.spend(action.id, action.intent.effect, at),
        )
    )


def _resolve_as_not_done(action: GatedAction, by: str, note: str, past_at: datetime, *, looks_up: bool) -> Protocol[Step]:
    """Take "it did not happen", unless the provider says otherwise or can't be asked (I6)."""
    seen = (yield from LookUp(action.id, action.intent.effect)) if looks_up else None
    if isinstance(seen, CannotTell):
        raise NotResolvable(f"the provider could not be asked about {action.key!r}: {seen.why}; nothing was written, try again")
    if isinstance(seen, Found) and not seen.evidence.disagreements:
        return (yield from record_done(action, seen.evidence, Via.RECOVERY_QUERY))
    if isinstance(seen, Found) and seen.evidence.settlement is not Settlement.REVERSED:
        raise NotResolvable(
            f"the provider has {seen.evidence.reference} with this action's mark ({'; '.join(seen.evidence.disagreements)}); "
            "nothing was written. Undo it at the provider first, or resolve the action as happened"
        )
    refusal = Refusal(
        code="resolved_as_not_done",
        words="a person says that it did not happen",
        door=Door.PERSON,
        at_recovery=True,
        by=by,
        note=note,
        past_at=past_at,
    )
    return (yield from record_refusal(action, refusal, None))
