"""An action's progress: which event may follow which, and what each has to hold, as a fold over states alone.

A state that was withheld or erased is None, and whatever depends on it is not known from there on, and not held against anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from interlock.domain.effects import fingerprint_of
from interlock.domain.states import (
    AmbiguousState,
    Claim,
    ClaimedState,
    CommittedState,
    DispatchedState,
    Door,
    Doubt,
    ErasedState,
    EventState,
    IntendedState,
    Intent,
    RefusedState,
    SendPurpose,
    Status,
    Via,
)

CLOCKS_MAY_FALL = timedelta(minutes=5)
"""By how much a journal's time may fall between two events without a remark: clocks are set, and gates wake up."""

DECLINED = "declined:"
"""How the code of a refusal begins that is the provider's own definite no."""

LEGAL_IN: dict[Status | None, frozenset[str]] = {
    None: frozenset(("Intended",)),
    Status.INTENDED: frozenset(("Claimed", "Refused")),
    Status.CLAIMED: frozenset(("Claimed", "Dispatched", "Refused")),
    Status.DISPATCHED: frozenset(("Claimed", "Dispatched", "Committed", "Refused", "Ambiguous")),
    Status.AMBIGUOUS: frozenset(("Committed", "Refused")),
    Status.COMMITTED: frozenset(("Committed", "Erased")),
    Status.REFUSED: frozenset(("Erased",)),
}
"""Which events may be written in which status. Committed follows Committed when the provider's record has moved on.

Nothing follows Erased, which leaves the status what it was.
"""

_STATUS_AFTER: dict[type[EventState], Status] = {
    IntendedState: Status.INTENDED,
    DispatchedState: Status.DISPATCHED,
    CommittedState: Status.COMMITTED,
    RefusedState: Status.REFUSED,
    AmbiguousState: Status.AMBIGUOUS,
}


class Rule(StrEnum):
    """Which kind of rule is broken."""

    ORDER = "order"
    """No gate writes this, or not there."""
    APPROVAL = "approval"
    """A send without a live reservation, or a sum above what was approved (I3)."""
    TIME = "time"
    """A time that clocks do not tell. A clock that somebody set does: it is a remark, and no proof."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that is broken, and in words how."""

    rule: Rule
    words: str


def idempotency_key(action_id: UUID, attempt: int) -> str:
    """Return what the provider dedupes on: it tells nothing about the case (ADR 3)."""
    return f"il-{action_id}-{attempt}"


def name_of(kind: type[EventState]) -> str:
    """Return what an event of this kind is called, such as `Dispatched`."""
    return kind.__name__.removesuffix("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where an action stands, as far as its events say.

    Args:
        status: None before its first event.
        intent: what was handed over; None where its state was withheld.
        claim: who has the right to send; None before the first claim, and where its state was withheld.
        term: of that claim, 0 before the first; None where it is not known.
        attempt: the number of the current idempotency key, 0 before the first send; None where it is not known.
        sends: how many sends were announced.
        doubt: what was written down about them; None where it is not known.
        attempt_horizon_at: the latest horizon of the sends under the current key that are known.
        horizon_at: the latest horizon of all sends that are known.
        at: the time of its last event that is known.
        erased: whether its states were given up.
    """

    status: Status | None = None
    intent: Intent | None = None
    claim: Claim | None = None
    term: int | None = 0
    attempt: int | None = 0
    sends: int = 0
    doubt: Doubt | None = field(default_factory=Doubt)
    attempt_horizon_at: datetime | None = None
    horizon_at: datetime | None = None
    at: datetime | None = None
    erased: bool = False


def after(before: Progress, kind: type[EventState], state: EventState | None) -> Progress:
    """Return where the action stands after an event.

    Args:
        before: where it stood.
        kind: the kind of the event.
        state: what the event says; None where that was withheld or erased.
    """
    status = _STATUS_AFTER.get(kind, before.status)
    if kind is ClaimedState and before.status is Status.INTENDED:
        status = Status.CLAIMED
    at = state.timestamp if state is not None else before.at
    progress = replace(before, status=status, at=at, erased=before.erased or kind is ErasedState)
    match state:
        case IntendedState():
            return replace(progress, intent=state.intent)
        case ClaimedState():
            return replace(progress, claim=state.claim, term=state.claim.term, doubt=state.doubt or before.doubt)
        case DispatchedState():
            return _after_dispatch(progress, state)
        case None if kind is ClaimedState:
            return replace(progress, claim=None, term=None, doubt=None)
        case None if kind is DispatchedState:
            return replace(progress, attempt=None, sends=before.sends + 1, doubt=None, attempt_horizon_at=None)
        case _:
            return progress


def _after_dispatch(progress: Progress, state: DispatchedState) -> Progress:
    fresh_key = progress.attempt is None or state.attempt > progress.attempt
    doubt = Doubt() if fresh_key else progress.doubt
    earlier = None if fresh_key else progress.attempt_horizon_at
    return replace(
        progress,
        attempt=state.attempt,
        sends=progress.sends + 1,
        doubt=replace(doubt, nothing_sent=False) if doubt is not None else None,
        attempt_horizon_at=max(earlier or state.horizon_at, state.horizon_at),
        horizon_at=max(progress.horizon_at or state.horizon_at, state.horizon_at),
    )


def breaches(action_id: UUID, before: Progress, kind: type[EventState], state: EventState | None) -> Iterator[Breach]:
    """Say what no gate could have written, of one action's next event.

    Args:
        action_id: the action.
        before: where it stands.
        kind: the kind of the event.
        state: what the event says; None where that was withheld or erased.
    """
    if name_of(kind) not in LEGAL_IN[before.status] or before.erased:
        status = "ERASED" if before.erased else before.status
        yield Breach(Rule.ORDER, f"{name_of(kind)} can't follow in status {status}")
        return  # its further rules are about another status
    if state is None:
        return
    yield from _timed(before, state)
    match state:
        case IntendedState():
            yield from _intended(state)
        case ClaimedState():
            yield from _claimed(before, state)
        case DispatchedState():
            yield from _dispatched(action_id, before, state)
        case CommittedState() | RefusedState() | AmbiguousState() | ErasedState():
            yield from _ended(before, state)
        case _:
            return


def _timed(before: Progress, state: EventState) -> Iterator[Breach]:
    if before.at is not None and state.timestamp < before.at - CLOCKS_MAY_FALL:
        yield Breach(Rule.TIME, f"it says {state.timestamp.isoformat()}, and the event before it {before.at.isoformat()}")


def _intended(state: IntendedState) -> Iterator[Breach]:
    effect = state.intent.effect
    made = fingerprint_of(effect.target, effect.subject, effect.parameters_json, effect.money)
    if effect.fingerprint != made:
        yield Breach(Rule.ORDER, "the fingerprint is not that of its effect (I5)")


def _claimed(before: Progress, state: ClaimedState) -> Iterator[Breach]:
    claim, earlier = state.claim, before.claim
    if before.term is not None and claim.term != before.term + 1:
        yield Breach(Rule.ORDER, f"term {claim.term} does not follow term {before.term}")
    if claim.expires_at <= state.timestamp:
        yield Breach(Rule.ORDER, "its claim had run out when it was taken")
    taken = earlier is not None and claim.holder != earlier.holder
    if taken and earlier is not None and earlier.lock is None and state.timestamp < earlier.expires_at:
        yield Breach(
            Rule.ORDER, "a claim was taken over before its time was up, and no lock could say that its holder is gone (I7)"
        )


def _dispatched(action_id: UUID, before: Progress, state: DispatchedState) -> Iterator[Breach]:
    known, claim = before.attempt, before.claim
    if state.attempt < 1 or (known is not None and state.attempt not in (known, known + 1)):
        yield Breach(Rule.ORDER, f"attempt {state.attempt} does not follow attempt {known}")
    if state.send != before.sends + 1:
        yield Breach(Rule.ORDER, f"send {state.send} does not follow send {before.sends}")
    if state.idempotency_key != idempotency_key(action_id, state.attempt):
        yield Breach(Rule.ORDER, "its idempotency key is not the action's")
    if not state.timestamp <= state.deadline_at <= state.horizon_at:
        yield Breach(Rule.ORDER, "its deadline does not lie between its own time and its horizon")
    if claim is not None and state.deadline_at > claim.expires_at:
        yield Breach(Rule.ORDER, "its deadline lies behind the end of the claim")
    if state.purpose is SendPurpose.EXECUTE:
        yield from _executed(before, state)
    elif known is not None and state.attempt != known:
        yield Breach(Rule.ORDER, "a stored answer can't be read under a key that was never used")


def _executed(before: Progress, state: DispatchedState) -> Iterator[Breach]:
    """Check what a send that may carry the effect out rests on: the approval, and the premises (I3, I4)."""
    reading, intent = state.checks.approval, before.intent
    if not reading.holds:
        yield Breach(Rule.APPROVAL, f"it was sent although the approval was {reading.state}")
    if reading.expires_at is not None and state.timestamp >= reading.expires_at:
        yield Breach(Rule.APPROVAL, "it was sent although the approval had expired")
    if not all(premise.holds for premise in state.checks.premises):
        yield Breach(Rule.ORDER, "it was sent although a premise did not hold")
    if intent is None:
        return
    if reading.ref != intent.approval or reading.held is not (intent.approval.source is None):
        yield Breach(Rule.APPROVAL, "it was sent under another approval than the one that it was intended under")
    if [(one.target, one.subject) for one in state.checks.premises] != [(one.target, one.subject) for one in intent.premises]:
        yield Breach(Rule.ORDER, "it was sent without each of its premises having been read again (I4)")


def _ended(before: Progress, state: CommittedState | RefusedState | AmbiguousState | ErasedState) -> Iterator[Breach]:
    match state:
        case CommittedState():
            yield from _committed(before, state)
        case RefusedState():
            yield from _refused(before, state)
        case AmbiguousState():
            if state.evidence is not None and not state.evidence.disagreements:
                yield Breach(Rule.ORDER, "nobody knows whether it happened, and the provider's answer says that it did")
        case ErasedState():
            if state.remains.status is not before.status:
                yield Breach(Rule.ORDER, f"what is left of it says {state.remains.status}, and it was {before.status}")


def _committed(before: Progress, state: CommittedState) -> Iterator[Breach]:
    if state.via is Via.RESOLUTION:
        if state.by is None:
            yield Breach(Rule.ORDER, "a person decided, and nobody is named")
        if before.status is not Status.AMBIGUOUS:
            yield Breach(Rule.ORDER, f"a person decided, and it was {before.status}, not AMBIGUOUS")
        return
    if state.evidence is None:
        yield Breach(Rule.ORDER, "committed without evidence and without a person")
    elif state.evidence.disagreements:
        yield Breach(Rule.ORDER, "committed although the provider's answer disagrees with the effect")
    elif state.via is Via.FIRST_SEND and state.evidence.replayed:
        yield Breach(Rule.ORDER, "committed by its first send, and the provider answered from memory")


def _refused(before: Progress, state: RefusedState) -> Iterator[Breach]:
    """Check that what made the absence final could (I6)."""
    door = state.door
    if (before.status is Status.AMBIGUOUS) is not (door is Door.PERSON):
        yield Breach(Rule.ORDER, "an ambiguous action is refused by a person, and any other is not")
    if door is Door.PERSON and state.by is None:
        yield Breach(Rule.ORDER, "a person decided, and nobody is named")
    if before.sends == 0 and door is not Door.NOTHING_SENT:
        yield Breach(Rule.ORDER, f"nothing was sent, and it was refused as {door}")
    if before.sends and door is Door.NOTHING_SENT and before.doubt is not None and not before.doubt.nothing_sent:
        yield Breach(Rule.ORDER, "it was refused as never sent, and nothing written down says that its sends did not leave (I6)")
    if door is not Door.PERSON and not _has_a_reason(state):
        yield Breach(Rule.ORDER, f"it was refused as {state.code}, and nothing that was read says so")
    horizon = before.attempt_horizon_at if door is Door.HORIZON else before.horizon_at if door is Door.PERSON else None
    if horizon is not None and state.timestamp < horizon:
        yield Breach(Rule.ORDER, f"it was refused before {horizon.isoformat()}, until when a send could still land (I6)")


def _has_a_reason(state: RefusedState) -> bool:
    """Whether the provider's own no refused it, or something that was read of the approval or the premises."""
    if state.code.startswith(DECLINED):
        return True
    checks = state.checks
    holds = checks is not None and checks.approval.holds and all(premise.holds for premise in checks.premises)
    return state.door is not Door.ANSWERED and checks is not None and not holds
