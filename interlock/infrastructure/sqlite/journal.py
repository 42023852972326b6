"""The journal on one SQLite file: many processes of one machine."""

from __future__ import annotations

from pathlib import Path

from interlock.infrastructure.clock import SystemClock
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.locks import FileLeaderLock, FileLocks
from interlock.infrastructure.sqlite.connections import Datastore
from interlock.infrastructure.sqlite.database import SCHEMA_VERSION, create_or_check, parse_url
from interlock.infrastructure.sqlite.log_store import SQLiteLogStore
from interlock.infrastructure.sqlite.recorder import Recorder


class SQLiteJournal(Journal):
    """The event store on one SQLite file.

    Args:
        url: `sqlite:///path/to/file.db`; options `busy_timeout_s` and `max_page_count`.
        create: whether to make the file where there is none.

    Raises:
        InvalidConfiguration: the URL or the file is not a journal's.
        JournalTooNew: the file was written by a newer version.
        JournalOutdated: it was made by an older one.
        JournalUnavailable: the file can't be opened or made.
    """

    database = "SQLite"
    version = SCHEMA_VERSION

    def __init__(self, url: str, *, create: bool = True) -> None:
        options = parse_url(url)
        self.path = str(options.path)
        log_id = create_or_check(options, create=create)
        self._datastore = Datastore(options)
        super().__init__(log_id, Recorder(self._datastore, log_id))

    def take_lock(self) -> FileLocks:
        """Return a lock of a new holder, a file in the folder beside the journal's.

        Raises:
            JournalUnavailable: no lock can be made there.
        """
        locks = FileLocks(Path(f"{self.path}-holders"))
        locks.sweep()
        return locks

    def log_store(self) -> SQLiteLogStore:
        """Return where the transparency log keeps its tree and what it signed."""
        return SQLiteLogStore(self._datastore)

    def log_lock(self) -> FileLeaderLock:
        """Return the lock of whoever signs the log, a file beside the journal's."""
        return FileLeaderLock(Path(f"{self.path}-log.lock"))

    def clock(self) -> SystemClock:
        """Return this machine's clock, which all processes on the file share."""
        return SystemClock()
