"""A search over every state of the small world, breadth first, so that the first schedule found is the shortest.

A layer is an array of all states that take the same number of steps to reach. Nothing but the states is kept: by which step one
was reached is found again, layer by layer, where it is asked for.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from interlock.testing.exploration.arrays import Bools, Ints, SortedSets, holds, pieces, sorted_set
from interlock.testing.exploration.counts import Explored
from interlock.testing.exploration.state import State, Step
from interlock.testing.exploration.tables import Tables
from interlock.testing.exploration.world import World

_AT_ONCE = 1 << 16
"""How many states are looked at together: the arrays of their steps fit into a processor's cache."""


class Break(NamedTuple):
    """Where an invariant is broken first: in which layer, and by which step or in which state.

    Args:
        depth: the layer of `source`, or of `target` where there is none.
        source: the state before the step that breaks it; None where the state itself does.
        target: the state afterwards.
    """

    depth: int
    source: int | None
    target: int


class Search:
    """A breadth-first search over the states of a world with two workers."""

    def __init__(self, world: World, most_states: int) -> None:
        self.world, self.most_states = world, most_states
        self.tables = Tables(world)
        self.layers: list[Ints] = [np.array([self.tables.packed(world.initial())])]
        self.states, self.steps = 1, 0
        self.found: dict[str, Break] = {}
        self._visited = SortedSets()
        self._visited.add(self.layers[0])

    def run(self, *, stop_at_violation: bool = False) -> bool:
        """Explore; return whether there is nothing else."""
        while self.layers[-1].size:
            if self.states > self.most_states or (stop_at_violation and self.found):
                return False
            self._explore_next()
        return True

    def _explore_next(self) -> None:
        last, depth = self.layers[-1], len(self.layers)
        reached: list[Ints] = [last[:0]]
        for states in pieces(last[self.tables.go_on(last)], _AT_ONCE):
            steps = self.tables.steps(states)
            self.steps += len(steps.targets)
            for at in np.flatnonzero(steps.breaks).tolist():
                source, target = int(states[steps.sources[at]]), int(steps.targets[at])
                self._found(int(steps.breaks[at]), Break(depth - 1, source, target))
            reached.append(sorted_set(steps.targets))
        new = self._visited.without(sorted_set(np.concatenate(reached)))
        broken = self.tables.broken(new)
        for at in np.flatnonzero(broken).tolist():
            self._found(int(broken[at]), Break(depth, None, int(new[at])))
        self._visited.add(new)
        self.layers.append(new)
        self.states += len(new)

    def _found(self, number: int, broken: Break) -> None:
        self.found.setdefault(self.tables.breaks.values[number], broken)

    def schedule_to_break(self, violation: str) -> list[str]:
        """Return the shortest schedule that breaks an invariant, in plain words."""
        depth, source, target = self.found[violation]
        path = self._path_to(target, depth) if source is None else [*self._path_to(source, depth), target]
        return self._in_words(path, violation)

    def schedule_to(self, state: int, depth: int) -> list[str]:
        """Return a schedule from the beginning to a state of that layer, in plain words."""
        return self._in_words(self._path_to(state, depth), None)

    def _path_to(self, state: int, depth: int) -> list[int]:
        path = [state]
        for layer in reversed(self.layers[:depth]):
            path.append(self._before(path[-1], layer))
        return path[::-1]

    def _before(self, state: int, layer: Ints) -> int:
        """Return a state of the layer from which a step leads to that one."""
        for states in pieces(layer[self.tables.go_on(layer)], _AT_ONCE):
            steps = self.tables.steps(states)
            leading = np.flatnonzero(steps.targets == state)
            if leading.size:
                return int(states[steps.sources[leading[0]]])
        raise AssertionError("a state that was reached is reached from the layer before it")

    def _in_words(self, path: list[int], violation: str | None) -> list[str]:
        # It is replayed without putting the workers in order, so that each keeps its name.
        here, words = self.world.normal(self.world.initial()), list[str]()
        for number, there in enumerate(path[1:], 2):
            step = self._step_to(here, there, violation if number == len(path) else None)
            words.append(step.words)
            here = self.world.normal(step.state)
        return words

    def _step_to(self, here: State, there: int, violation: str | None) -> Step:
        steps = [step for step in self.world.steps(here) if self.tables.packed(step.state) == there]
        return next((step for step in steps if step.violation == violation), steps[0])

    def stuck(self) -> list[Ints]:
        """Return, layer by layer, the states from which no end can be reached without faults."""
        everything = self._visited.merged()
        good = np.zeros(len(everything), np.bool_)
        for layer in self.layers:
            good[np.searchsorted(everything, layer[self.tables.are_ends(layer)])] = True
        stuck = [layer[~self.tables.are_ends(layer)] for layer in self.layers]
        while True:
            before = sum(map(len, stuck))
            # Most steps lead on to the next layer, so that going backwards settles most states at once.
            for depth in reversed(range(len(stuck))):
                stuck[depth] = self._without_a_way(stuck[depth], everything, good)
            if sum(map(len, stuck)) == before:
                return stuck

    def _without_a_way(self, layer: Ints, everything: Ints, good: Bools) -> Ints:
        """Return the states of which no step without a fault leads to a good one; the others are good by that."""
        left: list[Ints] = [layer[:0]]
        for states in pieces(layer, _AT_ONCE):
            steps = self.tables.steps(states)
            sources, targets = steps.sources[steps.without_fault], steps.targets[steps.without_fault]
            reached = sorted_set(targets)
            reached = reached[good[np.searchsorted(everything, reached)]]
            has_way = np.zeros(len(states), np.bool_)
            has_way[sources[holds(reached, targets)]] = True
            good[np.searchsorted(everything, states[has_way])] = True
            left.append(states[~has_way])
        return np.concatenate(left)


def explore(world: World, *, most_states: int = 10_000_000, stop_at_violation: bool = False) -> Explored:
    """Visit every state that can be reached, and report what was found."""
    since = time.monotonic()
    search = Search(world, most_states)
    complete = search.run(stop_at_violation=stop_at_violation)
    found = Explored(states=search.states, steps=search.steps, runs=len(world.runs), complete=complete)
    for violation in search.found:
        found.violations[violation] = search.schedule_to_break(violation)
    if complete:
        stuck = search.stuck()
        found.stuck = sum(map(len, stuck))
        if found.stuck:
            depth, layer = next((depth, layer) for depth, layer in enumerate(stuck) if layer.size)
            found.stuck_schedule = search.schedule_to(int(layer[0]), depth)
    found.seconds = time.monotonic() - since
    return found
