"""Positions on PostgreSQL: given after the commit, dense, in the order in which followers read, and never past a late commit."""

from pathlib import Path

import psycopg
import pytest

from harness.postgres.databases import Databases
from interlock.infrastructure.postgres.journal import PostgresJournal
from tests.integration.processes import Line, Nursery, held, pass_barrier
from tests.integration.shared_ledger import AMOUNT_MINOR, World

WRITERS, SEQUENCERS, EACH = 4, 2, 10
EVENTS = 7
"""Of an approval that is granted, reserved and spent, and of its action."""


@pytest.fixture
def world(postgres_url: str, tmp_path: Path) -> World:
    """A world on PostgreSQL."""
    return World(tmp_path, journal_url=postgres_url)


def commit(world: World, case: str) -> None:
    """Approve and fire one case."""
    world.approve(case)
    with world.gate() as gate:
        assert type(gate.fire(case, world.payout(case), approval=case)).__name__ == "Committed"


def positions(journal: PostgresJournal) -> list[int | None]:
    """Return the positions in their order."""
    return [row.position for row in journal.rows(limit=10_000)]


def test_positions_are_given_afterwards_and_not_more_than_was_asked_for(world: World) -> None:
    """Until then an event is in the log, and can be verified, without one."""
    commit(world, "case-1")
    with PostgresJournal(world.url) as journal:
        assert positions(journal) == []
        assert len(journal.rows_without_position()) == EVENTS
        assert [journal.sequence(3) for _ in range(4)] == [3, 3, 1, 0]
        assert positions(journal) == list(range(1, EVENTS + 1))
        assert journal.rows_without_position() == []
    with world.gate() as gate:
        assert gate.verify().valid


def test_nothing_behind_a_running_transaction_gets_a_position(world: World) -> None:
    """Whoever commits meanwhile does not wait; what the transaction writes at last comes first, and nothing is passed over."""
    commit(world, "before")
    with psycopg.connect(world.url) as slow, PostgresJournal(world.url) as journal:
        slow.execute("SELECT pg_current_xact_id()")
        commit(world, "meanwhile")
        assert journal.sequence() == EVENTS, "what was committed before it began"
        assert journal.sequence() == 0
        assert len(journal.rows_without_position()) == EVENTS
        slow.rollback()
        assert journal.sequence() == EVENTS
        assert positions(journal) == list(range(1, 2 * EVENTS + 1))


def test_one_sequencer_at_a_time(world: World) -> None:
    """A second one does not wait for the first, and does nothing."""
    commit(world, "case-1")
    with psycopg.connect(world.url) as first, PostgresJournal(world.url) as journal:
        first.execute("SET search_path = interlock")
        assert first.execute("SELECT sequence_events(2)").fetchone() == (2,)
        assert journal.sequence() == 0
        first.rollback()
        assert journal.sequence() == EVENTS
        assert positions(journal) == list(range(1, EVENTS + 1))


def test_a_refused_append_leaves_no_gap(world: World) -> None:
    """A key that was taken, and an approval that moved, use up numbers of the database's own, and no position."""
    commit(world, "case-1")
    with world.gate() as gate, PostgresJournal(world.url) as journal:
        for _ in range(3):
            gate.fire("case-1", world.payout("case-1"), approval="case-1")
        taken = psycopg.connect(world.url, options="-c search_path=interlock")
        with taken, pytest.raises(psycopg.errors.UniqueViolation):
            taken.execute("INSERT INTO names SELECT * FROM names")
        commit(world, "case-2")
        assert journal.sequence() == 2 * EVENTS
        assert positions(journal) == list(range(1, 2 * EVENTS + 1))


def write(line: Line, world: World, barrier: Path, number: int) -> int:
    """Commit case after case."""
    with world.gate() as gate:
        line.say("ready")
        pass_barrier(barrier)
        for nth in range(EACH):
            case = f"case-{number}-{nth}"
            gate.approve(case, by="user:1", expires_in_s=60, cap_minor=AMOUNT_MINOR, currency="usd")
            gate.fire(case, world.payout(case), approval=case)
    return EACH


def sequence(line: Line, world: World, barrier: Path, enough: int) -> int:
    """Give positions, a few at a time, until all have one."""
    given = 0
    with PostgresJournal(world.url) as journal:
        line.say("ready")
        pass_barrier(barrier)
        while len(journal.rows(limit=10_000)) < enough:
            given += journal.sequence(7)
    return given


def test_writers_and_sequencers_side_by_side(nursery: Nursery, world: World) -> None:
    """Four writers and two sequencers at once: every event has one position, in the followers' order, and the log verifies."""
    events, barrier = WRITERS * EACH * EVENTS, world.folder / "barrier"
    with world.gate():
        pass  # the journal is made
    with held(barrier):
        workers = [nursery.start(write, world, barrier, number) for number in range(WRITERS)]
        workers += [nursery.start(sequence, world, barrier, events) for _ in range(SEQUENCERS)]
        assert [worker.hear() for worker in workers] == ["ready"] * len(workers)
    results = [worker.result() for worker in workers]
    assert sum(results[WRITERS:]) == events
    with world.gate() as gate:
        journal = gate._driver.journal
        rows = journal.rows(limit=10_000)
        assert [row.position for row in rows] == list(range(1, events + 1))
        followed = [row for _, row in journal.tail(limit=10_000)]
        assert [(row.aggregate_id, row.version) for row in rows] == [(row.aggregate_id, row.version) for row in followed]
        assert gate.verify().valid


def test_a_transaction_of_another_database_holds_it_back_too_and_is_named(world: World, databases: Databases) -> None:
    """Numbers of transactions are the cluster's: the backlog says whose transaction it is."""
    commit(world, "before")
    with psycopg.connect(databases.url, application_name="a report") as slow, PostgresJournal(world.url) as journal:
        slow.execute("SELECT pg_current_xact_id()")
        commit(world, "meanwhile")
        backlog = journal.backlog()
        assert (backlog.events, backlog.held_back) == (2 * EVENTS, EVENTS)
        assert "a report" in (backlog.held_by or "")


def test_a_pass_of_recover_gives_positions(world: World) -> None:
    """Whoever recovers, as every node does, sees to it: nobody has to run anything for it."""
    commit(world, "case-1")
    with world.gate() as gate, PostgresJournal(world.url) as journal:
        gate.recover()
        assert positions(journal) == list(range(1, EVENTS + 1))
