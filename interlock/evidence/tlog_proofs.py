"""Offline proofs that an entry is in a log (c2sp.org/tlog-proof): index, hashes and the signed checkpoint, as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import MAX_INT64, after, from_base64, from_decimal, from_utf8, to_base64
from interlock.evidence.merkle import HASH_BYTES, MAX_PROOF_HASHES
from interlock.evidence.notes import MAX_NOTE_BYTES

_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")
_HEADER = "c2sp.org/tlog-proof@v1"
_MAX_EXTRA_BYTES = 1 << 16
_MAX_BYTES = MAX_NOTE_BYTES + 2 * _MAX_EXTRA_BYTES


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A proof as it is handed over. Nothing of it is checked yet: see `acceptance.accept_proof`.

    Args:
        index: the entry's index, from 0.
        hashes: the proof of inclusion.
        checkpoint: the signed checkpoint, as the log gave it.
        extra: what the application adds. Nobody has signed it.

    Raises:
        MalformedEvidence: it could not be written as a proof.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: str
    extra: bytes | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.index <= MAX_INT64 or _NOT_UTF8.search(self.checkpoint) or not self.checkpoint:
            raise MalformedEvidence("a proof has an index from 0 to 2^63 - 1, and a checkpoint")
        if len(self.hashes) > MAX_PROOF_HASHES or any(len(value) != HASH_BYTES for value in self.hashes):
            raise MalformedEvidence(f"a proof has up to {MAX_PROOF_HASHES} hashes of {HASH_BYTES} bytes")
        if self.extra is not None and not 0 < len(self.extra) <= _MAX_EXTRA_BYTES:
            raise MalformedEvidence(f"the extra data of a proof has 1 to {_MAX_EXTRA_BYTES} bytes")

    def serialize(self) -> bytes:
        """Return the proof's bytes."""
        extra = [] if self.extra is None else [f"extra {to_base64(self.extra)}"]
        lines = [_HEADER, *extra, f"index {self.index}", *map(to_base64, self.hashes), "", self.checkpoint]
        return "\n".join(lines).encode()

    @classmethod
    def parse(cls, data: bytes) -> TlogProof:
        """Read a proof.

        Raises:
            MalformedEvidence: it is none, or too large.
        """
        text = from_utf8(data, "a proof", max_bytes=_MAX_BYTES)
        head, blank, checkpoint = text.partition("\n\n")
        header, *lines = head.split("\n", MAX_PROOF_HASHES + 4)
        if not blank or header != _HEADER or not lines:
            raise MalformedEvidence(f"a proof begins with {_HEADER}, and has a checkpoint after an empty line")
        extra = None
        if lines[0].startswith("extra "):
            extra = from_base64(after("extra ", lines.pop(0)), "the extra data of a proof")
        index = from_decimal(after("index ", lines.pop(0) if lines else ""), "the index of a proof")
        if len(lines) > MAX_PROOF_HASHES:
            raise MalformedEvidence(f"a proof has up to {MAX_PROOF_HASHES} hashes")
        hashes = tuple(from_base64(line, "a hash of a proof", length=HASH_BYTES) for line in lines)
        return cls(index, hashes, checkpoint, extra)
