"""What events say, as plain values: the words of the domain, and for each kind of event what it holds.

The aggregates' events derive from these states and add what eventsourcing needs; whoever only checks evidence reads the states
alone, and needs no eventsourcing. Their fields, with their names and their order, are what is stored and hashed (ADR 2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from interlock.domain.answers import Declined, Evidence, KeyState, Settlement
from interlock.domain.effects import EffectRecord
from interlock.domain.premises import Premise, PremiseReading


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
        return self in _ENDINGS


_ENDINGS = (Status.COMMITTED, Status.REFUSED, Status.AMBIGUOUS)


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


class ApprovalState(StrEnum):
    """Whether an approval lets an action go on."""

    LIVE = "live"
    REVOKED = "revoked"
    EXPIRED = "expired"
    USED_UP = "used_up"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    """Its source could not be read. That is not a no, and not a yes."""


@dataclass(frozen=True, slots=True)
class ApprovalRef:
    """Where an approval is: in the journal (`source` None), or in a source registered under that name."""

    id: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalReading:
    """What was read of an approval, as events and receipts keep it.

    `held` says whether the journal holds it, so that its reservation stands in the same transaction as the send's Dispatched;
    `version` is the version that such a transaction asserts. `misfit` says why its terms can never cover the effect.
    """

    ref: ApprovalRef
    state: ApprovalState
    held: bool
    read_at: datetime
    cap_minor: int | None = None
    currency: str | None = None
    remaining_minor: int | None = None
    by: str | None = None
    expires_at: datetime | None = None
    version: int | None = None
    misfit: str | None = None

    @property
    def holds(self) -> bool:
        """Whether an action may go on under it."""
        return self.state is ApprovalState.LIVE and self.misfit is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """The terms under which an approval is granted. Granting the same id again must use the same terms."""

    cap_minor: int | None
    currency: str | None
    by: str
    expires_in_s: int
    fingerprint: str | None
    uses: int


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


@dataclass(frozen=True)
class EventState:
    """What every event holds beside its place: when it happened, by the journal's clock."""

    TOPIC: ClassVar[str]
    timestamp: datetime


@dataclass(frozen=True)
class ActionState(EventState):
    """The base of what the events of an action hold."""


@dataclass(frozen=True)
class IntendedState(ActionState):
    """What Intended holds."""

    TOPIC = "interlock.action.intended"
    originator_topic: str
    intent: Intent


@dataclass(frozen=True)
class ClaimedState(ActionState):
    """What Claimed holds."""

    TOPIC = "interlock.action.claimed"
    claim: Claim
    why: str
    doubt: Doubt | None


@dataclass(frozen=True)
class DispatchedState(ActionState):
    """What Dispatched holds."""

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


@dataclass(frozen=True)
class CommittedState(ActionState):
    """What Committed holds."""

    TOPIC = "interlock.action.committed"
    via: Via
    evidence: Evidence | None
    checks: Checks | None
    by: str | None
    note: str | None


@dataclass(frozen=True)
class RefusedState(ActionState):
    """What Refused holds."""

    TOPIC = "interlock.action.refused"
    code: str
    words: str
    possible: str
    at_recovery: bool
    door: Door
    checks: Checks | None
    by: str | None
    note: str | None


@dataclass(frozen=True)
class AmbiguousState(ActionState):
    """What Ambiguous holds."""

    TOPIC = "interlock.action.ambiguous"
    code: str
    words: str
    evidence: Evidence | None
    checks: Checks | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What is still said of an action after its erasure: nothing of whom or what it was about.

    Args:
        status: how it ended.
        via: how a commit was established.
        code: why it was refused.
        settlement: whether what the provider did can still change; None where it said nothing, or nothing was done.
        target: the target's name.
        intended_at: the time of its first event.
    """

    status: Status
    via: Via | None
    code: str | None
    settlement: Settlement | None
    target: str
    intended_at: datetime


@dataclass(frozen=True)
class ErasedState(ActionState):
    """What Erased holds. It is written before anything is forgotten, and stays for ever."""

    TOPIC = "interlock.action.erased"
    reason: str
    by: str
    remains: Remains


@dataclass(frozen=True)
class ApprovalEventState(EventState):
    """The base of what the events of an approval hold."""


@dataclass(frozen=True)
class GrantedState(ApprovalEventState):
    """What Granted holds."""

    TOPIC = "interlock.approval.granted"
    originator_topic: str
    approval_id: str
    terms: ApprovalTerms


@dataclass(frozen=True)
class ReservedState(ApprovalEventState):
    """What Reserved holds."""

    TOPIC = "interlock.approval.reserved"
    action_id: str
    amount_minor: int


@dataclass(frozen=True)
class SpentState(ApprovalEventState):
    """What Spent holds."""

    TOPIC = "interlock.approval.spent"
    action_id: str
    amount_minor: int


@dataclass(frozen=True)
class ReleasedState(ApprovalEventState):
    """What Released holds."""

    TOPIC = "interlock.approval.released"
    action_id: str


@dataclass(frozen=True)
class RevokedState(ApprovalEventState):
    """What Revoked holds."""

    TOPIC = "interlock.approval.revoked"
    by: str
    note: str


@dataclass(frozen=True)
class ErasedApprovalState(ApprovalEventState):
    """What an approval's Erased holds."""

    TOPIC = "interlock.approval.erased"
    reason: str
    by: str


ACTION_STATES: tuple[type[ActionState], ...] = (
    IntendedState,
    ClaimedState,
    DispatchedState,
    CommittedState,
    RefusedState,
    AmbiguousState,
    ErasedState,
)
APPROVAL_STATES: tuple[type[ApprovalEventState], ...] = (
    GrantedState,
    ReservedState,
    SpentState,
    ReleasedState,
    RevokedState,
    ErasedApprovalState,
)
STATES_BY_TOPIC: dict[str, type[EventState]] = {kind.TOPIC: kind for kind in (*ACTION_STATES, *APPROVAL_STATES)}
"""Which state a topic stands for."""
