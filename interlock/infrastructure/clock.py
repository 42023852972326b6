"""Clocks: the time of the world, and durations that go on while the process is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where a gate gets its time from."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        ...


def behind_s(clock: Clock) -> float:
    """Return by how much a clock may be behind the journal's, in seconds: a sender stops so much earlier (rule 3)."""
    return float(getattr(clock, "behind_s", 0.0))  # a clock of the host's own need not know


class SystemClock:
    """The clock of this machine. All processes on one SQLite journal share it."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.now(UTC)


def _elapsing_clock() -> Callable[[], float]:
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is None:
        return time.monotonic
    return lambda: time.clock_gettime(boottime)


elapsing_s = _elapsing_clock()
"""Seconds on a clock that no one sets, and that goes on while the process is stopped or the machine sleeps."""


def elapsed_by(clock: Clock) -> float:
    """Return seconds on the clock that no one sets and that goes with a clock: its own `elapsed_s`, or this machine's."""
    own: Callable[[], float] = getattr(clock, "elapsed_s", elapsing_s)
    return own()


class WallDeadline:
    """A deadline measured from the moment it is made, so that a clock that is set meanwhile moves nothing.

    Args:
        seconds: how far off it is.
        since_s: counted from which moment of `elapsing_s`; from now unless given.
    """

    def __init__(self, seconds: float, since_s: float | None = None) -> None:
        self._at_s = (elapsing_s() if since_s is None else since_s) + seconds

    def remaining_s(self) -> float:
        """Return the seconds left, zero or less when it is over."""
        return self._at_s - elapsing_s()
