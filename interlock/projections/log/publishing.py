"""The log as static files (c2sp.org/tlog-tiles), which any web server hands out: tiles, entries, and the checkpoint last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from interlock.domain.records import leaf_hash
from interlock.errors import InvalidConfiguration, JournalCorrupt, MalformedEvidence
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import SignedNote
from interlock.evidence.tiles import TILE_HEIGHT, TILE_WIDTH, Tile, TileNodes, decode_bundle, decode_tile, tiles_of
from interlock.projections.log.tree import TransparencyLog

CHECKPOINT = "checkpoint"

Write = Callable[[Path, bytes], None]
"""Puts bytes in the place of a file, durably, and so that a reader finds either the old ones or the new ones."""


def publish(tree: TransparencyLog, folder: Path, write: Write) -> Checkpoint:
    """Write the files that the last checkpoint needs, and the checkpoint after them.

    A full tile that is there stays as it is: a tile never changes. A partial one is left where a full one came, for readers of an
    older checkpoint.

    Args:
        tree: the log.
        folder: where; everything in it can be read by anybody who may read the log.
        write: how a file is written.

    Raises:
        InvalidConfiguration: the folder holds another log, or more of this one.
        JournalCorrupt: there is no checkpoint yet, or the tree is not the one that was signed: nothing of it is published.
        OSError: a file can't be written.
    """
    note = tree.latest()
    if note is None:
        raise JournalCorrupt("the log has no checkpoint yet; make one with `interlock log checkpoint`")
    checkpoint = Checkpoint.parse(note.text)
    if tree.root(checkpoint.size) != checkpoint.root:
        raise JournalCorrupt(f"the tree of {checkpoint.size} leaves is not the one that was signed; run `interlock verify`")
    _require_same_log(folder / CHECKPOINT, checkpoint)
    nodes = tree.nodes(checkpoint.size)
    for tile in _files_of(checkpoint.size):
        path = folder / tile.path
        if not path.exists():
            data = tree.read_tile(tile)
            _require_signed(nodes, tile, data)
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, data)
    write(folder / CHECKPOINT, note.serialize())
    return checkpoint


def _require_signed(nodes: TileNodes, tile: Tile, data: bytes) -> None:
    """Raise where a tile, or a bundle of records, is not what was signed: a full one is never written again.

    The root, which was compared with the signed one, was made from what is not full. A full tile is one hash in the level above.
    """
    level = tile.level or 0
    hashes = decode_tile(tile, data) if tile.level is not None else tuple(map(leaf_hash, decode_bundle(tile, data)))
    if tile.width == TILE_WIDTH:
        holds = root_of(hashes) == nodes.node(TILE_HEIGHT * (level + 1), tile.index)
    else:
        start = tile.index * TILE_WIDTH
        holds = hashes == tuple(nodes.node(TILE_HEIGHT * level, start + at) for at in range(tile.width))
    if not holds:
        raise JournalCorrupt(f"what {tile.path} would hold is not what was signed; run `interlock verify`")


def _require_same_log(path: Path, checkpoint: Checkpoint) -> None:
    """Raise where another log, or more of this one, was published: full tiles are never written again."""
    try:
        there = Checkpoint.parse(SignedNote.parse(path.read_bytes()).text)
    except FileNotFoundError:
        return
    except MalformedEvidence as error:
        raise InvalidConfiguration(f"{path} is no checkpoint; nothing was published") from error
    if there.origin != checkpoint.origin or there.size > checkpoint.size:
        raise InvalidConfiguration(
            f"{path} is of {there.size} entries of {there.origin}, and the journal's checkpoint of {checkpoint.size} of "
            f"{checkpoint.origin}; nothing was published. Each epoch has a folder of its own"
        )


def _files_of(size: int) -> Iterator[Tile]:
    yield from tiles_of(size)
    full, rest = divmod(size, TILE_WIDTH)
    yield from (Tile(None, index) for index in range(full))
    if rest:
        yield Tile(None, full, rest)
