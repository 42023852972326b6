"""The log as a tree: its leaves are the events in the order of their positions. Everything here only reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from interlock.domain.log import JournalLog
from interlock.domain.records import record
from interlock.errors import EvidenceError, JournalCorrupt
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.log_store import EventPlace, LogStore, StoredCheckpoint
from interlock.evidence.merkle import EMPTY_ROOT, HASH_BYTES, Frontier, verify_consistency, verify_inclusion
from interlock.evidence.notes import NoteSignature, SignedNote
from interlock.evidence.policies import Policy
from interlock.evidence.proving import consistency_proof, frontier_at, inclusion_proof
from interlock.evidence.tiles import Tile, TileNodes, encode_bundle, encode_tile
from interlock.evidence.tlog_proofs import TlogProof
from interlock.projections.verification import LogRow

_LOOKS_BACK = 100
"""How many checkpoints are tried for one that a policy accepts."""


class LoggedJournal(Protocol):
    """What the log reads of a journal."""

    log_id: str

    def log_store(self) -> LogStore:
        """Return where the log keeps its tree and what it signed."""
        ...

    def find_log(self) -> JournalLog | None:
        """Return the log as it stands."""
        ...

    def rows(self, *, after: int = 0, limit: int = 1000) -> Sequence[Any]:
        """Return rows by position."""
        ...


class TransparencyLog:
    """The log of one journal. Indexes count from 0: an event's is its position - 1.

    Args:
        journal: the journal.
    """

    def __init__(self, journal: LoggedJournal) -> None:
        self._journal = journal
        self.store = journal.log_store()

    def state(self) -> JournalLog | None:
        """Return who the log is, in which epoch, and which keys sign; None where nobody has begun to sign it."""
        return self._journal.find_log()

    def size(self) -> int:
        """Return how many leaves there are, signed or not."""
        return self.store.size()

    def latest(self) -> SignedNote | None:
        """Return the last checkpoint, with the cosignatures that have come so far; None before the first."""
        found = self.store.last_checkpoint()
        return None if found is None else self._with_cosignatures(found)

    def note(self, size: int) -> SignedNote:
        """Return the checkpoint of a size, with its cosignatures.

        Raises:
            JournalCorrupt: there is none.
        """
        found = self.store.checkpoint(size)
        if found is None:
            raise JournalCorrupt(f"the log has no checkpoint of {size} leaves; run `interlock verify`")
        return self._with_cosignatures(found)

    def covering(self, index: int, policy: Policy | None = None) -> SignedNote | None:
        """Return the newest checkpoint that covers a leaf.

        Args:
            index: the leaf's.
            policy: which checkpoints count; any unless given.

        Returns:
            The checkpoint with its cosignatures; None while there is none.
        """
        latest = self.latest()
        if latest is None or Checkpoint.parse(latest.text).size <= index:
            return None
        if policy is None or accepts(policy, latest):
            return latest
        sizes = self.store.cosigned_sizes(Checkpoint.parse(latest.text).origin, limit=_LOOKS_BACK)
        notes = (self.note(size) for size in sizes if size > index)
        return next((note for note in notes if accepts(policy, note)), None)

    def first_covering(self, index: int) -> SignedNote | None:
        """Return the oldest checkpoint that covers a leaf; None while there is none."""
        found = self.store.first_checkpoint(index)
        return None if found is None else self._with_cosignatures(found)

    def before(self, index: int) -> SignedNote | None:
        """Return the newest checkpoint that does not cover a leaf; None where there is none."""
        found = self.store.last_checkpoint(below=index + 1)
        return None if found is None else self._with_cosignatures(found)

    def index_of(self, aggregate_id: UUID, version: int) -> int | None:
        """Return the index of an event; None where it has no position yet, or where there is no such event."""
        place = (aggregate_id, version)
        leaf = self.store.leaves_of([place]).get(place)
        return None if leaf is None else leaf.index

    def leaf_hashes(self, start: int, limit: int) -> list[bytes]:
        """Return leaf hashes, in order.

        Raises:
            JournalCorrupt: one of them is none.
        """
        return _hashes(self.store.leaf_hashes(start, limit))

    def records(self, start: int, limit: int) -> list[bytes]:
        """Return entries, in order: the records that leaf hashes are over, made again from the rows.

        Args:
            start: the first one's index.
            limit: how many at the most.

        Raises:
            JournalCorrupt: a row has no record: an event is missing, or a column holds another kind of value.
        """
        rows = self._journal.rows(after=start, limit=limit)
        return [entry for _, entry in with_records(self._journal.log_id, self.store, rows, start)]

    def inclusion(self, index: int, note: SignedNote | None = None) -> TlogProof:
        """Return the proof that an event is in the log.

        Args:
            index: the leaf's.
            note: the checkpoint to prove against; the latest unless given.

        Raises:
            JournalCorrupt: no checkpoint covers it, or the leaf is not what was signed.
        """
        given = note or self.latest()
        if given is None:
            raise JournalCorrupt("the log has no checkpoint yet; make one with `interlock log checkpoint`")
        checkpoint = Checkpoint.parse(given.text)
        nodes = self.nodes(checkpoint.size)
        try:
            hashes = inclusion_proof(index, checkpoint.size, nodes)
            verify_inclusion(index, checkpoint.size, nodes.node(0, index), hashes, checkpoint.root)
        except (EvidenceError, ValueError) as error:
            raise JournalCorrupt(
                f"the event at index {index} is not under the checkpoint of {checkpoint.size} leaves: {error}; run "
                "`interlock verify`"
            ) from error
        return TlogProof(index, hashes, given.serialize().decode())

    def consistency(self, old_size: int, size: int) -> tuple[bytes, ...]:
        """Return the proof that the tree of a size continues a smaller one.

        Args:
            old_size: the smaller one's, at least 1.
            size: the larger one's.

        Raises:
            JournalCorrupt: the tree that is stored does not make such a proof.
        """
        try:
            nodes = self.nodes(size)
            hashes = consistency_proof(old_size, size, nodes)
            verify_consistency(old_size, size, self.root(old_size), frontier_at(size, nodes).root(), hashes)
        except EvidenceError as error:
            raise JournalCorrupt(f"the log's tree does not hold together: {error}; run `interlock verify`") from error
        return hashes

    def root(self, size: int) -> bytes:
        """Return the root over the first leaves.

        Raises:
            JournalCorrupt: the tree does not have them.
        """
        return self.frontier(size).root() if size else EMPTY_ROOT

    def frontier(self, size: int) -> Frontier:
        """Return what appending to the tree of a size needs.

        Raises:
            JournalCorrupt: the tree does not have so many leaves.
        """
        try:
            return frontier_at(size, self.nodes(size))
        except EvidenceError as error:
            raise JournalCorrupt(
                f"the log's tree of {size} leaves can't be read: {error}; run `interlock log rebuild`"
            ) from error

    def nodes(self, size: int) -> TileNodes:
        """Return the nodes of the tree of a size."""
        return TileNodes(size, self.read_tile)

    def read_tile(self, tile: Tile) -> bytes:
        """Return the bytes of a tile, or of a bundle of entries.

        Raises:
            JournalCorrupt: a row that it is made from is not what was written.
        """
        start = tile.index << 8
        if tile.level is None:
            entries = self.records(start, tile.width)
            if len(entries) < tile.width:
                raise JournalCorrupt(f"the log has no {tile.width} entries from index {start} on")
            return encode_bundle(entries)
        if tile.level == 0:
            return encode_tile(self.leaf_hashes(start, tile.width))
        return encode_tile(_hashes(self.store.node_hashes(tile.level, start, tile.width)))

    def _with_cosignatures(self, stored: StoredCheckpoint) -> SignedNote:
        lines = self.store.cosignatures(stored.checkpoint.size)
        try:
            return stored.note.with_signatures(*(NoteSignature.parse(str(line).removesuffix("\n")) for line in lines))
        except EvidenceError as error:
            raise JournalCorrupt(
                f"a cosignature of the checkpoint of {stored.checkpoint.size} leaves can't be read: {error}"
            ) from error


def accepts(policy: Policy, note: SignedNote) -> bool:
    """Whether a policy accepts a checkpoint. It needs the extra `evidence`."""
    from interlock.evidence.acceptance import accept_checkpoint

    try:
        accept_checkpoint(note, policy)
    except EvidenceError:
        return False
    return True


def with_records(log_id: str, store: LogStore, rows: Sequence[LogRow], start: int) -> list[tuple[LogRow, bytes]]:
    """Return rows with their records, which are made from the columns and not from what the leaf hash says.

    Args:
        log_id: the journal's id.
        store: where the events before theirs are looked up.
        rows: that follow on one another.
        start: the index of the first.

    Raises:
        JournalCorrupt: a row is missing, out of order, or holds another kind of value.
    """
    ids = _ids_of(rows, start)
    heads = _heads_before(store, rows, ids)
    made: list[tuple[LogRow, bytes]] = []
    for index, (row, aggregate_id) in enumerate(zip(rows, ids, strict=True), start):
        place = aggregate_id, row.version
        prev = heads.get((place[0], place[1] - 1))
        if place[1] > 1 and prev is None:
            raise JournalCorrupt(f"event {place[1]} of {place[0]} follows on none; nothing was signed, run `interlock verify`")
        try:
            digest: bytes = row.state_digest
            entry = record(log=log_id, aggregate_id=aggregate_id, version=row.version, topic=row.topic, state=digest, prev=prev)
        except (ValueError, AttributeError, TypeError) as error:
            raise JournalCorrupt(f"the event at position {index + 1} has no record: {error}; run `interlock verify`") from error
        made.append((row, entry))
        heads[place] = row.leaf_hash
    return made


def _ids_of(rows: Sequence[LogRow], start: int) -> list[UUID]:
    """Return whose events the rows are, once it is known that each stands where it should."""
    ids: list[UUID] = []
    for position, row in enumerate(rows, start + 1):
        if row.position != position or type(row.version) is not int:
            raise _misplaced(position)
        try:
            ids.append(UUID(row.aggregate_id))
        except (ValueError, AttributeError, TypeError):
            raise _misplaced(position) from None
    return ids


def _heads_before(store: LogStore, rows: Sequence[LogRow], ids: Sequence[UUID]) -> dict[EventPlace, bytes]:
    """Return the leaf hashes of the events that the first row of each aggregate follows on."""
    firsts: dict[UUID, int] = {}
    for aggregate_id, row in zip(ids, rows, strict=True):
        firsts.setdefault(aggregate_id, row.version)
    before = store.leaves_of([(one, version - 1) for one, version in firsts.items() if version > 1])
    return {place: leaf.hash for place, leaf in before.items()}


def _misplaced(position: int) -> JournalCorrupt:
    return JournalCorrupt(f"the event at position {position} is missing or was moved; nothing was signed, run `interlock verify`")


def _hashes(values: Sequence[Any]) -> list[bytes]:
    if any(type(value) is not bytes or len(value) != HASH_BYTES for value in values):
        raise JournalCorrupt("a leaf or a node of the log is no hash; nothing was signed, run `interlock verify`")
    return list(values)
