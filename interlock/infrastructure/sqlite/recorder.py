"""The recorder: events, their digests, names and the summary row, in one immediate transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from typing import Any, ClassVar, cast
from uuid import UUID

from eventsourcing.persistence import PersistenceError, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder

from interlock.domain.action import GatedAction
from interlock.domain.cursors import Cursor
from interlock.domain.records import running_hash
from interlock.domain.summary import ActionSummary
from interlock.infrastructure.recording import (
    CHANGING_COLUMNS,
    SUMMARY_COLUMNS,
    Backlog,
    Batch,
    Moved,
    Name,
    StoredRow,
    SummaryFilter,
    clauses_of,
    digests_of,
)
from interlock.infrastructure.sqlite.connections import Datastore

_UPSERT_SUMMARY = (
    f"INSERT INTO receipts ({', '.join(SUMMARY_COLUMNS)}) VALUES ({', '.join('?' * len(SUMMARY_COLUMNS))}) "
    f"ON CONFLICT (action_id) DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in CHANGING_COLUMNS)}"
)


class Recorder(SQLiteApplicationRecorder):
    """eventsourcing's recorder on our table.

    `insert_events` is overridden and not `_insert_events`, which runs in a deferred transaction.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (PersistenceError, sqlite3.Error)
    datastore: Datastore

    def __init__(self, datastore: Datastore, log: str) -> None:
        super().__init__(datastore)
        self._log = log

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Write the events and their batch, or nothing.

        Raises:
            Moved: an aggregate is not at the expected version, or a name is taken.
        """
        batch: Batch = kwargs["batch"]
        with self.datastore.immediate() as cursor:
            heads = _require_versions(cursor, batch.expected)
            for name in batch.names:
                _take_name(cursor, name)
            last, running = _end_of_log(cursor)
            rows: list[tuple[Any, ...]] = []
            for position, event in enumerate(stored_events, last + 1):
                row = self._row(position, event, heads)
                running = running_hash(running, row[-1])
                rows.append((*row, running))
            cursor.executemany("INSERT INTO stored_events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            if batch.summary is not None:
                cursor.execute(_UPSERT_SUMMARY, _summary_values(batch.summary))
        return range(last + 1, last + 1 + len(stored_events))

    def _row(self, position: int, event: StoredEvent, heads: dict[UUID, bytes | None]) -> tuple[Any, ...]:
        """Return the event's row, and make it the head of its aggregate's chain."""
        aggregate_id = cast("UUID", event.originator_id)
        digests = digests_of(event, log=self._log, prev=heads[aggregate_id])
        heads[aggregate_id] = digests.leaf
        return (position, aggregate_id.hex, event.originator_version, event.topic, event.state, digests.state, digests.leaf)

    def events_of(self, aggregate_id: UUID) -> list[StoredEvent]:
        """Return the events of an aggregate, oldest first."""
        with self.datastore.reading() as cursor:
            return _events(cursor, aggregate_id.hex)

    def events_of_all(self, aggregate_ids: Sequence[UUID]) -> list[StoredEvent]:
        """Return the events of several aggregates, each one's oldest first."""
        marks = ", ".join("?" * len(aggregate_ids))
        with self.datastore.reading() as cursor:
            return _stored_events(cursor.execute(_SELECT_ALL.format(marks), [each.hex for each in aggregate_ids]))

    def events_named(self, *names: tuple[str, bytes]) -> list[list[StoredEvent]]:
        """Return the events of the aggregates that have these names; none where a name is free."""
        with self.datastore.reading() as cursor:
            return [_stored_events(cursor.execute(_SELECT_NAMED, name)) for name in names]

    def named(self, kind: str, digest: bytes) -> UUID | None:
        """Return the aggregate that has this name, whether its events can be read or not."""
        with self.datastore.reading() as cursor:
            row = cursor.execute("SELECT aggregate_id FROM names WHERE kind = ? AND digest = ?", (kind, digest)).fetchone()
        return UUID(row[0]) if row else None

    def version_of(self, aggregate_id: UUID) -> int:
        """Return the latest version of an aggregate, 0 where there is none."""
        sql = "SELECT max(originator_version) FROM stored_events WHERE originator_id = ?"
        with self.datastore.reading() as cursor:
            row = cursor.execute(sql, (aggregate_id.hex,)).fetchone()
        return int(row[0] or 0)

    def summaries(self, conditions: SummaryFilter, *, limit: int, after: str | None, newest_first: bool) -> list[ActionSummary]:
        """Return a page of summaries, ordered by the time of the action's first event."""
        clauses, values = clauses_of(conditions, mark="?", marked="attention = 1")
        if after is not None:
            clauses.append("action_id < ?" if newest_first else "action_id > ?")
            values.append(after)
        clause = f"WHERE {' AND '.join(clauses)} " if clauses else ""
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT {', '.join(SUMMARY_COLUMNS)} FROM receipts {clause}ORDER BY action_id {order} LIMIT ?"
        with self.datastore.reading() as cursor:
            return [_summary(row) for row in cursor.execute(sql, (*_as_stored(values), limit))]

    def replace_summaries(self, derive: Callable[[list[StoredEvent]], ActionSummary | None]) -> int:
        """Derive all summaries again from the events, in one transaction; return how many actions there are."""
        with self.datastore.immediate() as cursor:
            cursor.execute("DELETE FROM receipts")
            ids = cursor.execute(
                "SELECT DISTINCT originator_id FROM stored_events WHERE topic = ?", (GatedAction.Intended.TOPIC,)
            )
            action_ids = [row[0] for row in ids]
            for action_id in action_ids:
                summary = derive(_events(cursor, action_id))
                if summary is not None:
                    cursor.execute(_UPSERT_SUMMARY, _summary_values(summary))
        return len(action_ids)

    def redact(self, aggregate_id: UUID, summary: ActionSummary | None) -> None:
        """Forget the states of the events before an aggregate's Erased, and put another row in the place of its summary."""
        with self.datastore.immediate() as cursor:
            cursor.execute(_FORGET_STATES, (aggregate_id.hex, aggregate_id.hex))
            cursor.execute("DELETE FROM receipts WHERE action_id = ?", (aggregate_id.hex,))
            if summary is not None:
                cursor.execute(_UPSERT_SUMMARY, _summary_values(summary))
        with self.datastore.reading() as cursor, suppress(sqlite3.Error):  # a reader may hold it up: a later one does it
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def rows(self, *, after: int, limit: int, aggregate_id: UUID | None) -> list[StoredRow]:
        """Return rows of the log, by position."""
        where, values = "position > ?", [cast("Any", after)]
        if aggregate_id is not None:
            where, values = where + " AND originator_id = ?", [*values, aggregate_id.hex]
        sql = f"SELECT * FROM stored_events WHERE {where} ORDER BY position LIMIT ?"
        with self.datastore.reading() as cursor:
            return [StoredRow(*row) for row in cursor.execute(sql, (*values, limit))]

    def rows_without_position(self, aggregate_id: UUID | None) -> list[StoredRow]:
        """Return nothing: a position comes with the event."""
        del aggregate_id
        return []

    def tail(self, start: Cursor, limit: int) -> list[tuple[Cursor, StoredRow]]:
        """Return events from `start` on, itself included: one transaction writes after the other, so positions rise with time."""
        return [(Cursor(row.position or 0), row) for row in self.rows(after=start.order - 1, limit=limit, aggregate_id=None)]

    def backlog(self, after: Cursor) -> Backlog:
        """Return how much there is after a cursor; nothing is ever held back."""
        with self.datastore.reading() as cursor:
            (events,) = cursor.execute("SELECT count(*) FROM stored_events WHERE position > ?", (after.order,)).fetchone()
        return Backlog(int(events))

    def sequence(self, at_most: int) -> int:
        """Do nothing: a position comes with the event."""
        del at_most
        return 0

    def names(self) -> dict[tuple[str, bytes], str]:
        """Return which aggregate each taken name stands for."""
        with self.datastore.reading() as cursor:
            return {(row[0], row[1]): row[2] for row in cursor.execute("SELECT kind, digest, aggregate_id FROM names")}

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all that this thread reads until the end be of one moment."""
        return self.datastore.snapshot()

    def close(self) -> None:
        """Close all connections."""
        self.datastore.close()

    def holds(self, event: StoredEvent) -> bool:
        """Whether exactly this event is stored: its salt is random, so equal bytes are our own (I8)."""
        with self.datastore.reading() as cursor:
            row = cursor.execute(
                "SELECT state FROM stored_events WHERE originator_id = ? AND originator_version = ?",
                (UUID(str(event.originator_id)).hex, event.originator_version),
            ).fetchone()
        return row is not None and row["state"] == event.state


_FORGET_STATES = """
    UPDATE stored_events SET state = NULL
    WHERE originator_id = ? AND state IS NOT NULL AND originator_version < (
        SELECT max(originator_version) FROM stored_events
        WHERE originator_id = ? AND topic IN ('interlock.action.erased', 'interlock.approval.erased')
    )
"""
_SELECT = "SELECT originator_id, originator_version, topic, state FROM stored_events WHERE originator_id"
_ORDER = "ORDER BY originator_version"
_SELECT_ONE = f"{_SELECT} = ? {_ORDER}"
_SELECT_ALL = f"{_SELECT} IN ({{}}) ORDER BY originator_id, originator_version"
_SELECT_NAMED = f"{_SELECT} = (SELECT aggregate_id FROM names WHERE kind = ? AND digest = ?) {_ORDER}"


def _events(cursor: sqlite3.Cursor, aggregate_id: str) -> list[StoredEvent]:
    """Return the events of an aggregate, inside a transaction that is open already."""
    return _stored_events(cursor.execute(_SELECT_ONE, (aggregate_id,)))


def _stored_events(rows: Iterable[Any]) -> list[StoredEvent]:
    return [StoredEvent(UUID(row[0]), row[1], row[2], row[3]) for row in rows]


def _summary_values(summary: ActionSummary) -> tuple[Any, ...]:
    """Return the summary as the columns of its row."""
    return _as_stored(getattr(summary, column) for column in SUMMARY_COLUMNS)


def _as_stored(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values as they are stored: a time as text that is ordered as times are."""
    return tuple([value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value for value in values])


def _summary(row: sqlite3.Row) -> ActionSummary:
    """Return a row as a summary. What somebody put there by hand and is no time stays as it is, for `verify` to name."""
    values = dict(zip(SUMMARY_COLUMNS, row, strict=True))
    values["attention"] = {0: False, 1: True}.get(values["attention"], values["attention"])
    for column in _TIMES:
        with suppress(TypeError, ValueError):
            values[column] = datetime.fromisoformat(values[column])
    return ActionSummary(**values)


_TIMES = ("claim_expires_at", "intended_at", "changed_at")


_HEAD = "SELECT originator_version, leaf_hash FROM stored_events WHERE originator_id = ? ORDER BY originator_version DESC LIMIT 1"


def _require_versions(cursor: sqlite3.Cursor, expected: Sequence[tuple[UUID, int]]) -> dict[UUID, bytes | None]:
    """Return the leaf hash that each aggregate's chain ends with."""
    heads: dict[UUID, bytes | None] = {}
    for aggregate_id, version in expected:
        head_version, heads[aggregate_id] = cursor.execute(_HEAD, (aggregate_id.hex,)).fetchone() or (0, None)
        if head_version != version:
            raise Moved(aggregate_id)
    return heads


def _take_name(cursor: sqlite3.Cursor, name: Name) -> None:
    try:
        cursor.execute("INSERT INTO names VALUES (?, ?, ?)", (name.kind, name.digest, name.aggregate_id.hex))
    except sqlite3.IntegrityError:  # it is taken: the table's own trigger says so
        raise Moved(name.aggregate_id) from None


def _end_of_log(cursor: sqlite3.Cursor) -> tuple[int, bytes | None]:
    row = cursor.execute("SELECT position, running_hash FROM stored_events ORDER BY position DESC LIMIT 1").fetchone()
    return (int(row["position"]), row["running_hash"]) if row else (0, None)
