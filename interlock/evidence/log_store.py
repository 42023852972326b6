"""The port behind which a log keeps what stands above its leaves: tree nodes, checkpoints, cosignatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import NoteSignature, SignedNote


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint as the log signed it, without the cosignatures, which come later.

    Args:
        checkpoint: what was signed.
        signatures: the log's own.
        made_at: when, as text (RFC 3339): no machine goes by it.
    """

    checkpoint: Checkpoint
    signatures: tuple[NoteSignature, ...]
    made_at: str

    @property
    def note(self) -> SignedNote:
        """The signed note."""
        return SignedNote(self.checkpoint.text, self.signatures)


@dataclass(frozen=True, slots=True)
class TreeNode:
    """The hash over a full tile: `256 ** level` leaves.

    Args:
        level: from 1.
        index: its place within the level.
        hash: of 32 bytes.
    """

    level: int
    index: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where an event stands in the log.

    Args:
        index: from 0; None while it has no position yet (PostgreSQL).
        hash: its leaf hash.
    """

    index: int | None
    hash: bytes


EventPlace = tuple[UUID, int]
"""An aggregate's id, and which of its events, counted from 1."""


class LogStore(Protocol):
    """Where a log keeps its tree and what it signed. No method writes anything else than it says."""

    def size(self) -> int:
        """Return how many leaves have a position."""
        ...

    def leaf_hashes(self, start: int, limit: int) -> list[bytes]:
        """Return leaf hashes, in order.

        Args:
            start: the first one's index, from 0.
            limit: how many at the most.
        """
        ...

    def node_hashes(self, level: int, start: int, limit: int) -> list[bytes]:
        """Return hashes over full tiles, in order.

        Args:
            level: from 1.
            start: the first one's index within the level.
            limit: how many at the most.
        """
        ...

    def leaves_of(self, places: Sequence[EventPlace]) -> Mapping[EventPlace, Leaf]:
        """Return where events stand; one that is not there is left out."""
        ...

    def last_checkpoint(self, *, below: int | None = None) -> StoredCheckpoint | None:
        """Return the largest checkpoint, or the largest of fewer leaves than `below`; None where there is none."""
        ...

    def checkpoint(self, size: int) -> StoredCheckpoint | None:
        """Return the checkpoint of a size."""
        ...

    def first_checkpoint(self, above: int) -> StoredCheckpoint | None:
        """Return the smallest checkpoint of more than so many leaves; None where there is none."""
        ...

    def add_nodes(self, nodes: Sequence[TreeNode]) -> None:
        """Keep hashes over full tiles; those that are there stay as they are."""
        ...

    def drop_nodes(self) -> None:
        """Forget all hashes over full tiles: they can be made again from the leaves."""
        ...

    def add_checkpoint(self, checkpoint: StoredCheckpoint, nodes: Sequence[TreeNode]) -> bool:
        """Keep a checkpoint and the nodes that came with it, in one transaction.

        Returns:
            False, and nothing was written, where there is one of that size or more: another leader was faster.
        """
        ...

    def add_cosignature(self, size: int, cosigner: str, line: str) -> None:
        """Keep a witness's cosignature; a second one by the same witness on the same checkpoint changes nothing.

        Args:
            size: of the checkpoint.
            cosigner: who: its verifier key's name and id.
            line: the signature line, with its newline.
        """
        ...

    def cosignatures(self, size: int) -> list[str]:
        """Return the cosignatures of a checkpoint, as lines."""
        ...

    def cosigned_sizes(self, origin: str, *, cosigner: str | None = None, limit: int = 1) -> list[int]:
        """Return the sizes of an origin's checkpoints that have cosignatures, largest first.

        Args:
            origin: the log's name in its epoch.
            cosigner: by this witness; by any unless given.
            limit: how many at the most.
        """
        ...
