"""The steps of two workers as tables of numbers, so that millions of states can be visited.

What a worker may do depends on itself and on its surroundings (journal, provider, premise, requests without a sender), and not
on what the other one is at; and the second worker in some surroundings is the first one in the swapped ones. So each (worker,
surroundings) is put into words once, by the world, and from then on it is a few lines of numbers, looked up for a whole array
of states at once.

A state is one number: the surroundings in its upper bits, and each worker in `BITS` of those below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from interlock.testing.exploration.arrays import Bools, Grown, Ints, Lines, Table
from interlock.testing.exploration.scope import LEAP_TICKS
from interlock.testing.exploration.state import Parts, State, Step
from interlock.testing.exploration.world import World

BITS = 20
MASK = (1 << BITS) - 1
_MOST_SURROUNDINGS = 1 << 63 - 2 * BITS
FIRST, SECOND = 0, 1

_FAULT = 1
"""In a step's marks: that it is none of what happens while nothing goes wrong. Above it, what the step breaks by itself."""
_BREAKS_BITS = 7
_RENUMBERING_BITS = 24
"""Above that, for each worker, by which renumbering it is changed though the step is not its own; 0 where it is not."""

_KINDS = 4
"""Of how the workers are, for what may happen beside them: each adds to what the one before it lets happen."""
_TICKS, _LEAPS, _IDLE = 1, 2, 3


class Surroundings(NamedTuple):
    """A state without its workers."""

    journal: int
    provider: int
    bad: int
    orphans: int
    behind: int = 0


class Steps(NamedTuple):
    """Steps from an array of states: for each its state, by its place in the array, the state afterwards, and its marks."""

    sources: Ints
    targets: Ints
    marks: Ints

    @property
    def without_fault(self) -> Bools:
        """Which of them are what happens while nothing goes wrong."""
        sound: Bools = (self.marks & _FAULT) == 0
        return sound

    @property
    def breaks(self) -> Ints:
        """The number of what each breaks by itself; 0 where that is nothing."""
        return self.marks >> 1 & (1 << _BREAKS_BITS) - 1


class Tables:
    """The steps of a world with two workers, by numbers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.breaks: Parts[str] = Parts()
        self.breaks.number("")
        self._surroundings: Parts[Surroundings] = Parts()
        self._swapped, self._bare, self._broken, self._is_end, self._is_beyond = (Grown() for _ in range(5))
        self._may_still_send, self._ages = Grown(), Grown()
        self._renumberings: Parts[tuple[str, int, int]] = Parts()
        self._renumberings.number(("none", 0, FIRST))
        self._renumbered = Table(self._renumber)
        self._moves = Lines(self._moves_of)
        self._changes = Lines(self._changes_of)
        self._local_moves: dict[tuple[int, int, int], list[tuple[int, int]]] = {}

    def packed(self, state: State) -> int:
        """Return the number of a state's canonical form."""
        first, second = state.workers
        settled = self.world.settled
        workers = settled(state.journal, FIRST, first) << BITS | settled(state.journal, SECOND, second)
        return int(self._canonical(np.array([self._number_of(state) << 2 * BITS | workers]))[0])

    def steps(self, states: Ints) -> Steps:
        """Return every step that can happen in each of the states."""
        self._catch_up()
        here, first, second = states >> 2 * BITS, states >> BITS & MASK, states & MASK
        by_first = self._moved(here, first, second)
        by_second = self._moved(self._swapped.values[here], second, first)
        by_others = self._changed(here, first, second)
        sources, targets, marks = (np.concatenate(parts) for parts in zip(by_first, by_second, by_others, strict=True))
        return Steps(sources, self._canonical(targets), marks)

    def surroundings_of(self, states: Ints) -> Iterator[Surroundings]:
        """Yield the surroundings that the states have, as the first worker sees them and as the second one does."""
        self._catch_up()
        here = states >> 2 * BITS
        for number in np.union1d(here, self._swapped.values[here]).tolist():
            yield self._surroundings.values[number]

    def broken(self, states: Ints) -> Ints:
        """Return the number of what each of the states breaks; 0 where that is nothing."""
        broken: Ints = self._broken.values[states >> 2 * BITS]
        return broken

    def are_ends(self, states: Ints) -> Bools:
        """Return in which states the action has come to its end, or nothing more is explored."""
        here = states >> 2 * BITS
        ends: Bools = (self._is_end.values[here] != 0) | (self._broken.values[here] != 0)
        return ends

    def go_on(self, states: Ints) -> Bools:
        """Return from which states more is explored."""
        here = states >> 2 * BITS
        further: Bools = (self._is_beyond.values[here] == 0) & (self._broken.values[here] == 0)
        return further

    # --- arrays of states

    def _moved(self, here: Ints, mover: Ints, other: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the steps of one worker: whose they are, the states afterwards, and their marks."""
        sources, after, marks = self._moves[here << BITS | mover]
        return sources, after | self._changed_by_others(marks >> 1 + _BREAKS_BITS + _RENUMBERING_BITS, other[sources]), marks

    def _changed(self, here: Ints, first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the steps that no worker takes, in the same way."""
        ages = np.maximum(self._ages.values[first], self._ages.values[second])
        idle = (first == self.world.idle) & (second == self.world.idle)
        kinds = (ages < self.world.profile.figures.landing) * 1 + (ages < 0) + idle
        sources, after, marks = self._changes[here * _KINDS + kinds]
        firsts = self._changed_by_others(marks >> 1 + _BREAKS_BITS & (1 << _RENUMBERING_BITS) - 1, first[sources])
        seconds = self._changed_by_others(marks >> 1 + _BREAKS_BITS + _RENUMBERING_BITS, second[sources])
        return sources, after | firsts << BITS | seconds, marks

    def _changed_by_others(self, renumberings: Ints, workers: Ints) -> Ints:
        """Return what becomes of workers by steps that are not their own."""
        touched = np.flatnonzero(renumberings)
        workers[touched] = self._renumbered[renumberings[touched] << BITS | workers[touched]]
        return workers

    def _canonical(self, states: Ints) -> Ints:
        """Return the states without what nobody needs any more, and as that worker sees them for whom the number is less."""
        self._catch_up()
        here, first, second = states >> 2 * BITS, states >> BITS & MASK, states & MASK
        bare, may_still_send = self._bare.values[here], self._may_still_send.values
        past = np.flatnonzero(bare != here)
        past = past[(may_still_send[first[past]] | may_still_send[second[past]]) == 0]
        here[past] = bare[past]
        swapped = self._swapped.values[here]
        least: Ints = np.minimum(here << 2 * BITS | first << BITS | second, swapped << 2 * BITS | second << BITS | first)
        return least

    # --- what is asked of the world

    def _catch_up(self) -> None:
        """Ask about the workers and surroundings that are new."""
        world = self.world
        for worker in range(self._ages.size, len(world.workers.values)):
            self._may_still_send.append(world.may_still_send(worker))
            self._ages.append(world.age_of(worker))
        while (number := self._swapped.size) < len(self._surroundings.values):
            state = self._with_idle_workers(number)
            self._swapped.append(self._number_of(state._replace(journal=world.swapped(state.journal))))
            self._bare.append(self._number_of(world.without_the_past(state)))
            self._broken.append(self.breaks.number(world.violation(state) or ""))
            self._is_end.append(world.is_end(state))
            self._is_beyond.append(world.is_beyond(state))
        assert len(world.workers.values) <= MASK, "a worker's number has outgrown its bits"
        assert len(self._surroundings.values) <= _MOST_SURROUNDINGS, "the surroundings' number has outgrown its bits"

    def _number_of(self, state: State) -> int:
        state = self.world.without_vain_orphans(state)
        return self._surroundings.number(Surroundings(state.journal, state.provider, state.bad, state.orphans, state.behind))

    def _with_idle_workers(self, number: int) -> State:
        at, idle = self._surroundings.values[number], self.world.idle
        return State(at.journal, at.provider, at.bad, (idle, idle), at.orphans, at.behind)

    def _moves_of(self, key: int) -> Iterable[tuple[int, int]]:
        here, worker = self._surroundings.values[key >> BITS], key & MASK
        if self.world.minds_the_provider(here.journal, worker):
            return self._steps_of(here, worker)
        # Whatever it does leaves the provider and the late requests as they are, and is the same beside all of them.
        local = worker, here.journal, here.bad
        if local not in self._local_moves:
            self._local_moves[local] = list(self._steps_of(Surroundings(here.journal, 0, here.bad, 0), worker))
        return [(self._beside(here, after), marks) for after, marks in self._local_moves[local]]

    def _beside(self, here: Surroundings, after: int) -> int:
        journal = self._surroundings.values[after >> 2 * BITS].journal
        there = self._surroundings.number(here._replace(journal=journal))
        return there << 2 * BITS | after & (1 << 2 * BITS) - 1

    def _steps_of(self, here: Surroundings, worker: int) -> Iterator[tuple[int, int]]:
        """Yield each step of a worker as if it were the first one: the state afterwards without the other, and its marks."""
        alone = State(here.journal, here.provider, here.bad, (worker, self.world.idle), here.orphans, here.behind)
        for step in self.world.steps_of_worker(alone, FIRST):
            after = step.state
            mine = self.world.settled(after.journal, FIRST, after.workers[FIRST])
            touched = bool(step.other) or after.journal != here.journal
            others = self._renumberings.number((step.other, after.journal, SECOND)) if touched else 0
            yield self._number_of(after) << 2 * BITS | mine << BITS, self._marks(step, 0, others)

    def _changes_of(self, key: int) -> Iterator[tuple[int, int]]:
        """Yield each step that no worker takes beside workers of some kind: the state without workers, and its marks."""
        state, kind = self._with_idle_workers(key // _KINDS), key % _KINDS
        tick, leap = self.world.time_without_workers(state)
        for step in self.world.steps_of_the_rest(state):
            yield self._change(state, step)
        if (back := self.world.set_back_without_workers(state)) is not None:
            yield self._change(state, Step("", "clock", back), "back")
        if kind >= _TICKS and tick is not None:
            yield self._change(state, Step("", "", tick), "tick")
        if kind >= _LEAPS and leap is not None:
            yield self._change(state, Step("", "leap", leap), "leap")
        if kind >= _IDLE:
            for step in self.world.steps_while_idle(state):
                yield self._change(state, step)

    def _change(self, here: State, step: Step, time: str = "") -> tuple[int, int]:
        there = step.state
        touched = bool(time) or there.journal != here.journal
        first, second = (self._renumberings.number((time, there.journal, slot)) if touched else 0 for slot in (FIRST, SECOND))
        return self._number_of(there) << 2 * BITS, self._marks(step, first, second)

    def _marks(self, step: Step, first: int, second: int) -> int:
        breaks = self.breaks.number(step.violation or "")
        assert breaks < 1 << _BREAKS_BITS, "what is broken has outgrown its bits"
        assert max(first, second) < 1 << _RENUMBERING_BITS, "a renumbering's number has outgrown its bits"
        return ((second << _RENUMBERING_BITS | first) << _BREAKS_BITS | breaks) << 1 | bool(step.fault)

    def _renumber(self, key: int) -> int:
        (how, journal, slot), worker = self._renumberings.values[key >> BITS], key & MASK
        after = _RENUMBERED[how](self.world, worker)
        return self.world.settled(journal, slot, after)


_RENUMBERED: dict[str, Callable[[World, int], int]] = {
    "": lambda _world, worker: worker,
    "tick": lambda world, worker: world.worker_later(worker, 1),
    "leap": lambda world, worker: world.worker_later(worker, LEAP_TICKS),
    "back": lambda world, worker: world.worker_later(worker, -1),
    "outdated": lambda world, worker: world.affected(worker, "outdated"),
    "bereft": lambda world, worker: world.affected(worker, "bereft"),
}
"""What becomes of a worker by what is not its own step, before it is settled in the journal afterwards."""
