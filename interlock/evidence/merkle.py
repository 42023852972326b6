"""The Merkle tree of RFC 6962: its hashes, its root from a compact frontier, and the verification of proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from interlock.errors import InconsistentEvidence, MalformedEvidence

HASH_BYTES = 32
MAX_PROOF_HASHES = 64
"""A tree of 2^63 leaves has no longer proof."""

EMPTY_ROOT = hashlib.sha256().digest()
"""The root of a tree without leaves."""


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def split_point(width: int) -> int:
    """Return the largest power of two below a width: where RFC 6962 parts a range of two leaves or more."""
    return 1 << ((width - 1).bit_length() - 1)


class Frontier:
    """The right edge of a growing tree: the roots of its perfect subtrees, which is all that appending needs.

    A tree of a million leaves keeps seven hashes here.

    Args:
        size: how many leaves the tree has.
        hashes: the roots of its perfect subtrees, from left to right: one for each bit that is set in `size`.

    Raises:
        MalformedEvidence: the hashes are not as many, or not as long, as `size` asks for.
    """

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self._size = size
        self._hashes = list(hashes)
        if size < 0 or len(self._hashes) != size.bit_count():
            raise MalformedEvidence(f"a frontier of size {size} does not have {len(self._hashes)} hashes")
        _check_hashes(*self._hashes)

    @property
    def size(self) -> int:
        """How many leaves the tree has."""
        return self._size

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The roots of the perfect subtrees, from left to right: what has to be kept to go on later."""
        return tuple(self._hashes)

    def append(self, leaf: bytes) -> None:
        """Add a leaf.

        Args:
            leaf: its leaf hash.
        """
        if len(leaf) != HASH_BYTES:  # looked at here: a log appends thousands in a row
            _check_hashes(leaf)
        node, rest = leaf, self._size
        while rest & 1:
            node = node_hash(self._hashes.pop(), node)
            rest >>= 1
        self._hashes.append(node)
        self._size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Add leaves in order."""
        for leaf in leaves:
            self.append(leaf)

    def root(self) -> bytes:
        """Return the root of the tree as it stands."""
        if not self._hashes:
            return EMPTY_ROOT
        *lefts, node = self._hashes
        for left in reversed(lefts):
            node = node_hash(left, node)
        return node


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> None:
    """Check that a leaf stands at an index of a tree (RFC 9162, section 2.1.3.2).

    Size and root have to come from a signed checkpoint: a proof alone holds for every size that asks for the same path.

    Args:
        index: the leaf's index, from 0.
        size: how many leaves the tree has.
        leaf: the leaf hash.
        proof: the hashes from the leaf's sibling up to the root's child.
        root: the tree's root.

    Raises:
        MalformedEvidence: a hash that is none, or more hashes than any tree asks for.
        InconsistentEvidence: the proof does not lead from the leaf to the root.
    """
    _check_proof(proof, leaf, root)
    if not 0 <= index < size:
        raise InconsistentEvidence(f"a tree of {size} leaves has no leaf at index {index}")
    at, last, node = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise InconsistentEvidence(f"the proof for index {index} has more hashes than a tree of {size} leaves asks for")
        if at & 1 or at == last:
            node = node_hash(sibling, node)
            at, last = _up_while_left(at, last)
        else:
            node = node_hash(node, sibling)
        at, last = at >> 1, last >> 1
    if last != 0 or node != root:
        raise InconsistentEvidence(f"the proof does not lead from the leaf at index {index} to the root of {size} leaves")


def verify_consistency(old_size: int, size: int, old_root: bytes, root: bytes, proof: Sequence[bytes]) -> None:
    """Check that a tree is an older one with leaves added at its end (RFC 9162, section 2.1.4.2).

    Sizes and roots have to come from signed checkpoints, as above. An older tree without leaves is refused: every tree is
    consistent with it, so a proof would show nothing.

    Args:
        old_size: how many leaves the older tree has, at least 1.
        size: how many leaves the newer tree has.
        old_root: the older tree's root.
        root: the newer tree's root.
        proof: the hashes, in RFC 6962's order.

    Raises:
        MalformedEvidence: a hash that is none, or more hashes than any tree asks for.
        InconsistentEvidence: the newer tree does not continue the older one, or the proof does not show it.
    """
    _check_proof(proof, old_root, root)
    if not 0 < old_size <= size:
        raise InconsistentEvidence(f"a tree of {size} leaves does not continue one of {old_size}")
    # Of one size there is one tree, and nothing to prove.
    at, last = (old_size - 1, size - 1) if old_size < size else (0, 0)
    while at & 1:
        at, last = at >> 1, last >> 1
    # The root of a perfect older tree is a node of the newer one, and left out of the proof.
    path = proof if at else (old_root, *proof)
    old = new = path[0] if path else b""
    for sibling in path[1:]:
        if last == 0:
            raise InconsistentEvidence(f"the proof has more hashes than a tree of {size} leaves asks for")
        if at & 1 or at == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            at, last = _up_while_left(at, last)
        else:
            new = node_hash(new, sibling)
        at, last = at >> 1, last >> 1
    if last != 0 or old != old_root or new != root:
        raise InconsistentEvidence(
            f"the tree of {size} leaves does not continue the one of {old_size}, or the proof is of others"
        )


def _up_while_left(at: int, last: int) -> tuple[int, int]:
    """Climb over the levels at which a right edge has no sibling."""
    while at and not at & 1:
        at, last = at >> 1, last >> 1
    return at, last


def _check_proof(proof: Sequence[bytes], *others: bytes) -> None:
    # The length comes first, so that a proof of thousands of hashes costs nothing.
    if len(proof) > MAX_PROOF_HASHES:
        raise MalformedEvidence(f"a proof of {len(proof)} hashes: no tree asks for more than {MAX_PROOF_HASHES}")
    _check_hashes(*proof, *others)


def _check_hashes(*hashes: bytes) -> None:
    if any(len(value) != HASH_BYTES for value in hashes):
        raise MalformedEvidence(f"a hash does not have {HASH_BYTES} bytes")
