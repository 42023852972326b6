"""Logs that stand alone, of leaves made from numbers or of records: for what checks logs of whatever kind."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from uuid import UUID

from interlock.domain.records import leaf_hash, record, state_digest
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import SignedNote
from interlock.evidence.proving import consistency_proof
from interlock.evidence.signing import NoteKey
from interlock.evidence.tiles import TILE_WIDTH, Tile, TileNodes, encode_bundle, grown_tiles, tiles_of


class Tree:
    """So many leaves; from `other_from` on they are others than those of another tree of the same size."""

    def __init__(self, size: int, *, other_from: int | None = None) -> None:
        words = [f"other entry {at}" if other_from is not None and at >= other_from else f"entry {at}" for at in range(size)]
        self.leaves = [leaf_hash(word.encode()) for word in words]

    @cached_property
    def nodes(self) -> TileNodes:
        """The nodes of the whole tree."""
        tiles = dict(grown_tiles(0, self.leaves, lambda _: b""))
        assert set(tiles) == set(tiles_of(len(self.leaves)))
        last = {(tile.level, tile.index): tile for tile in tiles}
        return TileNodes(len(self.leaves), lambda tile: tiles[last[tile.level, tile.index]])

    def checkpoint(self, origin: str, size: int) -> Checkpoint:
        """Return the head of the first so many leaves."""
        return Checkpoint(origin, size, root_of(self.leaves[:size]))

    def note(self, key: NoteKey, size: int) -> SignedNote:
        """Return a checkpoint that the log's key signed."""
        text = self.checkpoint(key.name, size).text
        return SignedNote(text, (key.sign(text),))

    def consistency(self, old: int, size: int) -> tuple[bytes, ...]:
        """Return the proof that the tree continues its own first leaves; none from the empty one."""
        return consistency_proof(old, size, self.nodes) if 0 < old <= size else ()


class RecordedLog:
    """A log of records, with chains as a gate writes them, or as nobody could have.

    Args:
        log: the journal's id.
    """

    def __init__(self, log: str = "urn:uuid:00000000-0000-4000-8000-00000000000a") -> None:
        self.log = log
        self.records: list[bytes] = []
        self.heads: dict[UUID, tuple[int, bytes]] = {}

    def add(self, aggregate_id: UUID, topic: str, state: bytes = b"{}") -> bytes:
        """Add the next event of an aggregate, and return its record."""
        version, prev = self.heads.get(aggregate_id, (0, None))
        made = record(
            log=self.log, aggregate_id=aggregate_id, version=version + 1, topic=topic, state=state_digest(state), prev=prev
        )
        self.heads[aggregate_id] = (version + 1, leaf_hash(made))
        self.records.append(made)
        return made

    def action(self, number: int, *events: str) -> UUID:
        """Add the events of an action, by their names."""
        action_id = UUID(int=number)
        for event in events or ("intended", "claimed", "dispatched", "committed"):
            self.add(action_id, f"interlock.action.{event}")
        return action_id

    def note(self, key: NoteKey, size: int | None = None) -> SignedNote:
        """Return a checkpoint that the log's key signed."""
        records = self.records[:size]
        text = Checkpoint(key.name, len(records), root_of(map(leaf_hash, records))).text
        return SignedNote(text, (key.sign(text),))

    def publish(self, folder: Path, key: NoteKey, size: int | None = None) -> None:
        """Write the files of a log that a monitor reads."""
        records = self.records[:size]
        for at in range(0, len(records), TILE_WIDTH):
            part = records[at : at + TILE_WIDTH]
            path = folder / Tile(None, at // TILE_WIDTH, len(part)).path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode_bundle(part))
        (folder / "checkpoint").write_bytes(self.note(key, size).serialize())
