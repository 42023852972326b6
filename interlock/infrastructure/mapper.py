"""The mapper: domain events to bytes and back, strictly by type (ADR 2)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import JSONTranscoder, Mapper, StoredEvent
from eventsourcing.utils import TopicError, get_topic, resolve_topic

from interlock.errors import EventNotStorable, JournalCorrupt
from interlock.evidence.decoding import SALT, decode_fields, decoder

_SALT_LENGTH = 32
"""Of the text: 128 bits (ADR 2)."""


class EventMapper(Mapper[UUID]):
    """Stores an event's fields as JSON with a salt of its own; no compressor and no cipher, whatever the environment says."""

    def __init__(self) -> None:
        """Give the base what it wants; its transcoder is never used."""
        super().__init__(JSONTranscoder())

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        """Return the event as it is stored; see `to_stored_events`."""
        return self.to_stored_events([domain_event])[0]

    def to_stored_events(self, domain_events: Sequence[DomainEventProtocol[UUID]]) -> list[StoredEvent]:
        """Return events as they are stored, after reading them back: one that can't be read would stop its action for ever.

        Raises:
            EventNotStorable: one holds a value of a wrong type, or text that is not Unicode.
        """
        # The kernel is asked once for all salts: each time, whoever waits for the interpreter's lock gets it.
        salts = secrets.token_hex(len(domain_events) * _SALT_LENGTH // 2)
        return [_stored(event, salts[at * _SALT_LENGTH :][:_SALT_LENGTH]) for at, event in enumerate(domain_events)]

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[UUID]:
        """Return the event again.

        Raises:
            JournalCorrupt: the topic is unknown, or the state is not what an event of that topic holds.
        """
        try:
            event_class = resolve_topic(stored_event.topic)
            fields = decode_fields(event_class, stored_event.state)
            event: DomainEventProtocol[UUID] = event_class.__new__(event_class)
            vars(event).update(
                fields, originator_id=stored_event.originator_id, originator_version=stored_event.originator_version
            )
        except (TopicError, msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise JournalCorrupt(
                f"event {stored_event.originator_version} of {stored_event.originator_id} ({stored_event.topic}) can't be read: "
                f"{type(error).__name__}; nothing was sent, run `interlock verify`"
            ) from error
        return event


def _stored(event: DomainEventProtocol[UUID], salt: str) -> StoredEvent:
    kind = type(event)
    state: dict[str, Any] = dict(vars(event))
    originator_id, version = state.pop("originator_id"), state.pop("originator_version")
    class_version = getattr(kind, "class_version", 1)
    if class_version > 1:
        state["class_version"] = class_version
    state[SALT] = salt
    try:
        encoded = msgspec.json.encode(state)
        decoder(kind).decode(encoded)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise EventNotStorable(
            f"a {kind.__name__} holds a value that could not be read back: {error}; it was not written"
        ) from error
    return StoredEvent(originator_id, version, get_topic(kind), encoded)
