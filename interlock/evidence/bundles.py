"""Receipt bundles, `*.interlock.json`: one file with all that it takes to check a receipt on another machine.

    {"format": "interlock-receipt/1",
     "envelope": a DSSE envelope around an in-toto statement, whose subject is the chain of records,
     "records": [each event's record, as it was hashed; the action's events in their order, and then the approval's],
     "states": [what each of them says, as it was stored; null where it is withheld or erased],
     "proofs": [a tlog-proof for each; null while no checkpoint covers it],
     "checkpoints": [older and younger signed checkpoints, which bound the time of events]}

Nothing of it is trusted: see `verifying`. Fields that are not known are refused, since this format is our own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from interlock.errors import MalformedEvidence
from interlock.evidence.dsse import Envelope, pae
from interlock.evidence.strict_json import Limits, Reader, read_object, write_json

FORMAT = "interlock-receipt/1"
PREDICATE_TYPE = "urn:interlock-gate:receipt:1"
CHAIN_NAME = "chain.jsonl"
"""The name of the statement's subject: the records, each with a newline behind it."""

MAX_RECORDS = 1000
MAX_CHECKPOINTS = 8
LIMITS = Limits(max_bytes=8 << 20, max_depth=8, max_values=16 * MAX_RECORDS)
"""A bundle of a case with five events has about ten kilobytes."""

_FIELDS = {"format", "envelope", "records", "states", "proofs", "checkpoints"}


def chain_of(records: tuple[str, ...]) -> bytes:
    """Return the bytes that the statement is about."""
    return "".join(f"{one}\n" for one in records).encode()


def digest_of(records: tuple[str, ...]) -> str:
    """Return the SHA-256 of those bytes, in hexadecimal."""
    return hashlib.sha256(chain_of(records)).hexdigest()


@dataclass(frozen=True, slots=True)
class AsOf:
    """What a receipt says that it is complete for.

    Args:
        origin: the log's name.
        size: of the log's tree, in leaves.
        root: of that tree, in base64.
        last_n: which of the action's events was the last within it; 0 where none was.
    """

    origin: str
    size: int
    root: str
    last_n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the attestor signs, in the statement's predicate: no key, no subject and no personal data.

    Args:
        log: the journal's id.
        action: the action's id.
        events: how many events of the action the bundle has.
        approval: the id of the approval's events in the journal; None where they are not in the bundle.
        approval_events: how many of them there are.
        status: COMMITTED, REFUSED, AMBIGUOUS or IN_FLIGHT.
        happened: yes, no or unknown; None where the state that would tell was erased.
        via: how a commit was established.
        door: what made an absence final.
        as_of: for which state of the log this is said; None while no checkpoint covers any of it.
    """

    log: str
    action: str
    events: int
    approval: str | None
    approval_events: int
    status: str
    happened: str | None
    via: str | None
    door: str | None
    as_of: AsOf | None

    def to_fields(self) -> dict[str, Any]:
        """Return it as JSON values."""
        as_of = self.as_of
        return {
            "log": self.log,
            "action": self.action,
            "events": self.events,
            "approval": self.approval,
            "approval_events": self.approval_events,
            "status": self.status,
            "happened": self.happened,
            "via": self.via,
            "door": self.door,
            "as_of": None
            if as_of is None
            else {"origin": as_of.origin, "size": as_of.size, "root": as_of.root, "last_n": as_of.last_n},
        }

    @classmethod
    def from_fields(cls, fields: Reader) -> Claim:
        """Read it from a statement's predicate.

        Raises:
            MalformedEvidence: it is none.
        """
        as_of = fields.object_or_none("as_of")
        return cls(
            log=fields.text("log"),
            action=fields.text("action"),
            events=fields.number("events"),
            approval=fields.text_or_none("approval"),
            approval_events=fields.number("approval_events"),
            status=fields.text("status"),
            happened=fields.text_or_none("happened"),
            via=fields.text_or_none("via"),
            door=fields.text_or_none("door"),
            as_of=None
            if as_of is None
            else AsOf(as_of.text("origin"), as_of.number("size"), as_of.text("root"), as_of.number("last_n")),
        )


@dataclass(frozen=True, slots=True)
class Bundle:
    """A receipt as it is handed over.

    Args:
        envelope: the signed statement.
        records: each event's record.
        states: what each event says; None where that is withheld or erased.
        proofs: a tlog-proof for each event; None while no checkpoint covers it.
        checkpoints: further signed checkpoints of the same log.

    Raises:
        MalformedEvidence: not one state and one proof for each record, or more than are read.
    """

    envelope: Envelope
    records: tuple[str, ...]
    states: tuple[str | None, ...]
    proofs: tuple[str | None, ...]
    checkpoints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.records) == len(self.states) == len(self.proofs):
            raise MalformedEvidence("a receipt has one state and one proof for each record")
        if not 1 <= len(self.records) <= MAX_RECORDS or len(self.checkpoints) > MAX_CHECKPOINTS:
            raise MalformedEvidence(f"a receipt has 1 to {MAX_RECORDS} records, and up to {MAX_CHECKPOINTS} checkpoints")
        if len(set(self.records)) != len(self.records):
            raise MalformedEvidence("a record stands twice in a receipt")

    @classmethod
    def parse(cls, data: bytes) -> Bundle:
        """Read a bundle.

        Raises:
            MalformedEvidence: it is none, or beyond the limits.
        """
        fields = read_object(data, "a receipt", LIMITS)
        if fields.text("format") != FORMAT:
            raise MalformedEvidence(f"a receipt is not of the format {FORMAT}; a newer version may read it")
        unknown = set(fields) - _FIELDS
        if unknown:
            raise MalformedEvidence(f"a receipt has a field that is not known here: {min(unknown)[:100]}")
        return cls(
            Envelope.from_fields(fields.object("envelope")),
            fields.texts("records"),
            fields.texts_or_none("states"),
            fields.texts_or_none("proofs"),
            fields.texts("checkpoints"),
        )

    def serialize(self) -> bytes:
        """Return the file, with each record, state and proof on a line of its own.

        Raises:
            MalformedEvidence: it is too large to be read.
        """
        arrays = {"records": self.records, "states": self.states, "proofs": self.proofs, "checkpoints": self.checkpoints}
        parts = [f'"format":{write_json(FORMAT).decode()}', f'"envelope":{write_json(self.envelope.to_fields()).decode()}']
        for name, values in arrays.items():
            parts.append(f'"{name}":[' + ",".join(f"\n{write_json(value).decode()}" for value in values) + "]")
        data = ("{" + ",\n".join(parts) + "}\n").encode()
        if len(data) > LIMITS.max_bytes:
            raise MalformedEvidence(f"a receipt of {len(data)} bytes: more than {LIMITS.max_bytes} are not read")
        return data

    def split(self) -> dict[str, bytes]:
        """Return the bundle as files that standard tools read, by their names."""
        files = {
            "envelope.json": self.envelope.serialize(),
            "statement.json": self.envelope.payload,
            "pae.bin": pae(self.envelope.payload_type, self.envelope.payload),
            CHAIN_NAME: chain_of(self.records),
        }
        files |= {f"signature-{at}.bin": one.signature for at, one in enumerate(self.envelope.signatures, 1)}
        files |= {f"checkpoint-{at}.txt": note.encode() for at, note in enumerate(self.checkpoints, 1)}
        files |= dict(self._files_of_events())
        return files

    def _files_of_events(self) -> Iterator[tuple[str, bytes]]:
        for at, (record, state, proof) in enumerate(zip_longest(self.records, self.states, self.proofs), 1):
            yield f"record-{at:03}.json", record.encode()
            if state is not None:
                yield f"state-{at:03}.json", state.encode()
            if proof is not None:
                yield f"{at:03}.tlog-proof", proof.encode()
