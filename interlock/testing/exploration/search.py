"""A search over every state of the small world, breadth first, so that the first schedule found is the shortest."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field

from interlock.testing.exploration.state import State, Step
from interlock.testing.exploration.tables import Tables
from interlock.testing.exploration.world import World


@dataclass(slots=True)
class Explored:
    """What an exploration found.

    Args:
        states: how many different states there are.
        steps: how many steps lead from one to another.
        runs: how many different workers took part.
        complete: whether there is nothing else.
        violations: the shortest schedule to each violation, in plain words.
        stuck: how many states there are from which no end can be reached although nothing more goes wrong.
        stuck_schedule: the shortest schedule to one of them.
        seconds: how long it took.
    """

    states: int = 0
    steps: int = 0
    runs: int = 0
    complete: bool = True
    violations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    stuck: int = 0
    stuck_schedule: list[str] = field(default_factory=list[str])
    seconds: float = 0.0


class Search:
    """A breadth-first search over the states of a world with two workers."""

    def __init__(self, world: World, most_states: int) -> None:
        self.world, self.most_states = world, most_states
        self.tables = Tables(world)
        first = self.tables.packed(world.initial())
        self.order = array("Q", [first])
        self.numbers: dict[int, int] = {first: 0}
        self.parents = array("i", [-1])
        self.dead = bytearray([0])
        self.sources, self.targets = array("i"), array("i")
        self.found: dict[str, tuple[int, int]] = {}
        self.steps = 0

    def run(self, *, stop_at_violation: bool = False) -> bool:
        """Explore; return whether there is nothing else."""
        number = 0
        while number < len(self.order):
            if len(self.order) > self.most_states or (stop_at_violation and self.found):
                return False
            if not self.dead[number]:
                self._expand(number)
            number += 1
        return True

    def _expand(self, number: int) -> None:
        numbers, order = self.numbers, self.order
        for after, fault, violation in self.tables.successors(order[number]):
            self.steps += 1
            target = numbers.get(after)
            if target is None:
                target = self._met(after, number)
            if violation is not None:
                self.found.setdefault(violation, (number, target))
            if not fault:
                self.sources.append(number)
                self.targets.append(target)

    def _met(self, packed: int, source: int) -> int:
        target = self.numbers[packed] = len(self.order)
        self.order.append(packed)
        self.parents.append(source)
        broken = self.tables.scene_of(packed).broken
        self.dead.append(broken is not None)
        if broken is not None:
            self.found.setdefault(broken, (source, target))
        return target

    def schedule(self, source: int, target: int, violation: str | None = None) -> list[str]:
        """Return the steps from the beginning to one state and on to another, in plain words."""
        path = [target] if target != source else []
        while source >= 0:
            path.append(source)
            source = self.parents[source]
        path.reverse()
        # It is replayed without putting the workers in order, so that each keeps its name.
        here, words = self.world.normal(self.world.initial()), list[str]()
        for target_number in path[1:]:
            last = target_number == target
            step = self._step_to(here, self.order[target_number], violation if last else None)
            words.append(step.words)
            here = self.world.normal(step.state)
        return words

    def _step_to(self, here: State, there: int, violation: str | None) -> Step:
        steps = [step for step in self.world.steps(here) if self.tables.packed(step.state) == there]
        return next((step for step in steps if step.violation == violation), steps[0])

    def stuck(self) -> list[int]:
        """Return the states from which no end can be reached without faults."""
        size = len(self.order)
        starts = array("i", [0]) * (size + 1)
        for target in self.targets:
            starts[target + 1] += 1
        for number in range(size):
            starts[number + 1] += starts[number]
        place, reached_from = array("i", starts), array("i", [0]) * len(self.targets)
        for source, target in zip(self.sources, self.targets, strict=True):
            reached_from[place[target]] = source
            place[target] += 1
        good = bytearray(size)
        todo = [number for number in range(size) if self.dead[number] or self.tables.scene_of(self.order[number]).is_end]
        for number in todo:
            good[number] = 1
        while todo:
            number = todo.pop()
            for at in range(starts[number], starts[number + 1]):
                source = reached_from[at]
                if not good[source]:
                    good[source] = 1
                    todo.append(source)
        return [number for number in range(size) if not good[number]]


def explore(world: World, *, most_states: int = 10_000_000, stop_at_violation: bool = False) -> Explored:
    """Visit every state that can be reached, and report what was found."""
    since = time.monotonic()
    search = Search(world, most_states)
    complete = search.run(stop_at_violation=stop_at_violation)
    found = Explored(states=len(search.order), steps=search.steps, runs=len(world.runs), complete=complete)
    for violation, (source, target) in search.found.items():
        found.violations[violation] = search.schedule(source, target, violation)
    if complete:
        stuck = search.stuck()
        found.stuck = len(stuck)
        if stuck:
            found.stuck_schedule = search.schedule(stuck[0], stuck[0])
    found.seconds = time.monotonic() - since
    return found
