"""The log's tree and checkpoints in the SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from eventsourcing.persistence import PersistenceError

from interlock.infrastructure.log_store import Execute, SqlLogStore
from interlock.infrastructure.sqlite.connections import Datastore


class SQLiteLogStore(SqlLogStore):
    """A `LogStore` in the journal's file: a leaf's index is its event's position - 1."""

    errors = (PersistenceError, sqlite3.Error)
    unique = (sqlite3.IntegrityError,)
    size_sql = "SELECT max(position) FROM stored_events"
    leaves_sql = "SELECT leaf_hash FROM stored_events WHERE position > ? AND position <= ? ORDER BY position"
    places_sql = "SELECT e.originator_id, e.originator_version, e.position, e.leaf_hash FROM stored_events e"

    def __init__(self, datastore: Datastore) -> None:
        self._datastore = datastore

    def _read(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._datastore.reading() as cursor:
            return [tuple(row) for row in cursor.execute(statement, values)]

    @contextmanager
    def _writing(self) -> Generator[Execute]:
        with self._datastore.immediate() as cursor:
            yield lambda statement, values: cursor.execute(statement, values).rowcount

    def _as_id(self, aggregate_id: UUID) -> str:
        return aggregate_id.hex

    def _from_id(self, value: Any) -> UUID:
        return UUID(value)
