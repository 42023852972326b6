"""The SQLite file: its URL, its schema and its version."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from interlock.domain.answers import storable
from interlock.errors import InvalidConfiguration, JournalOutdated, JournalTooNew, JournalUnavailable
from interlock.infrastructure.sqlite.connections import DatabaseOptions, no_fork, open_file


class Migration(NamedTuple):
    """One version of the schema."""

    version: int
    statements: str


def migrations() -> list[Migration]:
    """Return all versions, oldest first."""
    folder = resources.files("interlock.infrastructure.sqlite.migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [Migration(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files]


SCHEMA_VERSION = migrations()[-1].version
APPLICATION_ID = 0x494C4F4B
"""Marks the file as ours ("ILOK"), in SQLite's `application_id`."""


def parse_url(url: str) -> DatabaseOptions:
    """Return what a `sqlite:///` URL says. `sqlite:///a.db` is relative, `sqlite:////srv/a.db` absolute.

    Raises:
        InvalidConfiguration: it is no such URL, names no file, or has an unknown option.
    """
    parts = urlsplit(url)
    # `sqlite:a.db` would name `.db`, and `:memory:` a file of that name that nobody meant: a journal in memory forgets.
    names_a_file = url.lower().startswith("sqlite:///") and parts.path.strip("/") not in ("", ":memory:")
    if not names_a_file or parts.fragment or storable(url) != url:
        # The URL itself stays out of the message: one of a database server holds a password.
        raise InvalidConfiguration(
            f"a journal is named by sqlite:///path/to/file.db or postgresql://…, not by a {parts.scheme!r} URL of that form"
        )
    options: dict[str, int] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in ("busy_timeout_s", "max_page_count") or not value.isdecimal():
            raise InvalidConfiguration(f"unknown or malformed option {name!r} in the journal's URL")
        options[name] = int(value)
    return DatabaseOptions(Path(parts.path[1:]).absolute(), **options)


def create_or_check(options: DatabaseOptions, *, create: bool) -> str:
    """Make the schema where there is none, check its version where there is one, and return the journal's id.

    Raises:
        InvalidConfiguration: the file is no journal, or there is none and `create` is False.
        JournalTooNew: it was written by a newer version.
        JournalOutdated: it was made by an older one, and has to be upgraded first.
        JournalUnavailable: the folder can't be written, the disk is full, or the file is locked.
    """
    with _connection(options, create=create) as connection:
        if _pragma(connection, "user_version") == 0:
            _apply(connection, options)
        version = _pragma(connection, "user_version")
        if version < SCHEMA_VERSION:
            raise JournalOutdated(
                f"the journal {options.path} has schema {version}, and this version of Interlock needs {SCHEMA_VERSION}; nothing "
                "was written or sent. Run `interlock db upgrade` while no older version runs"
            )
        return str(connection.execute("SELECT log FROM journal").fetchone()[0])


def upgrade(options: DatabaseOptions) -> tuple[int, int]:
    """Bring a journal up to date.

    Returns:
        The version before and after.

    Raises:
        InvalidConfiguration: the file is no journal, or there is none.
        JournalTooNew: it was written by a newer version.
        JournalUnavailable: it can't be written.
    """
    with _connection(options, create=False) as connection:
        before = _pragma(connection, "user_version")
        _apply(connection, options)
        return before, _pragma(connection, "user_version")


@contextmanager
def _connection(options: DatabaseOptions, *, create: bool) -> Generator[sqlite3.Connection]:
    """Give a connection to a file that is empty or a journal of a version that is known."""
    if not create and not options.path.exists():
        raise InvalidConfiguration(f"there is no journal at {options.path}")
    try:
        with no_fork, closing(open_file(options, "rwc" if create else "rw")) as connection:
            _require_ours(connection, options)
            connection.execute("PRAGMA journal_mode=WAL")
            yield connection
    except sqlite3.Error as error:
        raise JournalUnavailable(f"the journal {options.path} can't be used: {error}; nothing was written") from error


def _apply(connection: sqlite3.Connection, options: DatabaseOptions) -> None:
    """Apply what is missing, in one transaction; several processes may try at once, and one does it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        _require_ours(connection, options)
        done = _pragma(connection, "user_version")
        for migration in migrations():
            if migration.version > done:
                for statement in _statements(migration.statements):
                    connection.execute(statement)
        if done == 0:
            connection.execute("INSERT INTO journal VALUES (?, ?)", (uuid.uuid4().urn, datetime.now(UTC).isoformat()))
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _require_ours(connection: sqlite3.Connection, options: DatabaseOptions) -> None:
    """Raise, before anything is written, unless the file is empty or a journal that this version knows."""
    empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if not empty and _pragma(connection, "application_id") != APPLICATION_ID:
        raise InvalidConfiguration(f"{options.path} is an SQLite file of something else; nothing was written")
    version = _pragma(connection, "user_version")
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"the journal {options.path} has schema {version}, and this version of Interlock knows {SCHEMA_VERSION}; "
            "nothing was read or written, upgrade interlock-gate"
        )


def _statements(schema: str) -> Iterator[str]:
    """Split the file at its statements: `executescript` would commit the transaction that has to hold them all."""
    statement = ""
    for line in schema.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
