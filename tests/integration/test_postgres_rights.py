"""What the role of a gate, of a reader and of nobody may do in a journal on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from interlock import Gate, Receipts
from interlock.errors import (
    JournalUnavailable,
)
from interlock.infrastructure.postgres import schema as schemas
from interlock.infrastructure.postgres.connections import connect, end_session, parse_url
from tests.integration.postgres_cases import CASE, EVENTS, as_role, commit, run
from tests.integration.shared_ledger import AMOUNT_MINOR, World


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


def test_a_session_of_somebody_else_is_there_as_long_as_it_is(role: str, postgres_url: str) -> None:
    """Whoever may not see when it began can't tell that it is a later one: it counts as the one that may still write (I8)."""
    with connect(parse_url(as_role(postgres_url, role))) as ours, connect(parse_url(postgres_url)) as lost:
        assert end_session(ours, lost.session), "it is there"
        assert lost.execute("SELECT 1").fetchone() == (1,), "and left alone"
        lost.close()
        while end_session(ours, lost.session):
            pass
