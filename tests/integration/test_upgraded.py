"""A journal that an older version made, with what that version wrote in it, is brought up to date and goes on."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from interlock import Gate
from interlock.errors import JournalOutdated
from interlock.infrastructure.postgres import schema as postgres
from interlock.infrastructure.postgres.connections import connect, parse_url
from interlock.infrastructure.sqlite import database as sqlite
from tests.crashing import Crash
from tests.integration.shared_ledger import EXECUTED, Kind, World, do_at


def die() -> None:
    """End the process."""
    raise Crash


def use(world: World) -> None:
    """Commit a case, leave another one in flight behind its effect, and a third one's approval unused."""
    for case in ("case-1", "case-2", "case-3"):
        world.approve(case)
    with world.gate() as gate:
        assert type(gate.fire("case-1", world.payout("case-1"), approval="case-1")).__name__ == "Committed"
        gate.recover()  # which gives positions, where writers don't
    with world.gate(do_at(EXECUTED, die)) as gate, pytest.raises(Crash):
        gate.fire("case-2", world.payout("case-2"), approval="case-2")


def require_that_it_goes_on(world: World) -> None:
    """What was sent is known, what was in flight is found, what is new is done: each once, in one log that verifies."""
    with world.gate() as gate:
        assert gate.verify().valid
        assert {receipt.key: receipt.status for receipt in gate.receipts().receipts} == {
            "case-1": "COMMITTED",
            "case-2": "IN_FLIGHT",
        }
        assert type(gate.fire("case-1", world.payout("case-1"), approval="case-1")).__name__ == "Committed"
        assert [type(outcome).__name__ for outcome in gate.recover().outcomes] == ["Committed"]
        assert type(gate.fire("case-3", world.payout("case-3"), approval="case-3")).__name__ == "Committed"
        gate.erase("case-1", reason="asked for", by="user:1")
        gate.recover()
        assert gate.verify().valid
        assert gate.receipt("case-2").status == gate.receipt("case-3").status == "COMMITTED"
    assert sorted(line["case"] for line in world.effects()) == ["case-1", "case-2", "case-3"]


def test_what_made_the_journals_of_earlier_versions_is_not_edited() -> None:
    """A journal that has a migration behind it gets nothing of what is changed in it: a change is another migration."""
    digests = {
        database.__name__.split(".")[2]: [sha256(one.statements.encode()).hexdigest()[:16] for one in database.migrations()]
        for database in (postgres, sqlite)
    }
    assert digests == {
        "postgres": ["c6581df770de1b03", "031c8202cee422e5", "bc0259de1d47b9f1", "7bff2acc669a903b", "d8f0a203d559d26e"],
        "sqlite": ["94ff9843d0a9396e", "66e664221b8d07ab", "e8c0c67fe184dfd6"],
    }


@pytest.mark.parametrize("version", range(1, sqlite.SCHEMA_VERSION))
def test_a_file_of_an_older_version_goes_on_with_what_is_in_it(version: int, tmp_path: Path) -> None:
    """Its rows are those of its time in the tables of its time."""
    world = World(tmp_path, Kind.KEYS)
    use(world)
    newest = world.journal.rename(tmp_path / "newest.db")
    with closing(sqlite3.connect(world.journal, isolation_level=None)) as connection:
        for migration in sqlite.migrations()[:version]:
            connection.executescript(migration.statements)
        connection.execute("ATTACH ? AS newest", (str(newest),))
        for table in ("journal", "stored_events", "names", "receipts"):
            connection.execute(f"INSERT INTO main.{table} SELECT * FROM newest.{table}")  # noqa: S608 - they are named above
        connection.execute(f"PRAGMA application_id={sqlite.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={version}")
    with pytest.raises(JournalOutdated):
        Gate.open(world.url)
    assert sqlite.upgrade(sqlite.parse_url(world.url)) == (version, sqlite.SCHEMA_VERSION)
    require_that_it_goes_on(world)


@pytest.mark.parametrize("version", range(1, postgres.SCHEMA_VERSION))
def test_a_schema_of_an_older_version_goes_on_with_what_is_in_it(version: int, postgres_url: str, tmp_path: Path) -> None:
    """Its rows are those of its time in the tables of its time, with the positions that they had by then."""
    world = World(tmp_path, Kind.KEYS, journal_url=postgres_url)
    use(world)
    options = parse_url(postgres_url)
    tables = ["journal", "stored_events", "names", "receipts", *(["positions"] if version > 1 else [])]
    with connect(options) as connection, connection.transaction():
        connection.execute("ALTER SCHEMA interlock RENAME TO newest")
        connection.execute("CREATE SCHEMA interlock")
        for migration in postgres.migrations()[:version]:
            connection.execute(migration.statements.encode())
            connection.execute("INSERT INTO migrations (version) VALUES (%s)", (migration.version,))
        for table in tables:
            copied = f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM newest.{table}"  # noqa: S608 - they are named above
            connection.execute(copied.encode())
        connection.execute("SELECT setval(pg_get_serial_sequence('stored_events', 'arrival'), max(arrival)) FROM stored_events")
        connection.execute("DROP SCHEMA newest CASCADE")
    with pytest.raises(JournalOutdated):
        Gate.open(postgres_url)
    assert postgres.upgrade(options) == (version, postgres.SCHEMA_VERSION)
    require_that_it_goes_on(world)
