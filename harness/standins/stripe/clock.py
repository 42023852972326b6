"""The stand-in's movable clock, and what is due on it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Clock:
    """The real clock plus an offset that only ever grows."""

    real_time: Callable[[], float] = time.time
    offset_s: float = 0.0

    def now(self) -> float:
        """Return the stand-in's time as seconds since the epoch."""
        return self.real_time() + self.offset_s

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises:
            ValueError: The clock would go backwards, which would bring pruned keys back to life.
        """
        if seconds < 0:
            raise ValueError("the stand-in's clock only goes forward")
        self.offset_s += seconds


@dataclass(frozen=True, slots=True)
class Appointment:
    """Something that the provider will do by itself later."""

    due_at: float
    kind: str
    reference: str
    run: Callable[[], object]


@dataclass(slots=True)
class Agenda:
    """What is due later, in the order in which it becomes due."""

    _appointments: list[Appointment] = field(default_factory=list)

    def add(self, appointment: Appointment) -> None:
        """Remember an appointment."""
        self._appointments.append(appointment)
        self._appointments.sort(key=lambda one: one.due_at)

    def run_due(self, now: float) -> int:
        """Run what is due at `now`; return how many were run."""
        return self._run([one for one in self._appointments if one.due_at <= now])

    def run_early(self, kind: str, reference: str | None = None) -> int:
        """Run the appointments of one kind (and one reference) at once, whatever the clock says."""
        return self._run([one for one in self._appointments if one.kind == kind and reference in (None, one.reference)])

    def _run(self, appointments: list[Appointment]) -> int:
        for one in appointments:
            self._appointments.remove(one)
            one.run()
        return len(appointments)
