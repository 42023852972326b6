"""Followers of the log, on both journals, and behind writers that commit, commit late and abort."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from harness.followers import run
from harness.postgres.server import PostgresServer
from interlock import Answer, Done, Evidence, Gate, Money, Receipts, Settlement, target
from interlock.domain.cursors import START, Cursor
from interlock.errors import InvalidInput, JournalCorrupt
from interlock.projections.followers import EventBatch, Follower

FIRED = [
    "interlock.action.intended",
    "interlock.action.claimed",
    "interlock.action.dispatched",
    "interlock.approval.reserved",
    "interlock.action.committed",
    "interlock.approval.spent",
]


@dataclass(frozen=True)
class Payout:
    """The parameters of the target under test."""

    to: str


@target("payout", effect=Payout)
def pay_out(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
    """Act."""
    del effect, idempotency_key, deadline_s
    return Done(Evidence(reference="po_1", state="paid", settlement=Settlement.FINAL, json="{}"))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a journal can be made, of each kind."""
    given = f"sqlite:///{tmp_path / 'journal.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    assert isinstance(given, str)
    return given


@pytest.fixture
def fire(url: str) -> Iterator[Callable[[str], None]]:
    """Carry an action out, under an approval of its own: seven events."""
    with Gate.open(url, targets=[pay_out]) as gate:

        def carry_out(case: str) -> None:
            gate.approve(case, by="user:17", expires_in_s=3600, cap_minor=2000, currency="usd")
            effect = pay_out.effect(Payout(case), subject=case, money=Money(2000, "usd"))
            gate.fire(f"payout:{case}", effect, approval=case)

        yield carry_out


def _topics(batches: list[EventBatch]) -> list[str]:
    return [event.topic for batch in batches for event in batch.events]


def test_a_follower_reads_everything_in_order(url: str, fire: Callable[[str], None]) -> None:
    """Batches of any size hold every event once, each aggregate's in the order of its versions."""
    fire("case-1")
    fire("case-2")
    with Receipts.open(url) as reader:
        batches = list(reader.follow(wait=False, batch_size=3))
    events = [event for batch in batches for event in batch.events]
    assert [len(batch.events) for batch in batches] == [3, 3, 3, 3, 2]
    assert sorted(_topics(batches)) == sorted(["interlock.approval.granted", *FIRED] * 2)
    versions = {
        aggregate: [e.version for e in events if e.aggregate_id == aggregate] for aggregate in {e.aggregate_id for e in events}
    }
    assert all(found == list(range(1, len(found) + 1)) for found in versions.values())
    assert len(versions) == 4


def test_a_follower_goes_on_from_the_cursor_that_was_written_down(url: str, fire: Callable[[str], None]) -> None:
    """A cursor that went through text leads to what was written after it, and to nothing else."""
    fire("case-1")
    with Receipts.open(url) as reader:
        (first,) = reader.follow(wait=False)
        assert list(reader.follow(after=str(first.cursor), wait=False)) == []
        fire("case-2")
        (second,) = reader.follow(after=str(first.cursor), wait=False)
    assert (first.after, second.after) == (START, first.cursor)
    assert _topics([second]) == ["interlock.approval.granted", *FIRED]


def test_a_batch_whose_reader_failed_comes_again(url: str, fire: Callable[[str], None]) -> None:
    """A reader that raises in the middle of a batch leaves the follower before that batch."""

    def take(batches: Follower, *, fails: bool) -> list[Cursor]:
        taken: list[Cursor] = []
        for batch in batches:
            if fails and taken:
                raise ConnectionError
            taken.append(batch.after)
        return taken

    fire("case-1")
    with Receipts.open(url) as reader:
        follower = reader.follow(wait=False, batch_size=3)
        everything = take(reader.follow(wait=False, batch_size=3), fails=False)
        with pytest.raises(ConnectionError):
            take(follower, fails=True)
        assert take(follower, fails=False) == everything[1:]


def test_an_event_gives_its_domain_event_and_its_receipt(url: str, fire: Callable[[str], None]) -> None:
    """An action's event leads to the action's receipt as it stands, an approval's to none."""
    fire("case-1")
    with Receipts.open(url) as reader:
        (batch,) = reader.follow(wait=False)
        by_topic = {event.topic: event for event in batch.events}
        receipt = by_topic["interlock.action.intended"].receipt()
        assert receipt is not None
        assert (receipt.key, receipt.status) == ("payout:case-1", "COMMITTED")
        assert by_topic["interlock.approval.spent"].receipt() is None
        assert by_topic["interlock.action.committed"].decode().evidence.reference == "po_1"


@pytest.mark.parametrize("cursor", [Cursor(10**9, 0), Cursor(10**9, 17)])
def test_a_log_without_the_event_that_was_read_last_is_not_followed(
    url: str, fire: Callable[[str], None], cursor: Cursor
) -> None:
    """A restored backup, a failover that lost the end of the log, another journal: nothing is handed out, and it is said."""
    fire("case-1")
    with Receipts.open(url) as reader, pytest.raises(JournalCorrupt, match="does not hold the event that was read last"):
        list(reader.follow(after=cursor, wait=False))


@pytest.mark.parametrize("text", ["", "7", "7.", "a.b", "-1.0", "1.2.3"])
def test_what_is_no_cursor_is_refused(url: str, fire: Callable[[str], None], text: str) -> None:
    """Text that no cursor was written down as is bad input."""
    fire("case-1")
    with Receipts.open(url) as reader, pytest.raises(InvalidInput, match="no cursor"):
        reader.follow(after=text)


def test_a_follower_that_waits_is_given_what_comes(url: str, fire: Callable[[str], None]) -> None:
    """A waiting follower reads what is written while it waits, and ends when it is stopped."""
    fire("case-1")
    with Receipts.open(url) as reader:
        follower = reader.follow(poll_s=0.01)
        topics: list[str] = []
        for batch in follower:
            topics += _topics([batch])
            if len(topics) == 7:
                fire("case-2")
            if len(topics) == 14:
                follower.stop()
    assert sorted(topics) == sorted(["interlock.approval.granted", *FIRED] * 2)


def test_a_follower_can_be_iterated_on_an_event_loop(url: str, fire: Callable[[str], None]) -> None:
    """`async for` hands out the same batches."""

    async def follow(reader: Receipts) -> list[EventBatch]:
        return [batch async for batch in reader.follow(wait=False, batch_size=3)]

    fire("case-1")
    with Receipts.open(url) as reader:
        batches = asyncio.run(follow(reader))
        assert [batch.cursor for batch in batches] == [batch.cursor for batch in reader.follow(wait=False, batch_size=3)]


def test_a_reader_that_is_closed_ends_its_followers(url: str, fire: Callable[[str], None]) -> None:
    """A follower of a closed reader ends, and raises nothing."""
    fire("case-1")
    with Receipts.open(url) as reader:
        follower = reader.follow(poll_s=0.01)
    assert list(follower) == []


def test_the_lag_counts_what_was_not_read(url: str, fire: Callable[[str], None]) -> None:
    """A follower at a cursor is as many events behind as there are after it, and nothing is held back without a reason."""
    fire("case-1")
    with Receipts.open(url) as reader:
        (batch,) = reader.follow(wait=False)
        fire("case-2")
        lag = reader.lag(batch.cursor)
    assert (lag.events, lag.held_back, lag.held_back_s, lag.held_by) == (7, 0, None, None)
    assert not lag.is_over(60)


# --- PostgreSQL


@pytest.fixture
def journal(postgres_url: str) -> Iterator[Gate]:
    """A gate on PostgreSQL."""
    with Gate.open(postgres_url, targets=[pay_out]) as gate:
        yield gate


def test_what_an_open_transaction_may_come_before_is_held_back(postgres_url: str, journal: Gate) -> None:
    """While a transaction with a number is open, later events wait, the lag names its session, and afterwards they come."""
    with (
        Receipts.open(postgres_url) as reader,
        psycopg.connect(postgres_url, application_name="nightly-report") as other,
    ):
        other.execute("SELECT pg_current_xact_id()")
        journal.approve("case-1", by="user:17", expires_in_s=3600)
        assert list(reader.follow(wait=False)) == []
        lag = reader.lag()
        assert (lag.events, lag.held_back) == (1, 1)
        assert lag.held_back_s is not None
        assert lag.held_back_s >= 0
        assert lag.held_by is not None
        assert "nightly-report" in lag.held_by
        assert f"session {other.info.backend_pid} " in lag.held_by
        assert lag.is_over(-1)
        other.rollback()
        assert _topics(list(reader.follow(wait=False))) == ["interlock.approval.granted"]
        assert reader.lag().held_back == 0


def test_a_log_to_which_nobody_gives_positions_is_noticed(postgres_url: str, journal: Gate) -> None:
    """What nothing holds back waits for its position until some node recovers; the lag says for how long."""
    with Receipts.open(postgres_url) as reader:
        journal.approve("case-1", by="user:17", expires_in_s=3600)
        lag = reader.lag()
        assert lag.held_back_s is None
        assert lag.unplaced_s is not None
        assert lag.is_over(-1)
        journal.recover()
        assert reader.lag().unplaced_s is None
        assert not reader.lag().is_over(-1)


def test_a_long_reader_holds_nothing_back(postgres_url: str, journal: Gate) -> None:
    """A transaction that only reads has no number: it holds nothing back, however long it is open."""
    with Receipts.open(postgres_url) as reader, psycopg.connect(postgres_url) as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        journal.approve("case-1", by="user:17", expires_in_s=3600)
        assert len(list(reader.follow(wait=False))) == 1


def test_a_prepared_transaction_that_holds_back_is_named() -> None:
    """A transaction that was prepared and forgotten belongs to no session; the lag names it by its identifier."""
    with PostgresServer.start(settings={"max_prepared_transactions": "1"}, in_memory=True) as server:
        url = server.create_database("prepared")
        with Gate.open(url) as gate, Receipts.open(url) as reader, psycopg.connect(url) as other:
            other.execute("CREATE TABLE forgotten (n integer)")
            other.execute("PREPARE TRANSACTION 'two-phase'")
            gate.approve("case-1", by="user:17", expires_in_s=3600)
            held_by = reader.lag().held_by
            assert held_by is not None
            assert "prepared transaction 'two-phase'" in held_by


def test_a_follower_misses_nothing_behind_sixteen_writers(postgres_url: str) -> None:
    """20,000 events of writers that commit, commit late and abort: none is missed, none comes twice, and all are in order.

    A reader by arrival alone, on the same log, shows that there was something to miss.
    """
    counts = run(postgres_url, events=20_000)
    assert counts.events == 20_000
    assert (counts.missed, counts.repeated, counts.out_of_order) == (0, 0, 0)
    assert counts.missed_by_arrival > 0
    assert counts.transactions["aborted"] > 0
    assert counts.interruptions > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_follower_misses_nothing_of_200_000_events(postgres_url: str) -> None:
    """200,000 events, as above."""
    counts = run(postgres_url, events=200_000, seed=1)
    assert counts.events == 200_000
    assert (counts.missed, counts.repeated, counts.out_of_order) == (0, 0, 0)


def test_two_that_follow_under_one_name_do_not_both_take_a_batch(tmp_path: Path, url: str, fire: Callable[[str], None]) -> None:
    """A cursor that is moved only from where the batch began lets one of two processes have a batch, and fails the other."""
    fire("case-1")
    with sqlite3.connect(tmp_path / "books.db") as books, Receipts.open(url) as reader:
        books.execute("CREATE TABLE cursors (name TEXT PRIMARY KEY, cursor TEXT)")
        books.execute("INSERT INTO cursors VALUES ('books', ?)", (str(START),))
        (one,), (other,) = reader.follow(wait=False), reader.follow(wait=False)
        moved = [
            books.execute(
                "UPDATE cursors SET cursor = ? WHERE name = 'books' AND cursor = ?", (str(batch.cursor), str(batch.after))
            ).rowcount
            for batch in (one, other)
        ]
    books.close()
    assert moved == [1, 0]
