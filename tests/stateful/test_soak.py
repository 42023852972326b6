"""The soak, in seconds, and (in the long run) in minutes; the provider's ledger is the judge."""

import pytest

from harness.postgres.binaries import Binaries, PostgresUnavailable
from harness.soak import Plan, play


def _require_postgres() -> None:
    try:
        Binaries.find()
    except PostgresUnavailable as missing:
        pytest.skip(str(missing))


def test_a_short_soak_leaves_nothing_open_and_nothing_twice() -> None:
    """Seconds of work while workers, connections and the database are killed: ledger and journal agree, every action ended."""
    _require_postgres()
    result = play(Plan.short())
    assert result.violations == []
    assert result.record.endings["COMMITTED"] > 50
    for kind in ("workers killed", "databases killed", "connections cut", "sessions terminated"):
        assert result.happened[kind] > 0, kind


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_ten_minutes_of_soak_leave_nothing_open_and_nothing_twice() -> None:
    """The same for ten minutes and 20,000 actions: memory and connections stay flat, too."""
    _require_postgres()
    result = play(Plan(seed=1))
    assert result.violations == []
    assert len(result.record.receipts) >= 20_000
