"""The SQLite file: its URL, its schema and its version."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from interlock.errors import InvalidConfiguration, JournalTooNew, JournalUnavailable
from interlock.infrastructure.sqlite.connections import DatabaseOptions, no_fork, open_file

SCHEMA_VERSION = 1
APPLICATION_ID = 0x494C4F4B
"""Marks the file as ours ("ILOK"), in SQLite's `application_id`."""


def parse_url(url: str) -> DatabaseOptions:
    """Return what a `sqlite:///` URL says. `sqlite:///a.db` is relative, `sqlite:////srv/a.db` absolute.

    Raises:
        InvalidConfiguration: it is no such URL, names no file, or has an unknown option.
    """
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or not parts.path.strip("/"):
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
        JournalUnavailable: the folder can't be written, the disk is full, or the file is locked.
    """
    if not create and not options.path.exists():
        raise InvalidConfiguration(f"there is no journal at {options.path}")
    mode = "rwc" if create else "rw"
    try:
        with no_fork, closing(open_file(options, mode)) as connection:
            return _create_or_check(connection, options)
    except sqlite3.Error as error:
        raise JournalUnavailable(f"the journal {options.path} can't be used: {error}; nothing was written") from error


def _create_or_check(connection: sqlite3.Connection, options: DatabaseOptions) -> str:
    _require_ours(connection, options)
    connection.execute("PRAGMA journal_mode=WAL")
    if _pragma(connection, "user_version") == 0:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _require_ours(connection, options)
            if _pragma(connection, "user_version") == 0:  # another process may have made it meanwhile
                _create(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return str(connection.execute("SELECT log FROM journal").fetchone()[0])


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


def _create(connection: sqlite3.Connection) -> None:
    schema = resources.files("interlock.infrastructure.sqlite").joinpath("schema.sql").read_text()
    for statement in _statements(schema):
        connection.execute(statement)
    connection.execute("INSERT INTO journal VALUES (?, ?)", (uuid.uuid4().urn, datetime.now(UTC).isoformat()))
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


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
