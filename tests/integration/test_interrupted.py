"""A signal's handler may raise at any moment: KeyboardInterrupt, a worker's time limit. What it left open must not stay open."""

from __future__ import annotations

import asyncio
import opcode
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import wraps
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, ParamSpec

import pytest

from interlock import AsyncGate, async_driver, driver, runs
from interlock.domain.ports import AsyncTarget, Target
from interlock.infrastructure import locks
from interlock.infrastructure.locks import FileLocks
from interlock.infrastructure.sqlite import connections
from tests.gates import AwaitedTarget
from tests.integration.shared_ledger import Kind, LedgerTarget, World

P = ParamSpec("P")


class Interrupted(BaseException):
    """What a handler raises."""


_LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")
"""CPython looks for signals behind these: a call that has returned, a function's beginning, each round of a loop."""


class Interrupting:
    """Raises once, at one of the moments at which CPython runs a signal's handler inside a function.

    Args:
        function: the name of a function; None for all that are in the file.
        moment: which of them, counted from 1.
        file: where the function is.
    """

    def __init__(self, function: str | None, moment: int, file: str = connections.__file__) -> None:
        self._function, self._file = function, file
        self._left = moment
        self._before: dict[FrameType, str] = {}

    @property
    def raised(self) -> bool:
        """Whether there were so many moments."""
        return self._left <= 0

    def trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        """Watch the function's own code, instruction by instruction."""
        del argument
        if frame.f_code.co_filename != self._file or self._function not in (None, frame.f_code.co_name):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
            self._left -= before.startswith(_LOOKS)
            if self.raised:
                raise Interrupted  # Python takes a trace function that raised away
        return self.trace


def on_its_own_thread(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test on another thread than those that follow it.

    What raises between any two instructions may leave CPython with an exception that it takes for being handled; on this thread
    it would be the context of every later one.
    """

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(test, *args, **kwargs).result()

    return run


@on_its_own_thread
def test_no_transaction_stays_open_wherever_a_write_is_interrupted(tmp_path: Path) -> None:
    """At none of its moments does a commit leave the write lock to nobody, and each action comes to its one end afterwards."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment, interrupted = 0, True
    with world.gate() as gate, closing(sqlite3.connect(world.journal, timeout=0, isolation_level=None)) as other:
        while interrupted:
            moment += 1
            key, interrupting = f"key-{moment}", Interrupting("immediate", moment)
            sys.settrace(interrupting.trace)
            try:
                gate.fire(key, world.payout(key), approval="case-1")
            except Interrupted:
                pass
            finally:
                sys.settrace(None)
            interrupted = interrupting.raised
            other.execute("BEGIN IMMEDIATE")  # "database is locked", where the one who was interrupted still holds it
            other.execute("ROLLBACK")
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
        assert gate.verify().valid
    assert moment > 10
    assert sorted(line["case"] for line in world.effects()) == sorted(f"key-{number}" for number in range(1, moment + 1))


@on_its_own_thread
def test_no_snapshot_stays_open_where_its_reader_is_interrupted(tmp_path: Path) -> None:
    """A reader that went on in an old snapshot would never hear of what was written since."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment, interrupted = 0, True
    with world.gate() as gate:
        while interrupted:
            moment += 1
            key, interrupting = f"key-{moment}", Interrupting("snapshot", moment)
            sys.settrace(interrupting.trace)
            try:
                gate.verify()
            except Interrupted:
                pass
            finally:
                sys.settrace(None)
            interrupted = interrupting.raised
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
            assert gate.receipt(key).status == "COMMITTED"
    assert moment > 3


@pytest.mark.parametrize("module", [runs, driver], ids=["runs", "driver"])
@on_its_own_thread
def test_no_run_is_left_behind_wherever_it_is_interrupted(module: ModuleType, tmp_path: Path) -> None:
    """Nobody is at work on its action any more, so that close waits for nobody, and the same gate brings it to its one end."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment, interrupted = 0, True
    with world.gate() as gate:
        while interrupted:
            moment += 1
            key, interrupting = f"key-{moment}", Interrupting(None, moment, str(module.__file__))
            sys.settrace(interrupting.trace)
            try:
                gate.fire(key, world.payout(key), approval="case-1")
            except Interrupted:
                sys.settrace(None)
                assert gate._driver.at_work.on() == frozenset(), "while the exception, and all that it holds, is on its way"
                assert runs.present_run() is None
            finally:
                sys.settrace(None)
            interrupted = interrupting.raised
            assert type(gate.fire(key, world.payout(key), approval="case-1")).__name__ == "Committed"
        assert gate.verify().valid
    assert moment > 10
    assert sorted(line["case"] for line in world.effects()) == sorted(f"key-{number}" for number in range(1, moment + 1))


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
    assert sorted(line["case"] for line in world.effects()) == sorted(f"key-{number}" for number in range(1, moments + 1))


async def _fire_interrupted(world: World, target: Target[Any] | AsyncTarget[Any], file: str) -> int:
    moment, interrupted = 0, True
    async with AsyncGate.open(world.url, targets=[target]) as gate:
        while interrupted:
            moment += 1
            key, interrupting = f"key-{moment}", Interrupting(None, moment, file)
            sys.settrace(interrupting.trace)
            try:
                await gate.fire(key, world.payout(key), approval="case-1")
            except Interrupted:
                sys.settrace(None)
                for _ in range(1000):
                    if not gate._driver.at_work.on():
                        break
                    await asyncio.sleep(0.001)
                assert gate._driver.at_work.on() == frozenset(), "close would wait for it"
            finally:
                sys.settrace(None)
            interrupted = interrupting.raised
            assert type(await gate.fire(key, world.payout(key), approval="case-1", wait_s=30)).__name__ == "Committed"
        assert (await gate.verify()).valid
    return moment


@pytest.mark.parametrize("module", [runs, threading], ids=["runs", "threading"])
@on_its_own_thread
def test_a_gate_can_be_closed_wherever_its_waiting_was_interrupted(module: ModuleType, tmp_path: Path) -> None:
    """A `threading.Event` takes a lock in Python's own code, and whoever is interrupted there leaves it taken for ever."""
    world = World(tmp_path, Kind.KEYS)
    moment, interrupted = 0, True
    while interrupted:
        moment += 1
        gate, interrupting = world.gate(), Interrupting(None, moment, str(module.__file__))
        sys.settrace(interrupting.trace)
        try:
            gate._driver.closing.wait(0.0)
            gate._driver.stop()
        except Interrupted:
            pass
        finally:
            sys.settrace(None)
        interrupted = interrupting.raised
        closing = threading.Thread(target=gate.close, daemon=True)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()


@on_its_own_thread
def test_a_lock_that_is_given_back_again_closes_nobody_elses_file(tmp_path: Path) -> None:
    """The number of a descriptor is used again at once, and closing one drops this process's locks on its file, SQLite's too."""
    moment, interrupted = 0, True
    while interrupted:
        moment += 1
        mine, interrupting = FileLocks(tmp_path / "holders"), Interrupting("lose", moment, locks.__file__)
        sys.settrace(interrupting.trace)
        try:
            mine.release()
        except Interrupted:
            pass
        finally:
            sys.settrace(None)
        interrupted = interrupting.raised
        with (tmp_path / "file of somebody else").open("w") as other:
            mine.release()
            other.write("is open")
    assert moment > 1


@on_its_own_thread
def test_a_fork_waits_for_nobody_who_was_interrupted(tmp_path: Path) -> None:
    """It waits until nobody uses a connection: who was interrupted while one was lent to him uses none."""
    world = World(tmp_path, Kind.KEYS)
    world.approve(uses=1000, cap_minor=10**7)
    moment, interrupted = 0, True
    with world.gate() as gate:
        while interrupted:
            moment += 1
            interrupting = Interrupting("get_connection", moment)
            sys.settrace(interrupting.trace)
            try:
                gate.fire(f"key-{moment}", world.payout(f"key-{moment}"), approval="case-1")
            except Interrupted:
                pass
            finally:
                sys.settrace(None)
            interrupted = interrupting.raised
            assert not gate._driver.journal._datastore._users  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] # SQLite's
    assert moment > 10
