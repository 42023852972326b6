"""Recovery: what may be done with a Dispatched action whose fate is not known.

Look it up first, wherever the target can; found ends it as Committed, whatever else has changed. Otherwise check the approval
and the premises again, and read the row:

    re-check | lookup said  | key still deduped? | then
    ---------+--------------+--------------------+-------------------------------------------------------------------
    holds    | absent       | yes                | send again under the same key
    holds    | can't look   | yes                | send again under the same key
    holds    | absent       | no                 | close the door, look again; still absent: a new key
    holds    | can't look   | no                 | close the door by burning, if it can be: a new key; else Ambiguous
    fails    | absent       | either             | close the door, look again; still absent: Refused
    fails    | can't look   | either             | close the door by burning, if it can be: Refused; else Ambiguous

A failed lookup is neither absent nor can't look: it is not known yet, and is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto

from interlock.domain.action import Door, Doubt, GatedAction, SendPurpose, Via
from interlock.domain.answers import (
    AlreadyUsed,
    Burned,
    CannotTell,
    Declined,
    Done,
    Evidence,
    Found,
    InProgress,
    KeyState,
    SendAnswer,
    Unknown,
)
from interlock.domain.checking import Checked, check
from interlock.domain.endings import Ended, PendingReason, Refusal, Step, record_ambiguity, record_done, record_refusal
from interlock.domain.requests import AppendAnswer, Burn, LookUp, Now, Protocol
from interlock.domain.sending import (
    Sender,
    announce,
    announce_and_send,
    declined_refusal,
    key_still_deduped,
    pend,
    refuse_declined,
    refuse_unsent,
    send,
)


class Recheck(Enum):
    """Whether the approval and the premises still let the action go on."""

    HOLDS = auto()
    FAILS = auto()


class Sight(Enum):
    """What the lookup said, where it did not find the effect."""

    ABSENT = auto()
    CANNOT_LOOK = auto()


class Row(Enum):
    """What may be done."""

    SEND_AGAIN = auto()
    NEW_KEY_BEHIND_CLOSED_DOOR = auto()
    REFUSE_BEHIND_CLOSED_DOOR = auto()
    NEW_KEY_BEHIND_BURNED_KEYS = auto()
    REFUSE_BEHIND_BURNED_KEYS = auto()

    @property
    def by_horizon(self) -> bool:
        """Whether an absence past the horizon closes the door: only where somebody can look afterwards."""
        return self in (Row.NEW_KEY_BEHIND_CLOSED_DOOR, Row.REFUSE_BEHIND_CLOSED_DOOR)

    @property
    def refuses(self) -> bool:
        """Whether the action ends as refused behind the closed door."""
        return self in (Row.REFUSE_BEHIND_CLOSED_DOOR, Row.REFUSE_BEHIND_BURNED_KEYS)


DEDUPED, NOT_DEDUPED = True, False

TABLE: dict[tuple[Recheck, Sight, bool], Row] = {
    (Recheck.HOLDS, Sight.ABSENT, DEDUPED): Row.SEND_AGAIN,
    (Recheck.HOLDS, Sight.CANNOT_LOOK, DEDUPED): Row.SEND_AGAIN,
    (Recheck.HOLDS, Sight.ABSENT, NOT_DEDUPED): Row.NEW_KEY_BEHIND_CLOSED_DOOR,
    (Recheck.HOLDS, Sight.CANNOT_LOOK, NOT_DEDUPED): Row.NEW_KEY_BEHIND_BURNED_KEYS,
    (Recheck.FAILS, Sight.ABSENT, DEDUPED): Row.REFUSE_BEHIND_CLOSED_DOOR,
    (Recheck.FAILS, Sight.ABSENT, NOT_DEDUPED): Row.REFUSE_BEHIND_CLOSED_DOOR,
    (Recheck.FAILS, Sight.CANNOT_LOOK, DEDUPED): Row.REFUSE_BEHIND_BURNED_KEYS,
    (Recheck.FAILS, Sight.CANNOT_LOOK, NOT_DEDUPED): Row.REFUSE_BEHIND_BURNED_KEYS,
}


def resolve_doubt(action: GatedAction, sender: Sender, doubt: Doubt) -> Protocol[Step]:
    """Find out what happened, or make it happen, or make sure that it can't; round by round, until it is no doubt."""
    step: Step = doubt
    while isinstance(step, Doubt):
        step = yield from _round(action, sender, step)
    return step


def _round(action: GatedAction, sender: Sender, doubt: Doubt) -> Protocol[Step]:
    if doubt.nothing_sent:
        return (yield from _begin_unsent(action, sender, doubt))
    seen = yield from _look_or_end(action, sender, doubt)
    if not isinstance(seen, Sight):
        return seen
    checked = yield from check(action.id, action.intent)
    if checked.unreadable is not None:
        return (yield from pend(action, sender, doubt, PendingReason.SETTLING, checked.unreadable))
    now = yield from Now()
    row = TABLE[
        Recheck.FAILS if checked.objection or doubt.declined else Recheck.HOLDS,
        seen,
        key_still_deduped(action, action.attempt, sender.profile, now) and doubt.key is KeyState.OPEN,
    ]
    if row is not Row.SEND_AGAIN:
        return (yield from _behind_closed_door(action, sender, doubt, checked, row))
    if doubt.sends >= sender.sends_per_pass:
        return (yield from pend(action, sender, doubt, PendingReason.SETTLING, "the provider gives no answer"))
    return (yield from announce_and_send(action, sender, checked, action.attempt, doubt))


def _begin_unsent(action: GatedAction, sender: Sender, doubt: Doubt) -> Protocol[Step]:
    """Go on with an action whose sends provably never left."""
    checked = yield from check(action.id, action.intent)
    if checked.unreadable is not None:
        return (yield from pend(action, sender, doubt, PendingReason.NOT_SENT, checked.unreadable))
    if checked.objection is not None:
        return (yield from refuse_unsent(action, checked, at_recovery=True))
    return (yield from announce_and_send(action, sender, checked, action.attempt, doubt))


def _look(action: GatedAction, sender: Sender) -> Protocol[Found | CannotTell | Sight]:
    if not sender.profile.looks_up:
        return Sight.CANNOT_LOOK
    answer = yield from LookUp(action.id, action.intent.effect)
    return answer if isinstance(answer, Found | CannotTell) else Sight.ABSENT


def _look_or_end(action: GatedAction, sender: Sender, doubt: Doubt, checked: Checked | None = None) -> Protocol[Step | Sight]:
    """Look; what is found ends the action, with what was checked, and a lookup that failed is asked again later."""
    seen = yield from _look(action, sender)
    if isinstance(seen, CannotTell):
        return (yield from pend(action, sender, doubt, PendingReason.SETTLING, f"the lookup failed: {seen.why}"))
    if isinstance(seen, Found):
        checked = checked or (yield from check(action.id, action.intent))
        return (yield from record_done(action, seen.evidence, Via.RECOVERY_QUERY, checked.checks))
    return seen


def _behind_closed_door(action: GatedAction, sender: Sender, doubt: Doubt, checked: Checked, row: Row) -> Protocol[Step]:
    """Close the door, look again (rule 2), and then refuse, or send under a new key."""
    closed = yield from _close_door(action, sender, doubt, checked, by_horizon=row.by_horizon)
    if not isinstance(closed, _Closed):
        return closed
    # Rule 2: the lookup that counts is the one after nothing can land any more.
    seen = yield from _look_or_end(action, sender, doubt, checked)
    if not isinstance(seen, Sight):
        return seen
    if not row.refuses:
        # I4: the facts may have changed while the door was being closed.
        checked = yield from check(action.id, action.intent)
        if checked.unreadable is not None:
            return (yield from pend(action, sender, doubt, PendingReason.SETTLING, checked.unreadable))
        if checked.objection is None and doubt.sends >= sender.sends_per_pass:
            return (yield from pend(action, sender, doubt, PendingReason.SETTLING, "the provider gives no answer"))
        if checked.objection is None:
            fresh = Doubt(nothing_sent=True, sends=doubt.sends)
            return (yield from announce_and_send(action, sender, checked, action.attempt + 1, fresh))
    refusal = replace(_refusal(checked, doubt, closed.how), past_at=closed.past_at)
    return (yield from record_refusal(action, refusal, checked.checks))


def _refusal(checked: Checked, doubt: Doubt, how: Door) -> Refusal:
    if checked.objection is not None:
        objection = checked.objection
        return Refusal(code=objection.code, words=objection.words, possible=objection.possible, door=how, at_recovery=True)
    assert doubt.declined is not None, "it refuses because of an objection or a no"
    return declined_refusal(doubt.declined, how, at_recovery=True)


@dataclass(frozen=True, slots=True)
class _Closed:
    """Nothing sent before can land any more.

    Args:
        how: why.
        past_at: when the horizon was found to be past, where that is why.
    """

    how: Door
    past_at: datetime | None = None


def _close_door(
    action: GatedAction, sender: Sender, doubt: Doubt, checked: Checked, *, by_horizon: bool
) -> Protocol[Step | _Closed]:
    """Close the door for every attempt's key (rule 2), the current one last: how that was closed is what is told.

    The doors of the keys before it were closed before it was used.
    """
    for attempt in range(1, action.attempt):
        closed = yield from _close_key(action, sender, doubt, checked, attempt, by_horizon=by_horizon)
        if not isinstance(closed, _Closed):
            return closed
    return (yield from _close_key(action, sender, doubt, checked, action.attempt, by_horizon=by_horizon))


def _close_key(
    action: GatedAction, sender: Sender, doubt: Doubt, checked: Checked, attempt: int, *, by_horizon: bool
) -> Protocol[Step | _Closed]:
    """Burn the key where it can be, also past its horizon: a paused sender may wake up later still. Otherwise wait."""
    now = yield from Now()
    if sender.profile.burns and key_still_deduped(action, attempt, sender.profile, now):
        dispatch = action.first_dispatch_of(attempt)
        answer = yield from Burn(action.id, action.intent.effect, dispatch.idempotency_key)
        now = yield from Now()
        match answer:
            case Burned() if key_still_deduped(action, attempt, sender.profile, now):
                return _Closed(Door.BURNED)
            case Burned():
                pass  # its window ended meanwhile: the provider may have forgotten the original before the burn arrived
            case InProgress():
                return (yield from pend(action, sender, doubt, PendingReason.PROVIDER_BUSY, "a request is in progress"))
            case CannotTell(why):
                return (yield from pend(action, sender, doubt, PendingReason.SETTLING, f"the burn failed: {why}"))
            case AlreadyUsed() if attempt == action.attempt:
                read = yield from _read_used_key(action, sender, doubt, checked, by_horizon=by_horizon)
                if read is not None:
                    return read
            case AlreadyUsed():
                pass
    if attempt < action.attempt:
        # A new key is only ever used behind the closed door of the one before, and a closed door stays closed, however it was.
        return _Closed(Door.HORIZON)
    return (yield from _wait_for_horizon(action, sender, doubt, checked, attempt, by_horizon=by_horizon))


def _wait_for_horizon(
    action: GatedAction, sender: Sender, doubt: Doubt, checked: Checked, attempt: int, *, by_horizon: bool
) -> Protocol[Step | _Closed]:
    if not by_horizon:
        words = "whether it was carried out can't be looked up, and sending again could do it twice"
        return (yield from record_ambiguity(action, "cannot_look", words, checked.checks))
    now = yield from Now()
    horizon = action.horizon_of(attempt, sender.profile)
    if now < horizon:
        words = "a send may still land until its horizon"
        return (yield from pend(action, sender, doubt, PendingReason.SETTLING, words, horizon))
    if sender.profile.may_roll_forward_unbounded:
        # Today's profile counts, and not the one recorded at the send: a corrected figure is better knowledge.
        seen = yield from _look_or_end(action, sender, doubt, checked)
        if not isinstance(seen, Sight):
            return seen
        words = "the provider may still carry a stored failure to its end, and does not say for how long"
        return (yield from record_ambiguity(action, "may_roll_forward", words, checked.checks))
    return _Closed(Door.HORIZON, now)


def _read_used_key(
    action: GatedAction, sender: Sender, doubt: Doubt, checked: Checked, *, by_horizon: bool
) -> Protocol[Step | None]:
    """The original got there first: look for what it did, or read its stored answer. None: only the horizon can tell."""
    seen = yield from _look(action, sender)
    if isinstance(seen, Found):
        return (yield from record_done(action, seen.evidence, Via.RECOVERY_QUERY, checked.checks))
    if doubt.key is KeyState.STORED_FAILURE:
        return None
    horizon_tells = by_horizon and not sender.profile.may_roll_forward_unbounded
    if action.last_dispatch.purpose is SendPurpose.READ_STORED and horizon_tells:
        # It was read before, and the answer was lost. Each reading moves the horizon, which ends the doubt by itself.
        return None
    announced = yield from announce(action, sender, checked, action.attempt, SendPurpose.READ_STORED)
    if announced is not AppendAnswer.APPENDED:
        return announced
    answer = yield from send(action, sender, fresh_key=False)
    if answer is None:
        return AppendAnswer.ACTION_MOVED
    return (yield from _take_stored_answer(action, sender, doubt, answer))


def _take_stored_answer(action: GatedAction, sender: Sender, doubt: Doubt, answer: SendAnswer) -> Protocol[Step]:
    match answer:
        case Done(evidence):
            return (yield from record_done(action, evidence, Via.RETRY_IDEMPOTENT))
        case Declined(replayed=True):
            return (yield from refuse_declined(action, answer, at_recovery=True))
        case Unknown(_, KeyState.STORED_FAILURE):
            return replace(doubt, key=KeyState.STORED_FAILURE)
        case Unknown(why, KeyState.IN_PROGRESS):
            return (yield from pend(action, sender, doubt, PendingReason.PROVIDER_BUSY, why))
        case _:
            words = "the stored answer could not be read"
            return (yield from pend(action, sender, doubt, PendingReason.SETTLING, words))


def look_again(action: GatedAction, sender: Sender) -> Protocol[Step]:
    """Ask the provider about an action that has ended.

    An Ambiguous one that is found ends as Committed. A Committed one whose record at the provider moved on (a refund that
    failed later) gets the new evidence. Anything else changes nothing: absence proves nothing here.
    """
    seen = yield from _look(action, sender)
    if not isinstance(seen, Found) or seen.evidence.disagreements or _knows(action, seen.evidence):
        return Ended(action)
    return (yield from record_done(action, seen.evidence, Via.RECOVERY_QUERY))


def _knows(action: GatedAction, evidence: Evidence) -> bool:
    ending = action.ending
    if isinstance(ending, GatedAction.Refused):
        return True
    if not isinstance(ending, GatedAction.Committed) or ending.evidence is None:
        return False
    return ending.evidence.state == evidence.state
