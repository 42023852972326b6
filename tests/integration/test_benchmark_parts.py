import importlib.util
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

from harness.benchmarks import growing, growing_postgres, growth, null, signed_log
from harness.benchmarks.crew import Crew, Peer, Task, share
from harness.benchmarks.peers import gate, raw, stock, table
from harness.benchmarks.slow_disk import compiled
from harness.benchmarks.takeover import times_s
from harness.benchmarks.timing import BenchmarkFailed
from interlock import Gate, Receipts

WITH_POOL = pytest.mark.skipif(
    importlib.util.find_spec("psycopg_pool") is None, reason="the pool of the stock recorder comes with `make bench` alone"
)


class Noted:
    """A peer that writes down the names of its actions."""

    def __init__(self, path: Path, pause_s: float) -> None:
        self._path = path
        self._pause_s = pause_s

    def prepare(self, names: Sequence[str]) -> None:
        """Do nothing."""

    def act(self, writer: int, name: str) -> None:
        del writer
        if name.startswith("refused"):
            raise ValueError("refused")
        time.sleep(self._pause_s)
        with self._path.open("a") as file:
            file.write(f"{name}\n")


@contextmanager
def open_noted(folder: Path, number: int, writers: int, *, pause_s: float = 0.0) -> Iterator[Noted]:
    """Open one that takes its time."""
    del writers
    yield Noted(folder / f"{number}.txt", pause_s)


@contextmanager
def open_gone(folder: Path, number: int, writers: int) -> Iterator[Noted]:
    """End the process."""
    del writers
    os.kill(os.getpid(), signal.SIGKILL)
    yield Noted(folder / f"{number}.txt", 0.0)


class TestCrew:
    def test_writers_are_spread_over_the_processes(self) -> None:
        """Each of four processes gets its share, and the first ones what is left over."""
        assert [[share(writers, number, 4) for number in range(4)] for writers in (1, 4, 16, 18)] == [
            [1, 0, 0, 0],
            [1, 1, 1, 1],
            [4, 4, 4, 4],
            [5, 5, 4, 4],
        ]

    def test_every_writer_carries_out_its_own_actions(self, tmp_path: Path) -> None:
        """Three writers in two processes come back with a duration for each action, under names that differ."""
        with Crew({"noted": partial(open_noted, tmp_path)}, writers=3, processes=2) as crew:
            done = crew.run(Task(peer="noted", name="turn", writers=3, actions=4))
        names = [line for path in tmp_path.iterdir() for line in path.read_text().split()]
        assert len(done.durations_ns) == len(set(names)) == len(names) == 12

    def test_an_action_that_is_late_is_timed_from_when_it_was_due(self, tmp_path: Path) -> None:
        """Actions of 20 ms that are due every millisecond take longer and longer, and no writer's omission hides it."""
        with Crew({"slow": partial(open_noted, tmp_path, pause_s=0.02)}, writers=1, processes=1) as crew:
            done = crew.run(Task(peer="slow", name="turn", writers=1, actions=4, interval_s=0.001))
        assert list(done.durations_ns) == sorted(done.durations_ns)
        assert done.durations_ns[-1] > 3 * 20_000_000

    def test_a_writer_that_fails_fails_the_task(self, tmp_path: Path) -> None:
        """The reason reaches the parent, and the crew can go on."""
        with Crew({"noted": partial(open_noted, tmp_path)}, writers=1, processes=1) as crew:
            with pytest.raises(BenchmarkFailed, match=r"noted, 1 writers: ValueError: refused"):
                crew.run(Task(peer="noted", name="refused", writers=1, actions=1))
            assert len(crew.run(Task(peer="noted", name="turn", writers=1, actions=1)).durations_ns) == 1

    def test_a_process_that_is_gone_fails_the_task(self, tmp_path: Path) -> None:
        """Nobody waits for it."""
        with Crew({"gone": partial(open_gone, tmp_path)}, writers=1, processes=1) as crew, pytest.raises(BenchmarkFailed):
            crew.run(Task(peer="gone", name="turn", writers=1, actions=1))


class TestPeers:
    @pytest.mark.parametrize(
        ("make", "open_peer"),
        [
            (raw.make_tables, raw.open_raw),
            (raw.make_tables, gate.open_gate),
            (table.make_table, table.open_table),
            pytest.param(stock.make_stock_tables, stock.open_stock, marks=WITH_POOL),
        ],
    )
    def test_every_peer_on_the_database_carries_actions_out(
        self, postgres_url: str, make: Callable[[str], None], open_peer: Callable[..., AbstractContextManager[Peer]]
    ) -> None:
        """Each one prepares actions, and carries them out on each of its writers."""
        raw.make_tables(postgres_url)
        if make is not raw.make_tables:
            make(postgres_url)
        names = [f"case-{i}" for i in range(4)]
        with open_peer(postgres_url, 0, 2) as peer:
            peer.prepare(names)
            for i, name in enumerate(names):
                peer.act(i % 2, name)

    def test_raw_commits_hold_what_the_gate_stores(self, postgres_url: str) -> None:
        """The yardstick's rows are as many and as long as the gate's own: the same topics, states, digests and receipt."""
        raw.make_tables(postgres_url)
        with raw.open_raw(postgres_url, 0, 1) as peer:
            peer.prepare(["case-1"])
            peer.act(0, "case-1")
        shape = "SELECT topic, originator_version, length(state), length(leaf_hash) FROM {}.stored_events ORDER BY topic, arrival"
        row = "SELECT status, via, version, subject, amount_minor FROM {}.receipts"
        with psycopg.connect(postgres_url) as connection:
            ours, theirs = (connection.execute(shape.format(schema).encode()).fetchall() for schema in ("interlock", "raw"))
            assert [event for event in ours if event[0] != "interlock.approval.granted"] == theirs
            assert len(theirs) == 6
            assert (
                connection.execute(row.format("interlock").encode()).fetchall()
                == connection.execute(row.format("raw").encode()).fetchall()
            )


class TestTakeover:
    @pytest.mark.parametrize("journal", ["sqlite", "postgres"])
    def test_a_killed_holder_is_taken_over_by_another_process(
        self, journal: str, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        """A holder that is killed in the middle of a send leaves an action that another process brings to its end."""
        url = f"sqlite:///{tmp_path / 'gate.db'}" if journal == "sqlite" else request.getfixturevalue("postgres_url")
        assert len(times_s(url, 1)) == 1


class TestSlowDisk:
    def test_the_library_makes_a_sync_take_longer(self, tmp_path: Path) -> None:
        """With it preloaded, ten syncs take at least ten times as long as it says."""
        if shutil.which("cc") is None and shutil.which("gcc") is None:
            pytest.skip("there is no C compiler")
        sync = "import os, time; f = open('f', 'w'); a = time.monotonic(); [os.fdatasync(f.fileno()) for _ in range(10)]; "
        done = subprocess.run(
            [sys.executable, "-c", f"{sync}print(time.monotonic() - a)"],
            env={"LD_PRELOAD": str(compiled(tmp_path)), "SYNC_MS": "20"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert float(done.stdout) >= 0.2


class TestGrownJournal:
    @pytest.fixture(params=["sqlite", "postgres"])
    def grown(self, request: pytest.FixtureRequest, tmp_path: Path) -> growing.Grown:
        """A journal of 600 events, on either database."""
        if request.param == "sqlite":
            return growing.grow(tmp_path / "grown.db", 600)
        return growing_postgres.grow(request.getfixturevalue("postgres_url"), 600)

    def test_a_grown_journal_verifies_and_has_the_asked_size(self, grown: growing.Grown) -> None:
        """Every position, digest, chain, name, row and path of a grown journal is valid."""
        with Receipts.open(grown.url) as reader:
            verification = reader.verify()
        assert verification.findings == ()
        assert 600 <= grown.events == verification.events < 620

    def test_a_grown_journal_holds_distinct_actions_that_can_be_read(self, grown: growing.Grown) -> None:
        """Each key has a receipt of its own, and the refused ones are the oldest."""
        with Receipts.open(grown.url) as reader:
            ids = {reader.receipt(key).action_id for key in grown.committed}
            refused = reader.receipts(status="REFUSED", limit=500).receipts
        assert len(ids) == len(set(grown.committed)) == len(grown.committed) > 10
        copies = [receipt for receipt in refused if receipt.key.startswith("no-")]
        assert len(copies) == growing.REFUSED
        assert max(receipt.action_id for receipt in copies) < min(ids)

    def test_every_call_can_be_made_on_a_grown_journal(self, grown: growing.Grown) -> None:
        """Append, fire, reads and a pass of recover do what they are there for, again and again."""
        with Gate.open(grown.url, targets=[null.null_target]) as opened:
            for call in growth.CALLS:
                for _ in range(2):
                    call.prepared(growth.Opened(grown, opened))()


class TestSignedLog:
    """What the log's figures are taken from is what they say."""

    def test_leaves_that_are_not_what_was_signed_are_no_figure(self) -> None:
        """A journal whose entries don't lead to its checkpoint is not measured."""
        with signed_log.signed_journal(600) as signed:
            signed_log.verify_leaves(signed.url)
            with closing(sqlite3.connect(signed.url.removeprefix("sqlite:///"))) as connection, connection:
                connection.execute("DROP TRIGGER stored_events_no_update")
                connection.execute("UPDATE stored_events SET topic = 'interlock.action.refused' WHERE position = 600")
            with pytest.raises(BenchmarkFailed, match="checkpoint"):
                signed_log.verify_leaves(signed.url)

    def test_a_log_that_was_not_signed_to_its_end_is_no_figure(self) -> None:
        """The time of a gate whose log lags behind says nothing."""
        with signed_log.signed_journal(600) as signed:
            signed_log.require_signed(signed.url)
            with Gate.open(signed.url, targets=[null.null_target]) as opened:
                null.grant(opened, "one-more")
            with pytest.raises(BenchmarkFailed, match="to its end"):
                signed_log.require_signed(signed.url)
