"""The readers: one follows the log as a user's program does, and one, for comparison, reads by the order of arrival alone."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from uuid import UUID

from interlock import Receipts
from interlock.domain.cursors import START, Cursor
from interlock.infrastructure.postgres.connections import Connections, DatabaseOptions
from interlock.projections.followers import EventBatch

_SCHEMA = """
    CREATE TABLE seen (number INTEGER PRIMARY KEY, aggregate TEXT NOT NULL, version INTEGER NOT NULL);
    CREATE TABLE cursors (name TEXT PRIMARY KEY, cursor TEXT NOT NULL);
"""
_INTERRUPTIONS = 0.05
"""How often a batch is interrupted, by a failure before or after the commit."""


class _Interrupted(Exception):
    """The reader died."""


class Books:
    """The database of a user's own: what was made of the events, and in the same transaction, how far they were read."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.executescript(_SCHEMA)
        self._database.execute("INSERT INTO cursors VALUES ('books', ?)", (str(START),))

    def cursor(self) -> Cursor:
        """Return how far was read."""
        return Cursor.parse(self._database.execute("SELECT cursor FROM cursors WHERE name = 'books'").fetchone()[0])

    def take(self, batch: EventBatch, *, fails: bool) -> None:
        """Take the events in, all or none; `fails` right before the commit."""
        self._database.execute("BEGIN")
        try:
            rows = [(event.aggregate_id.hex, event.version) for event in batch.events]
            self._database.executemany("INSERT INTO seen (aggregate, version) VALUES (?, ?)", rows)
            moved = self._database.execute(
                "UPDATE cursors SET cursor = ? WHERE name = 'books' AND cursor = ?", (str(batch.cursor), str(batch.after))
            )
            assert moved.rowcount == 1, "nobody else reads under this name"
            if fails:
                raise _Interrupted
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise

    def seen(self) -> list[tuple[UUID, int]]:
        """Return every event that was taken in, in that order."""
        rows = self._database.execute("SELECT aggregate, version FROM seen ORDER BY number")
        return [(UUID(aggregate), version) for aggregate, version in rows]


class Reader(threading.Thread):
    """Follows the log into its books, is interrupted now and then, and goes on from what they say.

    Args:
        url: the journal.
        seed: of the interruptions.
        over: set when nothing more is written, and everything can be read.
    """

    def __init__(self, url: str, seed: int, over: threading.Event) -> None:
        super().__init__(name="reader", daemon=True)
        self._url, self._random, self._over = url, random.Random(seed), over
        self.books = Books()
        self.batches = self.interruptions = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Follow."""
        try:
            while not self._follow():
                pass
        except BaseException as error:  # noqa: BLE001 - the run reports it
            self.error = error

    def _follow(self) -> bool:
        """Read until interrupted, or until everything is read; return whether it is."""
        over = self._over.is_set()
        with Receipts.open(self._url) as reader:
            try:
                for batch in reader.follow(after=self.books.cursor(), batch_size=200, wait=False):
                    dies = self._random.random() < _INTERRUPTIONS
                    self.books.take(batch, fails=dies and self._random.random() < 0.5)
                    self.batches += 1
                    if dies:
                        raise _Interrupted
            except _Interrupted:
                self.interruptions += 1
                return False
        return over


class ByArrival(threading.Thread):
    """Reads by the order of arrival alone: what commits after a later one was read is passed over. What not to do.

    Args:
        options: where the journal is.
        over: set when nothing more is written.
    """

    def __init__(self, options: DatabaseOptions, over: threading.Event) -> None:
        super().__init__(name="by-arrival", daemon=True)
        self._connections, self._over = Connections(options), over
        self.read = 0

    def run(self) -> None:
        """Read."""
        last, over = 0, False
        while not over:
            over = self._over.is_set()
            with self._connections.lend() as connection:
                rows = connection.execute("SELECT arrival FROM stored_events WHERE arrival > %s", (last,)).fetchall()
            self.read += len(rows)
            last = max((row[0] for row in rows), default=last)
            time.sleep(0.02)
        self._connections.close()
