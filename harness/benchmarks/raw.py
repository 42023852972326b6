"""The yardstick: two durable commits of the very bytes that the gate stored for an action, through plain `sqlite3`.

It is the least that a safe gate needs: everything that must be durable before the send, and the ending after it. The tables
and indexes are the journal's. Its triggers, and whatever is read and checked, are the gate's own cost and are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interlock.domain.records import name_digest

Row = tuple[Any, ...]
Commit = Sequence[tuple[str, Sequence[Row]]]
"""Statements of one transaction, each with the rows that it writes."""

_BUSY_TIMEOUT_S = 60
_ENDING = ("interlock.action.committed", "interlock.approval.spent")
_GRANT = "interlock.approval.granted"


def connect(path: Path) -> sqlite3.Connection:
    """Open a file whose commits are as durable as the gate's."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_TIMEOUT_S)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def make_equal_schema(journal: sqlite3.Connection, raw: sqlite3.Connection) -> None:
    """Make the tables and indexes of a journal, without its triggers."""
    for (statement,) in journal.execute("SELECT sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL"):
        raw.execute(statement)


def stored_commits(journal: sqlite3.Connection, key: str, approval_id: str) -> tuple[Commit, Commit]:
    """Return what the two commits of a committed action wrote, as it stands in its journal."""
    action_id, name = _named(journal, "action", key)
    aggregate_ids = (action_id, _named(journal, "approval", approval_id)[0])
    select = "SELECT {} FROM stored_events WHERE originator_id IN (?, ?) ORDER BY position"
    topics = [topic for (topic,) in journal.execute(select.format("topic"), aggregate_ids)]
    events = list(zip(topics, journal.execute(select.format("*"), aggregate_ids).fetchall(), strict=True))
    announced = [row for topic, row in events if topic not in (_GRANT, *_ENDING)]
    ended = [row for topic, row in events if topic in _ENDING]
    receipt = journal.execute("SELECT * FROM receipts WHERE action_id = ?", (action_id,))
    row: dict[str, Any] = dict(zip([column[0] for column in receipt.description], receipt.fetchone(), strict=True))
    flying = {**row, "version": row["version"] - 1, "status": "IN_FLIGHT", "via": None}
    return (
        [
            (insert("stored_events", announced[0]), announced),
            (insert("names", name), [name]),
            (insert("receipts", tuple(row)), [tuple(flying.values())]),
        ],
        [
            (insert("stored_events", ended[0]), ended),
            (
                "UPDATE receipts SET version = ?, status = ?, via = ?, changed_at = ? WHERE action_id = ?",
                [(row["version"], row["status"], row["via"], row["changed_at"], action_id)],
            ),
        ],
    )


def write(raw: sqlite3.Connection, commits: Sequence[Commit]) -> None:
    """Write each commit in a transaction of its own."""
    for commit in commits:
        raw.execute("BEGIN IMMEDIATE")
        for statement, rows in commit:
            raw.executemany(statement, rows)
        raw.execute("COMMIT")


def insert(table: str, row: Row) -> str:
    """Return the statement that inserts such a row."""
    return f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - our own tables


def _named(journal: sqlite3.Connection, kind: str, name: str) -> tuple[str, Row]:
    (log,) = journal.execute("SELECT log FROM journal").fetchone()
    digest = name_digest(log, kind, name)
    row = journal.execute("SELECT aggregate_id, * FROM names WHERE kind = ? AND digest = ?", (kind, digest)).fetchone()
    return row[0], row[1:]
