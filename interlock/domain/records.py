"""The bytes that are hashed: state digest, record, leaf hash (ADR 2)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from uuid import UUID

_quoted = json.encoder.encode_basestring_ascii

GENESIS = "genesis"
"""The `prev` of an aggregate's first event."""


@dataclass(frozen=True, slots=True)
class Digests:
    """What is stored beside an event: the digest of its state, and the hash of its record."""

    state: bytes
    leaf: bytes


def state_digest(state: bytes) -> bytes:
    """Return the SHA-256 of the stored plaintext bytes."""
    return hashlib.sha256(state).digest()


def record(  # noqa: D417 - the arguments are the fields of the record, as ADR 2 names them
    *, log: str, aggregate_id: UUID, version: int, topic: str, state: bytes, prev: bytes | None
) -> bytes:
    """Return the header that is hashed, in the canonical form of RFC 8785.

    Only ASCII reaches it, so sorted keys and no blanks *are* that form; a property test holds it equal to `rfc8785`.

    Args:
        state: the state's digest.
        prev: the leaf hash of the aggregate's previous event, None for its first.

    Raises:
        ValueError: a topic or log id that is not ASCII.
    """
    if not (log.isascii() and log.isprintable() and topic.isascii() and topic.isprintable()):
        raise ValueError("topic and log id must be printable ASCII")
    previous = GENESIS if prev is None else f"sha256:{prev.hex()}"
    return (
        f'{{"id":"{aggregate_id}","log":{_quoted(log)},"n":{version},"prev":"{previous}","state":"sha256:{state.hex()}",'
        f'"topic":{_quoted(topic)},"v":1}}'
    ).encode()


def leaf_hash(record_bytes: bytes) -> bytes:
    """Return the RFC 6962 leaf hash of a record."""
    return hashlib.sha256(b"\x00" + record_bytes).digest()


def running_hash(previous: bytes | None, leaf: bytes) -> bytes:
    """Return what commits to the order of all leaves up to this one.

    Args:
        previous: the running hash at the position before; None at the first.
        leaf: the leaf hash at this position.
    """
    return hashlib.sha256((previous or bytes(32)) + leaf).digest()


def name_digest(log: str, kind: str, name: str) -> bytes:
    """Return what stands for a key or an approval's id in the table of names (ADR 3)."""
    return hashlib.sha256(f"[{_quoted(log)}, {_quoted(kind)}, {_quoted(name)}]".encode()).digest()
