"""A signal's handler may raise at any moment: KeyboardInterrupt, a worker's time limit. What it left open must not stay open."""

from __future__ import annotations

import opcode
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from interlock.infrastructure.sqlite import connections
from tests.integration.shared_ledger import Kind, World


class Interrupted(BaseException):
    """What a handler raises."""


class Interrupting:
    """Raises once, at one of the moments at which CPython runs a signal's handler inside a function: after a call has returned.

    Args:
        function: the name of a function.
        moment: which of them, counted from 1.
        file: where the function is.
    """

    def __init__(self, function: str, moment: int, file: str = connections.__file__) -> None:
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
        if frame.f_code.co_filename != self._file or frame.f_code.co_name != self._function:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
            self._left -= before.startswith("CALL")
            if self.raised:
                raise Interrupted  # Python takes a trace function that raised away
        return self.trace


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
