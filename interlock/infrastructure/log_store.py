"""Where a log keeps its tree and what it signed, as far as both databases do it in the same words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar
from uuid import UUID

from interlock.errors import JournalCorrupt, JournalUnavailable, MalformedEvidence
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.log_store import EventPlace, Leaf, StoredCheckpoint, TreeNode
from interlock.evidence.notes import NoteSignature

Execute = Callable[[str, Sequence[Any]], int]
"""Runs a statement inside a transaction, and returns how many rows it changed."""

_PLACES_AT_ONCE = 200
_CHECKPOINT = "SELECT size, origin, root, signatures, made_at FROM checkpoints"
_COSIGNED = "SELECT DISTINCT c.size FROM cosignatures w JOIN checkpoints c ON c.size = w.size WHERE c.origin = ?"


class SqlLogStore(ABC):
    """A `LogStore` in the journal's database. Statements mark their values with `?`.

    Attributes:
        errors: what the database raises when it can't do as it was asked.
        unique: what it raises where a row is there already.
    """

    errors: ClassVar[tuple[type[Exception], ...]]
    unique: ClassVar[tuple[type[Exception], ...]]
    size_sql: ClassVar[str]
    leaves_sql: ClassVar[str]
    places_sql: ClassVar[str]

    @abstractmethod
    def _read(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Execute]:
        """Give a transaction, which is committed at the end."""

    @abstractmethod
    def _as_id(self, aggregate_id: UUID) -> Any:
        """Return an aggregate's id as the database has it."""

    @abstractmethod
    def _from_id(self, value: Any) -> UUID:
        """Return an aggregate's id again."""

    def size(self) -> int:
        """Return how many leaves have a position."""
        return int(self._rows(self.size_sql)[0][0] or 0)

    def leaf_hashes(self, start: int, limit: int) -> list[bytes]:
        """Return leaf hashes, in order."""
        return [row[0] for row in self._rows(self.leaves_sql, start, start + limit)]

    def node_hashes(self, level: int, start: int, limit: int) -> list[bytes]:
        """Return hashes over full tiles, in order."""
        statement = "SELECT hash FROM log_nodes WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx"
        return [row[0] for row in self._rows(statement, level, start, start + limit)]

    def leaves_of(self, places: Sequence[EventPlace]) -> Mapping[EventPlace, Leaf]:
        """Return where events stand; one that is not there is left out."""
        found: dict[EventPlace, Leaf] = {}
        for at in range(0, len(places), _PLACES_AT_ONCE):
            part = places[at : at + _PLACES_AT_ONCE]
            condition = " OR ".join(["(e.originator_id = ? AND e.originator_version = ?)"] * len(part))
            values = [value for aggregate_id, version in part for value in (self._as_id(aggregate_id), version)]
            for given_id, version, position, leaf in self._rows(f"{self.places_sql} WHERE {condition}", *values):
                found[self._from_id(given_id), version] = Leaf(None if position is None else position - 1, leaf)
        return found

    def last_checkpoint(self, *, below: int | None = None) -> StoredCheckpoint | None:
        """Return the largest checkpoint, or the largest of fewer leaves than `below`; None where there is none."""
        condition, values = ("", ()) if below is None else (" WHERE size < ?", (below,))
        rows = self._rows(f"{_CHECKPOINT}{condition} ORDER BY size DESC LIMIT 1", *values)
        return _stored(rows[0]) if rows else None

    def checkpoint(self, size: int) -> StoredCheckpoint | None:
        """Return the checkpoint of a size."""
        rows = self._rows(f"{_CHECKPOINT} WHERE size = ?", size)
        return _stored(rows[0]) if rows else None

    def first_checkpoint(self, above: int) -> StoredCheckpoint | None:
        """Return the smallest checkpoint of more than so many leaves; None where there is none."""
        rows = self._rows(f"{_CHECKPOINT} WHERE size > ? ORDER BY size LIMIT 1", above)
        return _stored(rows[0]) if rows else None

    def add_nodes(self, nodes: Sequence[TreeNode]) -> None:
        """Keep hashes over full tiles; those that are there stay as they are."""
        with self._transaction() as execute:
            _insert_nodes(execute, nodes)

    def drop_nodes(self) -> None:
        """Forget all hashes over full tiles: they can be made again from the leaves."""
        with self._transaction() as execute:
            execute("DELETE FROM log_nodes", ())

    def add_checkpoint(self, checkpoint: StoredCheckpoint, nodes: Sequence[TreeNode]) -> bool:
        """Keep a checkpoint and the nodes that came with it; False where another leader was faster."""
        signed = checkpoint.checkpoint
        lines = "".join(signature.line for signature in checkpoint.signatures)
        try:
            with self._transaction() as execute:
                added = execute(
                    "INSERT INTO checkpoints (size, origin, root, signatures, made_at) SELECT ?, ?, ?, ?, ? "
                    "WHERE NOT EXISTS (SELECT 1 FROM checkpoints WHERE size >= ?)",
                    (signed.size, signed.origin, signed.root, lines, checkpoint.made_at, signed.size),
                )
                if added:
                    _insert_nodes(execute, nodes)
        except _Taken:
            return False
        return added == 1

    def add_cosignature(self, size: int, cosigner: str, line: str) -> None:
        """Keep a witness's cosignature; a second one by the same witness on the same checkpoint changes nothing."""
        try:
            with self._transaction() as execute:
                execute(
                    "INSERT INTO cosignatures (size, cosigner, line) SELECT ?, ?, ? "
                    "WHERE NOT EXISTS (SELECT 1 FROM cosignatures WHERE size = ? AND cosigner = ?)",
                    (size, cosigner, line, size, cosigner),
                )
        except _Taken:
            return

    def cosignatures(self, size: int) -> list[str]:
        """Return the cosignatures of a checkpoint, as lines."""
        return [row[0] for row in self._rows("SELECT line FROM cosignatures WHERE size = ? ORDER BY cosigner", size)]

    def cosigned_sizes(self, origin: str, *, cosigner: str | None = None, limit: int = 1) -> list[int]:
        """Return the sizes of an origin's checkpoints that have cosignatures, largest first."""
        one, values = ("", ()) if cosigner is None else (" AND w.cosigner = ?", (cosigner,))
        rows = self._rows(f"{_COSIGNED}{one} ORDER BY c.size DESC LIMIT ?", origin, *values, limit)
        return [int(row[0]) for row in rows]

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._read(statement, values)
        except self.errors as error:
            raise JournalUnavailable(f"the log could not be read: {error}; nothing was signed") from error

    @contextmanager
    def _transaction(self) -> Generator[Execute]:
        try:
            with self._writing() as execute:
                yield execute
        except self.unique as error:
            raise _Taken from error
        except self.errors as error:
            raise JournalUnavailable(f"the log could not be written: {error}; it is tried again") from error


class _Taken(Exception):
    """Somebody else wrote that row."""


def _insert_nodes(execute: Execute, nodes: Iterable[TreeNode]) -> None:
    # What is there is what another leader made of the same leaves; a proof from a wrong one would not lead to a signed root.
    for node in nodes:
        execute(
            "INSERT INTO log_nodes (level, idx, hash) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (node.level, node.index, node.hash),
        )


def _stored(row: tuple[Any, ...]) -> StoredCheckpoint:
    size, origin, root, signatures, made_at = row
    try:
        lines = str(signatures).splitlines()
        return StoredCheckpoint(Checkpoint(origin, size, root), tuple(map(NoteSignature.parse, lines)), made_at)
    except (MalformedEvidence, TypeError) as error:
        raise JournalCorrupt(f"the checkpoint of {size} leaves can't be read: {error}; run `interlock verify`") from error
