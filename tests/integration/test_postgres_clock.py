"""The time of a journal on PostgreSQL."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock import Gate
from interlock.errors import (
    JournalUnavailable,
)
from interlock.infrastructure.postgres.clock import MAX_ROUND_TRIP_S, DatabaseClock
from tests.integration.postgres_cases import CASE, run
from tests.integration.shared_ledger import AMOUNT_MINOR, World


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
