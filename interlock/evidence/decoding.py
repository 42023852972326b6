"""Stored states, read strictly by type: what the journal's mapper uses, and whoever checks a receipt without a journal.

The one module here that needs `msgspec`. A state's fields are those of its kind (`domain.states`), and a salt.
"""

from __future__ import annotations

import dataclasses
import typing
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from interlock.domain.log_states import LOG_STATES
from interlock.domain.states import STATES_BY_TOPIC, EventState
from interlock.errors import MalformedEvidence
from interlock.evidence.strict_json import read_json

SALT = "_salt"
"""The name of the random text in each state: without it, a digest would give away what it is the digest of."""

KINDS: dict[str, type[EventState]] = {**STATES_BY_TOPIC, **{kind.TOPIC: kind for kind in LOG_STATES}}
"""Which kind of event a topic stands for."""

_BESIDE = ("originator_id", "originator_version")
"""What is stored beside an event's state, in columns of their own."""


_SEQUENCES = (tuple,)


def decode_fields(kind: type, state: bytes) -> dict[str, Any]:
    """Return the fields of a stored state, without its salt.

    Args:
        kind: a state's class, or that of the event which derives from it.
        state: the stored bytes.

    Raises:
        msgspec.MsgspecError: a field is missing, or of another type.
    """
    fields = msgspec.structs.asdict(decoder(kind).decode(_upcast(kind, state)))
    del fields[SALT]
    return fields


def decode_state(topic: str, state: bytes) -> EventState:
    """Return what an event says, from bytes that a stranger gave: first strictly as JSON, and then strictly by type.

    Args:
        topic: the event's topic.
        state: the stored bytes.

    Raises:
        MalformedEvidence: nothing is known of such a topic, or the bytes are not what an event of that topic holds.
    """
    kind = KINDS.get(topic)
    if kind is None:
        raise MalformedEvidence(f"nothing is known here of events of the topic {topic!r}; a newer version may know them")
    read_json(state, "a state")
    try:
        read = kind(**decode_fields(kind, state))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise MalformedEvidence(f"a state is not what an event of the topic {topic!r} holds: {error}") from error
    if _has_time_without_zone(read):
        raise MalformedEvidence("a state holds a time without a zone, which no gate writes")
    return read


def _has_time_without_zone(value: Any) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is None
    if type(value) in _SEQUENCES:
        return any(map(_has_time_without_zone, value))
    if not dataclasses.is_dataclass(value):
        return False
    return any(_has_time_without_zone(getattr(value, field.name)) for field in dataclasses.fields(value))


@cache
def decoder(kind: type) -> msgspec.json.Decoder[Any]:
    """Return what decodes the states of a kind, and refuses a value of another type."""
    hints = typing.get_type_hints(kind)
    stored = [field.name for field in dataclasses.fields(kind) if field.name not in _BESIDE]
    fields = [*((name, hints[name]) for name in stored), (SALT, str)]
    shape = msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=True)
    return msgspec.json.Decoder(shape)


def _upcast(kind: type, state: bytes) -> bytes:
    """Return the state as its class has it now; the stored bytes stay as they were hashed."""
    class_version = getattr(kind, "class_version", 1)
    if class_version == 1:
        return state
    fields: dict[str, Any] = msgspec.json.decode(state)
    for version in range(fields.pop("class_version", 1), class_version):
        getattr(kind, f"upcast_v{version}_v{version + 1}")(fields)
    return msgspec.json.encode(fields)
