"""What a target may answer. Everything that is not a definite yes or a definite no is Unknown."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any


class Storable:
    """A base of records that come from a target: what could not be read back from the journal is not let in.

    A wrong type raises where the record is made, which the port turns into Unknown or CannotTell. What JSON can carry and a
    journal can't, a lone surrogate or a NUL, is replaced.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        """Check every field against its annotation.

        Raises:
            TypeError: a field is of another type.
        """
        kind: Any = type(self)  # mypy takes it for something without a hash
        for name, annotation in _annotations(kind):
            given = getattr(self, name)
            value = _checked(kind, name, annotation, given)
            if value is not given:
                object.__setattr__(self, name, value)


@cache
def _annotations(kind: type) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, str(field.type)) for field in fields(kind))


def _checked(kind: type, name: str, annotation: str, value: Any) -> Any:
    if type(value) not in _TYPES[annotation]:
        raise TypeError(f"{kind.__name__}.{name} must be {annotation}, not {type(value).__name__}")
    if annotation == "tuple[str, ...]":
        return tuple(_checked(kind, name, "str", item) for item in value)
    return storable(value) if type(value) is str else value


def storable(text: str) -> str:
    """Return the text with what a journal can't carry replaced."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class Settlement(StrEnum):
    """Whether what the provider did can still change."""

    FINAL = "final"
    """Done, as far as the provider says."""
    OPEN = "open"
    """Accepted, and not at its end: a refund that is `pending` or `requires_action`."""
    REVERSED = "reversed"
    """Accepted, and later failed or cancelled at the provider: the money did not stay moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Storable):
    """What the provider said about an effect that it carried out.

    Args:
        reference: the provider's id of what was done, such as `re_…`.
        state: the provider's own word for its state.
        settlement: what that word means.
        json: the fields that matter, as an opaque JSON text; it holds no secret and as little personal data as it can.
        replayed: whether the provider answered from memory for a key it had seen before.
        request_id: the provider's id of the request, where it gives one.
        disagreements: in what it differs from the effect that was asked for; empty when it agrees.
    """

    reference: str
    state: str
    settlement: Settlement
    json: str
    replayed: bool = False
    request_id: str | None = None
    disagreements: tuple[str, ...] = ()


class KeyState(StrEnum):
    """What an Unknown answer tells about the idempotency key."""

    OPEN = "open"
    """Nothing: the key may be used again while its window is open."""
    IN_PROGRESS = "in_progress"
    """Another request under this key is still being worked on."""
    STORED_FAILURE = "stored_failure"
    """The provider replays a failure that it stored under this key; sending again can only replay it."""
    MISMATCHED = "mismatched"
    """The key was first used with another request, so this one can never be carried out under it."""


@dataclass(frozen=True, slots=True)
class Done(Storable):
    """The provider carried the effect out, and `evidence` is its own word for it."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Declined(Storable):
    """A parsed, definite no.

    Args:
        code: the provider's code.
        words: its words, without secrets.
        replayed: the no was stored under this key: it answers the key's *first* request, and so every request under it.
    """

    code: str
    words: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class NotSent(Storable):
    """Provably not carried out by this request, now or later: no connection was made, or a rate limiter turned it away."""

    why: str


@dataclass(frozen=True, slots=True)
class Unknown(Storable):
    """Anything else: a time-out, a 5xx, a cut answer, an exception."""

    why: str
    key: KeyState = KeyState.OPEN


@dataclass(frozen=True, slots=True)
class Found(Storable):
    """The lookup found the effect."""

    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Absent(Storable):
    """The lookup read to the last page, on the right account and mode, and the effect was not there at `read_at`."""

    read_at: datetime


@dataclass(frozen=True, slots=True)
class CannotTell(Storable):
    """The lookup or the burn failed, or its answer could not be trusted. It says nothing about the effect (I6)."""

    why: str


@dataclass(frozen=True, slots=True)
class Burned:
    """The key is used up by the harmless request: the original did not execute under it and never can."""


@dataclass(frozen=True, slots=True)
class AlreadyUsed:
    """The original got there first: the key is used up by it."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """A request under the key is being worked on; ask again."""


SendAnswer = Done | Declined | NotSent | Unknown
LookupAnswer = Found | Absent | CannotTell
BurnAnswer = Burned | AlreadyUsed | InProgress | CannotTell

_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "bool": (bool,),
    "tuple[str, ...]": (tuple,),
    "datetime": (datetime,),
    "Settlement": (Settlement,),
    "KeyState": (KeyState,),
    "Evidence": (Evidence,),
}

SEND_ANSWERS = (Done, Declined, NotSent, Unknown)
LOOKUP_ANSWERS = (Found, Absent, CannotTell)
BURN_ANSWERS = (Burned, AlreadyUsed, InProgress, CannotTell)
