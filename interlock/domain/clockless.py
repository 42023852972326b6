"""What our events have beside those of eventsourcing: no clock, and a first event that says what its aggregate is made with."""

from __future__ import annotations

from typing import Any, NoReturn
from uuid import UUID

from eventsourcing.domain import CanInitAggregate
from eventsourcing.utils import resolve_topic


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


class FirstEvent(CanInitAggregate[UUID]):
    """A base of first events.

    eventsourcing compares the event with the signatures of both constructors each time, which costs more than to call them.
    """

    def made_with(self) -> tuple[Any, ...]:
        """Return the arguments of the aggregate's constructor."""
        raise NotImplementedError

    def mutate(self, aggregate: Any) -> Any:
        """Return a new aggregate."""
        assert aggregate is None, "it is the first event"
        kind = resolve_topic(self.originator_topic)
        made = kind.__new__(kind)
        made.__base_init__(self.originator_id, self.originator_version, self.timestamp)
        made.__init__(*self.made_with())
        return made
