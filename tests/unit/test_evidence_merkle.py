"""Trees and proofs of every size, held against RFC 6962's definitions, which are written out here as they stand there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.domain.records import leaf_hash
from interlock.errors import EvidenceError, InconsistentEvidence, MalformedEvidence
from interlock.evidence.merkle import EMPTY_ROOT, MAX_PROOF_HASHES, Frontier, root_of, verify_consistency, verify_inclusion
from interlock.evidence.proving import consistency_proof, frontier_at, inclusion_proof, range_root
from interlock.evidence.tiles import Tile, TileNodes, decode_tile, grown_tiles, tiles_of

MOST = 300
LEAVES = tuple(leaf_hash(b"entry %d" % number) for number in range(MOST))


@cache
def defined_root(start: int, end: int) -> bytes:
    """MTH(D[start:end]) of RFC 6962, section 2.1."""
    if start == end:
        return sha256(b"").digest()
    if end - start == 1:
        return LEAVES[start]
    middle = start + _k(end - start)
    return sha256(b"\x01" + defined_root(start, middle) + defined_root(middle, end)).digest()


def defined_path(index: int, start: int, end: int) -> list[bytes]:
    """PATH(m, D[n]) of RFC 6962, section 2.1.1."""
    if end - start == 1:
        return []
    middle = start + _k(end - start)
    if index < middle:
        return [*defined_path(index, start, middle), defined_root(middle, end)]
    return [*defined_path(index, middle, end), defined_root(start, middle)]


def defined_consistency(old: int, start: int, end: int, *, known: bool) -> list[bytes]:
    """SUBPROOF(m, D[n], b) of RFC 6962, section 2.1.2."""
    if old == end:
        return [] if known else [defined_root(start, end)]
    middle = start + _k(end - start)
    if old <= middle:
        return [*defined_consistency(old, start, middle, known=known), defined_root(middle, end)]
    return [*defined_consistency(old, middle, end, known=False), defined_root(start, middle)]


def _k(width: int) -> int:
    k = 1
    while 2 * k < width:
        k *= 2
    return k


def _turns(index: int, size: int) -> list[bool]:
    """Which way the path to a leaf goes at each level: all that a proof says of a tree's size."""
    start, end, turns = 0, size, list[bool]()
    while end - start > 1:
        middle = start + _k(end - start)
        turns.append(index < middle)
        start, end = (start, middle) if index < middle else (middle, end)
    return turns


class Nodes:
    """A reader of nodes over leaves in memory."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.leaves = leaves
        self._known: dict[tuple[int, int], bytes] = {}

    def node(self, height: int, index: int) -> bytes:
        """Return a node, made from its leaves."""
        if (height, index) not in self._known:
            leaves = self.leaves[index << height : (index + 1) << height]
            assert len(leaves) == 1 << height, "a node that the tree does not have whole"
            self._known[height, index] = root_of(leaves)
        return self._known[height, index]


NODES = Nodes(LEAVES)
NO_TILES: dict[Tile, bytes] = {}


def test_the_root_of_every_size_is_the_defined_one() -> None:
    """A frontier that grows leaf by leaf has the defined root at every size, with a hash for each bit of it."""
    frontier = Frontier()
    assert frontier.root() == EMPTY_ROOT == defined_root(0, 0)
    for size, leaf in enumerate(LEAVES, start=1):
        frontier.append(leaf)
        assert frontier.root() == defined_root(0, size) == root_of(LEAVES[:size]) == range_root(0, size, NODES)
        assert (frontier.size, len(frontier.hashes)) == (size, size.bit_count())
        assert frontier.hashes == frontier_at(size, NODES).hashes


def test_every_leaf_of_every_size_is_proven() -> None:
    """For each leaf of each tree up to 300 the proof of inclusion is the defined one, and verifies."""
    for size in range(1, MOST + 1):
        root = defined_root(0, size)
        for index in range(size):
            proof = inclusion_proof(index, size, NODES)
            assert proof == tuple(defined_path(index, 0, size))
            verify_inclusion(index, size, LEAVES[index], proof, root)


def test_every_tree_continues_every_smaller_one() -> None:
    """For each pair of trees up to 300 the proof of consistency is the defined one, and verifies."""
    for size in range(1, MOST + 1):
        root = defined_root(0, size)
        for old in range(1, size + 1):
            proof = consistency_proof(old, size, NODES)
            assert proof == tuple(defined_consistency(old, 0, size, known=True))
            verify_consistency(old, size, defined_root(0, old), root, proof)


SIZES = st.integers(1, MOST)


@given(st.data(), SIZES)
@settings(max_examples=400)
def test_one_bit_undoes_a_proof_of_inclusion(data: st.DataObject, size: int) -> None:
    """A bit turned in the leaf, a hash, the root or the index: refused."""
    index = data.draw(st.integers(0, size - 1))
    proof, root = inclusion_proof(index, size, NODES), defined_root(0, size)
    leaf, *hashes, changed_root = _one_bit_turned(data, [LEAVES[index], *proof, root])
    with pytest.raises(InconsistentEvidence):
        verify_inclusion(index, size, leaf, hashes, changed_root)
    turned = index ^ 1 << data.draw(st.integers(0, 62))
    with pytest.raises(InconsistentEvidence):
        verify_inclusion(turned, size, LEAVES[index], proof, root)


@given(st.data(), SIZES)
@settings(max_examples=400)
def test_one_bit_undoes_a_proof_of_consistency(data: st.DataObject, size: int) -> None:
    """A bit turned in either root or a hash: refused. So is a proof for another older size, with the older root that it had."""
    old = data.draw(st.integers(1, size))
    proof = consistency_proof(old, size, NODES)
    old_root, *hashes, root = _one_bit_turned(data, [defined_root(0, old), *proof, defined_root(0, size)])
    with pytest.raises(InconsistentEvidence):
        verify_consistency(old, size, old_root, root, hashes)
    other = data.draw(st.integers(1, size).filter(lambda other: other != old)) if size > 1 else 2
    with pytest.raises(InconsistentEvidence):
        verify_consistency(other, size, defined_root(0, old), defined_root(0, size), proof)


@given(st.data(), SIZES)
@settings(max_examples=400)
def test_a_size_is_proven_only_as_far_as_it_bends_the_path(data: st.DataObject, size: int) -> None:
    """Trees of several sizes ask for the same path, and a proof holds for each of them: the size has to be a signed one."""
    index = data.draw(st.integers(0, size - 1))
    proof, root = inclusion_proof(index, size, NODES), defined_root(0, size)
    turned = size ^ 1 << data.draw(st.integers(0, 10))
    if index < turned and _turns(index, turned) == _turns(index, size):
        verify_inclusion(index, turned, LEAVES[index], proof, root)
    else:
        with pytest.raises(InconsistentEvidence):
            verify_inclusion(index, turned, LEAVES[index], proof, root)


def _one_bit_turned(data: st.DataObject, hashes: list[bytes]) -> list[bytes]:
    which, bit = data.draw(st.integers(0, len(hashes) - 1)), data.draw(st.integers(0, 255))
    turned = (int.from_bytes(hashes[which], "big") ^ 1 << bit).to_bytes(32, "big")
    return [*hashes[:which], turned, *hashes[which + 1 :]]


@given(st.data(), SIZES)
def test_a_proof_with_a_hash_more_or_less_is_refused(data: st.DataObject, size: int) -> None:
    """Whatever is put in or left out, at either end or between."""
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    root, old_root = defined_root(0, size), defined_root(0, old)
    inclusion, consistency = inclusion_proof(index, size, NODES), consistency_proof(old, size, NODES)
    extra = data.draw(st.sampled_from([*LEAVES[:3], root, old_root]))
    for proof in _one_more_or_less(data, inclusion, extra):
        with pytest.raises(InconsistentEvidence):
            verify_inclusion(index, size, LEAVES[index], proof, root)
    for proof in _one_more_or_less(data, consistency, extra):
        with pytest.raises(InconsistentEvidence):
            verify_consistency(old, size, old_root, root, proof)


def _one_more_or_less(data: st.DataObject, proof: tuple[bytes, ...], extra: bytes) -> list[tuple[bytes, ...]]:
    at = data.draw(st.integers(0, len(proof)))
    changed = [(*proof[:at], extra, *proof[at:])]
    return [*changed, (*proof[:at], *proof[at + 1 :])] if at < len(proof) else changed


@pytest.mark.parametrize("length", [MAX_PROOF_HASHES + 1, 10_000])
def test_a_proof_that_no_tree_asks_for_is_refused_unread(length: int) -> None:
    """Ten thousand hashes are refused for their number, before any is looked at."""
    proof = [b"not even a hash"] * length
    with pytest.raises(MalformedEvidence, match=f"{length} hashes"):
        verify_inclusion(0, 2**63 - 1, LEAVES[0], proof, LEAVES[0])
    with pytest.raises(MalformedEvidence, match=f"{length} hashes"):
        verify_consistency(1, 2**63 - 1, LEAVES[0], LEAVES[0], proof)


@pytest.mark.parametrize("value", [b"", b"x" * 31, b"x" * 33])
def test_what_is_no_hash_is_refused(value: bytes) -> None:
    """As a leaf, as a root or in a proof; and in a frontier, which also needs as many hashes as its size has bits."""
    for leaf, proof, root in ((value, [], LEAVES[0]), (LEAVES[0], [value], LEAVES[0]), (LEAVES[0], [], value)):
        with pytest.raises(MalformedEvidence):
            verify_inclusion(0, 1, leaf, proof, root)
        with pytest.raises(MalformedEvidence):
            verify_consistency(1, 2, leaf, root, proof)
    with pytest.raises(MalformedEvidence):
        Frontier(1, [value])
    with pytest.raises(MalformedEvidence):
        Frontier().append(value)
    for size, hashes in ((3, LEAVES[:1]), (4, LEAVES[:2]), (-1, LEAVES[:1]), (0, LEAVES[:1])):
        with pytest.raises(MalformedEvidence):
            Frontier(size, hashes)


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (-1, 1), (5, 3)])
def test_a_leaf_that_the_tree_does_not_have(index: int, size: int) -> None:
    """It is neither proven nor accepted as proven."""
    with pytest.raises(InconsistentEvidence):
        verify_inclusion(index, size, LEAVES[0], [], LEAVES[0])
    with pytest.raises(ValueError, match="no leaf"):
        inclusion_proof(index, size, NODES)


@pytest.mark.parametrize(("old", "size"), [(0, 0), (0, 1), (-1, 1), (2, 1)])
def test_a_tree_that_continues_nothing(old: int, size: int) -> None:
    """Every tree is consistent with the empty one, and that is no evidence: refused. A smaller tree continues no larger one."""
    with pytest.raises(InconsistentEvidence):
        verify_consistency(old, size, EMPTY_ROOT, LEAVES[0], [])
    with pytest.raises(ValueError, match="does not continue"):
        consistency_proof(old, size, NODES)


def test_one_leaf_in_two_trees_of_one_size() -> None:
    """Two roots of one size are never consistent, whatever proof is shown."""
    with pytest.raises(InconsistentEvidence):
        verify_consistency(7, 7, defined_root(0, 7), defined_root(1, 8), [])
    with pytest.raises(EvidenceError):
        verify_consistency(7, 7, defined_root(0, 7), defined_root(0, 7), [LEAVES[0]])


# Tiles


@given(st.lists(st.integers(1, 400), min_size=1, max_size=6))
def test_a_log_that_grows_by_any_steps_has_the_same_tiles(steps: list[int]) -> None:
    """Tiles written batch by batch, reading back only partial ones, are those of the whole tree, and its nodes come back."""
    leaves = [leaf_hash(b"%d" % number) for number in range(sum(steps))]
    store: dict[Tile, bytes] = {}
    size = 0
    for step in steps:
        store |= dict(grown_tiles(size, leaves[size : size + step], store.__getitem__))
        size += step
        assert {tile.path for tile in tiles_of(size)} <= {tile.path for tile in store}
    nodes, memory = TileNodes(size, store.__getitem__), Nodes(leaves)
    assert frontier_at(size, nodes).root() == root_of(leaves)
    for height in range(size.bit_length()):
        for index in {0, (size >> height) // 2, (size >> height) - 1}:
            assert nodes.node(height, index) == memory.node(height, index)
    with pytest.raises(ValueError, match="no node"):
        nodes.node(0, size)
    verify_inclusion(size // 3, size, leaves[size // 3], inclusion_proof(size // 3, size, nodes), root_of(leaves))


def test_the_tiles_of_a_large_log() -> None:
    """The example of the specification: 70,000 leaves; and a full tile stands in for a partial one that was deleted."""
    tiles = list(tiles_of(70_000))
    by_level = {level: [tile.width for tile in tiles if tile.level == level] for level in range(3)}
    assert by_level == {0: [256] * 273 + [112], 1: [256, 17], 2: [1]}
    assert [tile.path for tile in tiles_of(256)] == ["tile/0/000", "tile/1/000.p/1"]
    leaves = [leaf_hash(b"%d" % number) for number in range(70_000)]
    store = dict(grown_tiles(0, leaves, NO_TILES.__getitem__))
    assert sorted(store, key=lambda tile: tile.path) == sorted(tiles, key=lambda tile: tile.path)
    partial = dict(grown_tiles(0, leaves[:300], NO_TILES.__getitem__))
    from_partial = TileNodes(300, partial.__getitem__)
    from_full = TileNodes(300, lambda tile: store[Tile(tile.level, tile.index)])
    assert inclusion_proof(299, 300, from_full) == inclusion_proof(299, 300, from_partial)


@pytest.mark.parametrize(
    "path",
    [
        "", "tile/0", "tile/0/0", "tile/64/000", "tile/00/000", "tile/-1/000", "tile/0/000.p/0", "tile/0/000.p/256",
        "tile/0/000.p/01", "tile/0/x000/001", "tile/0/001/x000", "tile/0/x001", "tile/8/0/000", "tile/data/000", "tile/0/000\n",
        "tile/0/\u0660\u0660\u0660", "tile/0/" + "x999/" * 6 + "999", "tile/0/" + "x001/" * 7 + "000", "../tile/0/000",
        "tile/0/000/",
    ],
)  # fmt: skip
def test_a_path_that_no_log_writes_is_refused(path: str) -> None:
    """A tile has one path."""
    with pytest.raises(MalformedEvidence):
        Tile.parse(path)


@pytest.mark.parametrize("length", [0, 31, 32, 63, 65, 32 * 257])
def test_bytes_that_are_no_tile_are_refused(length: int) -> None:
    """Too few hashes, too many, or a part of one."""
    with pytest.raises(MalformedEvidence):
        decode_tile(Tile(0, 0, 2), bytes(length))
