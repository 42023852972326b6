"""Liveness locks in the database: a session-level advisory lock is dropped when the holder's connection ends."""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress

import psycopg

from interlock.domain.requests import Liveness
from interlock.errors import GateClosed, JournalUnavailable
from interlock.infrastructure.postgres.connections import (
    Connection,
    Connections,
    DatabaseOptions,
    Session,
    abandon,
    connect,
    end_session,
    is_usable,
    require_own_session,
)

# A session whose client is gone without a word is ended within 3 s: 2.8 s were measured with these, over 40 s without. The
# server's side is what drops the lock; ours is what notices that it was lost.
_SERVER_SIDE = """
    SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 2; SET tcp_user_timeout = '3s'
"""
_CLIENT_SIDE = {"keepalives_idle": "1", "keepalives_interval": "1", "keepalives_count": "2", "tcp_user_timeout": "2000"}

_LAST_WORD_MS = 1000
_TAKE = "SELECT pg_is_in_recovery(), pg_try_advisory_lock(%s, %s)"
_STANDBY = (
    "the server is a standby, which only reads, and whose locks no other gate sees; nothing was written or sent. Name all hosts "
    "in the journal's URL (host=one,two), or open the gate when this one was promoted"
)

_ANSWER_S = 5.0
"""None of these statements waits for anybody; a gate that is closed while the network is gone should not wait long either."""

_PREFIX = "pg-"


class SessionLocks:
    """The lock of one gate on a connection of its own, which no pool recycles.

    Args:
        options: where the journal is.
        connections: for asking about the locks of others.
        log_id: the journal's id; several journals may share a database.

    Raises:
        InvalidConfiguration: a transaction-pooling proxy stands in between, which gives sessions away.
        JournalUnavailable: the database can't be reached.
    """

    def __init__(self, options: DatabaseOptions, connections: Connections, log_id: str) -> None:
        self._options, self._connections = options, connections
        self._journal = int(log_id.replace("-", "")[-8:], 16) - 2**31
        self._mutex = threading.Lock()
        self._connection: Connection | None = None
        self._session: Session | None = None
        self.handle: str | None = None
        self._rename()
        self._take()

    def probe(self, handle: str) -> Liveness:
        """Say whether the gate with this lock is alive: GONE where its session is.

        A session can be lost by a gate that lives (a network that was cut): what a new holder may do does not rest on this.
        """
        if not handle.startswith(_PREFIX):
            return Liveness.UNKNOWN
        if handle == self.handle:
            return Liveness.ALIVE
        # Shared, so that two who ask at once don't take each other for the holder; dropped with the statement.
        try:
            with self._connections.lend() as connection:
                row = connection.execute(
                    "SELECT pg_try_advisory_xact_lock_shared(%s, %s)", (self._journal, _number(handle))
                ).fetchone()
        except psycopg.Error as error:
            raise JournalUnavailable(f"the journal could not be asked about a holder: {error}; nothing was sent") from error
        return Liveness.GONE if row is not None and row[0] else Liveness.ALIVE

    def ensure(self) -> None:
        """Return if the lock is held, and take it again, under the same holder, where its connection was lost.

        Raises:
            GateClosed: it was released.
            JournalUnavailable: it can't be taken again, so that nothing may be sent.
        """
        with self._mutex:
            if self.handle is None:
                raise GateClosed("the gate was closed; nothing was sent")
            if self._connection is not None and is_usable(self._connection):
                return
            self._drop()
            try:
                taken = self._lock()
            except psycopg.Error as error:
                raise JournalUnavailable(
                    f"the connection that holds this gate's lock was lost and can't be had again: {str(error).strip()}; "
                    "nothing is sent until it is back"
                ) from error
            if not taken:
                raise JournalUnavailable(
                    "the session that held this gate's lock has not ended in the database yet; nothing is sent until it has"
                )

    def sweep(self) -> None:
        """Do nothing: the dead leave nothing."""

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child, on a connection of its own; the parent's is left to the parent."""
        self._mutex = threading.Lock()
        if self._connection is not None:
            abandon(self._connection)
            self._connection = self._session = None  # the session is the parent's
        self._rename()
        with suppress(JournalUnavailable):  # the database may be down just now; `ensure` takes it before anything is sent
            self._take()

    def release(self) -> None:
        """Drop the lock. Releasing twice does nothing."""
        with self._mutex:
            self.handle = None
            self._drop()

    def lose(self) -> None:
        """End the session and keep the handle, as death does, for crash tests."""
        with self._mutex:
            self._drop()

    def _rename(self) -> None:
        self.holder = secrets.token_hex(16)
        self.handle = f"{_PREFIX}{self.holder}"

    def _take(self) -> None:
        try:
            while not self._lock():
                self._rename()  # 32 bits of it name the lock: another gate has the same
        except psycopg.Error as error:
            raise JournalUnavailable(
                f"no lock can be taken in the database: {str(error).strip()}; nothing was written"
            ) from error

    def _lock(self) -> bool:
        """Open the connection and take the lock; return whether it was free."""
        connection = connect(self._options, **_CLIENT_SIDE)
        connection.answer_s = _ANSWER_S
        try:
            connection.execute(_SERVER_SIDE)
            with self._connections.lend() as other:
                require_own_session(connection, other)
            if self._session is not None:
                # What is left of it may hold the lock for as long as something in between keeps it alive.
                end_session(connection, self._session, wait_ms=_LAST_WORD_MS)
            ((stands_by, taken),) = connection.execute(_TAKE, (self._journal, _number(f"{_PREFIX}{self.holder}"))).fetchall()
            if stands_by:
                raise JournalUnavailable(_STANDBY)
        except BaseException:
            connection.close()
            raise
        if not taken:
            connection.close()
            return False
        self._connection, self._session = connection, connection.session
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                # A server may take a while to see the end of a session: who asks right away would hear that we live.
                if is_usable(self._connection):
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class SessionLeaderLock:
    """A leader's lock in the database, on a connection of its own.

    Args:
        options: where the journal is.
        log_id: the journal's id; several journals may share a database.
    """

    def __init__(self, options: DatabaseOptions, log_id: str) -> None:
        self._options, self._log_id = options, log_id
        self._connection: Connection | None = None

    def take(self) -> bool:
        """Take it, unless somebody else has it; return whether it is ours, and still is.

        A session that was lost without our hearing of it may have given it to another leader: that is a waste, and no harm, as
        each signs only what continues the last.

        Raises:
            JournalUnavailable: the database can't be asked.
        """
        if self._connection is not None and is_usable(self._connection):
            return True
        self.release()
        try:
            connection = connect(self._options, **_CLIENT_SIDE)
            try:
                taken = self._try(connection)
            except BaseException:
                connection.close()
                raise
        except psycopg.Error as error:
            raise JournalUnavailable(f"the log's lock can't be taken: {str(error).strip()}; nothing was signed") from error
        if taken:
            self._connection = connection
        else:
            connection.close()
        return taken

    def _try(self, connection: Connection) -> bool:
        connection.answer_s = _ANSWER_S
        connection.execute(_SERVER_SIDE)
        statement = "SELECT pg_try_advisory_lock(hashtextextended('log of ' || %s, 0::bigint))"
        ((taken,),) = connection.execute(statement, (self._log_id,)).fetchall()
        return bool(taken)

    def release(self) -> None:
        """Drop it. Releasing twice does nothing."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def forget_after_fork(self) -> None:
        """Leave the session to the parent, in a forked child."""
        if self._connection is not None:
            abandon(self._connection)
            self._connection = None


def _number(handle: str) -> int:
    """Return the number of a handle's lock, as a signed 32-bit integer."""
    return int(handle.removeprefix(_PREFIX)[:8], 16) - 2**31
