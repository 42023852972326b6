"""The world that a crash test takes place in: its clock, and the port to a small model of the user's provider."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from interlock.domain.effects import Effect
from interlock.domain.premises import ChangeKind

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""When every schedule begins. It is the same for all, so that a schedule can be replayed."""


@dataclass(frozen=True, slots=True)
class _Later:
    at: datetime
    number: int
    do: Callable[[], object]


class WorldClock:
    """The world's time. It stands still until a schedule moves it, and then whatever is due happens, in order.

    Attributes:
        along: told how many seconds the time moves on, for a provider that has a clock of its own.
    """

    def __init__(self) -> None:
        self.at = START
        self.along: Callable[[float], object] = lambda _seconds: None
        self._later: list[_Later] = []
        self._number = 0

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self.at

    def elapsed_s(self) -> float:
        """Return the seconds since the beginning."""
        return (self.at - START).total_seconds()

    def later(self, after_s: float, do: Callable[[], object]) -> None:
        """Let something happen after so many seconds, such as a request that is on its way."""
        self._number += 1
        self._later.append(_Later(self.at + timedelta(seconds=after_s), self._number, do))

    @property
    def next_at(self) -> datetime | None:
        """When the next thing happens by itself; None where nothing is under way."""
        return min((later.at for later in self._later), default=None)

    def advance(self, seconds: float) -> None:
        """Move the time on; what is due meanwhile happens, in order, each at its own time."""
        self.advance_to(self.at + timedelta(seconds=max(0.0, seconds)))

    def advance_to(self, until: datetime) -> None:
        """Move the time on to an instant; a past one moves nothing."""
        while due := [later for later in self._later if later.at <= until]:
            first = min(due, key=lambda later: (later.at, later.number))
            self._later.remove(first)
            self._move(first.at)
            first.do()
        self._move(until)

    def _move(self, to: datetime) -> None:
        seconds = (to - self.at).total_seconds()
        if seconds > 0:
            self.at = to
            self.along(seconds)

    def settle(self) -> None:
        """Let everything happen that is still under way, however late."""
        while self.next_at is not None:
            self.advance_to(self.next_at)


class GateClock:
    """The clock that the gates read: the world's, set back where a schedule says so."""

    def __init__(self, world: WorldClock) -> None:
        self._world = world
        self.set_back_s = 0.0

    def now(self) -> datetime:
        """Return the time as the gates have it, in UTC."""
        return self._world.now() - timedelta(seconds=self.set_back_s)

    def elapsed_s(self) -> float:
        """Return the seconds on the clock that no one sets: the world's."""
        return self._world.elapsed_s()

    def in_the_world(self, at: datetime) -> datetime:
        """Return when in the world this clock will show an instant."""
        return at + timedelta(seconds=self.set_back_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One effect that the provider carried out. The ledger decides what happened, whatever a gate says about itself.

    Args:
        reference: the provider's id of it.
        at: when it was carried out, on the world's clock.
        action_id: the mark that it carries; None where the target has nowhere to put one.
        idempotency_key: the key that it was carried out under; None where somebody else did it, by hand.
        amount_minor: what it moved, in the minor unit; None where the effect moves no money.

    Raises:
        TypeError: a field is of another type, such as an action id as a text.
    """

    reference: str
    at: datetime
    action_id: UUID | None = None
    idempotency_key: str | None = None
    amount_minor: int | None = None

    def __post_init__(self) -> None:
        """Refuse what would equal nothing that it is compared with."""
        for name, kinds in _FIELDS.items():
            value = getattr(self, name)
            if type(value) not in kinds:
                names = " or ".join("None" if kind is _NONE else kind.__name__ for kind in kinds)
                raise TypeError(f"LedgerEntry.{name} is {names}, and not {type(value).__name__}")


_NONE = type(None)
_FIELDS: dict[str, tuple[type, ...]] = {
    "reference": (str,),
    "at": (datetime,),
    "action_id": (UUID, _NONE),
    "idempotency_key": (str, _NONE),
    "amount_minor": (int, _NONE),
}


class ProviderWorld(Protocol):
    """A small model of a provider: what it does with requests, and what it did.

    It is made once for every schedule, and called with the schedule's `WorldClock`. The target under test talks to it instead
    of the real provider, best through a `Network`. Of what is beside these three methods it may have what it can:
    `HasNetwork`, `HasChanges`, `HasFaults`.
    """

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry | None:
        """Do what the provider does when a request for this effect arrives.

        Args:
            effect: what to do.
            action_id: the mark of the action.
            idempotency_key: the key; one that is known carries nothing out again.

        Returns:
            What is in the ledger for this request, from now on or from before; None where the answer is no.
        """
        ...

    def ledger(self) -> Sequence[LedgerEntry]:
        """Return everything that was carried out, oldest first."""
        ...

    def forget_key(self, idempotency_key: str) -> None:
        """Forget a key, as the provider does when its window is over, or too early."""
        ...


@runtime_checkable
class HasChanges(Protocol):
    """A world in which others act, past the gate.

    Attributes:
        changes: the kinds that it can make; without `OWN`, which is made by the action itself.
    """

    @property
    def changes(self) -> Collection[ChangeKind]:
        """The kinds that it can make."""
        ...

    def change(self, kind: ChangeKind, effect: Effect[Any], reference: str) -> None:
        """Let somebody else change what the decision was made on.

        Args:
            kind: what the target's premise policy must make of the change.
            effect: the effect that was decided on.
            reference: the id of its approval: a duplicate names the same.
        """
        ...


def changes_of(world: object) -> HasChanges | None:
    """Return the world as one in which others act; None where they don't."""
    return world if isinstance(world, HasChanges) else None


def faults_of(world: object) -> HasFaults | None:
    """Return the world as one whose provider has faults of its own; None where it has none."""
    return world if isinstance(world, HasFaults) else None


@runtime_checkable
class HasFaults(Protocol):
    """A world whose provider has faults of its own, such as a stored failure or a definite no."""

    @property
    def faults(self) -> Collection[str]:
        """The names of its faults."""
        ...

    def arm(self, fault: str) -> None:
        """Let the next request that arrives meet this fault."""
        ...

    def disarm(self) -> None:
        """Have no fault any more."""
        ...
