"""What the log says of itself, as events: the epochs that it had, and the keys that it changed. Plain values, as in `states`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from interlock.domain.states import EventState

LOG_ID = UUID("00000000-0000-8000-8000-000000000106")
"""The id of the one aggregate that stands for the log itself; no action or approval gets it, their ids hold a time."""


@dataclass(frozen=True)
class LogEventState(EventState):
    """The base of what the events of the log hold."""


@dataclass(frozen=True)
class OpenedState(LogEventState):
    """What Opened holds.

    Args:
        originator_topic: of the aggregate.
        identity: who the log is, whatever its epoch, such as `acme.example/interlock/prod`.
    """

    TOPIC = "interlock.log.opened"
    originator_topic: str
    identity: str


@dataclass(frozen=True)
class EpochStartedState(LogEventState):
    """What EpochStarted holds.

    Args:
        epoch: its number, from 1.
        origin: the name under which checkpoints are signed from here on.
        vkey: the verifier key that signs them.
        previous_note: the last checkpoint of the epoch before: the last witnessed one, or the last signed one where none was.
    """

    TOPIC = "interlock.log.epoch_started"
    epoch: int
    origin: str
    vkey: str
    previous_note: str | None


@dataclass(frozen=True)
class KeyRotatedState(LogEventState):
    """What KeyRotated holds.

    Args:
        role: `log` or `attestor`.
        old: the public key that is replaced, as text.
        new: the public key that takes its place.
        old_signature: by the old key over `rotation_text`, in base64.
        new_signature: by the new key over the same.
    """

    TOPIC = "interlock.log.key_rotated"
    role: str
    old: str
    new: str
    old_signature: str
    new_signature: str


LOG_STATES: tuple[type[LogEventState], ...] = (OpenedState, EpochStartedState, KeyRotatedState)


def rotation_text(log_id: str, role: str, old: str, new: str) -> str:
    """Return what both keys sign when one takes the place of the other.

    Args:
        log_id: the journal's id, so that it counts for no other.
        role: `log` or `attestor`.
        old: the public key that is replaced, as text.
        new: the one that takes its place.
    """
    return f"interlock key rotation v1\n{log_id}\n{role}\n{old}\n{new}\n"
