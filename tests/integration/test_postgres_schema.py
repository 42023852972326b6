"""A journal in a schema of a PostgreSQL database: made, and upgraded."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.postgres.journals import with_schema
from interlock import Gate, Receipts
from interlock.domain.requests import Liveness
from interlock.errors import (
    InvalidConfiguration,
    JournalOutdated,
    JournalTooNew,
    JournalUnavailable,
)
from interlock.infrastructure.postgres import schema as schemas
from interlock.infrastructure.postgres.connections import connect, parse_url
from tests.integration.postgres_cases import CASE, EVENTS, as_role, commit, run, tables
from tests.integration.shared_ledger import World

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
