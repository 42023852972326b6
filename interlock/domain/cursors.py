"""Cursors: how far somebody who follows the log has read."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import InvalidInput


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """The last event that a follower has read. Write it down as text, `str(cursor)`, and read it with `Cursor.parse`.

    Args:
        order: of the transaction that wrote the event; its position, where a journal writes one transaction after the other.
        arrival: of the event within it.
    """

    order: int = 0
    arrival: int = 0

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor that was written down.

        Raises:
            InvalidInput: it is none.
        """
        order, dot, arrival = text.partition(".")
        if not (dot and order.isdecimal() and arrival.isdecimal()):
            raise InvalidInput(f"{text!r} is no cursor of a follower; nothing was read")
        return cls(int(order), int(arrival))

    def __str__(self) -> str:
        return f"{self.order}.{self.arrival}"


START = Cursor()
"""Before the first event."""
