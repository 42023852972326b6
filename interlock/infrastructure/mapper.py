"""The mapper: domain events to bytes and back, strictly by type (ADR 2)."""

from __future__ import annotations

import secrets
from typing import Any
from uuid import UUID

import msgspec
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import JSONTranscoder, Mapper, StoredEvent
from eventsourcing.utils import TopicError, get_topic, resolve_topic

from interlock.errors import EventNotStorable, JournalCorrupt
from interlock.evidence.decoding import SALT, decode_fields, decoder


class EventMapper(Mapper[UUID]):
    """Stores an event's fields as JSON with a salt of its own; no compressor and no cipher, whatever the environment says."""

    def __init__(self) -> None:
        """Give the base what it wants; its transcoder is never used."""
        super().__init__(JSONTranscoder())

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        """Return the event as it is stored, after reading it back: one that could not be read would stop its action for ever.

        Raises:
            EventNotStorable: it holds a value of a wrong type, or text that is not Unicode.
        """
        state: dict[str, Any] = dict(vars(domain_event))
        originator_id, version = state.pop("originator_id"), state.pop("originator_version")
        class_version = getattr(type(domain_event), "class_version", 1)
        if class_version > 1:
            state["class_version"] = class_version
        state[SALT] = secrets.token_hex(16)
        try:
            encoded = msgspec.json.encode(state)
            decoder(type(domain_event)).decode(encoded)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise EventNotStorable(
                f"a {type(domain_event).__name__} holds a value that could not be read back: {error}; it was not written"
            ) from error
        return StoredEvent(originator_id, version, get_topic(type(domain_event)), encoded)

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
