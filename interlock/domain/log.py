"""JournalLog: the aggregate that stands for the log itself. Its events are leaves like all others."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from eventsourcing.domain import BaseAggregate, CanInitAggregate, CanMutateAggregate, DomainEvent

from interlock.domain.clockless import Clockless
from interlock.domain.log_states import LOG_ID, EpochStartedState, KeyRotatedState, OpenedState

LOG_ROLE, ATTESTOR_ROLE = "log", "attestor"


class JournalLog(BaseAggregate[UUID]):
    """The log: who it is, in which epoch, and which keys sign for it.

    Attributes:
        identity: who it is, whatever the epoch.
        epoch: the epoch's number, from 1; 0 until one was started.
        origin: the name under which its checkpoints are signed now.
        vkeys: the verifier keys whose signatures count in this epoch, oldest first; those that were replaced included, because
            both sign for a while.
        previous_note: the checkpoint of the epoch before, which this one cites.
        rotations: the keys that took the place of others, oldest first.
    """

    TOPIC = "interlock.log"

    class Event(Clockless, CanMutateAggregate[UUID], DomainEvent):
        """The base of the log's events."""

    class Opened(OpenedState, Event, CanInitAggregate[UUID]):
        """Somebody began to sign the journal."""

    class EpochStarted(EpochStartedState, Event):
        """Checkpoints are signed under a new name from here on: at the beginning, and after a restore from a backup."""

        def apply(self, aggregate: JournalLog) -> None:
            """Begin with the one key that it names."""
            aggregate.epoch, aggregate.origin = self.epoch, self.origin
            aggregate.vkeys = (self.vkey,)
            aggregate.previous_note = self.previous_note

    class KeyRotated(KeyRotatedState, Event):
        """A key takes the place of another one; both say so."""

        def apply(self, aggregate: JournalLog) -> None:
            """Let the new key count beside the old one, which signs for a while yet."""
            aggregate.rotations = (*aggregate.rotations, self)
            if self.role == LOG_ROLE:
                aggregate.vkeys = (*aggregate.vkeys, self.new)

    def __init__(self, identity: str, timestamp: datetime) -> None:
        """Begin without an epoch; the arguments are Opened's."""
        del timestamp
        self.identity = identity
        self.epoch, self.origin = 0, ""
        self.vkeys: tuple[str, ...] = ()
        self.previous_note: str | None = None
        self.rotations: tuple[KeyRotatedState, ...] = ()

    @classmethod
    def open(cls, identity: str, at: datetime) -> JournalLog:
        """Return a log with its Opened event pending."""
        return cls._create(cls.Opened, id=LOG_ID, timestamp=at, identity=identity)

    def start_epoch(self, epoch: int, origin: str, vkey: str, previous_note: str | None, at: datetime) -> None:
        """Begin an epoch.

        Args:
            epoch: its number, above all that there were.
            origin: the name under which it is signed.
            vkey: the key that signs it.
            previous_note: the last checkpoint of the one before.
            at: now.

        Raises:
            ValueError: there was such an epoch already.
        """
        if epoch <= self.epoch:
            msg = f"epoch {epoch} does not come after epoch {self.epoch}"
            raise ValueError(msg)
        self._trigger(self.EpochStarted, at, epoch=epoch, origin=origin, vkey=vkey, previous_note=previous_note)

    def rotate_key(self, role: str, keys: tuple[str, str], signatures: tuple[str, str], at: datetime) -> None:
        """Record that one key takes the place of another.

        Args:
            role: `log` or `attestor`.
            keys: the public key that is replaced, and the new one.
            signatures: by each of them over `rotation_text`, in base64.
            at: now.
        """
        old, new = keys
        old_signature, new_signature = signatures
        fields = {"role": role, "old": old, "new": new, "old_signature": old_signature, "new_signature": new_signature}
        self._trigger(self.KeyRotated, at, **fields)

    def _trigger(self, event: type[CanMutateAggregate[UUID]], at: datetime, **fields: Any) -> None:
        made: Any = event
        happened = made(originator_id=self.id, originator_version=self.version + 1, timestamp=at, **fields)
        happened.mutate(self)
        self.pending_events.append(happened)
