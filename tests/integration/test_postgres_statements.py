"""Statements that each session prepares once: what is sent in binary is what the server reads, and errors are psycopg's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import psycopg
import pytest

from harness.postgres.server import PostgresServer
from harness.proxy import Proxy
from interlock.infrastructure.postgres import statements
from interlock.infrastructure.postgres.connections import Connection, connect, parse_url
from interlock.infrastructure.postgres.statements import Statement, Value, as_integer

ONE, OTHER = UUID(int=1), UUID("018f3c2e-7b1a-7c5d-8e9f-0123456789ab")
FAR_EAST = timezone(timedelta(hours=9))


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    """A session of its own."""
    with connect(parse_url(postgres_url)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("integer", statements.integer(-1), "-1"),
        ("integer", statements.integer(2**31 - 1), "2147483647"),
        ("bigint", statements.bigint(-(2**53)), "-9007199254740992"),
        ("bigint", statements.bigint(None), None),
        ("text", statements.text("Grüße, 你好"), "Grüße, 你好"),
        ("text", statements.text(None), None),
        ("boolean", statements.boolean(bool(1)), "true"),
        ("boolean", statements.boolean(bool(0)), "false"),
        ("uuid", statements.uuid(OTHER), str(OTHER)),
        ("uuid[]", statements.uuids([ONE, OTHER]), f"{{{ONE},{OTHER}}}"),
        ("timestamptz", statements.timestamp(datetime(1999, 12, 31, 23, 59, 59, 999_999, UTC)), "1999-12-31 23:59:59.999999+00"),
        ("timestamptz", statements.timestamp(datetime(2026, 1, 1, 9, tzinfo=FAR_EAST)), "2026-01-01 00:00:00+00"),
        ("timestamptz", statements.timestamp(None), None),
    ],
)
def test_the_server_reads_what_was_meant(connection: Connection, kind: str, value: Value, read: str | None) -> None:
    """Each type's binary format, at its edges."""
    ((answer,),) = Statement(f"SELECT ($1::{kind})::text").run(connection, value)
    assert (answer.decode() if answer is not None else None) == read


def test_a_list_of_none_finds_nothing(connection: Connection) -> None:
    """An empty page asks for no events."""
    found = Statement("SELECT 7 WHERE $1::uuid = ANY ($2)").run(connection, statements.uuid(ONE), statements.uuids([]))
    assert found == []


def test_numbers_are_read_as_they_were_sent(connection: Connection) -> None:
    """Of both widths; and what is not there counts as 0: an aggregate without events has no version."""
    (row,) = Statement("SELECT -7, (2 ^ 40)::bigint, NULL::integer").run(connection)
    assert [as_integer(value) for value in row] == [-7, 2**40, 0]


def test_a_session_prepares_a_statement_once(connection: Connection) -> None:
    """It is the plan that is used again that makes it worth it."""
    statement = Statement("SELECT $1::integer + 1")
    assert [as_integer(statement.run(connection, statements.integer(n))[0][0]) for n in range(3)] == [1, 2, 3]
    ((count,),) = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'interlock_%'").fetchall()
    assert count == 1


@pytest.mark.parametrize(("limit", "waited_s"), [("0", 40), ("5s", 40), ("2min", 130)])
def test_an_answer_is_waited_for_longer_than_the_server_may_take(limit: str, waited_s: float, postgres_url: str) -> None:
    """Whoever lets a statement run for two minutes, for the check of a large log, gets its answer."""
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-cstatement_timeout%3D{limit}"
    with connect(parse_url(url)) as opened:
        assert opened.answer_s == waited_s


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(postgres: PostgresServer) -> None:
    """A proxy that went half open swallows everything and answers keepalives: the connection is given up."""
    statement = Statement("SELECT 7")
    with Proxy(postgres.socket_path) as proxy:
        options = parse_url(postgres.url(port=proxy.port))
        with connect(options) as opened:
            statement.run(opened)
            opened.answer_s = 0.2
            proxy.blackhole()
            with pytest.raises(psycopg.OperationalError, match="no answer"):
                statement.run(opened)
            assert opened.closed


def test_an_error_is_psycopgs_and_the_session_goes_on(connection: Connection) -> None:
    """What is caught by its class, a taken key among them, is caught here too."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        Statement("SELECT 1 / $1::integer").run(connection, statements.integer(0))
    with pytest.raises(psycopg.errors.UndefinedTable):
        Statement("SELECT * FROM no_such_table").run(connection)
    assert Statement("SELECT 7").run(connection) == [(statements.integer(7),)]


def test_a_session_that_has_ended_is_an_operational_error(connection: Connection) -> None:
    """As with a cursor: whether it was ended here or there."""
    statement = Statement("SELECT 7")
    statement.run(connection)
    with connect(parse_url(connection.info.dsn)) as other:
        other.execute("SELECT pg_terminate_backend(%s, 1000)", (connection.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        statement.run(connection)
    with pytest.raises(psycopg.OperationalError):
        statement.run(connection)


def test_a_session_that_was_reset_is_not_used_again(connection: Connection) -> None:
    """Whoever shares it has ended our settings with our statements: that a commit is on the disk when it is told, for one."""
    statement = Statement("SELECT 7")
    statement.run(connection)
    connection.execute("DISCARD ALL")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        statement.run(connection)
    assert connection.closed


class InterruptedOnce(Connection):
    """A session in which a signal's handler raises as soon as the first answer is there."""

    was_interrupted = False

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for an answer, and lose it once."""
        answer = super().wait(*args, **kwargs)
        if hasattr(self, "prepared") and not self.was_interrupted:
            self.was_interrupted = True
            raise TimeoutError
        return answer


def test_a_preparation_that_is_interrupted_does_not_spoil_the_session(connection: Connection) -> None:
    """The server has prepared it, and whoever asked was stopped right then: it would fail there for ever."""
    statement = Statement("SELECT 7")
    with InterruptedOnce.connect(connection.info.dsn, autocommit=True) as session:
        session.prepared = set()
        with pytest.raises(TimeoutError):
            statement.run(session)
        assert session.closed


@pytest.mark.parametrize(
    ("at_the_end", "error"),
    [("RAISE division_by_zero", psycopg.DataError), ("PERFORM pg_terminate_backend(pg_backend_pid())", psycopg.OperationalError)],
)
def test_what_goes_wrong_behind_the_rows_is_an_error_too(connection: Connection, at_the_end: str, error: type[Exception]) -> None:
    """The statement was done and its rows were on their way when the commit failed, or the session was ended before it."""
    connection.execute("CREATE TEMPORARY TABLE rows (n integer)")
    connection.execute(
        f"CREATE FUNCTION pg_temp.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {at_the_end}; RETURN NULL; END $$".encode()
    )
    connection.execute(
        "CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON rows DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION pg_temp.fail()"
    )
    with pytest.raises(error):
        Statement("INSERT INTO rows VALUES ($1) RETURNING n").run(connection, statements.integer(1))
