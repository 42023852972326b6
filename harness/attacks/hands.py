"""What the owner of a database can do to a journal in it: everything, once the triggers are out of the way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from interlock.domain.records import leaf_hash, record, running_hash, state_digest
from interlock.infrastructure.opening import open_journal

LOG_TABLES = ("log_nodes", "checkpoints", "cosignatures")


@dataclass(frozen=True, slots=True)
class Row:
    """One event, as it stands in the log."""

    position: int
    aggregate: UUID
    version: int
    topic: str
    state: bytes

    @property
    def event(self) -> str:
        return self.topic.rpartition(".")[2]


class Hands(Protocol):
    """An owner's hands on one journal."""

    url: str

    def rows(self) -> list[Row]:
        """Return the events, in the log's order."""
        ...

    def set(self, row: Row, column: str, value: object) -> None:
        """Set a column of an event."""
        ...

    def swap_places(self, one: Row, other: Row) -> None:
        """Let two events change places in the log's order."""
        ...

    def remove(self, rows: Iterable[Row]) -> None:
        """Delete events, and nothing else."""
        ...

    def forget_log(self) -> None:
        """Delete the tree, the checkpoints and the cosignatures."""
        ...

    def replace(self, rows: Sequence[Row], hashes: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Put other events in the place of all: their digests, leaf hashes and running hashes come with them."""
        ...

    def save(self) -> Any:
        """Take a backup."""
        ...

    def restore(self, backup: Any) -> None:
        """Put a backup back."""
        ...


def rewrite(hands: Hands, rows: Sequence[Row]) -> None:
    """Put other events in the place of all, with every hash as if they had always been there, and what is derived from them."""
    log = _log_id(hands.url)
    renumbered = [replace(row, position=position) for position, row in enumerate(rows, 1)]
    hands.replace(renumbered, list(_hashes(log, renumbered)))
    with open_journal(hands.url, create=False) as journal:
        journal.rebuild_summaries()


def _hashes(log: str, rows: Sequence[Row]) -> Iterator[tuple[bytes, bytes, bytes]]:
    heads: dict[UUID, bytes] = {}
    running: bytes | None = None
    for row in rows:
        digest = state_digest(row.state)
        header = record(
            log=log,
            aggregate_id=row.aggregate,
            version=row.version,
            topic=row.topic,
            state=digest,
            prev=heads.get(row.aggregate),
        )
        leaf = heads[row.aggregate] = leaf_hash(header)
        running = running_hash(running, leaf)
        yield digest, leaf, running


def _log_id(url: str) -> str:
    with open_journal(url, create=False) as journal:
        return journal.log_id


class FileHands:
    """A file of SQLite's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            yield connection

    def rows(self) -> list[Row]:
        sql = "SELECT position, originator_id, originator_version, topic, state FROM stored_events ORDER BY position"
        with self._connection() as connection:
            return [Row(position, UUID(one), *rest) for position, one, *rest in connection.execute(sql)]

    def set(self, row: Row, column: str, value: object) -> None:
        with self._connection() as connection:
            connection.execute(f"UPDATE stored_events SET {column} = ? WHERE position = ?", (value, row.position))  # noqa: S608 - ours

    def swap_places(self, one: Row, other: Row) -> None:
        with self._connection() as connection:
            for position, target in ((one.position, -1), (other.position, one.position), (-1, other.position)):
                connection.execute("UPDATE stored_events SET position = ? WHERE position = ?", (target, position))

    def remove(self, rows: Iterable[Row]) -> None:
        with self._connection() as connection:
            connection.executemany("DELETE FROM stored_events WHERE position = ?", [(row.position,) for row in rows])

    def forget_log(self) -> None:
        with self._connection() as connection:
            for table in LOG_TABLES:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - ours

    def replace(self, rows: Sequence[Row], hashes: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        values = [
            (row.position, row.aggregate.hex, row.version, row.topic, row.state, *three)
            for row, three in zip(rows, hashes, strict=True)
        ]
        kept = {row.aggregate.hex for row in rows}
        with self._connection() as connection:
            connection.execute("DELETE FROM stored_events")
            connection.executemany("INSERT INTO stored_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            gone = [one for (one,) in connection.execute("SELECT aggregate_id FROM names") if one not in kept]
            connection.executemany("DELETE FROM names WHERE aggregate_id = ?", [(one,) for one in gone])

    def save(self) -> bytes:
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._path.read_bytes()

    def restore(self, backup: bytes) -> None:
        for suffix in ("-wal", "-shm"):
            self._path.with_name(f"{self._path.name}{suffix}").unlink(missing_ok=True)
        self._path.write_bytes(backup)


class SchemaHands:
    """A schema of a PostgreSQL database, whose superuser the owner is.

    Args:
        database: the URL of the database.
        schema: the schema's name.
        url: the journal's.
    """

    def __init__(self, database: str, schema: str, url: str) -> None:
        self._database, self._schema, self.url = database, schema, url

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import psycopg
        from psycopg import sql

        with psycopg.connect(self._database) as connection:
            connection.execute("SET session_replication_role = replica")  # no trigger wakes up
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self._schema)))
            yield connection

    def rows(self) -> list[Row]:
        sql = (
            "SELECT p.position, e.originator_id, e.originator_version, e.topic, e.state FROM positions p "
            "JOIN stored_events e USING (originator_id, originator_version) ORDER BY p.position"
        )
        with self._connection() as connection:
            return [Row(*row) for row in connection.execute(sql)]

    def set(self, row: Row, column: str, value: object) -> None:
        sql = f"UPDATE stored_events SET {column} = %s WHERE originator_id = %s AND originator_version = %s"  # noqa: S608 - ours
        with self._connection() as connection:
            connection.execute(sql, (value, row.aggregate, row.version))

    def swap_places(self, one: Row, other: Row) -> None:
        """Swap them in the order in which followers read too, or the two orders would contradict each other."""
        with self._connection() as connection:
            taken = [self._take(connection, row) for row in (one, other)]
            for (event, place), (other_event, other_place) in (taken, taken[::-1]):
                self._insert(connection, "stored_events", (*event[:-2], *other_event[-2:]))
                self._insert(connection, "positions", (other_place[0], *place[1:3], *other_place[3:]))

    def _take(self, connection: Any, row: Row) -> list[tuple[Any, ...]]:
        places = "originator_id = %s AND originator_version = %s"
        return [
            connection.execute(f"DELETE FROM {table} WHERE {places} RETURNING *", (row.aggregate, row.version)).fetchone()  # noqa: S608
            for table in ("stored_events", "positions")
        ]

    def _insert(self, connection: Any, table: str, values: tuple[Any, ...]) -> None:
        marks = ", ".join(["%s"] * len(values))
        connection.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE VALUES ({marks})", values)  # noqa: S608 - ours

    def remove(self, rows: Iterable[Row]) -> None:
        with self._connection() as connection:
            for row in rows:
                connection.execute(
                    "DELETE FROM stored_events WHERE originator_id = %s AND originator_version = %s", (row.aggregate, row.version)
                )

    def forget_log(self) -> None:
        with self._connection() as connection:
            for table in LOG_TABLES:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - ours

    def replace(self, rows: Sequence[Row], hashes: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        with self._connection() as connection:
            orders = connection.execute("SELECT commit_order, arrival FROM positions ORDER BY position").fetchall()
            orders += [(orders[-1][0], orders[-1][1] + 1000 + more) for more in range(max(0, len(rows) - len(orders)))]
            connection.execute("DELETE FROM stored_events")
            connection.execute("DELETE FROM positions")
            for row, (digest, leaf, running), order in zip(rows, hashes, orders[: len(rows)], strict=True):
                event = (row.aggregate, row.version, row.topic, row.state, digest, leaf, *order)
                self._insert(connection, "stored_events", event)
                self._insert(connection, "positions", (row.position, row.aggregate, row.version, *order, running))
            connection.execute("DELETE FROM names WHERE NOT aggregate_id = ANY(%s)", ([row.aggregate for row in rows],))

    def save(self) -> dict[str, list[tuple[Any, ...]]]:
        with self._connection() as connection:
            return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in _TABLES}  # noqa: S608 - ours

    def restore(self, backup: dict[str, list[tuple[Any, ...]]]) -> None:
        with self._connection() as connection:
            for table, rows in backup.items():
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
                for row in rows:
                    self._insert(connection, table, row)


_TABLES = ("stored_events", "positions", "names", "receipts", *LOG_TABLES)
