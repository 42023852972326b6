"""Where a program of the harness keeps its journals: files, or schemas of a PostgreSQL server that it starts for the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from harness.postgres.server import PostgresServer

_NAME = "journals"


class JournalKind(StrEnum):
    """What `--journal` takes."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"

    def __str__(self) -> str:
        return {"sqlite": "SQLite", "postgres": "PostgreSQL"}[self.value]


@contextmanager
def journal_database(kind: JournalKind, *, in_memory: bool) -> Iterator[str | None]:
    """Yield the URL of an empty database, whose server ends with the run; None where journals are files.

    Args:
        kind: which.
        in_memory: whether the server may keep its data in memory: where nothing is measured, and the server itself is not killed.

    Raises:
        PostgresUnavailable: there is no PostgreSQL here.
    """
    if kind is JournalKind.SQLITE:
        yield None
        return
    with PostgresServer.start(in_memory=in_memory) as server:
        yield server.create_database(_NAME)


def with_schema(url: str, schema: str) -> str:
    """Return the URL of the journal in a schema of the database."""
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@contextmanager
def fresh_schema(url: str, schema: str) -> Iterator[str]:
    """Yield the URL of a journal in a schema that is not there yet, and drop it afterwards."""
    import psycopg
    from psycopg import sql

    yield with_schema(url, schema)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
