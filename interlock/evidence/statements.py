"""In-toto statements, version 1 (github.com/in-toto/attestation): what is said about which bytes. They go into DSSE envelopes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.errors import MalformedEvidence
from interlock.evidence.dsse import Envelope
from interlock.evidence.strict_json import Reader, read_object, write_json

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a statement is about.

    Args:
        name: what to call it; it stands for nothing.
        digest: algorithm to lower-case hexadecimal, at least one.

    Raises:
        MalformedEvidence: there is no digest, or one that is none.
    """

    name: str
    digest: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.digest or not all(self.digest.values()):
            raise MalformedEvidence("a subject of a statement has no digest")
        if "sha256" in self.digest and _SHA256.fullmatch(self.digest["sha256"]) is None:
            raise MalformedEvidence("a digest of a statement is no SHA-256 in lower-case hexadecimal")


@dataclass(frozen=True, slots=True)
class Statement:
    """What is said about which bytes.

    Args:
        subjects: the bytes, by their digests; at least one.
        predicate_type: which kind of thing is said, as an address with a version.
        predicate: what is said, as JSON values.

    Raises:
        MalformedEvidence: there is no subject, or no type.
    """

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not self.subjects or not self.predicate_type:
            raise MalformedEvidence("a statement needs a subject, and the type of its predicate")

    def serialize(self) -> bytes:
        """Return its JSON: these bytes are what is signed, and nothing has to write them the same way again.

        Raises:
            MalformedEvidence: the predicate holds what `strict_json` would not read back.
        """
        return write_json(
            {
                "_type": STATEMENT_TYPE,
                "subject": [{"name": one.name, "digest": dict(one.digest)} for one in self.subjects],
                "predicateType": self.predicate_type,
                "predicate": dict(self.predicate),
            }
        )

    @classmethod
    def parse(cls, data: bytes) -> Statement:
        """Read a statement. Fields that the format does not know are passed over, as it asks.

        Raises:
            MalformedEvidence: it is none, of another version, or beyond the limits.
        """
        fields = read_object(data, "a statement")
        if fields.text("_type") != STATEMENT_TYPE:
            raise MalformedEvidence(f"a statement is not of the type {STATEMENT_TYPE}")
        subjects = tuple(_subject(one) for one in fields.objects("subject"))
        return cls(subjects, fields.text("predicateType"), fields.fields("predicate"))

    @classmethod
    def of(cls, envelope: Envelope) -> Statement:
        """Read the statement in an envelope, which should have been verified before.

        Raises:
            MalformedEvidence: the envelope holds something else.
        """
        if envelope.payload_type != PAYLOAD_TYPE:
            raise MalformedEvidence(f"the payload of an envelope is not of the type {PAYLOAD_TYPE}")
        return cls.parse(envelope.payload)


def _subject(fields: Reader) -> Subject:
    digests = fields.object("digest")
    return Subject(fields.text_or_none("name") or "", {name: digests.text(name) for name in digests})
