"""Connections to PostgreSQL: set up for durable commits, checked before they are lent, and none lives across a fork."""

from __future__ import annotations

import os
import re
import select
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import conninfo, sql

from interlock.errors import GateClosed, InvalidConfiguration

Connection = psycopg.Connection[tuple[Any, ...]]

DEFAULT_SCHEMA = "interlock"
MAX_IDENTIFIER_BYTES = 63
"""PostgreSQL cuts longer names off without a word (postgresql.org/docs/current/sql-syntax-lexical.html, identifiers)."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]*")

_LIBPQ_DEFAULTS = {
    "application_name": "interlock",
    "connect_timeout": "10",
    # A server that is gone without a word would be waited for until the kernel gives up, two hours by default.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}

_SESSION = """
    SET default_transaction_isolation = 'read committed';
    SELECT set_config('statement_timeout', '30s', false) WHERE current_setting('statement_timeout') = '0';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_write', 'remote_apply')
"""
"""What holds whatever a database or a role was given as its default.

A commit that is not on the disk is not a commit: I1 rests on it. A version must be judged on what is committed now: I3 does.
"""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """Where the journal is.

    Args:
        conninfo: what libpq is given.
        schema: where the journal's tables are.
        max_connections: how many statements may run at once; more wait for each other here rather than in the server.
    """

    conninfo: str
    schema: str = DEFAULT_SCHEMA
    max_connections: int = 16


def parse_url(url: str) -> DatabaseOptions:
    """Return what a `postgresql://` URL says: everything that libpq knows, and `schema` and `max_connections` of our own.

    Raises:
        InvalidConfiguration: it is malformed, or an option of ours is out of range. The URL stays out of the message: it may
            hold a password.
    """
    try:
        parts = urlsplit(url)
        ours: dict[str, str] = {}
        theirs: list[tuple[str, str]] = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name in ("schema", "max_connections"):
                ours[name] = value
            else:
                theirs.append((name, value))
        given = conninfo.conninfo_to_dict(urlunsplit(parts._replace(query=urlencode(theirs))))
    except (ValueError, psycopg.Error) as error:
        raise InvalidConfiguration(f"the journal's URL is malformed: {type(error).__name__}; nothing was opened") from None
    return DatabaseOptions(
        conninfo.make_conninfo("", **{**_LIBPQ_DEFAULTS, **given}),
        _schema(ours.get("schema", DEFAULT_SCHEMA)),
        _max_connections(ours.get("max_connections", "16")),
    )


def _schema(name: str) -> str:
    if not _SCHEMA.fullmatch(name) or len(name) > MAX_IDENTIFIER_BYTES or name.startswith("pg_"):
        raise InvalidConfiguration(
            f"a journal's schema is named by a-z, 0-9 and _, at most {MAX_IDENTIFIER_BYTES} of them, and not pg_…: {name!r}"
        )
    return name


def _max_connections(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise InvalidConfiguration(f"max_connections is a number from 1 on, not {text!r}")
    return int(text)


def connect(options: DatabaseOptions, **libpq: str) -> Connection:
    """Return a connection in which each statement commits by itself, durably.

    Args:
        options: where to.
        libpq: parameters of libpq that go before the URL's own.

    Raises:
        psycopg.Error: it can't be had.
    """
    connection = psycopg.connect(conninfo.make_conninfo(options.conninfo, **libpq), autocommit=True)
    try:
        connection.execute(_SESSION)
        connection.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(options.schema)))
    except BaseException:
        connection.close()
        raise
    return connection


def is_usable(connection: Connection) -> bool:
    """Whether an idle connection can still be used, as far as this machine knows, without asking the server."""
    if connection.closed or connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return False
    poll = select.poll()
    try:
        poll.register(connection.pgconn.socket, select.POLLIN)
        # Notices and TLS tickets come unasked and harm nothing; the end of a session is an error when it is read.
        while poll.poll(0):
            connection.pgconn.consume_input()
    except (OSError, psycopg.Error, ValueError):
        return False
    return True


class Connections:
    """As many connections as threads use at once, up to a bound. Threads share it."""

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self._closed = False
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(self.options.max_connections)

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """Lend a connection; it is given back if it can still be used.

        Raises:
            GateClosed: this was closed.
            psycopg.Error: none can be had.
        """
        if self._pid != os.getpid():
            self.forget_after_fork()  # other hooks of the same fork may come first, and want a connection
        with self._places:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)

    def _take(self) -> Connection:
        if self._closed:
            raise GateClosed("the journal is closed; nothing was written or sent")
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if is_usable(connection):
                return connection
            self._discard(connection)
        connection = connect(self.options)
        with self._lock:
            self._all.add(connection)
        return connection

    def _give_back(self, connection: Connection) -> None:
        if self._closed or not is_usable(connection):
            self._discard(connection)
            return
        with self._lock:
            self._idle.append(connection)

    def _discard(self, connection: Connection) -> None:
        with self._lock:
            self._all.discard(connection)
        with suppress(psycopg.Error):
            connection.close()

    def close(self) -> None:
        """Close all connections, for good; one that is in use when it is given back."""
        self._closed = True
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._discard(connection)

    def forget_after_fork(self) -> None:
        """Leave the parent's connections to the parent, in a forked child."""
        if self._pid == os.getpid():
            return
        for connection in self._all:
            abandon(connection)
        self._reset()


_abandoned: list[Connection] = []
"""Connections of a parent process. They are kept, so that nothing ends the parent's session by clearing them away."""


def abandon(connection: Connection) -> None:
    """Let go of a connection that a parent process uses: close this process's descriptor, and say nothing to the server.

    Kept open, the copy would hide the parent's death from the server.
    """
    with suppress(OSError, psycopg.Error):
        os.close(connection.pgconn.socket)
    _abandoned.append(connection)


_pools: weakref.WeakSet[Connections] = weakref.WeakSet()


def _forget_all_after_fork() -> None:
    for pool in list(_pools):
        pool.forget_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all_after_fork)
