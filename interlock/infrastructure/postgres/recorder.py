"""The recorder: all that one commit needs in one statement, and no writer waits for another, except on one approval."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, ClassVar, cast
from uuid import UUID

import psycopg
from eventsourcing.persistence import ApplicationRecorder, PersistenceError, StoredEvent
from psycopg import errors

from interlock.domain.action import GatedAction
from interlock.domain.cursors import Cursor
from interlock.domain.summary import ActionSummary
from interlock.errors import JournalUnavailable
from interlock.infrastructure.postgres.appending import Commit, Head, commit_of, summary_values
from interlock.infrastructure.postgres.connections import Connection, Connections, end_session
from interlock.infrastructure.postgres.schema import require_held, require_same
from interlock.infrastructure.postgres.statements import Statement, Value, as_integer, boolean, integer, text, uuid, uuids
from interlock.infrastructure.recording import SUMMARY_COLUMNS, Backlog, Batch, Moved, StoredRow, SummaryFilter, clauses_of

LAST_WORD_S = 5.0
"""For how long a session whose answer was lost is waited for before it is known what it wrote."""

_MOST_HEADS = 1_000
"""How many ends of chains are remembered: more than there are actions between their reading and their writing."""

_HELD = "SELECT pg_is_in_recovery(), (SELECT state FROM stored_events WHERE originator_id = %s AND originator_version = %s)"
_COMMIT_NOTHING = "SELECT pg_logical_emit_message(true, 'interlock', '')"
_NOT_KNOWN = "it was lost in the middle of a write: whether that was written is not known"

_SELECT = "SELECT originator_id, originator_version, topic, state, leaf_hash{} FROM stored_events WHERE originator_id = {}"
_ORDER = "ORDER BY originator_version"
_NAME = "(SELECT aggregate_id FROM names WHERE kind = ${} AND digest = ${})"
_EVENTS = Statement(f"{_SELECT.format('', '$1')} {_ORDER}")
_EVENTS_OF_ALL = Statement(f"{_SELECT.format('', 'ANY ($1)')} ORDER BY originator_id, originator_version")
_NAMED = Statement(f"{_SELECT.format('', _NAME.format(1, 2))} {_ORDER}")
_BOTH_NAMED = Statement(
    f"{_SELECT.format(', true AS first', _NAME.format(1, 2))} UNION ALL {_SELECT.format(', false', _NAME.format(3, 4))} {_ORDER}"
)
_LEAF = Statement("SELECT leaf_hash FROM stored_events WHERE originator_id = $1 AND originator_version = $2")
_VERSION = Statement("SELECT max(originator_version) FROM stored_events WHERE originator_id = $1")

_ROW = "originator_id, originator_version, topic, state, state_digest, leaf_hash"

_END_OF_POSITIONS = "(SELECT commit_order, arrival FROM positions ORDER BY position DESC LIMIT 1)"
_IN_ORDER = "ORDER BY commit_order, arrival"
_TAIL = (
    f"SELECT commit_order, arrival, {_ROW} FROM stored_events "
    f"WHERE (commit_order, arrival) >= (%s, %s) AND commit_order < (SELECT watermark()) {_IN_ORDER} LIMIT %s"
)
_COUNT_AFTER = (
    "SELECT count(*), count(*) FILTER (WHERE commit_order >= (SELECT watermark())) FROM stored_events "
    "WHERE (commit_order, arrival) > (%s, %s)"
)
_FIRST_HELD = (
    f"SELECT {_ROW} FROM stored_events "
    f"WHERE (commit_order, arrival) > (%s, %s) AND commit_order >= (SELECT watermark()) {_IN_ORDER} LIMIT 1"
)
_LAST_PLACED = "coalesce((SELECT {} FROM positions ORDER BY position DESC LIMIT 1), -1)"
_FIRST_UNPLACED = (
    f"SELECT {_ROW} FROM stored_events WHERE commit_order < (SELECT watermark()) AND (commit_order, arrival) > "
    f"({_LAST_PLACED.format('commit_order')}, {_LAST_PLACED.format('arrival')}) {_IN_ORDER} LIMIT 1"
)
# Only a transaction that has a number holds anything back: a long reader, a replica or a replication slot does not.
_HOLDERS = """
    SELECT format('session %s of %s in %s (%s), %s, transaction open since %s', pid, usename, datname, application_name,
        coalesce(state, 'state hidden'), coalesce(xact_start::text, 'a time that this role may not see'))
    FROM pg_stat_activity WHERE backend_xid = pg_snapshot_xmin(pg_current_snapshot())::xid
    UNION ALL
    SELECT format('prepared transaction %L of %s in %s, since %s', gid, owner, database, prepared)
    FROM pg_prepared_xacts WHERE transaction = pg_snapshot_xmin(pg_current_snapshot())::xid
"""


class Recorder(ApplicationRecorder):
    """A recorder of our own under eventsourcing's application.

    The stock one locks the whole table and notifies in every write, so that all writers stand in line, and tries a failed write
    again by itself, so that an event that was stored is reported as an error.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (PersistenceError, psycopg.Error)

    def __init__(self, connections: Connections, log: str) -> None:
        super().__init__()
        self._log = log
        self._heads: dict[UUID, Head] = {}
        self._last_written: tuple[UUID, Head] | None = None
        self.connections = connections

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Write the events and their batch, or nothing.

        Raises:
            Moved: an aggregate is not at the expected version, or a name is taken.
        """
        batch: Batch = kwargs["batch"]
        commit = commit_of(stored_events, batch, log=self._log, leaf_at=self._leaf_at)
        sends = any(event.topic == GatedAction.Dispatched.TOPIC for event in stored_events)
        if not self._append(commit, batch, sends=sends):
            raise Moved(self._moved(batch))
        self._remember(commit.heads)
        self._last_written = next(iter(commit.heads.items()), self._last_written)
        return None

    def _append(self, commit: Commit, batch: Batch, *, sends: bool) -> bool:
        lost: Connection | None = None
        try:
            with self.connections.lend() as connection:
                lost = connection
                if sends:
                    self._require_held(connection)
                ((appended,),) = commit.statement.run(connection, *commit.values)
                return bool(as_integer(appended))
        except (errors.UniqueViolation, errors.DeadlockDetected) as error:
            raise Moved(self._moved(batch)) from error
        except psycopg.OperationalError:
            if lost is not None and lost.closed:
                self._await_last_word(lost)
            raise

    def _require_held(self, connection: Connection) -> None:
        """Raise where a new session leads to a journal that has lost what was written here: a state of before came back."""
        if not connection.holds_ours and self._last_written is not None:
            require_held(connection, *self._last_written)
        connection.holds_ours = True

    def _moved(self, batch: Batch) -> UUID:
        """Return which aggregate somebody else wrote to; the first one, where it was a name that was taken, or a deadlock.

        Raises:
            JournalUnavailable: the journal is gone, or another one's: whoever thought again would do so for ever.
        """
        for aggregate_id, version in batch.expected:
            if self.version_of(aggregate_id) != version:
                return aggregate_id
        with self.connections.lend() as connection:
            require_same(connection, self._log)
        return batch.expected[0][0]

    def _leaf_at(self, aggregate_id: UUID, version: int) -> bytes:
        """Return the leaf hash of an event; as a rule it is the one that was read or written last.

        Raises:
            Moved: there is no such event.
        """
        known, leaf = self._heads.get(aggregate_id, (0, b""))
        if known == version:
            return leaf
        with self.connections.lend() as connection:
            rows = _LEAF.run(connection, uuid(aggregate_id), integer(version))
        if not rows:
            raise Moved(aggregate_id)
        return rows[0][0] or b""

    def _remember(self, heads: Mapping[UUID, Head]) -> None:
        if len(self._heads) > _MOST_HEADS:
            self._heads.clear()
        self._heads.update(heads)

    def _await_last_word(self, lost: Connection) -> None:
        """See the end of a session whose answer was lost, so that what is read back afterwards can't change any more (I8).

        Raises:
            JournalUnavailable: it does not end, or can't be seen: it may still write.
        """
        until_s = time.monotonic() + LAST_WORD_S
        try:
            with self.connections.lend() as connection:
                while end_session(connection, lost.session):
                    if time.monotonic() >= until_s:
                        raise JournalUnavailable(f"the session does not end, and {_NOT_KNOWN}")
                    time.sleep(0.01)
        except psycopg.Error as error:
            raise JournalUnavailable(f"the session can't be asked after ({str(error).strip()}), and {_NOT_KNOWN}") from error

    def events_of(self, aggregate_id: UUID) -> list[StoredEvent]:
        """Return the events of an aggregate, oldest first."""
        return self._events(_EVENTS, uuid(aggregate_id))

    def events_of_all(self, aggregate_ids: Sequence[UUID]) -> list[StoredEvent]:
        """Return the events of several aggregates, each one's oldest first."""
        return self._events(_EVENTS_OF_ALL, uuids(aggregate_ids))

    def events_named(self, *names: tuple[str, bytes]) -> list[list[StoredEvent]]:
        """Return the events of the aggregates that have these one or two names; none where a name is free."""
        values = [value for kind, digest in names for value in (text(kind), digest)]
        if len(names) == 1:
            return [self._events(_NAMED, *values)]
        with self.connections.lend() as connection:
            rows = _BOTH_NAMED.run(connection, *values)
        return [self._stored([row for row in rows if row[-1] == boolean(first)]) for first in (True, False)]

    def named(self, kind: str, digest: bytes) -> UUID | None:
        """Return the aggregate that has this name, whether its events can be read or not."""
        rows = self._rows("SELECT aggregate_id FROM names WHERE kind = %s AND digest = %s", (kind, digest))
        return rows[0][0] if rows else None

    def version_of(self, aggregate_id: UUID) -> int:
        """Return the latest version of an aggregate, 0 where there is none."""
        with self.connections.lend() as connection:
            ((version,),) = _VERSION.run(connection, uuid(aggregate_id))
        return as_integer(version)

    def holds(self, event: StoredEvent) -> bool:
        """Whether exactly this event is stored: its salt is random, so equal bytes are our own (I8).

        Raises:
            JournalUnavailable: the server is a standby, which may not have heard of it yet.
        """
        ((behind, state),) = self._rows(_HELD, (event.originator_id, event.originator_version))
        if behind:
            raise JournalUnavailable(f"the server is a standby now, and {_NOT_KNOWN}")
        if state != event.state:
            return False
        # The lost session may have been ended while it waited for a standby that has to have it too, and what it wrote is seen
        # all the same. A commit after it waits for both.
        self._rows(_COMMIT_NOTHING)
        return True

    def summaries(self, conditions: SummaryFilter, *, limit: int, after: str | None, newest_first: bool) -> list[ActionSummary]:
        """Return a page of summaries, ordered by the time of the action's first event."""
        clauses, values = clauses_of(conditions, mark="%s", marked="attention")
        if after is not None:
            clauses.append("action_id < %s" if newest_first else "action_id > %s")
            values.append(UUID(after))
        clause = f"WHERE {' AND '.join(clauses)} " if clauses else ""
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT {{}} FROM receipts {clause}ORDER BY action_id {order} LIMIT %s"
        try:
            rows = self._rows(sql.format(", ".join(SUMMARY_COLUMNS)), (*values, limit))
        except psycopg.DataError:
            # What somebody put there by hand and is no time of Python's stays as it is, for `verify` to name.
            rows = self._rows(
                sql.format(", ".join(f"{c}::text" if c in _TIMES else c for c in SUMMARY_COLUMNS)), (*values, limit)
            )
        return [_summary(row) for row in rows]

    def replace_summaries(self, derive: Callable[[list[StoredEvent]], ActionSummary | None]) -> int:
        """Derive all summaries again from the events, in one transaction; return how many actions there are.

        Raises:
            JournalUnavailable: the database can't.
        """
        with self.connections.lend() as connection, connection.transaction():
            # What is written meanwhile waits for the end, or a row of the past would overwrite it.
            connection.execute("LOCK TABLE receipts IN SHARE ROW EXCLUSIVE MODE")
            connection.execute("DELETE FROM receipts")
            ids = connection.execute(
                "SELECT DISTINCT originator_id FROM stored_events WHERE topic = %s", (GatedAction.Intended.TOPIC,)
            ).fetchall()
            for (action_id,) in ids:
                summary = derive(self._stored(_EVENTS.run(connection, uuid(action_id))))
                if summary is not None:
                    _INSERT_SUMMARY.run(connection, *summary_values(summary))
        return len(ids)

    def redact(self, aggregate_id: UUID, summary: ActionSummary | None) -> None:
        """Forget the states of the events before an aggregate's Erased, and put another row in the place of its summary."""
        with self.connections.lend() as connection, connection.transaction():
            connection.execute("SELECT forget_states(%s)", (aggregate_id,))
            connection.execute("DELETE FROM receipts WHERE action_id = %s", (aggregate_id,))
            if summary is not None:
                _INSERT_SUMMARY.run(connection, *summary_values(summary))

    def rows(self, *, after: int, limit: int, aggregate_id: UUID | None) -> list[StoredRow]:
        """Return rows of the log that have a position, by position.

        An event that is missing, or was moved in the order in which followers read, is a row of nothing but its place.
        """
        columns = ", ".join(f"e.{column}" for column in _ROW.split(", "))
        one = "" if aggregate_id is None else "AND p.originator_id = %s "
        sql = (
            f"SELECT p.position, {columns}, p.running_hash FROM positions p LEFT JOIN stored_events e "
            "USING (originator_id, originator_version, commit_order, arrival) "
            f"WHERE p.position > %s {one}ORDER BY p.position LIMIT %s"
        )
        values = (after, limit) if aggregate_id is None else (after, aggregate_id, limit)
        return [_stored_row(row) for row in self._rows(sql, values)]

    def rows_without_position(self, aggregate_id: UUID | None) -> list[StoredRow]:
        """Return rows of the log that the sequencer has not come to, or has passed over."""
        one, values = ("", ()) if aggregate_id is None else ("AND e.originator_id = %s ", (aggregate_id,))
        columns = ", ".join(f"e.{column}" for column in _ROW.split(", "))
        sql = (
            f"SELECT NULL, {columns}, NULL, coalesce((e.commit_order, e.arrival) < {_END_OF_POSITIONS}, false) "
            "FROM stored_events e LEFT JOIN positions p USING (originator_id, originator_version) "
            f"WHERE p.position IS NULL {one}ORDER BY e.commit_order, e.arrival"
        )
        return [_stored_row(row) for row in self._rows(sql, values)]

    def tail(self, start: Cursor, limit: int) -> list[tuple[Cursor, StoredRow]]:
        """Return events from `start` on, itself included, that no transaction can come before any more.

        An event's order is the number of its transaction, and a transaction that is still running has a number: whatever it
        writes comes after all that is behind the oldest of them.
        """
        return [
            (Cursor(order, arrival), _stored_row((None, *row, None)))
            for order, arrival, *row in self._rows(_TAIL, (start.order, start.arrival, limit))
        ]

    def backlog(self, after: Cursor) -> Backlog:
        """Return how much there is after a cursor, and who holds it back."""
        with self.connections.lend() as connection, connection.transaction():
            # One snapshot, or the holder might be another one's than the events'.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            events, held_back = connection.execute(_COUNT_AFTER.encode(), (after.order, after.arrival)).fetchall()[0]
            unplaced = _first(connection.execute(_FIRST_UNPLACED.encode()))
            if not held_back:
                return Backlog(events, unplaced=unplaced)
            oldest = _first(connection.execute(_FIRST_HELD.encode(), (after.order, after.arrival)))
            holders = [str(row[0]) for row in connection.execute(_HOLDERS.encode()).fetchall()]
        return Backlog(events, held_back, oldest, "; ".join(holders) or None, unplaced)

    def names(self) -> dict[tuple[str, bytes], str]:
        """Return which aggregate each taken name stands for."""
        return {(row[0], row[1]): row[2].hex for row in self._rows("SELECT kind, digest, aggregate_id FROM names")}

    def sequence(self, at_most: int = 1000) -> int:
        """Give positions to events that are behind the oldest running transaction; return how many.

        Args:
            at_most: how many.
        """
        return int(self._rows("SELECT sequence_events(%s)", (at_most,))[0][0])

    def now(self) -> datetime:
        """Return the database's time."""
        return cast("datetime", self._rows("SELECT clock_timestamp()")[0][0])

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all that this thread reads until the end be of one moment."""
        return self.connections.snapshot()

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()

    def _events(self, statement: Statement, *values: Value) -> list[StoredEvent]:
        with self.connections.lend() as connection:
            return self._stored(statement.run(connection, *values))

    def _stored(self, rows: Sequence[tuple[Value, ...]]) -> list[StoredEvent]:
        """Return the events, and remember where their chains end."""
        events: list[StoredEvent] = []
        heads: dict[UUID, Head] = {}
        for aggregate_id, version, topic, state, leaf, *_ in rows:
            event = StoredEvent(UUID(bytes=aggregate_id), as_integer(version), (topic or b"").decode(), cast("bytes", state))
            heads[cast("UUID", event.originator_id)] = (event.originator_version, cast("bytes", leaf))
            events.append(event)
        self._remember(heads)
        return events

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self.connections.lend() as connection:
            return connection.execute(sql.encode(), values).fetchall()

    # --- what eventsourcing asks of a recorder, and the journal does not

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return an aggregate's events; see `eventsourcing.persistence.AggregateRecorder`."""
        events = self.events_of(UUID(str(originator_id)))
        chosen = [e for e in events if (gt is None or e.originator_version > gt) and (lte is None or e.originator_version <= lte)]
        return (chosen[::-1] if desc else chosen)[:limit]

    def select_notifications(self, *_: Any, **__: Any) -> Any:
        """Raise: what follows the log reads it behind the watermark."""
        raise NotImplementedError

    def max_notification_id(self) -> int | None:
        """Raise, as `select_notifications`."""
        raise NotImplementedError

    def subscribe(self, *_: Any, **__: Any) -> Any:
        """Raise, as `select_notifications`."""
        raise NotImplementedError


_INSERT_SUMMARY = Statement(
    f"INSERT INTO receipts ({', '.join(SUMMARY_COLUMNS)}) VALUES ({', '.join(f'${i + 1}' for i in range(len(SUMMARY_COLUMNS)))})"
)


_TIMES = ("claim_expires_at", "intended_at", "changed_at")


def _summary(row: tuple[Any, ...]) -> ActionSummary:
    values = dict(zip(SUMMARY_COLUMNS, row, strict=True))
    values["action_id"] = values["action_id"].hex
    for column in _TIMES:
        if isinstance(values[column], datetime):
            values[column] = values[column].astimezone(UTC)
    return ActionSummary(**values)


def _first(cursor: psycopg.Cursor[tuple[Any, ...]]) -> StoredRow | None:
    row = cursor.fetchone()
    return _stored_row((None, *row, None)) if row is not None else None


def _stored_row(row: tuple[Any, ...]) -> StoredRow:
    position, aggregate_id, *rest = row
    return StoredRow(position, aggregate_id.hex if aggregate_id else aggregate_id, *rest)
