"""Records, read back: the header of one event, which is what a log's entry is and what its leaf is the hash of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from interlock.domain.records import GENESIS, leaf_hash, record
from interlock.errors import MalformedEvidence

# Its bytes can be written in one way only (RFC 8785), so they are read as text, which is ten times as fast as reading JSON.
_RECORD = re.compile(
    r'\{"id":"(?P<id>[0-9a-f-]{36})","log":"(?P<log>[ -!#-\[\]-~]{1,200})","n":(?P<n>[1-9][0-9]{0,9}),'
    r'"prev":"(?P<prev>genesis|sha256:[0-9a-f]{64})","state":"sha256:(?P<state>[0-9a-f]{64})",'
    r'"topic":"(?P<topic>[ -!#-\[\]-~]{1,200})","v":1\}',
    re.ASCII,
)
_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True)
class Record:
    """The header of one event.

    Args:
        aggregate_id: whose event it is: an action's, an approval's, or the log's own.
        log: the journal's id.
        version: which of its events, counted from 1.
        prev: the leaf hash of its event before; None for its first.
        state: the digest of the event's state.
        topic: what happened.
    """

    aggregate_id: UUID
    log: str
    version: int
    prev: bytes | None
    state: bytes
    topic: str

    @classmethod
    def parse(cls, data: bytes) -> Record:
        """Read a record.

        Raises:
            MalformedEvidence: it is none, or not written as records are.
        """
        try:
            found = _RECORD.fullmatch(data.decode("ascii"))
            aggregate_id = None if found is None else UUID(found["id"])
        except ValueError:
            found = aggregate_id = None
        if found is None or str(aggregate_id) != found["id"]:
            raise MalformedEvidence("this is no record, or not written as records are")
        assert aggregate_id is not None, "it was found"
        prev = None if found["prev"] == GENESIS else bytes.fromhex(found["prev"].removeprefix(_PREFIX))
        return cls(aggregate_id, found["log"], int(found["n"]), prev, bytes.fromhex(found["state"]), found["topic"])

    def serialize(self) -> bytes:
        """Return its bytes."""
        return record(
            log=self.log,
            aggregate_id=self.aggregate_id,
            version=self.version,
            topic=self.topic,
            state=self.state,
            prev=self.prev,
        )

    @property
    def leaf(self) -> bytes:
        """Its leaf hash, which the next event of the same aggregate names as `prev`."""
        return leaf_hash(self.serialize())
