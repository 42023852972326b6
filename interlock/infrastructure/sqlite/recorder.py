"""The recorder: events, their digests, names and the summary row, in one immediate transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder

from interlock.domain.records import leaf_hash, record, running_hash, state_digest
from interlock.domain.summary import ActionSummary
from interlock.infrastructure.sqlite.connections import Datastore

SUMMARY_COLUMNS = tuple(field.name for field in fields(ActionSummary))

_UPSERT_SUMMARY = (
    f"INSERT INTO receipts ({', '.join(SUMMARY_COLUMNS)}) VALUES ({', '.join('?' * len(SUMMARY_COLUMNS))}) "
    f"ON CONFLICT (action_id) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in SUMMARY_COLUMNS[1:])}"
)


class Moved(Exception):
    """Somebody else wrote to an aggregate, or took a name; nothing was written."""

    def __init__(self, aggregate_id: UUID) -> None:
        self.aggregate_id = aggregate_id
        super().__init__(str(aggregate_id))


@dataclass(frozen=True, slots=True)
class Name:
    """A name that an aggregate takes with its first event."""

    kind: str
    digest: bytes
    aggregate_id: UUID


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written in one transaction, beside the events.

    Args:
        names: taken by new aggregates.
        expected: the version that each aggregate has to be at; its transaction fails otherwise (I3, rule 5).
        summary: the action's row.
    """

    names: tuple[Name, ...]
    expected: tuple[tuple[UUID, int], ...]
    summary: ActionSummary | None


class Recorder(SQLiteApplicationRecorder):
    """eventsourcing's recorder on our table.

    `insert_events` is overridden and not `_insert_events`, which runs in a deferred transaction.
    """

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
                cursor.execute(_UPSERT_SUMMARY, summary_values(batch.summary))
        return range(last + 1, last + 1 + len(stored_events))

    def _row(self, position: int, event: StoredEvent, heads: dict[UUID, bytes | None]) -> tuple[Any, ...]:
        """Return the event's row, and make it the head of its aggregate's chain."""
        aggregate_id = cast("UUID", event.originator_id)
        digest = state_digest(event.state)
        header = record(
            log=self._log,
            aggregate_id=aggregate_id,
            version=event.originator_version,
            topic=event.topic,
            state=digest,
            prev=heads[aggregate_id],
        )
        leaf = heads[aggregate_id] = leaf_hash(header)
        return (position, aggregate_id.hex, event.originator_version, event.topic, event.state, digest, leaf)

    def select_named(self, kind: str, digest: bytes) -> list[StoredEvent]:
        """Return the events of the aggregate that has this name; none where the name is free."""
        with self.datastore.reading() as cursor:
            return _stored_events(cursor.execute(_SELECT_NAMED, (kind, digest)))

    def holds(self, event: StoredEvent) -> bool:
        """Whether exactly this event is stored: its salt is random, so equal bytes are our own (I8)."""
        with self.datastore.reading() as cursor:
            row = cursor.execute(
                "SELECT state FROM stored_events WHERE originator_id = ? AND originator_version = ?",
                (UUID(str(event.originator_id)).hex, event.originator_version),
            ).fetchone()
        return row is not None and row["state"] == event.state


_SELECT = "SELECT originator_id, originator_version, topic, state FROM stored_events WHERE originator_id ="
_ORDER = "ORDER BY originator_version"
_SELECT_NAMED = f"{_SELECT} (SELECT aggregate_id FROM names WHERE kind = ? AND digest = ?) {_ORDER}"


def select_events(cursor: sqlite3.Cursor, aggregate_id: str) -> list[StoredEvent]:
    """Return the events of an aggregate, inside a transaction that is open already."""
    return _stored_events(cursor.execute(f"{_SELECT} ? {_ORDER}", (aggregate_id,)))


def _stored_events(rows: Iterable[Any]) -> list[StoredEvent]:
    return [StoredEvent(UUID(row[0]), row[1], row[2], row[3]) for row in rows]


def summary_values(summary: ActionSummary) -> tuple[Any, ...]:
    """Return the summary as the columns of its row."""
    values = (getattr(summary, column) for column in SUMMARY_COLUMNS)
    return tuple(value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value for value in values)


def _require_versions(cursor: sqlite3.Cursor, expected: Sequence[tuple[UUID, int]]) -> dict[UUID, bytes | None]:
    """Return the leaf hash that each aggregate's chain ends with.

    SQLite takes a bare column from the row that has the maximum (sqlite.org/lang_select.html, section 2.5).
    """
    marks = ", ".join("?" * len(expected))
    rows = cursor.execute(
        "SELECT originator_id, max(originator_version) AS version, leaf_hash FROM stored_events "
        f"WHERE originator_id IN ({marks}) GROUP BY originator_id",
        [aggregate_id.hex for aggregate_id, _ in expected],
    )
    found = {UUID(row["originator_id"]): (row["version"], row["leaf_hash"]) for row in rows}
    for aggregate_id, version in expected:
        if found.get(aggregate_id, (0, None))[0] != version:
            raise Moved(aggregate_id)
    return {aggregate_id: found.get(aggregate_id, (0, None))[1] for aggregate_id, _ in expected}


def _take_name(cursor: sqlite3.Cursor, name: Name) -> None:
    try:
        cursor.execute("INSERT INTO names VALUES (?, ?, ?)", (name.kind, name.digest, name.aggregate_id.hex))
    except sqlite3.IntegrityError:  # it is taken: the table's own trigger says so
        raise Moved(name.aggregate_id) from None


def _end_of_log(cursor: sqlite3.Cursor) -> tuple[int, bytes | None]:
    row = cursor.execute("SELECT position, running_hash FROM stored_events ORDER BY position DESC LIMIT 1").fetchone()
    return (int(row["position"]), row["running_hash"]) if row else (0, None)
