"""The yardstick on PostgreSQL: two durable commits of the rows that the gate stored, and nothing else.

It is the least that a safe gate needs: everything that must be durable before the send, and the ending after it. Each commit is
one prepared statement, so one round trip; the tables and indexes are the journal's. Nothing is read, checked or hashed.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from harness.benchmarks.null import grant_and_fire
from interlock.domain.records import name_digest

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]

_SCHEMA = "raw"
_TABLES = ("stored_events", "names", "receipts")
_TEMPLATE = "raw-template"
_ENDING = ("interlock.action.committed", "interlock.approval.spent")
_GRANT = "interlock.approval.granted"


@dataclass(frozen=True, slots=True)
class Statement:
    """One commit: an SQL statement and its values."""

    sql: bytes
    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of one action, as the gate stored them.

    Attributes:
        columns: of an event's row, without what the database fills in.
        announced: the events of the first commit.
        ended: the events of the second.
        receipt: the action's row, by column.
    """

    columns: Sequence[str]
    announced: Sequence[Row]
    ended: Sequence[Row]
    receipt: dict[str, Any]

    @classmethod
    def read(cls, url: str) -> Template:
        """Read it from the journal in the default schema of a database."""
        with psycopg.connect(url, options="-c search_path=interlock") as connection:
            (log,) = _first(connection.execute("SELECT log FROM journal"))
            find = "SELECT aggregate_id FROM names WHERE kind = %s AND digest = %s"
            digests = [(kind, name_digest(log, kind, _TEMPLATE)) for kind in ("action", "approval")]
            ids = [_first(connection.execute(find, each))[0] for each in digests]
            columns, events = _rows(
                connection.execute("SELECT * FROM stored_events WHERE originator_id = ANY(%s) ORDER BY arrival", (ids,))
            )
            receipt_columns, receipts = _rows(connection.execute("SELECT * FROM receipts WHERE action_id = %s", (ids[0],)))
        kept = [i for i, column in enumerate(columns) if column != "arrival"]
        topic = columns.index("topic")
        return cls(
            columns=[columns[i] for i in kept],
            announced=[tuple(row[i] for i in kept) for row in events if row[topic] not in (_GRANT, *_ENDING)],
            ended=[tuple(row[i] for i in kept) for row in events if row[topic] in _ENDING],
            receipt=dict(zip(receipt_columns, receipts[0], strict=True)),
        )

    def bodies(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Return the aggregate's kind and the state of each event of the first commit, and of the second."""
        topic, state = self.columns.index("topic"), self.columns.index("state")
        first, second = (
            [(row[topic].split(".")[1], row[state].decode()) for row in rows] for rows in (self.announced, self.ended)
        )
        return first, second

    def commits(self) -> tuple[Statement, Statement]:
        """Return the two commits of another action: its ids and its name are new, and everything is as long as it was."""
        ids = {value: uuid.uuid4() for row in self.announced for value in row if isinstance(value, uuid.UUID)}
        announced, ended = (
            [ids.get(v, v) if isinstance(v, uuid.UUID) else v for row in rows for v in row]
            for rows in (self.announced, self.ended)
        )
        row = {**self.receipt, "action_id": ids[self.receipt["action_id"]]}
        flying = {**row, "version": row["version"] - 1, "status": "IN_FLIGHT", "via": None}
        name = ("action", secrets.token_bytes(32), row["action_id"])
        announce = (
            f"WITH events AS ({self._insert_events(len(self.announced))}), "  # noqa: S608 - our own tables
            f"name AS (INSERT INTO {_SCHEMA}.names VALUES (%s, %s, %s)) "
            f"INSERT INTO {_SCHEMA}.receipts VALUES ({_marks(len(row))})"
        )
        end = (
            f"WITH events AS ({self._insert_events(len(self.ended))}) UPDATE {_SCHEMA}.receipts "  # noqa: S608 - as above
            "SET version = %s, status = %s, via = %s, changed_at = %s WHERE action_id = %s"
        )
        return (
            Statement(announce.encode(), [*announced, *name, *flying.values()]),
            Statement(end.encode(), [*ended, row["version"], row["status"], row["via"], row["changed_at"], row["action_id"]]),
        )

    def _insert_events(self, rows: int) -> str:
        values = ", ".join([f"({_marks(len(self.columns))})"] * rows)
        return f"INSERT INTO {_SCHEMA}.stored_events ({', '.join(self.columns)}) VALUES {values}"  # noqa: S608 - our own tables


class RawPeer:
    """Writes the two commits of actions like one that a gate carried out.

    Args:
        connections: one a writer.
        template: that action.
    """

    def __init__(self, connections: Sequence[Connection], template: Template) -> None:
        self._connections = connections
        self._template = template
        self._commits: dict[str, tuple[Statement, Statement]] = {}

    def prepare(self, names: Sequence[str]) -> None:
        """Make the rows."""
        self._commits = {name: self._template.commits() for name in names}

    def act(self, writer: int, name: str) -> None:
        """Commit twice."""
        connection = self._connections[writer]
        for statement in self._commits[name]:
            connection.execute(statement.sql, statement.values, prepare=True)


def make_tables(url: str) -> None:
    """Make a journal with the action to copy, and its tables and indexes again, without triggers and rows.

    Args:
        url: an empty database.
    """
    grant_and_fire(url, _TEMPLATE)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {_SCHEMA}".encode())
        for table in _TABLES:
            connection.execute(f"CREATE TABLE {_SCHEMA}.{table} (LIKE interlock.{table} INCLUDING ALL)".encode())


@contextmanager
def open_raw(url: str, number: int, writers: int) -> Generator[RawPeer]:
    """Open a connection for each writer; the arguments are those of `open_gate`."""
    del number
    with ExitStack() as stack:
        connections = [stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(max(writers, 1))]
        yield RawPeer(connections, Template.read(url))


def _marks(count: int) -> str:
    return ", ".join(["%s"] * count)


def _rows(found: psycopg.Cursor[Row]) -> tuple[list[str], list[Row]]:
    assert found.description is not None, "it is a query"
    return [column.name for column in found.description], found.fetchall()


def _first(found: psycopg.Cursor[Row]) -> Row:
    row = found.fetchone()
    assert row is not None, "it returns one row"
    return row
