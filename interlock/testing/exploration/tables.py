"""The steps of two workers as tables of numbers, so that millions of states can be visited.

What a worker may do depends on itself and on its surroundings (journal, provider, premise, requests without a sender), and not
on what the other one is at; and the second worker in some surroundings is the first one in the swapped ones. So each (worker,
surroundings) is put into words once, by the world, and from then on it is a line of numbers.

A state is one number: 16 bits for each worker, and the surroundings above them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from interlock.testing.exploration.scope import LANDING_TICKS, LEAP_TICKS
from interlock.testing.exploration.state import Parts, State, Step
from interlock.testing.exploration.world import World

K = TypeVar("K")
V = TypeVar("V")
BITS = 16
MASK = (1 << BITS) - 1
FIRST, SECOND = 0, 1


class Lazy(dict[K, V], Generic[K, V]):
    """Values that are made when they are first asked for, and kept."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: K) -> V:
        """Make the value, and keep it."""
        value = self[key] = self._make(key)
        return value


Renumbered = Lazy[int, int]
"""What becomes of a worker by what is not its own step, by its number."""


class Surroundings(NamedTuple):
    """A state without its workers."""

    journal: int
    provider: int
    bad: int
    orphans: int


class Move(NamedTuple):
    """A step of one worker, as if it were the first one.

    Args:
        there: the surroundings afterwards.
        worker: its own number afterwards.
        others: what becomes of the other worker; None where nothing does.
        fault: whether it is none of what happens while nothing goes wrong.
        violation: what it breaks by itself.
    """

    there: int
    worker: int
    others: Renumbered | None
    fault: bool
    violation: str | None


class Change(NamedTuple):
    """A step that no worker takes: the surroundings afterwards, and what becomes of the workers, where anything does."""

    there: int
    first: Renumbered | None
    second: Renumbered | None
    fault: bool
    violation: str | None


class Scene(NamedTuple):
    """What is known of some surroundings.

    Args:
        swapped: the same as the other worker sees them.
        bare: the same without what nobody needs where no worker may still send.
        broken: which invariant they break.
        is_end: whether the action has come to its end.
        changes: the steps that no worker takes, but for time.
        while_idle: the same, where no worker is at work.
        tick: one tick; None where a request without a sender has to land first.
        leap: 25 hours; None where they can't pass, or make no difference.
        is_beyond: whether nothing more is explored from here.
    """

    swapped: int
    bare: int
    broken: str | None
    is_end: bool
    changes: tuple[Change, ...]
    while_idle: tuple[Change, ...]
    tick: Change | None
    leap: Change | None
    is_beyond: bool


class Tables:
    """The steps of a world with two workers, by numbers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._surroundings: Parts[Surroundings] = Parts()
        self.scenes: Lazy[int, Scene] = Lazy(self._scene)
        self._moves: Lazy[int, tuple[Move, ...]] = Lazy(self._moves_of)
        self._local_moves: Lazy[tuple[int, int, int], tuple[Move, ...]] = Lazy(self._local_moves_of)
        self._renumbered: Lazy[tuple[str, int, int], Renumbered] = Lazy(self._renumbering)
        self._may_still_send: Lazy[int, bool] = Lazy(world.may_still_send)
        self._ages: Lazy[int, int] = Lazy(world.age_of)

    def packed(self, state: State) -> int:
        """Return the number of a state's canonical form."""
        first, second = state.workers
        settled = self.world.settled
        return self._packed(self._number_of(state), settled(state.journal, FIRST, first), settled(state.journal, SECOND, second))

    def successors(self, packed: int) -> Iterator[tuple[int, bool, str | None]]:
        """Yield each state that a step leads to, whether it takes a fault, and what the step breaks by itself."""
        here, first, second = packed >> 2 * BITS, packed >> BITS & MASK, packed & MASK
        scene = self.scenes[here]
        if scene.is_beyond:
            return
        pack = self._packed
        for there, mover, other in ((here, first, second), (scene.swapped, second, first)):
            for after, worker, others, fault, violation in self._moves[there << BITS | mover]:
                yield pack(after, worker, other if others is None else others[other]), fault, violation
        for change in self._changes(scene, first, second):
            after, firsts, seconds, fault, violation = change
            one = first if firsts is None else firsts[first]
            two = second if seconds is None else seconds[second]
            yield pack(after, one, two), fault, violation

    def surroundings_of(self, number: int) -> Surroundings:
        """Return the surroundings with that number."""
        return self._surroundings.values[number]

    def scene_of(self, packed: int) -> Scene:
        """Return what is known of the surroundings in a state."""
        return self.scenes[packed >> 2 * BITS]

    def _changes(self, scene: Scene, first: int, second: int) -> Iterator[Change]:
        yield from scene.changes
        if first == second == self.world.idle:
            yield from scene.while_idle
        age = max(self._ages[first], self._ages[second])
        if scene.tick is not None and age < LANDING_TICKS:
            yield scene.tick
        if scene.leap is not None and age < 0:
            yield scene.leap

    def _packed(self, there: int, first: int, second: int) -> int:
        scene = self.scenes[there]
        if scene.bare != there and not self._may_still_send[first] and not self._may_still_send[second]:
            there, scene = scene.bare, self.scenes[scene.bare]
        if first > second:
            return scene.swapped << 2 * BITS | second << BITS | first
        if first == second:
            there = min(there, scene.swapped)
        return there << 2 * BITS | first << BITS | second

    def _number_of(self, state: State) -> int:
        state = self.world.without_vain_orphans(state)
        return self._surroundings.number(Surroundings(state.journal, state.provider, state.bad, state.orphans))

    def _with_idle_workers(self, number: int) -> State:
        at, idle = self._surroundings.values[number], self.world.idle
        return State(at.journal, at.provider, at.bad, (idle, idle), at.orphans)

    def _moves_of(self, key: int) -> tuple[Move, ...]:
        here, worker = self._surroundings.values[key >> BITS], key & MASK
        if self.world.minds_the_provider(here.journal, worker):
            return tuple(self._steps_of(here, worker))
        # Whatever it does leaves the provider and the late requests as they are, and is the same beside all of them.
        known = self._local_moves[worker, here.journal, here.bad]
        return tuple(move._replace(there=self._beside(here, move.there)) for move in known)

    def _local_moves_of(self, key: tuple[int, int, int]) -> tuple[Move, ...]:
        worker, journal, bad = key
        return tuple(self._steps_of(Surroundings(journal, 0, bad, 0), worker))

    def _beside(self, here: Surroundings, there: int) -> int:
        return self._surroundings.number(here._replace(journal=self._surroundings.values[there].journal))

    def _steps_of(self, here: Surroundings, worker: int) -> Iterator[Move]:
        alone = State(here.journal, here.provider, here.bad, (worker, self.world.idle), here.orphans)
        for step in self.world.steps_of_worker(alone, FIRST):
            after = step.state
            mine = self.world.settled(after.journal, FIRST, after.workers[FIRST])
            touched = step.other or after.journal != here.journal
            others = self._renumbered[step.other, after.journal, SECOND] if touched else None
            yield Move(self._number_of(after), mine, others, bool(step.fault), step.violation)
        assert len(self.world.workers.values) <= MASK, "a worker's number has outgrown its bits"

    def _scene(self, number: int) -> Scene:
        world, state = self.world, self._with_idle_workers(number)
        tick, leap = world.time_without_workers(state)
        return Scene(
            swapped=self._number_of(state._replace(journal=world.swapped(state.journal))),
            bare=self._number_of(world.without_the_past(state)),
            broken=world.violation(state),
            is_end=world.is_end(state),
            changes=tuple(self._change(state, step) for step in world.steps_of_the_rest(state)),
            while_idle=tuple(self._change(state, step) for step in world.steps_while_idle(state)),
            tick=self._change(state, Step("", "", tick), "tick") if tick is not None else None,
            leap=self._change(state, Step("", "leap", leap), "leap") if leap is not None else None,
            is_beyond=world.is_beyond(state),
        )

    def _change(self, here: State, step: Step, time: str = "") -> Change:
        there = step.state
        touched = time or there.journal != here.journal
        first, second = (self._renumbered[time, there.journal, slot] if touched else None for slot in (FIRST, SECOND))
        return Change(self._number_of(there), first, second, bool(step.fault), step.violation)

    def _renumbering(self, key: tuple[str, int, int]) -> Renumbered:
        how, journal, slot = key
        settled, world = self.world.settled, self.world
        match how:
            case "":
                return Lazy(lambda worker: settled(journal, slot, worker))
            case "tick":
                return Lazy(lambda worker: settled(journal, slot, world.worker_later(worker, 1)))
            case "leap":
                return Lazy(lambda worker: settled(journal, slot, world.worker_later(worker, LEAP_TICKS)))
            case _:
                return Lazy(lambda worker: settled(journal, slot, world.affected(worker, how)))
