"""The journal: loads aggregates, appends their events, finds actions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.domain import BaseAggregate, CanMutateAggregate
from eventsourcing.persistence import InfrastructureFactory, PersistenceError, StoredEvent
from eventsourcing.utils import Environment

from interlock.domain.action import GatedAction
from interlock.domain.approvals import Approval
from interlock.domain.records import name_digest
from interlock.domain.requests import AppendAnswer
from interlock.domain.summary import summarize
from interlock.errors import GateClosed, JournalCorrupt, JournalUnavailable
from interlock.infrastructure.mapper import EventMapper
from interlock.infrastructure.sqlite.connections import DatabaseOptions, Datastore, translated
from interlock.infrastructure.sqlite.database import create_or_check, parse_url
from interlock.infrastructure.sqlite.recorder import (
    SUMMARY_COLUMNS,
    Batch,
    Moved,
    Name,
    Recorder,
    select_events,
    summary_values,
)

A = TypeVar("A", GatedAction, Approval)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row of the log, as it stands in the database."""

    position: int
    aggregate_id: str
    version: int
    topic: str
    state: bytes | None
    state_digest: bytes
    leaf_hash: bytes
    running_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFilter:
    """Which actions to list. Every condition that is not None has to hold."""

    status: str | None = None
    approval_id: str | None = None
    target: str | None = None
    attention: bool | None = None
    intended_from: datetime | None = None
    intended_until: datetime | None = None
    min_amount_minor: int | None = None
    max_amount_minor: int | None = None


class _Application(Application[UUID]):
    """eventsourcing's application, with nothing of the host's environment in it: a compressor there would change our bytes."""

    name = "interlock"

    def __init__(self, datastore: Datastore, log: str) -> None:
        self._datastore, self._log = datastore, log
        super().__init__()

    def construct_env(self, name: str, env: Any = None) -> Environment:
        del env
        return Environment(name, {})

    def construct_factory(self, env: Environment) -> InfrastructureFactory:
        return _Factory(env, self._datastore, self._log)

    def construct_mapper(self) -> EventMapper:
        return EventMapper()


class _Factory(InfrastructureFactory):
    def __init__(self, env: Environment, datastore: Datastore, log: str) -> None:
        super().__init__(env)
        self._datastore, self._log = datastore, log

    def application_recorder(self) -> Recorder:
        return Recorder(self._datastore, self._log)

    def aggregate_recorder(self, purpose: str = "events") -> Recorder:
        raise NotImplementedError(purpose)

    def tracking_recorder(self, tracking_recorder_class: Any = None) -> Any:
        raise NotImplementedError(tracking_recorder_class)

    def process_recorder(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        self._datastore.close()


class SQLiteJournal:
    """The event store on one SQLite file. Threads share one, and a forked child may go on with it.

    Args:
        url: `sqlite:///path/to/file.db`; options `busy_timeout_s` and `max_page_count`.
        create: whether to make the file where there is none.

    Raises:
        InvalidConfiguration: the URL or the file is not a journal's.
        JournalTooNew: the file was written by a newer version.
        JournalUnavailable: the file can't be opened or made.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._options: DatabaseOptions = parse_url(url)
        self.log_id = create_or_check(self._options, create=create)
        self._lock = threading.Lock()
        self._application: _Application | None = self._connect()

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the journal."""
        self.close()

    @property
    def path(self) -> str:
        """The file, as an absolute path."""
        return str(self._options.path)

    def close(self) -> None:
        """Close all connections. Closing twice does nothing."""
        with self._lock:
            if self._application is not None:
                self._application.close()
                self._application = None

    def find_action(self, key: str) -> GatedAction | None:
        """Return the action that has this key, or None."""
        return self._named("action", key, GatedAction)

    def id_of(self, key: str) -> UUID | None:
        """Return the id of the action that has this key, whether its events can be read or not; None where the key is free."""
        digest = name_digest(self.log_id, "action", key)
        with translated("be read"), self._store.reading() as cursor:
            row = cursor.execute("SELECT aggregate_id FROM names WHERE kind = 'action' AND digest = ?", (digest,)).fetchone()
        return UUID(row[0]) if row else None

    def load_action(self, action_id: UUID) -> GatedAction:
        """Return an action whose id came from this journal.

        Raises:
            JournalCorrupt: there is no such action, or it can't be read.
        """
        with translated("be read"):
            events = self._app.recorder.select_events(action_id)
        action = self._project(events, GatedAction)
        if action is None:
            raise JournalCorrupt(f"the journal has no action {action_id}; nothing was sent, run `interlock verify`")
        return action

    def find_approval(self, approval_id: str) -> Approval | None:
        """Return the approval that has this id, or None."""
        return self._named("approval", approval_id, Approval)

    def version_of(self, aggregate_id: UUID) -> int:
        """Return the latest version of an aggregate, 0 where there is none."""
        with translated("be read"), self._store.reading() as cursor:
            row = cursor.execute(
                "SELECT max(originator_version) FROM stored_events WHERE originator_id = ?", (aggregate_id.hex,)
            ).fetchone()
        return int(row[0] or 0)

    def append(self, action: GatedAction | None, approval: Approval | None = None) -> AppendAnswer:
        """Write the pending events of both in one transaction, or none of them.

        An approval without pending events is asserted: the transaction fails unless its version is the latest (I3).

        Raises:
            JournalUnavailable: nothing was written, as far as could be read back (I8).
        """
        aggregates: list[BaseAggregate[UUID]] = [aggregate for aggregate in (action, approval) if aggregate is not None]
        events = [event for aggregate in aggregates for event in aggregate.pending_events]
        mapper, recorder = self._app.mapper, self._recorder
        stored = [mapper.to_stored_event(event) for event in events]
        batch = Batch(
            names=tuple(name for aggregate in aggregates if (name := self._new_name(aggregate)) is not None),
            expected=tuple((aggregate.id, aggregate.version - len(aggregate.pending_events)) for aggregate in aggregates),
            summary=summarize(action) if action is not None else None,
        )
        try:
            recorder.insert_events(stored, batch=batch)
        except Moved as moved:
            mine = action is not None and moved.aggregate_id == action.id
            return AppendAnswer.ACTION_MOVED if mine else AppendAnswer.APPROVAL_MOVED
        except (PersistenceError, sqlite3.Error) as error:
            self._read_back(recorder, stored, error)
        for aggregate in aggregates:
            aggregate.collect_events()
        return AppendAnswer.APPENDED

    def summaries(
        self, conditions: SummaryFilter, *, limit: int, after: str | None = None, newest_first: bool = True
    ) -> list[dict[str, Any]]:
        """Return a page of summary rows, ordered by the time of their first event."""
        where, values = _where(conditions)
        if after is not None:
            where.append("action_id < ?" if newest_first else "action_id > ?")
            values.append(after)
        clause = f"WHERE {' AND '.join(where)} " if where else ""
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT * FROM receipts {clause}ORDER BY action_id {order} LIMIT ?"
        with translated("be read"), self._store.reading() as cursor:
            return [dict(row) for row in cursor.execute(sql, (*values, limit))]

    def find(self, conditions: SummaryFilter, *, limit: int, after: UUID | None = None) -> list[UUID]:
        """Return a page of ids, oldest first."""
        rows = self.summaries(conditions, limit=limit, after=after.hex if after else None, newest_first=False)
        return [UUID(row["action_id"]) for row in rows]

    def rows(self, *, after: int = 0, limit: int = 1000, aggregate_id: UUID | None = None) -> list[StoredRow]:
        """Return rows of the log as they stand, by position, without decoding them."""
        where, values = "position > ?", [cast("Any", after)]
        if aggregate_id is not None:
            where, values = where + " AND originator_id = ?", [*values, aggregate_id.hex]
        sql = f"SELECT * FROM stored_events WHERE {where} ORDER BY position LIMIT ?"
        with translated("be read"), self._store.reading() as cursor:
            return [StoredRow(*row) for row in cursor.execute(sql, (*values, limit))]

    def names(self) -> dict[tuple[str, bytes], str]:
        """Return which aggregate each taken name stands for."""
        with translated("be read"), self._store.reading() as cursor:
            return {(row[0], row[1]): row[2] for row in cursor.execute("SELECT kind, digest, aggregate_id FROM names")}

    def rebuild_summaries(self) -> int:
        """Drop all summary rows and derive them again from the events. Returns how many there are."""
        marks = ", ".join("?" * len(SUMMARY_COLUMNS))
        with translated("rebuild its receipts"), self._store.immediate() as cursor:
            cursor.execute("DELETE FROM receipts")
            ids = cursor.execute(
                "SELECT DISTINCT originator_id FROM stored_events WHERE topic = ?", (GatedAction.Intended.TOPIC,)
            )
            action_ids = [row[0] for row in ids]
            for action_id in action_ids:
                action = self._project(select_events(cursor, action_id), GatedAction)
                if action is not None:
                    cursor.execute(f"INSERT INTO receipts VALUES ({marks})", summary_values(summarize(action)))
        return len(action_ids)

    def domain_event(self, row: StoredRow) -> Any:
        """Decode one row of the log.

        Raises:
            JournalCorrupt: it is not what it says it is.
        """
        return self._app.mapper.to_domain_event(StoredEvent(UUID(row.aggregate_id), row.version, row.topic, row.state or b""))

    def summary_rows(self) -> Iterator[dict[str, Any]]:
        """Return all summary rows, oldest action first."""
        after: str | None = None
        while page := self.summaries(SummaryFilter(), limit=1000, after=after, newest_first=False):
            yield from page
            after = page[-1]["action_id"]

    def as_summary_row(self, action: GatedAction) -> dict[str, Any]:
        """Return the row that an action should have."""
        return dict(zip(SUMMARY_COLUMNS, summary_values(summarize(action)), strict=True))

    def _read_back(self, recorder: Recorder, stored: Sequence[StoredEvent], error: Exception) -> None:
        """Return if the events are stored although their acknowledgement was lost (I8).

        Raises:
            JournalUnavailable: they are not, or it can't be read.
        """
        if not stored:
            raise JournalUnavailable(f"the journal could not be asked: {error}; nothing was sent for it") from error
        with translated("be read back after a failed append, so it is not known whether that was written"):
            durable = recorder.holds(stored[-1])
        if not durable:
            raise JournalUnavailable(f"the journal could not be written: {error}; nothing was written") from error

    def _new_name(self, aggregate: BaseAggregate[UUID]) -> Name | None:
        if not aggregate.pending_events or aggregate.pending_events[0].originator_version != aggregate.INITIAL_VERSION:
            return None
        kind, name = (
            ("action", aggregate.key)
            if isinstance(aggregate, GatedAction)
            else ("approval", cast("Approval", aggregate).approval_id)
        )
        return Name(kind, name_digest(self.log_id, kind, name), aggregate.id)

    def _named(self, kind: str, name: str, aggregate_type: type[A]) -> A | None:
        with translated("be read"):
            events = self._recorder.select_named(kind, name_digest(self.log_id, kind, name))
        return self._project(events, aggregate_type)

    def _project(self, events: Sequence[StoredEvent], aggregate_type: type[A]) -> A | None:
        aggregate: Any = None
        for event in map(self._app.mapper.to_domain_event, events):
            aggregate = cast("CanMutateAggregate[UUID]", event).mutate(aggregate)
        if aggregate is not None and not isinstance(aggregate, aggregate_type):
            raise JournalCorrupt(f"{aggregate.id} is no {aggregate_type.__name__}; nothing was sent, run `interlock verify`")
        return aggregate

    def _connect(self) -> _Application:
        return _Application(Datastore(self._options), self.log_id)

    @property
    def _app(self) -> _Application:
        if self._application is None:
            raise GateClosed("the journal is closed; nothing was written or sent")
        return self._application

    @property
    def _recorder(self) -> Recorder:
        return cast("Recorder", self._app.recorder)

    @property
    def _store(self) -> Datastore:
        return self._recorder.datastore


_CONDITIONS = {
    "status": "status = ?",
    "approval_id": "approval_id = ?",
    "target": "target = ?",
    "attention": "attention = ?",
    "intended_from": "intended_at >= ?",
    "intended_until": "intended_at < ?",
    "min_amount_minor": "amount_minor >= ?",
    "max_amount_minor": "amount_minor <= ?",
}


def _where(conditions: SummaryFilter) -> tuple[list[str], list[Any]]:
    given = {name: value for name in _CONDITIONS if (value := getattr(conditions, name)) is not None}
    where = [_CONDITIONS[name] for name in given]
    # SQLite uses a partial index only where the query says the index's own condition; it concludes nothing from a parameter.
    if conditions.status not in (None, "COMMITTED"):
        where.append("status <> 'COMMITTED'")
    if conditions.attention:
        where.append("attention = 1")
    values = [value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value for value in given.values()]
    return where, values
