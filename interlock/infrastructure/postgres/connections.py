"""Connections to PostgreSQL: set up for durable commits, checked before they are lent, and none lives across a fork."""

from __future__ import annotations

import os
import re
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import psycopg
from psycopg import conninfo, sql
from psycopg.abc import PQGen

from interlock.errors import GateClosed, InvalidConfiguration

T = TypeVar("T")
Session = tuple[int, datetime | None]

ANSWER_S, _MARGIN_S = 40.0, 10.0
"""For how long a statement's answer is waited for at least, and how much longer than the server is given for a statement."""


class _NoAnswer(psycopg.OperationalError):
    """The server was silent for too long."""


def _within(gen: PQGen[T], seconds: float) -> PQGen[T]:
    """Let a generator of psycopg's go on for so long.

    Raises:
        _NoAnswer: it was not done by then.
    """
    until_s = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() >= until_s:
                raise _NoAnswer(f"no answer for {seconds:g} s")
            state = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection, and which session of the server it is.

    Attributes:
        session: the process of the server, and when it began: process ids are used again, and a proxy invents what libpq is told.
            None where the server hides when.
        prepared: the names of the statements that this session knows.
        answer_s: for how long a statement's answer is waited for, in seconds.
        holds_ours: whether it is known to lead to a journal that holds what was written here before it was made.
        process: the process of this machine that made it.
        abandoned: whether it is a parent process's, and to be left open without a warning.
    """

    session: Session
    prepared: set[bytes]
    answer_s = ANSWER_S
    holds_ours = False
    process: int
    abandoned = False

    def __del__(self, warn: Any = warnings.warn, /) -> None:
        """Warn of a connection that nobody closed, unless it was left to the parent."""
        if not self.abandoned:
            super().__del__(warn)

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server, but not for ever.

        A proxy that goes half open answers keepalives for a server that it does not reach, and the kernel sees nothing.
        """
        try:
            return super().wait(_within(gen, self.answer_s), *args, **kwargs)
        except _NoAnswer:
            self.pgconn.finish()  # an answer that comes later belongs to nobody
            raise


DEFAULT_SCHEMA = "interlock"
MAX_IDENTIFIER_BYTES = 63
"""PostgreSQL cuts longer names off without a word (postgresql.org/docs/current/sql-syntax-lexical.html, identifiers)."""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]*")

_OURS = ("schema=", "max_connections=")
"""The options of a URL that libpq does not know."""

_LIBPQ_DEFAULTS = {
    "application_name": "interlock",
    "connect_timeout": "10",
    # A server that is gone without a word would be waited for until the kernel gives up, two hours by default.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}

_THE_ONE_THAT_WRITES = {"target_session_attrs": "read-write"}
"""Of several hosts one is written to. Another one, found while that is busy, would answer with what was true a while ago."""

_WHO = "SELECT pg_backend_pid()"
_TRIES = 10
"""How often a connection is made again because the process was forked meanwhile, which takes milliseconds."""

_LOOKS, _LOOKS_AT_A_PROXY = 3, 50
"""How often it is asked which session a connection has; a proxy gives itself away by the process id that it invents."""

_POOLED = (
    "a proxy that pools transactions stands before the database (PgBouncer's pool_mode=transaction, say); a gate's lock can't "
    "live there. Give the journal a URL that goes to PostgreSQL itself, or to a pool with pool_mode=session; nothing was written "
    "or sent"
)

_SESSION = """
    SET default_transaction_isolation = 'read committed';
    SELECT set_config('statement_timeout', '30s', false) WHERE current_setting('statement_timeout') = '0';
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_write', 'remote_apply');
    SELECT set_config('idle_session_timeout', '0', false) WHERE current_setting('idle_session_timeout', true) <> '0';
    SET lock_timeout = 0;
    SET standard_conforming_strings = on;
    SET DateStyle = 'ISO';
    SET TimeZone = 'UTC';
    SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET tcp_user_timeout = '15s';
    SET LOCAL ROLE NONE;
    SELECT pid, backend_start, extract(epoch FROM current_setting('statement_timeout')::interval)::double precision
        FROM pg_stat_get_activity(pg_backend_pid())
"""
"""What holds whatever a database or a role was given as its default.

A commit that is not on the disk is not a commit: I1 rests on it. A version must be judged on what is committed now: I3 does.
A gate that has nothing to do would lose its lock; and a host that is gone without a word would keep its sessions for hours, until
none is left for those that live. Whoever stands in an approval's line may have sent already: the limit of a statement is enough.
The last one asks as who logged in: a role that sessions change to may not see when they began. The rest decides how our own
literals, and its times, are read.
"""

_END_SESSION = """
    SELECT CASE WHEN backend_start = %(began)s THEN pg_terminate_backend(pid, %(wait_ms)s) END
    FROM pg_stat_get_activity(%(pid)s) WHERE coalesce(backend_start = %(began)s, true)
"""
"""Where it is hidden when a session began, it may be the one that is meant or a later one: it is there, and left alone."""


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """Where the journal is.

    Args:
        conninfo: what libpq is given.
        schema: where the journal's tables are.
        max_connections: how many statements may run at once; more wait for each other here rather than in the server.
    """

    conninfo: str = field(repr=False)  # it may hold a password
    schema: str = DEFAULT_SCHEMA
    max_connections: int = 16


def parse_url(url: str) -> DatabaseOptions:
    """Return what a `postgresql://` URL says: everything that libpq knows, and `schema` and `max_connections` of our own.

    Raises:
        InvalidConfiguration: it is malformed, or an option of ours is out of range. The URL stays out of the message: it may
            hold a password.
    """
    # What is not ours reaches libpq as it was written: it has a reading of its own of "+", of no host and of several.
    address, _, query = url.partition("?")
    options = [option for option in query.split("&") if option]
    ours = dict(parse_qsl("&".join(option for option in options if option.startswith(_OURS)), keep_blank_values=True))
    theirs = [option for option in options if not option.startswith(_OURS)]
    try:
        given = conninfo.conninfo_to_dict(f"{address}?{'&'.join(theirs)}" if theirs else address)
    except psycopg.Error as error:
        raise InvalidConfiguration(f"the journal's URL is malformed: {type(error).__name__}; nothing was opened") from None
    if address.count("@") > 1:  # or whoever fails to find that host would quote half of the password
        raise InvalidConfiguration("the user or password in the journal's URL holds an @; write it as %40; nothing was opened")
    hosts = given.get("host") or given.get("hostaddr") or os.environ.get("PGHOST") or os.environ.get("PGHOSTADDR")
    several = _THE_ONE_THAT_WRITES if "," in str(hosts or "") else {}
    return DatabaseOptions(
        conninfo.make_conninfo("", **{**_LIBPQ_DEFAULTS, **several, **given, "client_encoding": "UTF8"}),
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
    text = conninfo.make_conninfo(options.conninfo, **libpq)
    connection = _connect_between_forks(text)
    if _is_any_of_several(connection, text):
        connection.close()
        connection = _connect_between_forks(conninfo.make_conninfo(text, **_THE_ONE_THAT_WRITES))
    try:
        cursor = connection.execute(_SESSION)
        while cursor.nextset():
            pass
        ((pid, began, limit_s),) = cursor.fetchall()
        connection.session, connection.prepared = (pid, began), set()
        connection.answer_s = max(ANSWER_S, limit_s + _MARGIN_S)
        # PostgreSQL's own functions come first where the path does not name them, so that nobody's in the schema hide them.
        connection.execute(sql.SQL("SET search_path = {}, pg_temp").format(sql.Identifier(options.schema)))
    except BaseException:
        connection.close()
        raise
    return connection


def _is_any_of_several(connection: Connection, text: str) -> bool:
    """Whether a service file names several hosts, which is known behind the connecting only, and nobody says which is meant."""
    used = {option.keyword: option.val or b"" for option in connection.pgconn.info}
    several = b"," in used[b"host"] + used[b"hostaddr"]
    return several and used[b"target_session_attrs"] == b"any" and "target_session_attrs" not in conninfo.conninfo_to_dict(text)


def end_session(connection: Connection, session: Session, *, wait_ms: int = 0) -> bool:
    """Ask the server to end a session; return whether it was there still, as far as can be seen.

    Args:
        connection: on which session it is asked; outside a transaction, or what is seen would be from its beginning.
        session: which one is to end.
        wait_ms: how long its end is waited for, in milliseconds.

    Raises:
        psycopg.Error: it can't be asked, or may not be ended.
    """
    with connection.transaction():
        # As who logged in: a role that sessions change to may neither see nor end those of others.
        connection.execute("SET LOCAL ROLE NONE")
        pid, began = session
        return connection.execute(_END_SESSION, {"pid": pid, "began": began, "wait_ms": wait_ms}).fetchone() is not None


def _connect_between_forks(text: str) -> Connection:
    """Return a connection that a child of this process, forked at whatever moment, can find and let go of.

    One that is being made while another thread forks is on that thread's stack only. The child would keep its socket open, and
    hide its parent's death from the server: locks, and transactions in the middle, would outlive their holder.
    """
    for _ in range(_TRIES):
        before = _forks.so_far()
        connection = Connection.connect(text, autocommit=True)
        connection.process = os.getpid()
        _connections.add(connection)
        if before is not None and before == _forks.so_far():
            return connection
        connection.close()  # which tells the server, so that the child's copy of the socket is a dead one
    raise psycopg.OperationalError("this process was forked each time that a connection was being made")


def require_own_session(one: Connection, other: Connection) -> None:
    """Raise where a proxy lends one session to many clients, which would get each other's settings and locks.

    A proxy that pools transactions gives the second client the session that the first one has just used; and a busy one gives the
    first one another session than a moment ago, sooner or later.

    Raises:
        InvalidConfiguration: a proxy that pools transactions stands in between.
    """
    direct = all(connection.info.backend_pid == connection.session[0] for connection in (one, other))
    for _ in range(_LOOKS if direct else _LOOKS_AT_A_PROXY):
        ours, theirs = (connection.execute(_WHO, prepare=False).fetchone() for connection in (one, other))
        if ours == theirs or ours != (one.session[0],) or theirs != (other.session[0],):
            for lent in (one, other):
                lent.execute("RESET ALL")  # our settings are no business of those who get the session next
            raise InvalidConfiguration(_POOLED)


def _is_idle(connection: Connection) -> bool:
    """Whether it is open and outside a transaction, as far as its last statement told."""
    return connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def is_usable(connection: Connection) -> bool:
    """Whether an idle connection can still be used, as far as this machine knows, without asking the server."""
    if not _is_idle(connection):
        return False
    try:
        # Neither waits. Notices and TLS tickets come unasked and harm nothing; the end of a session is an error when it is read,
        # and stands behind the reason that the server gives for it.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.Error:
        return False
    return True


class Connections:
    """As many connections as threads use at once, up to a bound. Threads share it.

    Args:
        options: where to.
        check: raises where a new connection does not lead to the journal that was opened: a database may have been restored, or
            replaced by another one, while its clients were away.
    """

    def __init__(self, options: DatabaseOptions, check: Callable[[Connection], None] = lambda _connection: None) -> None:
        self.options = options
        self._check = check
        self._closed = False
        self._reset()
        _pools.add(self)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        # One place for each connection that may be lent. A queue in C costs a tenth of threading's semaphore.
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.options.max_connections):
            self._places.put(None)
        self._held = threading.local()

    @contextmanager
    def lend(self) -> Generator[Connection]:
        """Lend a connection; it is given back if it can still be used.

        Raises:
            GateClosed: this was closed.
            psycopg.Error: none can be had.
        """
        if self._pid != os.getpid():
            self.forget_after_fork()  # other hooks of the same fork may come first, and want a connection
        held: Connection | None = getattr(self._held, "connection", None)
        if held is not None:
            yield held
            return
        places = self._places
        try:
            # A signal's handler may raise right behind it, or while it waits: one place too many is better than one too few, and
            # than waiting for that for ever.
            places.get()
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            places.put(None)

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let all that this thread reads until the end be of one moment.

        Raises:
            GateClosed: this was closed.
            psycopg.Error: no connection can be had.
        """
        with self.lend() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._check(connection)
            self._held.connection = connection
            try:
                yield
            finally:
                self._held.connection = None

    def _take(self) -> Connection:
        if self._closed:
            raise GateClosed("the journal is closed; nothing was written or sent")
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if is_usable(connection):
                    return connection
                _close(connection)
        connection = connect(self.options)
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        # Whether its session lives on is asked when it is lent again.
        if not self._closed and not connection.abandoned and _is_idle(connection):
            self._idle.append(connection)
            if not self._closed:
                return
        _close(connection)
        self._discard_idle()  # what ended one may have ended all, and not every end has been heard of yet

    def close(self) -> None:
        """Close all connections, for good; one that is in use when it is given back."""
        self._closed = True
        self._discard_idle()

    def _discard_idle(self) -> None:
        with suppress(IndexError):
            while True:
                _close(self._idle.pop())

    def forget_after_fork(self) -> None:
        """Leave the parent's connections to the parent, in a forked child."""
        if self._pid == os.getpid():
            return
        _abandon_those_of_the_parent()
        self._reset()


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()


_abandoned: list[Connection] = []
"""Connections of a parent process. They are kept, so that nothing ends the parent's session by clearing them away."""


def abandon(connection: Connection) -> None:
    """Let go of a connection that a parent process uses: close this process's descriptor, and say nothing to the server.

    Kept open, the copy would hide the parent's death from the server. Letting go twice does nothing.
    """
    if connection.abandoned:
        return
    with suppress(OSError, psycopg.Error):
        os.close(connection.pgconn.socket)
    connection.abandoned = True
    _abandoned.append(connection)


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_pools: weakref.WeakSet[Connections] = weakref.WeakSet()


def _abandon_those_of_the_parent() -> None:
    for connection in list(_connections):
        if connection.process != os.getpid():
            abandon(connection)


class _Forks:
    """How often this process was forked."""

    def __init__(self) -> None:
        self._begun = self._ended = 0

    def so_far(self) -> int | None:
        """Return how often; None while another thread is at it."""
        return self._begun if self._begun == self._ended else None

    def before(self) -> None:
        """Take note that a fork begins."""
        self._begun += 1

    def after_in_parent(self) -> None:
        """Take note that one has ended."""
        self._ended += 1

    def after_in_child(self) -> None:
        """Begin anew, and let go of what is the parent's."""
        self._ended = self._begun
        _abandon_those_of_the_parent()
        for pool in list(_pools):
            pool.forget_after_fork()


_forks = _Forks()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.before, after_in_parent=_forks.after_in_parent, after_in_child=_forks.after_in_child)
