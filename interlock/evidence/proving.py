"""Proofs of inclusion and consistency, made from whatever can tell the hash of a node (RFC 6962, section 2.1)."""

from __future__ import annotations

from typing import Protocol

from interlock.evidence.merkle import Frontier, node_hash, split_point


class NodeReader(Protocol):
    """What a proof is made from: a store of tiles, of nodes, or of leaves."""

    def node(self, height: int, index: int) -> bytes:
        """Return the root over leaves `index * 2**height` up to `(index + 1) * 2**height`, all of which exist.

        Args:
            height: 0 for a leaf.
            index: its place among the nodes of that height.
        """
        ...


def inclusion_proof(index: int, size: int, nodes: NodeReader) -> tuple[bytes, ...]:
    """Return the proof that a leaf stands at an index, from the leaf's sibling up to the root's child.

    Args:
        index: the leaf's index, from 0.
        size: how many leaves the tree has that is proven against.
        nodes: the tree, of that size or larger.

    Raises:
        ValueError: the tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf at index {index}")
    start, end, path = 0, size, list[bytes]()
    while end - start > 1:
        middle = start + split_point(end - start)
        if index < middle:
            path.append(range_root(middle, end, nodes))
            end = middle
        else:
            path.append(range_root(start, middle, nodes))
            start = middle
    return tuple(reversed(path))


def consistency_proof(old_size: int, size: int, nodes: NodeReader) -> tuple[bytes, ...]:
    """Return the proof that a tree continues its own first leaves.

    Args:
        old_size: how many leaves the older tree has, at least 1.
        size: how many leaves the newer tree has.
        nodes: the newer tree, of that size or larger.

    Raises:
        ValueError: there is no such pair of trees.
    """
    if not 0 < old_size <= size:
        raise ValueError(f"a tree of {size} leaves does not continue one of {old_size}")
    start, end, path = 0, size, list[bytes]()
    while old_size != end:
        middle = start + split_point(end - start)
        if old_size <= middle:
            path.append(range_root(middle, end, nodes))
            end = middle
        else:
            path.append(range_root(start, middle, nodes))
            start = middle
    if start:  # otherwise it is the older root, which the verifier has
        path.append(range_root(start, end, nodes))
    return tuple(reversed(path))


def range_root(start: int, end: int, nodes: NodeReader) -> bytes:
    """Return the root over a range of leaves that is a subtree.

    Args:
        start: its first index, a multiple of a power of two that holds the range.
        end: the index behind its last.
        nodes: the tree.
    """
    width = end - start
    if width & (width - 1) == 0:
        height = width.bit_length() - 1
        return nodes.node(height, start >> height)
    middle = start + split_point(width)
    return node_hash(range_root(start, middle, nodes), range_root(middle, end, nodes))


def frontier_at(size: int, nodes: NodeReader) -> Frontier:
    """Return the frontier of a tree's first leaves, so that one can go on appending.

    Args:
        size: how many leaves.
        nodes: the tree, of that size or larger.
    """
    start, hashes = 0, list[bytes]()
    for height in reversed(range(size.bit_length())):
        if size >> height & 1:
            hashes.append(nodes.node(height, start >> height))
            start += 1 << height
    return Frontier(size, hashes)
