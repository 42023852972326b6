"""The journals that a test runs on, by the path that it would have as a file: SQLite's files, or schemas of one database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from harness.postgres.journals import with_schema

Row = dict[str, Any]


class Journals(Protocol):
    """Where journals are, and how somebody reads and edits them behind a gate's back."""

    def url(self, path: Path) -> str:
        """Return the URL of the journal at a path."""
        ...

    def log(self, path: Path) -> list[tuple[str, int, str]]:
        """Return aggregate, version and topic of every event, in order."""
        ...

    def rows(self, path: Path, table: str) -> list[Row]:
        """Return a table, in an order of its own that does not change."""
        ...

    def edit(self, path: Path, statement: str) -> int:
        """Change what no trigger would let through; return how many rows were changed."""
        ...

    def refuses(self, path: Path, statement: str) -> bool:
        """Say whether the database refuses a statement of its owner, while the triggers stand."""
        ...

    def holders(self, path: Path) -> list[str]:
        """Return the liveness locks that are held, or were left."""
        ...


class SQLiteJournals:
    """Files."""

    def url(self, path: Path) -> str:
        return f"sqlite:///{path}"

    def log(self, path: Path) -> list[tuple[str, int, str]]:
        statement = "SELECT originator_id, originator_version, topic FROM stored_events ORDER BY position"
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute(statement).fetchall()

    def rows(self, path: Path, table: str) -> list[Row]:
        with closing(sqlite3.connect(path)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")]  # noqa: S608 - a test's own

    def edit(self, path: Path, statement: str) -> int:
        with closing(sqlite3.connect(path)) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            return connection.execute(statement).rowcount

    def refuses(self, path: Path, statement: str) -> bool:
        with closing(sqlite3.connect(path)) as connection, connection:
            try:
                connection.execute(statement)
            except sqlite3.IntegrityError as error:
                return "append-only" in str(error)
        return False

    def holders(self, path: Path) -> list[str]:
        return sorted(file.name for file in Path(f"{path}-holders").iterdir())


class PostgresJournals:
    """Schemas of a database, made by the first gate that opens one.

    Args:
        url: the database's; its user has to be a superuser.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._schemas: dict[Path, str] = {}

    def url(self, path: Path) -> str:
        return with_schema(self._url, self._schema(path))

    def log(self, path: Path) -> list[tuple[str, int, str]]:
        statement = "SELECT originator_id, originator_version, topic FROM stored_events ORDER BY commit_order, arrival"
        with self._connection(path) as connection:
            return [(row[0].hex, row[1], row[2]) for row in connection.execute(statement)]

    def rows(self, path: Path, table: str) -> list[Row]:
        with self._connection(path) as connection, connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(f"SELECT * FROM {table} ORDER BY 1, 2".encode()).fetchall()  # noqa: S608 - as above

    def edit(self, path: Path, statement: str) -> int:
        with self._connection(path) as connection:
            connection.execute("SET session_replication_role = replica")
            return connection.execute(statement.encode()).rowcount

    def refuses(self, path: Path, statement: str) -> bool:
        with self._connection(path) as connection:
            try:
                connection.execute(statement.encode())
            except psycopg.errors.RestrictViolation as error:
                return "append-only" in str(error)
        return False

    def holders(self, path: Path) -> list[str]:
        statement = """
            SELECT objid::text FROM pg_locks, journal WHERE locktype = 'advisory' AND objsubid = 2 AND granted
            AND classid::bigint = (('x' || right(log, 8))::bit(32)::bigint + 2147483648) % 4294967296 ORDER BY 1
        """
        with self._connection(path) as connection:
            return [row[0] for row in connection.execute(statement)]

    def drop(self) -> None:
        """Drop every journal that was asked for."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            for schema in self._schemas.values():
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
        self._schemas.clear()

    def _schema(self, path: Path) -> str:
        return self._schemas.setdefault(path, f"j_{uuid4().hex}")

    @contextmanager
    def _connection(self, path: Path) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self._schema(path))))
            yield connection


class _Present:
    """The journals of the test that is running."""

    def __init__(self) -> None:
        self.journals: Journals = SQLiteJournals()

    @contextmanager
    def use(self, journals: Journals) -> Iterator[None]:
        """Run on other journals."""
        before, self.journals = self.journals, journals
        try:
            yield
        finally:
            self.journals = before


present = _Present()
