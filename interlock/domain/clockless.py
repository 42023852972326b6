"""Events without a clock: time comes from the journal, with the request that asked for it."""

from __future__ import annotations

from typing import NoReturn


class Clockless:
    """A base of events that refuses to make up a time."""

    @staticmethod
    def create_timestamp() -> NoReturn:
        """Refuse: the domain has no clock.

        Raises:
            RuntimeError: always. Give every event its `timestamp`.
        """
        msg = "the domain has no clock: give the event its timestamp"
        raise RuntimeError(msg)
