"""The schema: made, checked and brought up to date by the SQL files in `migrations`."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from importlib import resources
from typing import NamedTuple

import psycopg
from psycopg import sql

from interlock.errors import InvalidConfiguration, JournalCorrupt, JournalOutdated, JournalTooNew, JournalUnavailable
from interlock.infrastructure.postgres.appending import Head
from interlock.infrastructure.postgres.connections import Connection, DatabaseOptions, connect, require_own_session

MIN_SERVER_VERSION = 140_000


class Migration(NamedTuple):
    """One version of the schema."""

    version: int
    statements: str


def migrations() -> list[Migration]:
    """Return all versions, oldest first."""
    folder = resources.files("interlock.infrastructure.postgres.migrations")
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [Migration(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files]


SCHEMA_VERSION = migrations()[-1].version


def create_or_check(options: DatabaseOptions, *, create: bool) -> str:
    """Make the schema where there is none, check its version where there is one, and return the journal's id.

    Raises:
        InvalidConfiguration: there is no journal and `create` is False, the schema is of something else, or the server is too
            old.
        JournalTooNew: it was made by a newer version of Interlock.
        JournalOutdated: it was made by an older one, and has to be upgraded first.
        JournalCorrupt: it does not say which one it is.
        JournalUnavailable: the server can't be asked.
    """
    try:
        with _own_session(options) as connection:
            version = _version(connection, options.schema)
            if version == 0 and not create:
                raise InvalidConfiguration(f"there is no journal in schema {options.schema!r}; nothing was written")
            if version == 0:
                _apply(connection, options.schema)
            elif version < SCHEMA_VERSION:
                raise JournalOutdated(
                    f"the journal in schema {options.schema!r} has version {version}, and this version of Interlock needs "
                    f"{SCHEMA_VERSION}; nothing was written or sent. Run `interlock db upgrade` while no older version runs"
                )
            row = connection.execute("SELECT log FROM journal").fetchone()
            if row is None:
                raise JournalCorrupt(
                    f"the schema {options.schema!r} holds a journal's tables, and the row that says which journal it is has been "
                    "removed; nothing was written or sent. Restore it from a backup"
                )
            require_same(connection, row[0])
            return str(row[0])
    except psycopg.Error as error:
        raise JournalUnavailable(f"the journal can't be used: {str(error).strip()}; nothing was written or sent") from error


def upgrade(options: DatabaseOptions) -> tuple[int, int]:
    """Bring a journal up to date, or make it.

    Returns:
        The version before and after; 0 before where there was none.

    Raises:
        JournalTooNew: it was made by a newer version of Interlock.
        JournalUnavailable: the server can't be asked, or the role may not change the schema.
    """
    try:
        with _own_session(options) as connection:
            before = _version(connection, options.schema)
            _apply(connection, options.schema)
            _adopt(connection)
            return before, _version(connection, options.schema)
    except psycopg.Error as error:
        raise JournalUnavailable(f"the journal can't be upgraded: {str(error).strip()}; nothing was changed") from error


def grant(options: DatabaseOptions, role: str) -> None:
    """Give a role what a gate needs and no more: it can add to the log, and not change it (I9).

    Raises:
        JournalUnavailable: there is no such role, or it may not be given these rights.
    """
    to = sql.Identifier(role)
    schema = sql.Identifier(options.schema)
    statements = (
        "GRANT USAGE ON SCHEMA {schema} TO {to}",
        "GRANT SELECT, INSERT ON stored_events, names, positions, checkpoints, cosignatures TO {to}",
        "GRANT SELECT, INSERT, DELETE ON log_nodes TO {to}",
        "GRANT SELECT ON journal, migrations TO {to}",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON receipts TO {to}",
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {to}",
    )
    try:
        with _own_session(options) as connection, connection.transaction():
            for statement in statements:
                connection.execute(sql.SQL(statement).format(schema=schema, to=to))
    except psycopg.Error as error:
        raise JournalUnavailable(f"no rights could be given to {role!r}: {str(error).strip()}; nothing was changed") from error


@contextmanager
def _own_session(options: DatabaseOptions) -> Generator[Connection]:
    """Give a connection whose session is nobody else's, to a server that is new enough."""
    with connect(options) as connection:
        _require_server(connection)
        with connect(options) as other:
            require_own_session(connection, other)
        yield connection


def _apply(connection: Connection, schema: str) -> None:
    """Apply what is missing, in one transaction; several processes may try at once, and one does it."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('interlock schema ' || %s, 0))", (schema,))
        done = _version(connection, schema)
        if done == 0:
            _create_schema(connection, schema)
        for migration in migrations():
            if migration.version > done:
                connection.execute(migration.statements.encode())
                connection.execute("INSERT INTO migrations (version) VALUES (%s)", (migration.version,))
        if done == 0:
            connection.execute("INSERT INTO journal (log) VALUES (%s)", (uuid.uuid4().urn,))


def _create_schema(connection: Connection, schema: str) -> None:
    # IF NOT EXISTS asks for the right to make one first, which a role that was given a schema need not have.
    if connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def _version(connection: Connection, schema: str) -> int:
    """Return the version of the journal that is there, 0 where there is none.

    Raises:
        InvalidConfiguration: the schema holds something else, or anybody may add to it.
        JournalTooNew: it is a newer one.
    """
    if _one(connection, _ANYBODYS, (schema,)):
        raise InvalidConfiguration(
            f"anybody may make functions in the schema {schema!r}, which the journal would call with its own rights; nothing "
            f"was written. Run `REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC`, or give the journal a schema of its own"
        )
    tables = {
        str(row[0]) for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    }
    if not tables:
        return 0
    if not {"journal", "migrations", "stored_events"} <= tables:
        raise InvalidConfiguration(f"the schema {schema!r} holds tables of something else; nothing was written")
    version = int(str(_one(connection, "SELECT max(version) FROM migrations")))
    if version > SCHEMA_VERSION:
        raise JournalTooNew(
            f"the journal in schema {schema!r} has version {version}, and this version of Interlock knows {SCHEMA_VERSION}; "
            "nothing was read or written, upgrade interlock-gate"
        )
    return version


_ANYBODYS = """
    SELECT EXISTS (
        SELECT FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) AS right_of
        WHERE nspname = %s AND right_of.privilege_type = 'CREATE' AND right_of.grantee = 0
    )
"""


def _require_server(connection: Connection) -> None:
    if connection.info.server_version < MIN_SERVER_VERSION:
        raise InvalidConfiguration(
            f"the server is PostgreSQL {connection.info.server_version // 10_000}, and the journal needs 14 or newer"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InvalidConfiguration(
            f"the database has the encoding {encoding}, which can't hold every text; nothing was written. Make one with UTF8"
        )


_LOG_AND_AHEAD = """
    SELECT log, commit_order_from + pg_snapshot_xmax(pg_current_snapshot())::text::bigint
        <= (SELECT coalesce(max(commit_order), -1) FROM stored_events) FROM journal
"""


def require_same(connection: Connection, log_id: str) -> None:
    """Return if a connection leads to the journal that was opened.

    Raises:
        JournalUnavailable: it is another journal: in this one, every key that was used is free.
        JournalOutdated: it is a dump of a cluster with higher numbers of transactions: followers would pass over new events.
    """
    rows = connection.execute(_LOG_AND_AHEAD).fetchall()
    log, is_ahead = rows[0] if rows else (None, False)
    if log != log_id:
        raise JournalUnavailable(
            f"the database holds {f'the journal {log}' if log else 'no journal'} now, and {log_id} was opened; nothing was "
            "written or sent. Bring that one back, or open a new gate if the other is meant"
        )
    if is_ahead:
        raise JournalOutdated(
            "this journal was restored from another cluster's dump; nothing was written or sent. Run `interlock db upgrade`, "
            "which lets it go on above the transaction numbers that it brought along"
        )


def require_held(connection: Connection, aggregate_id: uuid.UUID, head: Head) -> None:
    """Return if a connection leads to a journal that holds this event.

    Raises:
        JournalCorrupt: it has lost what was written to it, and would send again what it has forgotten.
    """
    wanted = "SELECT FROM stored_events WHERE originator_id = %s AND originator_version = %s AND leaf_hash = %s"
    if connection.execute(wanted, (aggregate_id, *head)).fetchone() is None:
        raise JournalCorrupt(
            "the journal does not hold what this gate wrote to it last: it was restored from an older backup, or a failover lost "
            "its end, and what was sent since has to be looked for at the provider before anything is fired again; nothing was "
            "written or sent for this. Open a new gate after that"
        )


def _adopt(connection: Connection) -> None:
    with connection.transaction():
        row = connection.execute(_LOG_AND_AHEAD).fetchone()
        if row is not None and row[1]:
            connection.execute(
                "UPDATE journal SET commit_order_from = commit_order_from + 1 + (SELECT max(commit_order) FROM stored_events)"
            )


def _one(connection: Connection, statement: str, values: tuple[object, ...] = ()) -> object:
    row = connection.execute(statement.encode(), values).fetchone()
    assert row is not None, "it returns one row"
    return row[0]
