"""The tiles of a log (c2sp.org/tlog-tiles): paths and bytes, the tiles that a growing log gets, and nodes read from them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from interlock.errors import MalformedEvidence
from interlock.evidence.merkle import HASH_BYTES, node_hash, root_of

TILE_HEIGHT = 8
TILE_WIDTH = 1 << TILE_HEIGHT
MAX_LEVEL = 63
MAX_ENTRY_BYTES = 2**16 - 1

_PATH = re.compile(
    r"tile/(?P<level>entries|[0-9]|[1-5][0-9]|6[0-3])/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)
_CACHED_TILES = 64
_Levels = list[tuple[bytes, ...]]


@dataclass(frozen=True, slots=True, order=True)
class Tile:
    """The name of a tile, or of the bundle of entries below one.

    Args:
        level: 0 for leaf hashes; each level above holds a hash for each full tile of the one below. None for a bundle of entries.
        index: its place within the level.
        width: how many hashes or entries it has, below `TILE_WIDTH` for a partial one.

    Raises:
        MalformedEvidence: there is no such tile.
    """

    level: int | None
    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if not (0 <= (self.level or 0) <= MAX_LEVEL and 0 <= self.index < 2**63 and 1 <= self.width <= TILE_WIDTH):
            raise MalformedEvidence(f"no log has a tile {self.level}/{self.index} of width {self.width}")

    @property
    def path(self) -> str:
        """Where it is served, below the log's prefix."""
        groups = f"{self.index:,}".split(",")
        digits = [f"x{group:0>3}" for group in groups[:-1]] + [f"{groups[-1]:0>3}"]
        partial = f".p/{self.width}" if self.width < TILE_WIDTH else ""
        return f"tile/{'entries' if self.level is None else self.level}/{'/'.join(digits)}{partial}"

    @classmethod
    def parse(cls, path: str) -> Tile:
        """Read a path.

        Raises:
            MalformedEvidence: it is no tile's path as a log writes it.
        """
        found = _PATH.fullmatch(path)
        if found is None:
            raise MalformedEvidence("this is no path of a tile")
        level = None if found["level"] == "entries" else int(found["level"])
        tile = cls(level, int(found["index"].replace("x", "").replace("/", "")), int(found["width"] or TILE_WIDTH))
        if tile.path != path:
            raise MalformedEvidence("this path of a tile is not written as logs write it")
        return tile


ReadTile = Callable[[Tile], bytes]
"""Returns the bytes of a tile, from wherever a log keeps them; for a partial tile, those of the full one will do as well."""


def tiles_of(size: int) -> Iterator[Tile]:
    """Yield the tiles of hashes that a tree of a size has, level by level."""
    level, hashes = 0, size
    while hashes:
        full, rest = divmod(hashes, TILE_WIDTH)
        yield from (Tile(level, index) for index in range(full))
        if rest:
            yield Tile(level, full, rest)
        level, hashes = level + 1, full


def encode_tile(hashes: Sequence[bytes]) -> bytes:
    """Return the bytes of a tile of these hashes."""
    return b"".join(hashes)


def decode_tile(tile: Tile, data: bytes) -> tuple[bytes, ...]:
    """Return the hashes of a tile.

    Args:
        tile: which one it should be.
        data: its bytes, or those of a fuller tile at the same place.

    Raises:
        MalformedEvidence: fewer hashes than the tile has, or bytes that are no whole hashes.
    """
    if len(data) % HASH_BYTES or not tile.width <= len(data) // HASH_BYTES <= TILE_WIDTH:
        raise MalformedEvidence(f"{tile.path} has {len(data)} bytes")
    return tuple(data[at : at + HASH_BYTES] for at in range(0, tile.width * HASH_BYTES, HASH_BYTES))


def encode_bundle(entries: Sequence[bytes]) -> bytes:
    """Return the bytes of a bundle of entries.

    Raises:
        ValueError: an entry is longer than its length can say.
    """
    if any(len(entry) > MAX_ENTRY_BYTES for entry in entries):
        raise ValueError(f"an entry has more than {MAX_ENTRY_BYTES} bytes")
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def decode_bundle(bundle: Tile, data: bytes) -> tuple[bytes, ...]:
    """Return the entries of a bundle.

    Args:
        bundle: which one it should be.
        data: its bytes.

    Raises:
        MalformedEvidence: another number of entries, or a length that does not fit.
    """
    entries, at = list[bytes](), 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data) or len(entries) == bundle.width:
            raise MalformedEvidence(f"{bundle.path} does not hold {bundle.width} entries")
        entries.append(data[at + 2 : end])
        at = end
    if len(entries) != bundle.width:
        raise MalformedEvidence(f"{bundle.path} holds {len(entries)} entries, not {bundle.width}")
    return tuple(entries)


def grown_tiles(old_size: int, leaves: Sequence[bytes], read: ReadTile) -> Iterator[tuple[Tile, bytes]]:
    """Yield the tiles, with their bytes, that a tree gets when leaves are added.

    The last one of a level is partial, as a rule; it is one that a checkpoint of the new size asks for.

    Args:
        old_size: how many leaves the tree had.
        leaves: the leaf hashes that are added.
        read: gives the partial tiles of the old size.
    """
    level, start, added = 0, old_size, list(leaves)
    while added:
        index, there = divmod(start, TILE_WIDTH)
        if there:
            tile = Tile(level, index, there)
            added = [*decode_tile(tile, read(tile)), *added]
        above = list[bytes]()
        for place, at in enumerate(range(0, len(added), TILE_WIDTH), start=index):
            hashes = added[at : at + TILE_WIDTH]
            yield Tile(level, place, len(hashes)), encode_tile(hashes)
            if len(hashes) == TILE_WIDTH:
                above.append(root_of(hashes))
        level, start, added = level + 1, index, above


class TileNodes:
    """The nodes of a tree, read from its tiles: a `NodeReader`.

    Tiles are taken as they come. Whoever has them from elsewhere compares the root that they make with a signed one.

    Args:
        size: how many leaves the tree has.
        read: gives its tiles.
    """

    def __init__(self, size: int, read: ReadTile) -> None:
        self.size = size
        self._read = read
        self._recent: OrderedDict[Tile, _Levels] = OrderedDict()

    def node(self, height: int, index: int) -> bytes:
        """Return the root over leaves `index * 2**height` up to `(index + 1) * 2**height`.

        Args:
            height: 0 for a leaf.
            index: its place among the nodes of that height.

        Raises:
            ValueError: the tree does not have all of those leaves.
            MalformedEvidence: a tile is not what its path says.
        """
        if index < 0 or (index + 1) << height > self.size:
            raise ValueError(f"a tree of {self.size} leaves has no node {index} at height {height}")
        level, inside = divmod(height, TILE_HEIGHT)
        place, offset = divmod(index, TILE_WIDTH >> inside)
        width = min(TILE_WIDTH, (self.size >> TILE_HEIGHT * level) - place * TILE_WIDTH)
        return self._levels(Tile(level, place, width))[inside][offset]

    def _levels(self, tile: Tile) -> _Levels:
        if tile in self._recent:
            self._recent.move_to_end(tile)
            return self._recent[tile]
        levels = self._recent[tile] = list(_levels_over(decode_tile(tile, self._read(tile))))
        if len(self._recent) > _CACHED_TILES:
            self._recent.popitem(last=False)
        return levels


def _levels_over(hashes: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
    """Yield a tile's hashes, and above them the nodes that they make whole, level by level."""
    while hashes:
        yield hashes
        hashes = tuple(map(node_hash, hashes[0::2], hashes[1::2]))
