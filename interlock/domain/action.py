"""GatedAction: the aggregate of one intended action, its events and their order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from eventsourcing.domain import BaseAggregate, CanInitAggregate, CanMutateAggregate, DomainEvent

from interlock.domain.answers import Declined, Evidence, KeyState
from interlock.domain.approvals import ApprovalReading, ApprovalRef
from interlock.domain.clockless import Clockless
from interlock.domain.effects import EffectRecord
from interlock.domain.premises import Premise, PremiseReading
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import ActionMismatch, InvalidKey

MAX_KEY_LENGTH = 200


class Status(StrEnum):
    """Where an action stands; the name of its last event that decides."""

    INTENDED = "INTENDED"
    CLAIMED = "CLAIMED"
    DISPATCHED = "DISPATCHED"
    COMMITTED = "COMMITTED"
    REFUSED = "REFUSED"
    AMBIGUOUS = "AMBIGUOUS"

    @property
    def ended(self) -> bool:
        """Whether nothing more happens by itself."""
        return self in (Status.COMMITTED, Status.REFUSED, Status.AMBIGUOUS)


class Via(StrEnum):
    """How a commit was established."""

    FIRST_SEND = "first-send"
    RETRY_IDEMPOTENT = "retry-idempotent"
    RECOVERY_QUERY = "recovery-query"
    RESOLUTION = "resolution"


class Door(StrEnum):
    """What made an absence final."""

    NOTHING_SENT = "nothing-sent"
    """No request under its last key ever left, and the doors of the keys before are closed."""
    ANSWERED = "answered"
    """The provider's definite no answered the very request that was in doubt."""
    BURNED = "burned"
    """Each idempotency key was used up by a harmless request."""
    HORIZON = "horizon"
    """The last instant at which a send could land is past."""
    PERSON = "person"
    """A person took it on themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to send.

    Args:
        holder: the random id of the gate that holds it.
        term: rises with each takeover (a fencing token).
        host: where the holder runs.
        pid: the holder's process, for a person to read; nothing is concluded from it.
        lock: the handle of the holder's liveness lock; None where it has none.
        expires_at: when it may be taken over whatever the lock says.
    """

    holder: str
    term: int
    host: str
    pid: int
    lock: str | None
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What a sender has learned about an action whose fate is not known.

    It is written down (with a Claimed) before a wait, or the next pass would learn it again with another send, and move the
    horizon each time.

    Args:
        nothing_sent: every send so far under the current key provably left nothing, and all earlier doors are closed.
        key: what the provider said of the current key.
        declined: a definite no to a resend, which is not a no to the action (rule 4).
        sends: how many sends this pass has made; not written down.
    """

    nothing_sent: bool = False
    key: KeyState = KeyState.OPEN
    declined: Declined | None = None
    sends: int = 0

    @property
    def worth_keeping(self) -> bool:
        """Whether it holds anything that the next pass must not learn again by sending."""
        return self.nothing_sent or self.declined is not None or self.key in (KeyState.STORED_FAILURE, KeyState.MISMATCHED)

    def to_keep(self) -> Doubt:
        """Return it without what only this pass counts."""
        return replace(self, sends=0)


class SendPurpose(StrEnum):
    """What a send is for."""

    EXECUTE = "execute"
    READ_STORED = "read_stored"
    """Repeat a request whose key is already used up by it, which can only replay, to read the stored answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What was read of the approval and the premises, and when."""

    approval: ApprovalReading
    premises: tuple[PremiseReading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """All that the caller hands over. The first Intended fixes it (I5).

    Args:
        key: the caller's name for the action.
        effect: what is to be done.
        approval: under whose authority.
        premises: on which facts.
        supersedes: the key of a refused action whose case this one carries on.
        decision_json: how the decision came about, as opaque JSON text.
    """

    key: str
    effect: EffectRecord
    approval: ApprovalRef
    premises: tuple[Premise, ...] = ()
    supersedes: str | None = None
    decision_json: str | None = None

    @property
    def references(self) -> frozenset[str]:
        """The references under which somebody else may have done the same."""
        return frozenset((self.approval.id,))


def require_key(key: str) -> str:
    """Return the key if it can name an action.

    Raises:
        InvalidKey: it is empty, longer than 200 characters, or not printable.
    """
    if type(key) is not str or not key.strip() or len(key) > MAX_KEY_LENGTH or not key.isprintable():
        msg = f"a key is 1 to {MAX_KEY_LENGTH} printable characters; nothing was written or sent"
        raise InvalidKey(msg)
    return key


def idempotency_key(action_id: UUID, attempt: int) -> str:
    """Return what the provider dedupes on: it tells nothing about the case (ADR 3)."""
    return f"il-{action_id}-{attempt}"


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

    class Intended(Event, CanInitAggregate[UUID]):
        """Somebody wants it done. Fixes key, effect, approval and premises (I5)."""

        TOPIC = "interlock.action.intended"
        originator_topic: str
        intent: Intent

    class Claimed(Event):
        """A gate took the right to send."""

        TOPIC = "interlock.action.claimed"
        claim: Claim
        why: str
        doubt: Doubt | None

        def apply(self, aggregate: GatedAction) -> None:
            """Replace the claim; a Dispatched action stays Dispatched."""
            aggregate.claim = self.claim
            aggregate.doubt = self.doubt or aggregate.doubt
            if aggregate.status is Status.INTENDED:
                aggregate.status = Status.CLAIMED

    class Dispatched(Event):
        """A send is about to be made; nothing is sent before this is durable (I1)."""

        TOPIC = "interlock.action.dispatched"
        attempt: int
        send: int
        purpose: SendPurpose
        idempotency_key: str
        checks: Checks
        deadline_at: datetime
        horizon_at: datetime
        roll_forward_known: bool
        profile_digest: str

        def apply(self, aggregate: GatedAction) -> None:
            """Remember the send, for the horizon and for the door of its key."""
            if self.attempt > aggregate.attempt:
                aggregate.doubt = Doubt()
            aggregate.doubt = replace(aggregate.doubt, nothing_sent=False)
            aggregate.status = Status.DISPATCHED
            aggregate.dispatches.append(self)

    class Committed(Event):
        """It happened."""

        TOPIC = "interlock.action.committed"
        via: Via
        evidence: Evidence | None
        checks: Checks | None
        by: str | None
        note: str | None

        def apply(self, aggregate: GatedAction) -> None:
            """End it as done."""
            aggregate.status = Status.COMMITTED
            aggregate.ending = self

    class Refused(Event):
        """It did not happen, and it can't any more."""

        TOPIC = "interlock.action.refused"
        code: str
        words: str
        possible: str
        at_recovery: bool
        door: Door
        checks: Checks | None
        by: str | None
        note: str | None

        def apply(self, aggregate: GatedAction) -> None:
            """End it as not done."""
            aggregate.status = Status.REFUSED
            aggregate.ending = self

    class Ambiguous(Event):
        """Nobody can know whether it happened (I6). A person decides."""

        TOPIC = "interlock.action.ambiguous"
        code: str
        words: str
        evidence: Evidence | None
        checks: Checks | None

        def apply(self, aggregate: GatedAction) -> None:
            """End it as not known; the reservation stays."""
            aggregate.status = Status.AMBIGUOUS
            aggregate.ending = self

    def __init__(self, intent: Intent) -> None:
        """Begin as intended; the argument is Intended's."""
        self.intent = intent
        self.status = Status.INTENDED
        self.claim: Claim | None = None
        self.doubt = Doubt()
        self.history: list[GatedAction.Event] = []
        self.dispatches: list[GatedAction.Dispatched] = []
        self.ending: GatedAction.Committed | GatedAction.Refused | GatedAction.Ambiguous | None = None

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
    def commit_event(self) -> GatedAction.Committed | None:
        """The Committed that ended it; later ones only bring newer evidence."""
        return next((event for event in self.history if isinstance(event, GatedAction.Committed)), None)

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

    def _trigger(self, event: type[CanMutateAggregate[UUID]], at: datetime, **fields: Any) -> None:
        made: Any = event
        happened = made(originator_id=self.id, originator_version=self.version + 1, timestamp=at, **fields)
        happened.mutate(self)
        self.pending_events.append(happened)


LEGAL_IN: dict[Status | None, frozenset[str]] = {
    None: frozenset(("Intended",)),
    Status.INTENDED: frozenset(("Claimed", "Refused")),
    Status.CLAIMED: frozenset(("Claimed", "Dispatched", "Refused")),
    Status.DISPATCHED: frozenset(("Claimed", "Dispatched", "Committed", "Refused", "Ambiguous")),
    Status.AMBIGUOUS: frozenset(("Committed", "Refused")),
    Status.COMMITTED: frozenset(("Committed",)),
    Status.REFUSED: frozenset(),
}
"""Which events may be written in which status. Committed follows Committed when the provider's record has moved on."""
