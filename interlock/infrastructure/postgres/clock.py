"""The database's clock: all gates on one journal go by it, whatever their machines believe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from interlock.errors import JournalError, JournalUnavailable
from interlock.infrastructure.clock import elapsing_s

SAMPLE_S = 1.0
"""For how long a reading of the database's clock is carried on by this machine's, before it is read again."""

MAX_ROUND_TRIP_S = 1.0
"""A reading that took longer is not taken: a process that was stopped meanwhile would go by a time that is long over, and a
horizon that is recorded too early turns an absence into a second send (rule 3)."""

_FIRST_TRIES = 3


class DatabaseClock:
    """The database's time, read once a second and carried on by a clock that nobody sets.

    It is behind the database's by at most one round trip of `MAX_ROUND_TRIP_S`, and apart from it by what two clocks drift in a
    second (below 0.1 ms). While the database can't be read in time it is carried on from the last reading. Threads share it
    without a lock, which a fork could leave locked.

    Args:
        read: reads the database's clock.

    Attributes:
        behind_s: by how much it may be behind the database's: the round trip of the reading that it goes by.

    Raises:
        JournalUnavailable: it can't be read for the first time, or not in time.
    """

    def __init__(self, read: Callable[[], datetime]) -> None:
        self._read = read
        self._tried_s = elapsing_s()
        self._reading = self._first()

    @property
    def behind_s(self) -> float:
        """By how much it may be behind the database's, in seconds."""
        return self._reading[2]

    def now(self) -> datetime:
        """Return the time, in UTC."""
        now_s = elapsing_s()
        if now_s - self._tried_s >= SAMPLE_S:
            self._tried_s = now_s  # the other threads carry on meanwhile
            with suppress(JournalError):
                self._reading = self._sample() or self._reading
            now_s = elapsing_s()
        at, read_s, _ = self._reading
        return at + timedelta(seconds=now_s - read_s)

    def _first(self) -> tuple[datetime, float, float]:
        for _ in range(_FIRST_TRIES):
            if (reading := self._sample()) is not None:
                return reading
        raise JournalUnavailable(
            f"the database did not tell its time within {MAX_ROUND_TRIP_S:g} s, and nothing can be decided by an older one; "
            "nothing was written or sent"
        )

    def _sample(self) -> tuple[datetime, float, float] | None:
        """Return the time, when it was that, and how long that took, unless it was too long."""
        asked_s = elapsing_s()
        at = self._read()
        # Counted from when the answer came, so that this clock is never ahead of the database's.
        answered_s = elapsing_s()
        took_s = answered_s - asked_s
        return (at.astimezone(UTC), answered_s, took_s) if took_s <= MAX_ROUND_TRIP_S else None
