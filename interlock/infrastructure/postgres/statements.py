"""Statements that each session prepares once. Values and rows are in PostgreSQL's binary format, as libpq takes them.

psycopg's cursor looks for the type of every value and builds a query anew each time, in Python: what an action needs cost more
there than in the server. Errors are psycopg's own, and so is the waiting.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from uuid import UUID

import psycopg
from psycopg import generators, pq

from interlock.infrastructure.postgres.connections import Connection

Value = bytes | None
"""A value in its type's binary format; None is NULL."""

_BINARY = 1
_numbers = itertools.count(1)

_INTEGER, _BIGINT, _ARRAY = Struct("!i"), Struct("!q"), Struct("!iiIii")
_EPOCH, _MICROSECOND = datetime(2000, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

_UUID_OID = 2950  # in pg_type, for ever


class Statement:
    """A statement with parameters `$1`, `$2`, ….

    Args:
        sql: the statement. The types of its parameters have to follow from it.
    """

    def __init__(self, sql: str) -> None:
        self._sql = sql.encode()
        self._name = f"interlock_{next(_numbers)}".encode()

    def run(self, connection: Connection, *values: Value) -> list[tuple[Value, ...]]:
        """Return its rows.

        Args:
            connection: on which session.
            values: one a parameter.

        Raises:
            psycopg.Error: it failed, as a cursor would raise it.
        """
        pgconn = connection.pgconn
        if self._name not in connection.prepared:
            self._prepare(connection)
        pgconn.send_query_prepared(self._name, values, [_BINARY] * len(values), _BINARY)
        try:
            result = _result(connection)
        except psycopg.errors.InvalidSqlStatementName:
            # Somebody else has the session too, and said DISCARD ALL: that ended our settings, on which commits rest.
            connection.close()
            raise
        columns = range(result.nfields)
        return [tuple([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]

    def _prepare(self, connection: Connection) -> None:
        try:
            connection.pgconn.send_prepare(self._name, self._sql)
            _result(connection)
            connection.prepared.add(self._name)
        except psycopg.Error:
            raise
        except BaseException:
            # A signal's handler raised. A session that has it without our knowledge would refuse to prepare it again, for ever.
            connection.close()
            raise


def _result(connection: Connection) -> pq.abc.PGresult:
    results: list[pq.abc.PGresult] = connection.wait(generators.execute(connection.pgconn))
    # A commit that fails, and a session that is ended, tell so behind the rows that were ready, or behind another error.
    for result in results:
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise psycopg.errors.error_from_result(result)
    return results[0]


def integer(value: int) -> bytes:
    """Return an `integer`."""
    return _INTEGER.pack(value)


def bigint(value: int | None) -> Value:
    """Return a `bigint`."""
    return None if value is None else _BIGINT.pack(value)


def text(value: str | None) -> Value:
    """Return a `text`."""
    return None if value is None else value.encode()


def boolean(value: bool) -> bytes:  # noqa: FBT001 - it is a value
    """Return a `boolean`."""
    return b"\x01" if value else b"\x00"


def timestamp(at: datetime | None) -> Value:
    """Return a `timestamptz`."""
    return None if at is None else _BIGINT.pack((at - _EPOCH) // _MICROSECOND)


def uuid(value: UUID | None) -> Value:
    """Return a `uuid`."""
    return None if value is None else value.bytes


def uuids(values: Sequence[UUID]) -> bytes:
    """Return a `uuid[]`."""
    dimensions, has_nulls, first = 1, 0, 1
    head = _ARRAY.pack(dimensions, has_nulls, _UUID_OID, len(values), first)
    return head + b"".join([_INTEGER.pack(len(value.bytes)) + value.bytes for value in values])


def as_integer(value: Value) -> int:
    """Read an `integer` or a `bigint`."""
    return int.from_bytes(value or b"", signed=True)
