"""GatedAction: the aggregate of one intended action, its events and their order."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from eventsourcing.domain import BaseAggregate, CanMutateAggregate, DomainEvent

from interlock.domain.answers import Evidence
from interlock.domain.clockless import Clockless, FirstEvent
from interlock.domain.legality import LEGAL_IN, idempotency_key
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.states import (
    AmbiguousState,
    Checks,
    Claim,
    ClaimedState,
    CommittedState,
    DispatchedState,
    Door,
    Doubt,
    ErasedState,
    IntendedState,
    Intent,
    RefusedState,
    Remains,
    SendPurpose,
    Status,
    Via,
)
from interlock.errors import ActionMismatch, InvalidKey

__all__ = [
    "LEGAL_IN",
    "MAX_KEY_LENGTH",
    "Checks",
    "Claim",
    "Door",
    "Doubt",
    "GatedAction",
    "Intent",
    "Remains",
    "SendPurpose",
    "Status",
    "Via",
    "idempotency_key",
    "require_key",
]

MAX_KEY_LENGTH = 200


def require_key(key: str) -> str:
    """Return the key if it can name an action.

    Raises:
        InvalidKey: it is empty, longer than 200 characters, or not printable.
    """
    if type(key) is not str or not key.strip() or len(key) > MAX_KEY_LENGTH or not key.isprintable():
        msg = f"a key is 1 to {MAX_KEY_LENGTH} printable characters; nothing was written or sent"
        raise InvalidKey(msg)
    return key


class GatedAction(BaseAggregate[UUID]):
    """One action that happens at most once."""

    TOPIC = "interlock.action"

    class Event(Clockless, CanMutateAggregate[UUID], DomainEvent):
        """The base of the events of an action."""

        def mutate(self, aggregate: Any) -> Any:
            """Apply the event, and keep it: a receipt is derived from all of them."""
            mutated: Any = super().mutate(aggregate)
            mutated.history.append(self)
            return mutated

    class Intended(IntendedState, Event, FirstEvent):
        """Somebody wants it done. Fixes key, effect, approval and premises (I5)."""

        def made_with(self) -> tuple[Intent]:
            """Return the intent."""
            return (self.intent,)

    class Claimed(ClaimedState, Event):
        """A gate took the right to send."""

        def apply(self, aggregate: GatedAction) -> None:
            """Replace the claim; a Dispatched action stays Dispatched."""
            aggregate.claim = self.claim
            aggregate.doubt = self.doubt or aggregate.doubt
            if aggregate.status is Status.INTENDED:
                aggregate.status = Status.CLAIMED

    class Dispatched(DispatchedState, Event):
        """A send is about to be made; nothing is sent before this is durable (I1)."""

        def apply(self, aggregate: GatedAction) -> None:
            """Remember the send, for the horizon and for the door of its key."""
            if self.attempt > aggregate.attempt:
                aggregate.doubt = Doubt()
            elif aggregate.doubt.nothing_sent:
                aggregate.doubt = replace(aggregate.doubt, nothing_sent=False)
            aggregate.status = Status.DISPATCHED
            aggregate.dispatches.append(self)

    class Committed(CommittedState, Event):
        """It happened."""

        def apply(self, aggregate: GatedAction) -> None:
            """End it as done."""
            aggregate.status = Status.COMMITTED
            aggregate.ending = self
            aggregate.commit_event = aggregate.commit_event or self

    class Refused(RefusedState, Event):
        """It did not happen, and it can't any more."""

        def apply(self, aggregate: GatedAction) -> None:
            """End it as not done."""
            aggregate.status = Status.REFUSED
            aggregate.ending = self

    class Ambiguous(AmbiguousState, Event):
        """Nobody can know whether it happened (I6). A person decides."""

        def apply(self, aggregate: GatedAction) -> None:
            """End it as not known; the reservation stays."""
            aggregate.status = Status.AMBIGUOUS
            aggregate.ending = self

    class Erased(ErasedState, Event):
        """What its other events say is given up; what became of it is not."""

        def apply(self, aggregate: GatedAction) -> None:
            """Note it; the status stays what it was."""
            aggregate.erased = self

    def __init__(self, intent: Intent) -> None:
        """Begin as intended; the argument is Intended's."""
        self.intent = intent
        self.status = Status.INTENDED
        self.claim: Claim | None = None
        self.doubt = Doubt()
        self.history: list[GatedAction.Event] = []
        self.dispatches: list[GatedAction.Dispatched] = []
        self.ending: GatedAction.Committed | GatedAction.Refused | GatedAction.Ambiguous | None = None
        self.commit_event: GatedAction.Committed | None = None
        """The Committed that ended it; later ones only bring newer evidence."""
        self.erased: GatedAction.Erased | None = None

    @classmethod
    def intend(cls, action_id: UUID, intent: Intent, at: datetime) -> GatedAction:
        """Return a new action with its Intended event pending."""
        return cls._create(cls.Intended, id=action_id, timestamp=at, intent=intent)

    @property
    def key(self) -> str:
        """The caller's name for it."""
        return self.intent.key

    @property
    def ended(self) -> bool:
        """Whether it has a recorded outcome."""
        return self.status.ended

    @property
    def is_draft(self) -> bool:
        """Whether nothing of it is durable yet."""
        return bool(self.pending_events) and self.pending_events[0].originator_version == self.INITIAL_VERSION

    @property
    def last_dispatch(self) -> GatedAction.Dispatched:
        """The latest send that was announced."""
        return self.dispatches[-1]

    @property
    def attempt(self) -> int:
        """The number of the current idempotency key; 0 before the first send."""
        return self.dispatches[-1].attempt if self.dispatches else 0

    @property
    def horizon_at(self) -> datetime:
        """The latest horizon of all its sends."""
        return max(dispatch.horizon_at for dispatch in self.dispatches)

    @property
    def absence_can_be_final(self) -> bool:
        """Whether, past the horizon, nothing can land any more; False where a stored failure may roll forward at any time."""
        return all(dispatch.roll_forward_known for dispatch in self.dispatches)

    def horizon_of(self, attempt: int, profile: CapabilityProfile) -> datetime:
        """Return the latest horizon of the sends under that attempt's key, as recorded or as the profile has it now."""
        sends = [dispatch for dispatch in self.dispatches if dispatch.attempt == attempt]
        return max(max(dispatch.horizon_at, profile.horizon(dispatch.deadline_at)) for dispatch in sends)

    def first_dispatch_of(self, attempt: int) -> GatedAction.Dispatched:
        """Return the first send under that attempt's key: its window is counted from there."""
        return next(dispatch for dispatch in self.dispatches if dispatch.attempt == attempt)

    def require_same_effect(self, intent: Intent) -> None:
        """Raise if the key is used for something else (I5).

        Raises:
            ActionMismatch: the fingerprints differ.
        """
        if intent.effect.fingerprint != self.intent.effect.fingerprint:
            raise ActionMismatch(self.key, self.intent.effect.fingerprint, intent.effect.fingerprint)

    def take_claim(self, claim: Claim, why: str, at: datetime, doubt: Doubt | None = None) -> None:
        """Record who has the right to send, and what is known by then."""
        self._trigger(self.Claimed, at, claim=claim, why=why, doubt=doubt)

    def dispatch(self, attempt: int, purpose: SendPurpose, checks: Checks, profile: CapabilityProfile, at: datetime) -> None:
        """Announce a send: under the same key, or under a new one behind a closed door (I2)."""
        deadline_at = at + timedelta(seconds=profile.send_deadline_s)
        self._trigger(
            self.Dispatched,
            at,
            attempt=attempt,
            send=len(self.dispatches) + 1,
            purpose=purpose,
            idempotency_key=idempotency_key(self.id, attempt),
            checks=checks,
            deadline_at=deadline_at,
            horizon_at=profile.horizon(deadline_at),
            roll_forward_known=not profile.may_roll_forward_unbounded,
            profile_digest=profile.digest(),
        )

    def commit(
        self,
        via: Via,
        evidence: Evidence | None,
        at: datetime,
        *,
        checks: Checks | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """End it as done."""
        self._trigger(self.Committed, at, via=via, evidence=evidence, checks=checks, by=by, note=note)

    def refuse(
        self,
        code: str,
        words: str,
        at: datetime,
        *,
        door: Door,
        at_recovery: bool,
        possible: str = "",
        checks: Checks | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """End it as not done."""
        self._trigger(
            self.Refused,
            at,
            code=code,
            words=words,
            possible=possible,
            at_recovery=at_recovery,
            door=door,
            checks=checks,
            by=by,
            note=note,
        )

    def leave_ambiguous(
        self, code: str, words: str, at: datetime, *, evidence: Evidence | None = None, checks: Checks | None = None
    ) -> None:
        """End it as not known."""
        self._trigger(self.Ambiguous, at, code=code, words=words, evidence=evidence, checks=checks)

    def erase(self, reason: str, by: str, at: datetime) -> None:
        """Give up what its events say. Nothing is forgotten before this is durable."""
        ending = self.ending
        evidence = ending.evidence if isinstance(ending, GatedAction.Committed) else None
        remains = Remains(
            status=self.status,
            via=self.commit_event.via if self.commit_event is not None else None,
            code=ending.code if isinstance(ending, GatedAction.Refused) else None,
            settlement=evidence.settlement if evidence is not None else None,
            target=self.intent.effect.target,
            intended_at=self.created_on,
        )
        self._trigger(self.Erased, at, reason=reason, by=by, remains=remains)

    def _trigger(self, event: type[CanMutateAggregate[UUID]], at: datetime, **fields: Any) -> None:
        made: Any = event
        happened = made(originator_id=self.id, originator_version=self.version + 1, timestamp=at, **fields)
        happened.mutate(self)
        self.pending_events.append(happened)
