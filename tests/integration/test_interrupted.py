"""A signal's handler may raise at any moment: KeyboardInterrupt, a worker's time limit. What it left open must not stay open."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from interlock import AsyncGate, async_driver, driver, runs
from interlock.domain.ports import AsyncTarget, Target
from interlock.infrastructure import locks
from interlock.infrastructure.locks import FileLocks
from interlock.infrastructure.sqlite import connections
from tests.gates import AwaitedTarget
from tests.integration.shared_ledger import Kind, LedgerTarget, World
from tests.interrupting import Interrupted, assert_one_effect_each, every_moment, on_its_own_thread


@on_its_own_thread
def test_no_transaction_stays_open_wherever_a_write_is_interrupted(tmp_path: Path) -> None:
    """At none of its moments does a commit leave the write lock to nobody, and each action comes to its one end afterwards."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment = 0
    with world.gate() as gate, closing(sqlite3.connect(world.journal, timeout=0, isolation_level=None)) as other:
        for moment, interrupting in every_moment("immediate", connections.__file__):
            key = f"key-{moment}"
            with interrupting:
                gate.fire(key, world.payout(key), approval="case-1")
            other.execute("BEGIN IMMEDIATE")  # "database is locked", where the one who was interrupted still holds it
            other.execute("ROLLBACK")
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
        assert gate.verify().valid
    assert moment > 10
    assert_one_effect_each(world, moment)


@on_its_own_thread
def test_no_snapshot_stays_open_where_its_reader_is_interrupted(tmp_path: Path) -> None:
    """A reader that went on in an old snapshot would never hear of what was written since."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment = 0
    with world.gate() as gate:
        for moment, interrupting in every_moment("snapshot", connections.__file__):
            key = f"key-{moment}"
            with interrupting:
                gate.verify()
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
            assert gate.receipt(key).status == "COMMITTED"
    assert moment > 3


@pytest.mark.parametrize("module", [runs, driver], ids=["runs", "driver"])
@on_its_own_thread
def test_no_run_is_left_behind_wherever_it_is_interrupted(module: ModuleType, tmp_path: Path) -> None:
    """Nobody is at work on its action any more, so that close waits for nobody, and the same gate brings it to its one end."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment = 0
    with world.gate() as gate:
        for moment, interrupting in every_moment(None, str(module.__file__)):
            key = f"key-{moment}"
            with interrupting:
                try:
                    gate.fire(key, world.payout(key), approval="case-1")
                except Interrupted:
                    interrupting.stop()
                    assert gate._driver.at_work.on() == frozenset(), "while the exception, and all that it holds, is on its way"
                    assert runs.present_run() is None
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
        assert gate.verify().valid
    assert moment > 10
    assert_one_effect_each(world, moment)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a coroutine that was to be awaited next
@pytest.mark.parametrize("awaited", [False, True], ids=["sync target", "awaited target"])
@pytest.mark.parametrize("module", [runs, async_driver], ids=["runs", "driver"])
@on_its_own_thread
def test_no_task_leaves_its_run_behind_wherever_it_is_interrupted(module: ModuleType, tmp_path: Path, *, awaited: bool) -> None:
    """A second Ctrl-C raises in the middle of a task: once its thread is done, nobody is at work on its action any more."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    target = world.target()
    assert isinstance(target, LedgerTarget)
    moments = asyncio.run(_fire_interrupted(world, AwaitedTarget(target) if awaited else target, str(module.__file__)))
    assert moments > 5
    assert_one_effect_each(world, moments)


async def _fire_interrupted(world: World, target: Target[Any] | AsyncTarget[Any], file: str) -> int:
    moment = 0
    async with AsyncGate.open(world.url, targets=[target]) as gate:
        for moment, interrupting in every_moment(None, file):
            key = f"key-{moment}"
            with interrupting:
                try:
                    await gate.fire(key, world.payout(key), approval="case-1")
                except Interrupted:
                    interrupting.stop()
                    for _ in range(1000):
                        if not gate._driver.at_work.on():
                            break
                        await asyncio.sleep(0.001)
                    assert gate._driver.at_work.on() == frozenset(), "close would wait for it"
            assert type(await gate.fire(key, world.payout(key), approval="case-1", wait_s=30)).__name__ == "Committed"
        assert (await gate.verify()).valid
    return moment


@pytest.mark.parametrize("module", [runs, threading], ids=["runs", "threading"])
@on_its_own_thread
def test_a_gate_can_be_closed_wherever_its_waiting_was_interrupted(module: ModuleType, tmp_path: Path) -> None:
    """A `threading.Event` takes a lock in Python's own code, and whoever is interrupted there leaves it taken for ever."""
    world = World(tmp_path, Kind.KEYS)
    for _, interrupting in every_moment(None, str(module.__file__)):
        gate = world.gate()
        with interrupting:
            gate._driver.closing.wait(0.0)
            gate._driver.stop()
        closing = threading.Thread(target=gate.close, daemon=True)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()


@on_its_own_thread
def test_a_lock_that_is_given_back_again_closes_nobody_elses_file(tmp_path: Path) -> None:
    """The number of a descriptor is used again at once, and closing one drops this process's locks on its file, SQLite's too."""
    moment = 0
    for moment, interrupting in every_moment("lose", locks.__file__):
        mine = FileLocks(tmp_path / "holders")
        with interrupting:
            mine.release()
        with (tmp_path / f"file {moment} of somebody else").open("w") as other:
            mine.release()
            other.write("is open")
    assert moment > 1


@on_its_own_thread
def test_a_fork_waits_for_nobody_who_was_interrupted(tmp_path: Path) -> None:
    """It waits until nobody uses a connection: who was interrupted while one was lent to him uses none."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment = 0
    with world.gate() as gate:
        for moment, interrupting in every_moment("get_connection", connections.__file__):
            with interrupting:
                gate.fire(f"key-{moment}", world.payout(f"key-{moment}"), approval="case-1")
            assert not gate._driver.journal._datastore._users  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] # SQLite's
    assert moment > 10
