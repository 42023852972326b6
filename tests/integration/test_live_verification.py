"""`verify` while gates write: what is written meanwhile is no finding."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock import Receipts
from tests.integration.shared_ledger import AMOUNT_MINOR, World

TIMES = 12


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A world on each kind of journal."""
    return World(tmp_path, journal_url=request.getfixturevalue("postgres_url") if request.param == "postgres" else None)


@contextmanager
def busy(world: World) -> Iterator[None]:
    """Commit case after case on two threads, and give positions on a third."""
    over = threading.Event()

    def write(number: int) -> None:
        with world.gate() as gate:
            for nth in range(10_000):
                case = f"case-{number}-{nth}"
                gate.approve(case, by="user:1", expires_in_s=60, cap_minor=AMOUNT_MINOR, currency="usd")
                gate.fire(case, world.payout(case), approval=case)
                if over.is_set():
                    return

    def give_positions() -> None:
        with world.gate() as gate:
            while not over.is_set():
                gate._driver.journal.sequence(5)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)] + [threading.Thread(target=give_positions)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_what_is_written_meanwhile_is_no_finding(world: World) -> None:
    """Every verification sees the journal of one moment: names, rows and positions never run ahead of the events."""
    world.gate().close()
    with busy(world), Receipts.open(world.url) as receipts:
        while not receipts.receipts().receipts:
            pass
        seen = [receipts.verify()]
        while len(seen) < TIMES or seen[-1].events < seen[0].events + TIMES:  # or nothing was written meanwhile
            seen.append(receipts.verify())
    assert [finding for found in seen for finding in found.findings] == []


def test_reading_goes_on_after_a_verification(world: World) -> None:
    """The moment that was verified is left again: a reader sees what came afterwards."""
    with world.gate() as gate, Receipts.open(world.url) as receipts:
        before = receipts.verify().events
        gate.approve("case-1", by="user:1", expires_in_s=60)
        assert receipts.verify().events == before + 1
