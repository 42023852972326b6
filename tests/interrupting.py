"""Exceptions out of a signal's handler, at every moment at which CPython runs one: KeyboardInterrupt, a worker's time limit."""

from __future__ import annotations

import gc
import opcode
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import count
from types import FrameType, TracebackType
from typing import Any, ParamSpec, Self

from tests.integration.shared_ledger import World

P = ParamSpec("P")


class Interrupted(BaseException):
    """What a handler raises."""


_LOOKS = ("CALL", "RESUME", "JUMP_BACKWARD")
"""CPython looks for signals behind these: a call that has returned, a function's beginning, each round of a loop."""


class Interrupting:
    """Raises once, at one of the moments at which CPython runs a signal's handler inside a function.

    A context manager that watches what is called inside, and takes what was raised for the end of it.

    Args:
        function: the name of a function; None for all that are in the file.
        moment: which of them, counted from 1.
        file: where the function is.
    """

    def __init__(self, function: str | None, moment: int, file: str) -> None:
        self._function, self._file = function, file
        self._left = moment
        self._before: dict[FrameType, str] = {}

    def __enter__(self) -> Self:
        """Watch."""
        sys.settrace(self._trace)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Watch no more."""
        self.stop()
        return isinstance(error, Interrupted)

    @staticmethod
    def stop() -> None:
        """Watch no more, while what was raised is still on its way."""
        sys.settrace(None)

    @property
    def raised(self) -> bool:
        """Whether there were so many moments."""
        return self._left <= 0

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
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
        return self._trace


def on_its_own_thread(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test on another thread than those that follow it.

    What raises between any two instructions may leave CPython with an exception that it takes for being handled; on this thread
    it would be the context of every later one. And what is held by such an exception, or by the frames that were watched, is
    cleared away here, where what a connection says when nobody closed it is expected, and not in the middle of a later test.
    """

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(test, *args, **kwargs).result()
        gc.collect()

    return run


def every_moment(function: str | None, file: str) -> Iterator[tuple[int, Interrupting]]:
    """Yield one moment after the other, with its number, until what is done in between has no more of them.

    Args:
        function: as `Interrupting` has it.
        file: as `Interrupting` has it.
    """
    for moment in count(1):
        yield moment, (interrupting := Interrupting(function, moment, file))
        if not interrupting.raised:
            return


def assert_one_effect_each(world: World, moments: int) -> None:
    """Each moment's action, `key-1` and so on, was carried out, and once."""
    assert sorted(line["case"] for line in world.effects()) == sorted(f"key-{number}" for number in range(1, moments + 1))
