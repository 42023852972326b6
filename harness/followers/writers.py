"""The writers: threads with a connection each, which commit at once, commit late, or abort."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from uuid import UUID

from eventsourcing.persistence import StoredEvent
from psycopg.errors import InFailedSqlTransaction

from interlock.infrastructure.postgres.connections import Connection, Connections, DatabaseOptions
from interlock.infrastructure.postgres.recorder import Recorder
from interlock.infrastructure.recording import Batch, Moved

TOPIC = "interlock.approval.reserved"
_MOST_AT_ONCE = 5
_LATE_S = 0.02


class _Abort(Exception):
    """Ends a transaction without a commit."""


class _OneConnection(Connections):
    """Lends the same connection again and again, so that what is written joins the transaction that is open on it."""

    def __init__(self, options: DatabaseOptions) -> None:
        super().__init__(options)
        self._only = self._take()

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """Lend the connection."""
        yield self._only

    def close(self) -> None:
        """Close it."""
        super().close()
        self._give_back(self._only)


class Writer(threading.Thread):
    """Appends events to aggregates that it shares with the others, until so many are committed.

    Args:
        options: where the journal is.
        log: the journal's id.
        aggregates: whose events to write.
        wanted: how many events to commit.
        seed: of its choices.
    """

    def __init__(self, options: DatabaseOptions, log: str, aggregates: Sequence[UUID], wanted: int, seed: int) -> None:
        super().__init__(name=f"writer-{seed}", daemon=True)
        self._connections = _OneConnection(options)
        self._recorder = Recorder(self._connections, log)
        self._aggregates, self._wanted, self._random = aggregates, wanted, random.Random(seed)
        self.committed = 0
        self.counts: Counter[str] = Counter()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write."""
        try:
            while self.committed < self._wanted:
                self._write(min(self._random.randint(1, _MOST_AT_ONCE), self._wanted - self.committed))
        except BaseException as error:  # noqa: BLE001 - the run reports it
            self.error = error
        finally:
            self._connections.close()

    def _write(self, many: int) -> None:
        aggregate = self._random.choice(self._aggregates)
        version = self._recorder.version_of(aggregate)
        events = [StoredEvent(aggregate, version + n, TOPIC, os.urandom(32)) for n in range(1, many + 1)]
        batch = Batch(names=(), expected=((aggregate, version),), summary=None)
        how = self._random.choices(("at once", "late", "aborted"), weights=(6, 3, 1))[0]
        try:
            self._write_so(how, events, batch)
        except (Moved, InFailedSqlTransaction):  # a conflict ends a transaction that is held open, and nobody can be asked in it
            how = "in conflict"
        self.counts[how] += 1
        if how in ("at once", "late"):
            self.committed += many

    def _write_so(self, how: str, events: Sequence[StoredEvent], batch: Batch) -> None:
        if how == "at once":
            self._recorder.insert_events(events, batch=batch)
            return
        try:
            with self._connections.lend() as connection, connection.transaction():
                self._recorder.insert_events(events, batch=batch)
                time.sleep(self._random.uniform(0, _LATE_S))
                if how == "aborted":
                    raise _Abort
        except _Abort:
            pass
