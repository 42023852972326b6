"""Clocks of the harness. The library has none that can be moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ShiftedClock:
    """This machine's clock, moved forward, for a gate in a world in which a day has passed.

    Args:
        ahead_s: how far, in seconds.
    """

    def __init__(self, ahead_s: float) -> None:
        self._ahead = timedelta(seconds=ahead_s)

    def now(self) -> datetime:
        """Return the moved time, in UTC."""
        return datetime.now(UTC) + self._ahead
