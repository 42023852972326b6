"""The log's tree and checkpoints in the schema of the journal on PostgreSQL."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

import psycopg
from psycopg.errors import UniqueViolation

from interlock.infrastructure.log_store import Execute, SqlLogStore
from interlock.infrastructure.postgres.connections import Connections


class PostgresLogStore(SqlLogStore):
    """A `LogStore` in the journal's schema: the sequencer says which event has which index."""

    errors = (psycopg.Error,)
    unique = (UniqueViolation,)
    size_sql = "SELECT max(position) FROM positions"
    leaves_sql = (
        "SELECT e.leaf_hash FROM positions p "
        "JOIN stored_events e USING (originator_id, originator_version, commit_order, arrival) "
        "WHERE p.position > ? AND p.position <= ? ORDER BY p.position"
    )
    places_sql = (
        "SELECT e.originator_id, e.originator_version, p.position, e.leaf_hash FROM stored_events e "
        "LEFT JOIN positions p USING (originator_id, originator_version)"
    )

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def _read(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._connections.lend() as connection:
            return connection.execute(_marked(statement), values).fetchall()

    @contextmanager
    def _writing(self) -> Generator[Execute]:
        with self._connections.lend() as connection, connection.transaction():
            yield lambda statement, values: connection.execute(_marked(statement), values).rowcount

    def _as_id(self, aggregate_id: UUID) -> UUID:
        return aggregate_id

    def _from_id(self, value: Any) -> UUID:
        return cast("UUID", value)


def _marked(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()
