"""What the protocol asks of the outside. It yields a request, and the driver answers it.

`answer = yield from ReadApproval(…)` is fully typed, because a request iterates as a generator that yields itself.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar
from uuid import UUID

from interlock.domain.action import Claim, GatedAction, Intent
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.approvals import Approval, ApprovalReading
from interlock.domain.effects import EffectRecord
from interlock.domain.premises import PremiseReading

T = TypeVar("T")
R = TypeVar("R")
Protocol = Generator["Request[Any]", Any, R]


class Request(Generic[T]):
    """One thing that the outside has to do; `T` is the type of its answer."""

    def __iter__(self) -> Generator[Request[T], T, T]:
        """Yield itself, and return what the driver sends back."""
        return (yield self)


@dataclass(frozen=True, slots=True)
class Now(Request[datetime]):
    """The journal's time, in UTC."""


@dataclass(frozen=True, slots=True)
class NewActionId(Request[UUID]):
    """A random id, ordered by time (ADR 3)."""


@dataclass(frozen=True, slots=True)
class FindAction(Request[GatedAction | None]):
    """The action that has this key, as the journal has it now.

    Args:
        key: the caller's name for it.
        approval_id: the approval that is asked for next if there is no such action, so that both can be read at once. What was
            read early and has changed since is caught by its version, in the transaction of the first send (I3).
    """

    key: str
    approval_id: str | None = None


@dataclass(frozen=True, slots=True)
class LoadAction(Request[GatedAction]):
    """The action with this id, as the journal has it now."""

    action_id: UUID


@dataclass(frozen=True, slots=True)
class LoadApproval(Request[Approval | None]):
    """The approval with this id, as the journal has it now."""

    approval_id: str


@dataclass(frozen=True, slots=True)
class ReadExternalApproval(Request[ApprovalReading]):
    """How an approval that lives elsewhere stands now. A source that can't be read answers with an unreadable reading."""

    intent: Intent


@dataclass(frozen=True, slots=True)
class ReadPremises(Request[tuple[PremiseReading, ...]]):
    """The action's premises, read again now (I4)."""

    action_id: UUID
    intent: Intent


class AppendAnswer(StrEnum):
    """What became of an append."""

    APPENDED = "appended"
    """It is durable: acknowledged, or read back (I8)."""
    ACTION_MOVED = "action_moved"
    """Somebody else wrote to the action, or took its key. Nothing was written."""
    APPROVAL_MOVED = "approval_moved"
    """Somebody else wrote to the approval. Nothing was written."""


@dataclass(frozen=True, slots=True)
class Append(Request[AppendAnswer]):
    """Write these events in one transaction, or none of them.

    Args:
        action: the action; its pending events are written.
        approval: the approval; its pending events are written in the same transaction, and without any, the transaction
            still fails unless the version that was loaded is its latest (I3).
    """

    action: GatedAction
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class StillAt(Request[bool]):
    """Whether the action's version is still this one: asked right before a socket write, for a holder that woke up late."""

    action_id: UUID
    version: int


@dataclass(frozen=True, slots=True)
class Anchor(Request[str | None]):
    """Wait until this event stands under a checkpoint of the log that counts. Answers None, or why it does not yet, in words."""

    action_id: UUID
    version: int


class Liveness(StrEnum):
    """What is known of a claim's holder."""

    IDLE = "idle"
    """It is this gate itself, and no thread of it is at work on the action."""
    ALIVE = "alive"
    GONE = "gone"
    """The operating system dropped its lock."""
    UNKNOWN = "unknown"
    """It has no lock that can be asked from here; its time to live decides."""


@dataclass(frozen=True, slots=True)
class ProbeHolder(Request[Liveness]):
    """Whether the holder of a claim is gone. Without a claim it is anybody's, unless another thread of this gate is at it."""

    action_id: UUID
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Send(Request[SendAnswer]):
    """Carry the effect out, under this key, until this deadline."""

    action_id: UUID
    effect: EffectRecord
    idempotency_key: str
    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class LookUp(Request[LookupAnswer]):
    """Look for the effect at the provider, by the action's mark."""

    action_id: UUID
    effect: EffectRecord


@dataclass(frozen=True, slots=True)
class Burn(Request[BurnAnswer]):
    """Use this key up with a harmless request."""

    action_id: UUID
    effect: EffectRecord
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class SleepUntil(Request[None]):
    """Wait."""

    at: datetime
