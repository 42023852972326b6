"""The runs of a gate's protocols, and what they are at work on.

An exception out of a signal's handler (KeyboardInterrupt, a worker's time limit) comes between any two steps that Python makes,
and what was to be given back there stays taken. Whether a run goes on is therefore what a lock says that a `with` holds: no
handler runs between the end of its block and the lock's being free, as both are C's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

from interlock.domain.approvals import Approval
from interlock.errors import GateClosed
from interlock.infrastructure.clock import elapsing_s

_LOOK_AGAIN_S = 0.01


class ClockReading(NamedTuple):
    """What a clock said, and when that was by one that no one sets, in seconds."""

    at: datetime
    elapsed_s: float


@dataclass(slots=True, eq=False)
class Run:
    """One run of a protocol.

    Args:
        reads_ahead: whether it ends with its protocol, so that what was read early can't be given to another one.
        ahead: an approval's id, and what was read under it together with an action's key.
        readings: the last two times that it was told: the later one right before a send, and that of its Dispatched.
        around: the run in which it was begun.
        actions: what it is at work on.
        going: is held while somebody waits for its end.
        handed_over: whether a thread of the gate's was told to work on it.
        on_thread: whether one does; it goes on when nobody waits any more.
    """

    reads_ahead: bool = False
    ahead: tuple[str, Approval | None] | None = None
    readings: tuple[ClockReading, ...] = ()
    around: Run | None = None
    actions: set[UUID] = field(default_factory=set[UUID])
    going: threading.Lock = field(default_factory=threading.Lock)
    handed_over: bool = False
    on_thread: bool = False

    @property
    def is_on(self) -> bool:
        """Whether it has not come to an end."""
        return self.going.locked() or self.on_thread or self.handed_over


_present: ContextVar[Run | None] = ContextVar("interlock_run", default=None)
"""A context and not a thread: the threads that a task hands its work to belong to the task's run."""


def present_run() -> Run | None:
    """Return the run in which this is asked; None outside of all."""
    run = _present.get()
    while run is not None and not run.is_on:
        run = run.around  # its end was interrupted before it could take itself away
    return run


@contextmanager
def as_present(run: Run) -> Generator[None]:
    """Be this run."""
    token = _present.set(run)
    try:
        yield
    finally:
        _present.reset(token)


class AtWork:
    """Which actions a run of this gate is at work on: neither another run nor one inside it takes them for abandoned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, Run] = {}
        self._closing = False

    def begin(self, action_id: UUID) -> bool:
        """Note that the present run is at work on it; return False where another one is.

        Raises:
            GateClosed: the gate is being closed, and the run is at work on nothing yet.
        """
        run = present_run()
        if run is None:
            _present.set(run := Run())  # what performs requests on its own is one run
            run.going.acquire()
        with self._lock:
            if self._closing and not run.actions:
                raise GateClosed("the gate is closed; nothing was written or sent")
            other = self._runs.get(action_id)
            if other is not None and other is not run and other.is_on:
                return False
            run.actions.add(action_id)
            self._runs[action_id] = run
            return True

    def on(self) -> frozenset[UUID]:
        """Return the actions that runs are at work on."""
        with self._lock:
            self._runs = {action_id: run for action_id, run in self._runs.items() if run.is_on}
            return frozenset(self._runs)

    def let_go(self, run: Run | None = None) -> None:
        """Forget what a run was at work on; the present one unless another is given."""
        mine = run or present_run()
        if mine is None:
            return
        with self._lock:
            for action_id in mine.actions:
                if self._runs.get(action_id) is mine:
                    del self._runs[action_id]
            mine.actions.clear()

    def await_others(self, timeout_s: float) -> None:
        """Let no other run begin, and wait until those that are at work have let go, but for the present one."""
        mine, until_s = present_run(), elapsing_s() + timeout_s
        with self._lock:
            self._closing = True  # or what begins meanwhile would have sent when the journal is closed
        while self._are_others_on(mine) and elapsing_s() < until_s:
            time.sleep(_LOOK_AGAIN_S)

    def _are_others_on(self, mine: Run | None) -> bool:
        with self._lock:
            return any(run is not mine and run.is_on for run in self._runs.values())


class Closing:
    """Whether a gate is being closed, for whoever waits.

    `threading.Event` takes its lock in Python, and an exception out of a signal's handler that comes just then leaves it taken:
    whoever closed the gate afterwards would wait for it for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether it is."""
        return self._is_set

    def set(self) -> None:
        """Say that it is, and wake who waits."""
        self._is_set = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for it for so long at the most, and return whether it is."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=max(0.0, seconds))
                self._wakes.put(None)  # for the next one who waits
        return self._is_set
