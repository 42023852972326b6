"""A journal on PostgreSQL that was restored from a dump, or replaced."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.postgres.binaries import Binaries
from harness.postgres.databases import Databases
from harness.postgres.server import PostgresServer
from interlock import Gate, Receipts
from interlock.errors import (
    JournalCorrupt,
    JournalOutdated,
    JournalUnavailable,
    OutcomeNotRecorded,
)
from interlock.infrastructure.postgres import schema as schemas
from interlock.infrastructure.postgres.connections import parse_url
from interlock.infrastructure.postgres.journal import PostgresJournal
from tests.integration.postgres_cases import CASE, EVENTS, commit, run
from tests.integration.shared_ledger import AMOUNT_MINOR, EXECUTED, Kind, World, do_at


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


@pytest.mark.parametrize("in_the_middle", [False, True], ids=["between two actions", "in the middle of a send"])
def test_a_journal_that_was_set_back_under_an_open_gate_is_noticed(
    databases: Databases, tmp_path: Path, *, in_the_middle: bool
) -> None:
    """A state of the same cluster from before the gate's last commit: what it has forgotten would be sent again."""
    world = World(tmp_path, Kind.KEYS, journal_url=databases.create("forgetful"))
    commit(world)
    world.approve("case-2")
    administer(databases, "CREATE DATABASE older TEMPLATE forgetful")

    def set_back() -> None:
        databases.drop("forgetful")
        administer(databases, "ALTER DATABASE older RENAME TO forgetful")

    with world.gate(do_at(EXECUTED, set_back if in_the_middle else lambda: None)) as gate:
        if in_the_middle:
            with pytest.raises(OutcomeNotRecorded, match="looked for at the provider"):
                gate.fire("case-2", world.payout("case-2"), approval="case-2")
        else:
            assert type(gate.fire("case-2", world.payout("case-2"), approval="case-2")).__name__ == "Committed"
            set_back()
        for key in ("case-2", "case-3"):
            with pytest.raises(JournalCorrupt, match="nothing was written or sent"):
                gate.fire(key, world.payout(key), approval="case-2")
    databases.drop("forgetful")
    assert [line["case"] for line in world.effects()] == [CASE, "case-2"]


def administer(databases: Databases, statement: str) -> None:
    """Run a statement on databases as a whole."""
    with psycopg.connect(databases.url, autocommit=True) as connection:
        connection.execute(statement.encode())
