"""The journals that crash tests are played on: every schedule gets an empty one."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from interlock.errors import InvalidConfiguration
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.locks import FileLocks, Locks
from interlock.infrastructure.sqlite.journal import SQLiteJournal

if TYPE_CHECKING:
    from interlock.infrastructure.postgres.connections import DatabaseOptions

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
_TABLES = ("stored_events", "positions", "names", "receipts")


class Journals(ABC):
    """Gives out empty journals, one after the other, and cleans up after all of them."""

    @abstractmethod
    def journal(self) -> Journal:
        """Return a journal with nothing in it. The one before is gone."""

    @abstractmethod
    def locks(self, journal: Journal) -> Locks:
        """Return the liveness lock of another holder."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove what killed holders left."""

    @abstractmethod
    def close(self) -> None:
        """Remove everything."""

    def __enter__(self) -> Self:
        """Return the journals."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Remove everything."""
        self.close()


def journals_at(url: str | None) -> Journals:
    """Return where crash tests keep their journals.

    Args:
        url: a PostgreSQL database, in which a schema is made and dropped again; files in memory where it is None.

    Raises:
        InvalidConfiguration: it is the URL of anything else.
    """
    if url is None:
        return Folder()
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise InvalidConfiguration("crash tests are played in memory, or on the PostgreSQL database of a postgresql://… URL")
    return Schema(url)


class Folder(Journals):
    """SQLite files, in memory where there is one, each made from a copy of an empty journal."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None)
        self._path = Path(self._folder.name)
        empty = self._path / "empty.db"
        SQLiteJournal(f"sqlite:///{empty}").close()
        self._empty = empty.read_bytes()
        self._journal = self._path / "journal.db"
        self._holders = self._path / "holders"

    def journal(self) -> SQLiteJournal:
        """Return a journal with nothing in it."""
        self._journal.unlink(missing_ok=True)
        self._journal.write_bytes(self._empty)
        return SQLiteJournal(f"sqlite:///{self._journal}")

    def locks(self, journal: Journal) -> FileLocks:
        """Return a lock that is a file beside the journal."""
        del journal
        return FileLocks(self._holders)

    def sweep(self) -> None:
        """Remove the lock files of holders that were killed."""
        for left in self._holders.glob("*.lock"):
            left.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


class Schema(Journals):
    """A schema of a PostgreSQL database, made for these tests alone and dropped afterwards.

    Args:
        url: the database; its role has to be allowed to make a schema in it. A schema that the URL names is not touched.
    """

    def __init__(self, url: str) -> None:
        self._name = f"interlock_crash_test_{secrets.token_hex(8)}"
        self._url = f"{url}{'&' if '?' in url else '?'}schema={self._name}"
        self._is_made = False

    def journal(self) -> Journal:
        """Return a journal with nothing in it: the schema's only one, emptied."""
        from interlock.infrastructure.postgres.journal import PostgresJournal

        if self._is_made:
            self._empty()
        self._is_made = True
        return PostgresJournal(self._url)

    def locks(self, journal: Journal) -> Locks:
        """Return a lock that is a session of the database."""
        return journal.take_lock()

    def sweep(self) -> None:
        """Do nothing: the dead leave nothing."""

    def close(self) -> None:
        """Drop the schema."""
        if self._is_made:
            self._execute(f"DROP SCHEMA IF EXISTS {self._name} CASCADE")

    def _empty(self) -> None:
        # Its owner may do what no gate can: the log is append-only by triggers.
        self._execute("; ".join(f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in _TABLES))
        self._execute("; ".join(f"DELETE FROM {table}" for table in _TABLES))  # noqa: S608 - our own tables
        self._execute("; ".join(f"ALTER TABLE {table} ENABLE TRIGGER USER" for table in _TABLES))

    def _execute(self, statements: str) -> None:
        from interlock.infrastructure.postgres.connections import connect

        with contextlib.closing(connect(self._options)) as connection:
            connection.execute(statements.encode())

    @property
    def _options(self) -> DatabaseOptions:
        from interlock.infrastructure.postgres.connections import parse_url

        return parse_url(self._url)
