"""The database's clock: all gates on one journal go by it, whatever their machines believe."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from interlock.errors import JournalError
from interlock.infrastructure.clock import elapsing_s

SAMPLE_S = 1.0
"""For how long a reading of the database's clock is carried on by this machine's, before it is read again."""


class DatabaseClock:
    """The database's time, read once a second and carried on by a clock that nobody sets.

    It is behind the database's by at most one round trip, and apart from it by what two clocks drift in a second (below 0.1 ms).
    While the database can't be read it is carried on from the last reading: what depends on it can't be written meanwhile.

    Args:
        read: reads the database's clock.

    Raises:
        JournalUnavailable: it can't be read for the first time.
    """

    def __init__(self, read: Callable[[], datetime]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._tried_s = 0.0
        self._sample(read())

    def now(self) -> datetime:
        """Return the time, in UTC."""
        with self._lock:
            due = elapsing_s() - self._tried_s >= SAMPLE_S
            if due:
                self._tried_s = elapsing_s()  # one thread reads it, the others carry on
        if due:
            try:
                at = self._read()
            except JournalError:
                pass
            else:
                self._sample(at)
        with self._lock:
            return self._at + timedelta(seconds=elapsing_s() - self._read_s)

    def _sample(self, at: datetime) -> None:
        # Counted from when the answer came, so that this clock is never ahead of the database's.
        with self._lock:
            self._at, self._read_s = at.astimezone(UTC), elapsing_s()
            self._tried_s = self._read_s
