"""The journal on PostgreSQL: many machines, and writers that commit side by side."""

from __future__ import annotations

from datetime import datetime

from interlock.infrastructure.journal import Journal
from interlock.infrastructure.postgres.clock import DatabaseClock
from interlock.infrastructure.postgres.connections import Connections, parse_url
from interlock.infrastructure.postgres.locks import SessionLeaderLock, SessionLocks
from interlock.infrastructure.postgres.log_store import PostgresLogStore
from interlock.infrastructure.postgres.recorder import Recorder
from interlock.infrastructure.postgres.schema import SCHEMA_VERSION, create_or_check, require_same


class PostgresJournal(Journal):
    """The event store in one schema of a PostgreSQL database.

    Args:
        url: `postgresql://…` with everything that libpq knows; `schema` and `max_connections` are options of ours.
        create: whether to make the schema where there is none.

    Raises:
        InvalidConfiguration: the URL or the schema is not a journal's.
        JournalTooNew: it was made by a newer version.
        JournalOutdated: it was made by an older one.
        JournalUnavailable: the database can't be reached.
    """

    database = "PostgreSQL"
    version = SCHEMA_VERSION

    def __init__(self, url: str, *, create: bool = True) -> None:
        self._options = parse_url(url)
        log_id = create_or_check(self._options, create=create)
        self._connections = Connections(self._options, lambda connection: require_same(connection, log_id))
        self._postgres = Recorder(self._connections, log_id)
        super().__init__(log_id, self._postgres)

    def take_lock(self) -> SessionLocks:
        """Return a lock of a new holder, on a connection of its own.

        Raises:
            InvalidConfiguration: a transaction-pooling proxy stands in between.
            JournalUnavailable: the database can't be reached.
        """
        return SessionLocks(self._options, self._connections, self.log_id)

    def log_store(self) -> PostgresLogStore:
        """Return where the transparency log keeps its tree and what it signed."""
        return PostgresLogStore(self._connections)

    def log_lock(self) -> SessionLeaderLock:
        """Return the lock of whoever signs the log, on a connection of its own."""
        return SessionLeaderLock(self._options, self.log_id)

    def clock(self) -> DatabaseClock:
        """Return the database's clock.

        Raises:
            JournalUnavailable: it can't be read.
        """
        return DatabaseClock(self._read_clock)

    def _read_clock(self) -> datetime:
        with self._translated("be read"):
            return self._postgres.now()
