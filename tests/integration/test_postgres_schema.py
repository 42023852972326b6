"""A journal in a schema of a PostgreSQL database: made, upgraded, restored, and with every default against it."""

import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from harness.postgres.binaries import Binaries
from harness.postgres.databases import Databases
from harness.postgres.journals import with_schema
from harness.postgres.server import PostgresServer
from interlock import Gate, Receipts
from interlock.domain.requests import Liveness
from interlock.errors import (
    InvalidConfiguration,
    JournalOutdated,
    JournalTooNew,
    JournalUnavailable,
)
from interlock.infrastructure.postgres import schema as schemas
from interlock.infrastructure.postgres.clock import MAX_ROUND_TRIP_S, DatabaseClock
from interlock.infrastructure.postgres.connections import connect, is_usable, parse_url
from interlock.infrastructure.postgres.journal import PostgresJournal
from tests.integration.processes import AMOUNT_MINOR, World

CASE = "case-1"
EVENTS = 7
"""Of an approval that is granted, reserved and spent, and of its action."""


def commit(world: World, case: str = CASE) -> None:
    """Approve and fire one case."""
    world.approve(case)
    with world.gate() as gate:
        assert type(gate.fire(case, world.payout(case), approval=case)).__name__ == "Committed"


def run(url: str, *statements: str) -> list[Any]:
    """Run statements as the superuser, on the journal's own schema; return what the last one says."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = interlock")
        cursor: Any = None
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return list(cursor.fetchall()) if cursor is not None and cursor.description else []


def tables(url: str) -> set[tuple[str, str]]:
    """Return schema and name of every table that is not PostgreSQL's own."""
    listed = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    return set(run(url, listed))


# --- the URL


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql:///db?host=/run/pg&schema=mine", {"dbname": "db", "host": "/run/pg"}),
        ("postgresql://?dbname=db&schema=mine", {"dbname": "db"}),
        ("postgres://u:p%3Fq%23@h:5/db?schema=mine", {"user": "u", "password": "p?q#", "host": "h", "port": "5"}),
        ("postgresql://h1:1,h2:2/db?schema=mine&target_session_attrs=read-write", {"host": "h1,h2", "port": "1,2"}),
        ("postgresql://h/db?options=-c%20work_mem%3D5MB&schema=mine", {"options": "-c work_mem=5MB"}),
        ("postgresql://h/db?schema=mine&application_name=a+b", {"application_name": "a+b"}),
        ("postgresql://h/db?connect_timeout=3&schema=mine", {"connect_timeout": "3", "keepalives_idle": "5"}),
        ("postgresql://h/db?client_encoding=LATIN1&schema=mine", {"client_encoding": "UTF8"}),
    ],
)
def test_a_url_says_what_libpq_reads_in_it(url: str, expected: dict[str, str]) -> None:
    """What is not ours reaches libpq as it was written; our defaults stand behind it, but for the encoding."""
    options = parse_url(url)
    given = conninfo_to_dict(options.conninfo)
    assert {name: str(given.get(name)) for name in expected} == expected
    assert options.schema == "mine"


@pytest.mark.parametrize(
    "query",
    [
        *(f"schema={name}" for name in ("", "a-b", "Upper", '"x"', "pg_mine", "1a", "x" * 64, "%C3%BC")),
        *(f"max_connections={number}" for number in ("0", "-1", "many")),
        "unknown_to_libpq=1",
    ],
)
def test_a_malformed_option_is_refused_and_no_password_is_told(query: str) -> None:
    """An identifier that PostgreSQL would cut off or fold, and an option that nobody knows; nothing is opened."""
    with pytest.raises(InvalidConfiguration) as refused:
        Gate.open(f"postgresql://user:secret@127.0.0.1:1/db?{query}")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(parse_url("postgresql://user:secret@h/db"))


def test_a_password_that_is_not_escaped_is_refused_and_not_told() -> None:
    """What stands behind its first @ would be looked for as a host, and quoted by the error."""
    with pytest.raises(InvalidConfiguration, match="%40") as refused:
        Gate.open("postgresql://user:first@second@127.0.0.1:1/db")
    assert "second" not in str(refused.value)


def test_the_longest_name_of_a_schema_is_no_other_ones(postgres_url: str, tmp_path: Path) -> None:
    """63 bytes are kept whole: two names that differ in the last one are two journals."""
    for last in "ab":
        world = World(tmp_path / last, journal_url=with_schema(postgres_url, "x" * 62 + last))
        world.folder.mkdir()
        commit(world)
        assert len(world.effects()) == 1


# --- made


def test_reading_makes_no_journal(postgres_url: str) -> None:
    """A reader of a journal that is not there is told so, and leaves nothing behind."""
    with pytest.raises(InvalidConfiguration, match="no journal"):
        Receipts.open(postgres_url)
    assert tables(postgres_url) == set()


def test_a_schema_of_something_else_is_left_alone(postgres_url: str) -> None:
    """Not a table is added to it, and none of it is read."""
    run(postgres_url, "CREATE SCHEMA interlock", "CREATE TABLE interlock.journal (x int)")
    for opens in (Gate.open, Receipts.open, lambda url: schemas.upgrade(parse_url(url))):
        with pytest.raises(InvalidConfiguration, match="something else"):
            opens(postgres_url)
    assert tables(postgres_url) == {("interlock", "journal")}


def test_a_schema_in_which_anybody_may_make_functions_is_refused(postgres_url: str) -> None:
    """A function of theirs with a name that ours calls would run with the gate's rights: nothing is made there."""
    run(postgres_url, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    for opens in (Gate.open, lambda url: schemas.upgrade(parse_url(url))):
        with pytest.raises(InvalidConfiguration, match="REVOKE CREATE ON SCHEMA public"):
            opens(with_schema(postgres_url, "public"))
    assert tables(postgres_url) == set()


def test_two_journals_in_one_database_do_not_see_each_other(postgres_url: str, tmp_path: Path) -> None:
    """The same key and approval are two actions in two schemas; neither lists, locks or verifies what is the other's."""
    worlds = [World(tmp_path / name, journal_url=with_schema(postgres_url, name)) for name in ("one", "two")]
    for world in worlds:
        world.folder.mkdir()
        commit(world)
    with worlds[0].gate() as one, worlds[1].gate() as two:
        assert one.receipt(CASE).action_id != two.receipt(CASE).action_id
        assert [receipt.key for receipt in one.receipts().receipts] == [CASE]
        handle = one._driver.locks.handle
        assert handle is not None
        assert two._driver.locks.probe(handle) is Liveness.GONE, "a holder of one journal is nobody in the other"
        one._driver.journal.sequence()
        for gate in (one, two):
            found = gate.verify()
            assert (found.valid, found.events) == (True, EVENTS)
    assert [len(world.effects()) for world in worlds] == [1, 1]


def test_a_role_that_was_given_a_schema_can_make_a_journal_in_it(postgres_url: str) -> None:
    """It needs no right on the database: an administrator made the schema, and it alone is the role's."""
    role = f"owner_{Path(postgres_url.partition('?')[0]).name}"
    run(postgres_url, f"CREATE ROLE {role} LOGIN", f"CREATE SCHEMA interlock AUTHORIZATION {role}")
    try:
        with Gate.open(as_role(postgres_url, role)) as gate:
            assert gate.verify().valid
    finally:
        run(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def as_role(url: str, role: str) -> str:
    """Return the URL for another user."""
    return url.replace("//postgres@", f"//{role}@") if "//postgres@" in url else f"{url}&user={role}"


def test_a_database_that_is_not_utf8_is_refused(databases: Any) -> None:
    """A text that it can't hold would be found out in the middle of an action."""
    with psycopg.connect(databases.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        url = databases.url.replace("/postgres?", "/latin?")
        with pytest.raises(InvalidConfiguration, match="LATIN1"):
            Gate.open(url)
        assert tables(url) == set()
    finally:
        databases.drop("latin")


# --- defaults of a role or a database

_DEFAULTS = {
    "DateStyle": "'SQL, DMY'",
    "TimeZone": "'Asia/Kathmandu'",
    "bytea_output": "escape",
    "client_encoding": "LATIN1",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "idle_session_timeout": "'50ms'",
    "jit": "on",
    "lock_timeout": "'1ms'",
    "plan_cache_mode": "force_generic_plan",
    "search_path": "nowhere",
    "session_replication_role": "replica",
    "standard_conforming_strings": "off",
    "synchronous_commit": "off",
}


@pytest.mark.parametrize("name", _DEFAULTS)
def test_a_default_of_the_database_changes_nothing(name: str, postgres_url: str, tmp_path: Path) -> None:
    """An action is committed, read and verified as anywhere, and its gate keeps its lock."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET {name} = {_DEFAULTS[name]}")
    world = World(tmp_path, journal_url=postgres_url)
    case = "case → ü"
    commit(world, case)
    with world.gate() as gate:
        if name == "idle_session_timeout":
            run(postgres_url, "SELECT pg_sleep(0.2)")
        lock = gate._driver.locks
        assert is_usable(lock._connection)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] # SessionLocks'
        receipt = gate.receipt(case)
        assert (receipt.status, receipt.timeline[0].at.utcoffset()) == ("COMMITTED", timedelta(0))
        assert gate.verify().valid


@pytest.mark.parametrize("level", ["off", "local", "remote_write", "on", "remote_apply"])
def test_a_commit_is_on_the_disk_whatever_the_default_is(level: str, postgres_url: str) -> None:
    """`off` and `local` would let a commit be lost that was answered; what is stronger than `on` stays."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET synchronous_commit = {level}")
    with connect(parse_url(postgres_url)) as connection:
        row = connection.execute("SHOW synchronous_commit").fetchone()
        assert row == (level if level.startswith("remote") else "on",)


def test_a_read_only_default_is_told_before_anything_is_sent(postgres_url: str, tmp_path: Path) -> None:
    """A standby, or a role that may not write: the journal is unavailable, the provider has seen nothing, reading works."""
    world = World(tmp_path, journal_url=postgres_url)
    commit(world)
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with world.gate() as gate, pytest.raises(JournalUnavailable, match="read-only"):
        gate.fire("other", world.payout("other"), approval=CASE)
    with Receipts.open(postgres_url) as receipts:
        assert receipts.receipt(CASE).status == "COMMITTED"
    assert len(world.effects()) == 1


# --- versions


def test_a_journal_of_a_newer_version_is_left_alone(postgres_url: str) -> None:
    """It is neither read nor written, nor upgraded downwards."""
    Gate.open(postgres_url).close()
    run(postgres_url, "INSERT INTO migrations (version) VALUES (999)")
    for opens in (Gate.open, Receipts.open, lambda url: schemas.upgrade(parse_url(url))):
        with pytest.raises(JournalTooNew, match="999"):
            opens(postgres_url)


def make_version_1(url: str) -> None:
    """Make a journal as the first version made it."""
    first, *_ = schemas.migrations()
    with connect(parse_url(url)) as connection, connection.transaction():
        connection.execute("CREATE SCHEMA interlock")
        connection.execute(first.statements.encode())
        connection.execute("INSERT INTO migrations (version) VALUES (1)")
        connection.execute("INSERT INTO journal (log) VALUES ('urn:uuid:00000000-0000-4000-8000-000000000001')")


def test_a_journal_of_an_older_version_is_upgraded_when_told(postgres_url: str, tmp_path: Path) -> None:
    """Until then nothing is written; afterwards it is the same journal, and a second upgrade changes nothing."""
    make_version_1(postgres_url)
    for opens in (Gate.open, Receipts.open):
        with pytest.raises(JournalOutdated, match="interlock db upgrade"):
            opens(postgres_url)
    assert ("interlock", "positions") not in tables(postgres_url)
    assert schemas.upgrade(parse_url(postgres_url)) == (1, schemas.SCHEMA_VERSION)
    assert schemas.upgrade(parse_url(postgres_url)) == (schemas.SCHEMA_VERSION, schemas.SCHEMA_VERSION)
    world = World(tmp_path, journal_url=postgres_url)
    commit(world)
    with world.gate() as gate:
        found = gate.verify()
        assert (found.valid, found.log_id) == (True, "urn:uuid:00000000-0000-4000-8000-000000000001")


def test_an_upgrade_makes_a_journal_where_there_is_none(postgres_url: str) -> None:
    """So that a role without the right to make tables can run the gate afterwards."""
    assert schemas.upgrade(parse_url(postgres_url)) == (0, schemas.SCHEMA_VERSION)
    Gate.open(postgres_url).close()


def test_an_upgrade_that_fails_leaves_the_journal_as_it_was(postgres_url: str) -> None:
    """All versions are applied in one transaction, or none."""
    make_version_1(postgres_url)
    run(postgres_url, "CREATE FUNCTION watermark() RETURNS int LANGUAGE sql AS 'SELECT 1'")  # in the way of version 2
    with pytest.raises(JournalUnavailable, match="nothing was changed"):
        schemas.upgrade(parse_url(postgres_url))
    assert run(postgres_url, "SELECT version FROM migrations") == [(1,)]
    assert ("interlock", "positions") not in tables(postgres_url)


# --- restored


@pytest.fixture
def programs() -> Binaries:
    """PostgreSQL's programs, with those that make and restore a dump."""
    found = Binaries.find()
    if not all(found.path(name).exists() for name in ("pg_dump", "psql")):
        pytest.skip("pg_dump is not among PostgreSQL's programs here")
    return found


@pytest.fixture
def older_cluster(postgres_url: str) -> Iterator[PostgresServer]:
    """A cluster that has seen many more transactions than the one of the other tests."""
    (seen,) = run(postgres_url, "SELECT pg_current_xact_id()::text::bigint")[-1]
    with PostgresServer.start(in_memory=True) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            burn = f"DO $$ BEGIN FOR i IN 1..{seen + 3000} LOOP COMMIT; PERFORM pg_current_xact_id(); END LOOP; END $$"
            connection.execute(burn.encode())
        yield server


def restore(programs: Binaries, older: PostgresServer, url: str) -> None:
    """Carry a dump over."""
    dump, load = (str(programs.path(name)) for name in ("pg_dump", "psql"))
    text = subprocess.run([dump, "-d", older.url("journal"), "--schema=interlock"], check=True, capture_output=True).stdout
    subprocess.run([load, "-q", "-v", "ON_ERROR_STOP=1", "-d", url], input=text, check=True)


def test_a_dump_restored_into_a_younger_cluster_goes_on_above_its_numbers(
    programs: Binaries, older_cluster: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    """Until it is adopted nothing is written, or it would lie before what followers have read. Then nothing is missed."""
    world = World(tmp_path, journal_url=older_cluster.create_database("journal"))
    commit(world)
    with PostgresJournal(world.url) as older:
        assert older.sequence() == EVENTS
        followed = [cursor for cursor, _ in older.tail()]
    restore(programs, older_cluster, postgres_url)
    for opens in (Gate.open, Receipts.open):
        with pytest.raises(JournalOutdated, match="another cluster"):
            opens(postgres_url)
    schemas.upgrade(parse_url(postgres_url))
    restored = World(tmp_path, journal_url=postgres_url)
    commit(restored, "case-2")
    with restored.gate() as gate:
        assert type(gate.fire(CASE, restored.payout(CASE), approval=CASE)).__name__ == "Committed", "it knows what was sent"
        journal = gate._driver.journal
        assert [cursor for cursor, _ in journal.tail()] == followed + [cursor for cursor, _ in journal.tail(followed[-1])]
        assert len(journal.tail()) == 2 * EVENTS
        assert journal.sequence() == EVENTS
        assert [row.position for row in journal.rows()] == list(range(1, 2 * EVENTS + 1))
        assert gate.verify().valid
    assert len(restored.effects()) == 2


def test_a_journal_that_was_restored_under_an_open_gate_is_noticed(
    programs: Binaries, older_cluster: PostgresServer, databases: Databases, tmp_path: Path
) -> None:
    """A gate whose connections were cut meanwhile sends nothing until the journal was adopted, and goes on then."""
    world = World(tmp_path, journal_url=older_cluster.create_database("journal"))
    commit(world)
    restored = World(tmp_path, journal_url=databases.create("restored"))
    restore(programs, older_cluster, restored.url)
    schemas.upgrade(parse_url(restored.url))
    with restored.gate() as gate:
        databases.drop("restored")
        databases.create("restored")
        restore(programs, older_cluster, restored.url)
        with pytest.raises(JournalOutdated, match="another cluster"):
            gate.fire("case-2", restored.payout("case-2"), approval=CASE)
        schemas.upgrade(parse_url(restored.url))
        gate.approve("case-2", by="user:1", expires_in_s=60, cap_minor=AMOUNT_MINOR, currency="usd")
        assert type(gate.fire("case-2", restored.payout("case-2"), approval="case-2")).__name__ == "Committed"
        assert gate._driver.journal.sequence() == EVENTS + EVENTS
        assert gate.verify().valid
    databases.drop("restored")
    assert len(restored.effects()) == 2


def test_a_journal_that_was_replaced_under_an_open_gate_is_noticed(databases: Databases, tmp_path: Path) -> None:
    """In another journal every key is free: a gate that was away meanwhile sends nothing."""
    world = World(tmp_path, journal_url=databases.create("replaced"))
    commit(world)
    with world.gate() as gate:
        databases.drop("replaced")
        databases.create("replaced")
        Gate.open(world.url).close()
        for _ in range(2):
            with pytest.raises(JournalUnavailable, match="nothing was written or sent"):
                gate.fire(CASE, world.payout(CASE), approval=CASE)
    databases.drop("replaced")
    assert len(world.effects()) == 1


# --- rights


@pytest.fixture
def role(postgres_url: str) -> Iterator[str]:
    """A role that was granted what a gate needs."""
    Gate.open(postgres_url).close()
    name = f"gate_{postgres_url.partition('?')[0].rpartition('/')[2]}"
    run(postgres_url, f"CREATE ROLE {name} LOGIN")
    schemas.grant(parse_url(postgres_url), name)
    yield name
    run(postgres_url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_gate_needs_no_more_than_it_is_granted(role: str, postgres_url: str, tmp_path: Path) -> None:
    """Approve, fire, revoke, refuse, recover, give positions, verify, rebuild the rows: all as the role."""
    world = World(tmp_path, journal_url=as_role(postgres_url, role))
    commit(world)
    with world.gate() as gate:
        gate.approve("revoked", by="user:1", expires_in_s=60, cap_minor=AMOUNT_MINOR, currency="usd")
        gate.revoke("revoked", by="user:2")
        assert type(gate.fire("revoked", world.payout("revoked"), approval="revoked")).__name__ == "Refused"
        gate.recover()
        assert gate._driver.journal.rebuild_summaries() == 2
        gate._driver.journal.sequence()
        found = gate.verify()
        assert (found.valid, found.events) == (True, 11)


_KEY = "originator_id, originator_version"
_CHANGES = [
    "UPDATE stored_events SET originator_version = 9",
    "UPDATE positions SET originator_version = 9",
    "UPDATE stored_events SET state = NULL",
    "UPDATE names SET kind = 'x'",
    "UPDATE journal SET log = 'x'",
    "DELETE FROM stored_events",
    "DELETE FROM names",
    "DELETE FROM positions",
    "DELETE FROM journal",
    *(f"TRUNCATE {table} CASCADE" for table in ("stored_events", "names", "positions", "journal")),
    f"INSERT INTO stored_events OVERRIDING SYSTEM VALUE TABLE stored_events ON CONFLICT ({_KEY}) DO UPDATE SET topic = 'x'",
    "INSERT INTO names TABLE names ON CONFLICT (kind, digest) DO UPDATE SET aggregate_id = gen_random_uuid()",
    "INSERT INTO journal (log) VALUES ('x')",
    "MERGE INTO names USING (SELECT 1) one ON true WHEN MATCHED THEN DELETE",
]


def test_the_role_of_a_gate_cannot_change_history(role: str, postgres_url: str, tmp_path: Path) -> None:
    """It has no right to (I9)."""
    world = World(tmp_path, journal_url=as_role(postgres_url, role))
    commit(world)
    with connect(parse_url(world.url)) as connection:
        for statement in _CHANGES:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    with world.gate() as gate:
        assert gate.verify().valid


def test_the_role_of_a_gate_can_erase_and_forget_nothing_else(role: str, postgres_url: str, tmp_path: Path) -> None:
    """Only what an Erased follows, whatever it puts in front on its search path; and whoever was granted nothing, nothing."""
    world = World(tmp_path, journal_url=as_role(postgres_url, role))
    commit(world)
    commit(world, "case-2")
    ids = run(postgres_url, "SELECT action_id FROM receipts ORDER BY key")
    with world.gate() as gate:
        gate.erase(CASE, reason="subject_request", by="user:19")
    with connect(parse_url(world.url)) as connection:
        connection.execute("CREATE TEMP TABLE stored_events AS TABLE interlock.stored_events")
        connection.execute("UPDATE pg_temp.stored_events SET topic = 'interlock.action.erased'")
        connection.execute("SET search_path = pg_temp, interlock")
        for (action_id,) in ids:
            assert connection.execute("SELECT interlock.forget_states(%s)", (action_id,)).fetchall() == [(0,)]
    with world.gate() as gate:
        found = gate.verify()
        assert (found.valid, found.redacted) == (True, 4)
    nobody = f"nobody_{role}"
    run(postgres_url, f"CREATE ROLE {nobody} LOGIN", f"GRANT USAGE ON SCHEMA interlock TO {nobody}")
    try:
        with connect(parse_url(as_role(postgres_url, nobody))) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT forget_states(%s)", ids[0])
    finally:
        run(postgres_url, f"DROP OWNED BY {nobody}", f"DROP ROLE {nobody}")


def test_the_database_refuses_to_change_history_whoever_asks(postgres_url: str, tmp_path: Path) -> None:
    """The owner, and a superuser, meet the triggers (I9)."""
    world = World(tmp_path, journal_url=postgres_url)
    commit(world)
    with world.gate() as gate:
        gate._driver.journal.sequence()
    with connect(parse_url(postgres_url)) as connection:
        for statement in _CHANGES:
            with pytest.raises((psycopg.errors.RestrictViolation, psycopg.errors.UniqueViolation)):
                connection.execute(statement.encode())
    with world.gate() as gate:
        assert gate.verify().valid


def test_a_reader_needs_no_more_than_to_read(postgres_url: str, tmp_path: Path) -> None:
    """Receipts, verification and the log for a role that may not write a row, as on a standby."""
    commit(World(tmp_path, journal_url=postgres_url))
    role = f"reader_{postgres_url.partition('?')[0].rpartition('/')[2]}"
    run(postgres_url, f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA interlock TO {role}")
    run(postgres_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA interlock TO {role}")
    try:
        with Receipts.open(as_role(postgres_url, role)) as receipts:
            assert receipts.receipt(CASE).status == "COMMITTED"
            assert [receipt.key for receipt in receipts.receipts().receipts] == [CASE]
            found = receipts.verify()
            assert (found.valid, found.events) == (True, EVENTS)
            assert sum(len(batch.events) for batch in receipts.follow(wait=False)) == EVENTS
    finally:
        run(postgres_url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_role_that_is_not_there_is_an_error(postgres_url: str) -> None:
    """Nothing was given to anybody."""
    Gate.open(postgres_url).close()
    with pytest.raises(JournalUnavailable, match="nothing was changed"):
        schemas.grant(parse_url(postgres_url), 'no"body')


# --- the clock


def test_the_time_is_the_databases(postgres_url: str) -> None:
    """A gate that is given no clock goes by the database's, as every gate on the journal does."""
    with Gate.open(postgres_url) as gate:
        (before,) = run(postgres_url, "SELECT clock_timestamp()")[0]
        ours = gate._driver.clock.now()
        (after,) = run(postgres_url, "SELECT clock_timestamp()")[0]
        assert before - timedelta(seconds=MAX_ROUND_TRIP_S) <= ours <= after
        assert isinstance(gate._driver.clock, DatabaseClock)


class Moved:
    """A clock of the harness."""

    def now(self) -> datetime:
        """Return a time that no database has."""
        return datetime(2031, 5, 1, tzinfo=UTC)


def test_a_clock_of_ones_own_goes_before_the_databases(postgres_url: str, tmp_path: Path) -> None:
    """The harness moves time, on this journal too."""
    world = World(tmp_path, journal_url=postgres_url)
    with world.gate(clock=Moved()) as gate:
        gate.approve(CASE, by="user:1", expires_in_s=3600, cap_minor=AMOUNT_MINOR, currency="usd")
        outcome = gate.fire(CASE, world.payout(CASE), approval=CASE)
    assert {entry.at for entry in outcome.receipt.timeline} == {Moved().now()}


def test_a_reading_that_took_too_long_is_not_taken() -> None:
    """What the database said before a long pause is long over: the clock goes on from the last reading that came in time."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    slow = False

    def read() -> datetime:
        if slow:
            time.sleep(MAX_ROUND_TRIP_S + 0.1)
        return start

    clock = DatabaseClock(read)
    slow = True
    clock._tried_s -= 10
    reading = clock._reading
    passed_s = (clock.now() - start).total_seconds()
    assert passed_s > MAX_ROUND_TRIP_S, "the slow reading would have set it back to the start"
    assert clock._reading == reading
    with pytest.raises(JournalUnavailable, match="did not tell its time"):
        DatabaseClock(read)
