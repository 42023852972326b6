"""The search over arrays visits what a plain search visits, and finds what is broken and what is stuck as soon as that one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from interlock.domain.action import Status
from interlock.testing.exploration.arrays import Lines, SortedSets, Table, holds, sorted_set
from interlock.testing.exploration.counts import explored
from interlock.testing.exploration.families import FAMILIES
from interlock.testing.exploration.scope import all_profiles
from interlock.testing.exploration.search import explore
from interlock.testing.exploration.state import Faults, State, Step
from interlock.testing.exploration.world import World

PROFILES = list(all_profiles())


class Plain:
    """A breadth-first search without tables or arrays: the world is asked for every step of every state."""

    def __init__(self, world: World) -> None:
        self.world = world
        first = world.canonical(world.initial())
        self.depths = {first: 0}
        self.ways: dict[State, set[State]] = {}
        self.steps = 0
        self.broken: dict[str, int] = {}
        todo = [first]
        for state in todo:
            for step in self._steps(state):
                if step not in self.depths:
                    self.depths[step] = self.depths[state] + 1
                    todo.append(step)

    def _steps(self, state: State) -> Iterator[State]:
        self.ways[state] = set()
        if (broken := self.world.violation(state)) is not None:
            self.broken.setdefault(broken, self.depths[state])
            return
        for step in self.world.steps(state):
            after = self.world.canonical(step.state)
            self.steps += 1
            if step.violation is not None:
                self.broken.setdefault(step.violation, self.depths[state] + 1)
            if not step.fault:
                self.ways[state].add(after)
            yield after

    def stuck(self) -> set[State]:
        """Return the states from which no way without faults leads to an end."""
        good = {state for state in self.depths if self.world.is_end(state) or self.world.violation(state) is not None}
        before = -1
        while before != len(good):
            before = len(good)
            good |= {state for state, ways in self.ways.items() if ways & good}
        return set(self.depths) - good


class Planted(World):
    """A world in which it is a violation that a revoked approval was used, and an Ambiguous action is no end."""

    def violation(self, state: State) -> str | None:
        """Return what the state breaks."""
        revoked = self.journals.facts[state.journal].revoked
        return "planted" if revoked and self.providers.values[state.provider].effects else super().violation(state)

    def is_end(self, state: State) -> bool:
        """Whether the action has come to an end; never where nobody can know."""
        return super().is_end(state) and self.journals.facts[state.journal].status is not Status.AMBIGUOUS

    def steps_while_idle(self, state: State) -> Iterator[Step]:
        """Yield steps that break something by themselves."""
        if self.journals.facts[state.journal].status is Status.COMMITTED:
            yield Step("a planted step", "", state, "planted step", by="world")


@pytest.mark.parametrize(
    ("number", "family"), [(6, "everything"), (8, "premises"), (2, "journal failures"), (7, "expiry after 1")]
)
def test_what_is_visited_is_what_a_plain_search_visits(number: int, family: str) -> None:
    """States and steps are counted alike, and nothing is broken or stuck in either."""
    found, plain = explore(World(PROFILES[number], FAMILIES[family])), Plain(World(PROFILES[number], FAMILIES[family]))
    assert (found.states, found.steps) == (len(plain.depths), plain.steps)
    assert (found.violations, found.stuck) == ({}, 0) == (plain.broken, len(plain.stuck()))


@pytest.mark.parametrize("number", [6, 7])
def test_planted_violations_and_stuck_states_are_found_by_the_shortest_schedule(number: int) -> None:
    """A state that is broken, a step that breaks something, and a state without a way to an end, as a plain search finds them."""
    faults = Faults(orphans=1)
    found, plain = explore(Planted(PROFILES[number], faults)), Plain(Planted(PROFILES[number], faults))
    assert set(plain.broken) == {"planted", "planted step"}
    assert {violation: len(schedule) for violation, schedule in found.violations.items()} == plain.broken
    assert found.violations["planted step"][-1] == "a planted step"
    stuck = plain.stuck()
    assert found.stuck == len(stuck) > 0
    assert len(found.stuck_schedule) == min(plain.depths[state] for state in stuck)


def test_a_search_that_gives_up_says_so() -> None:
    """With fewer states than there are, it is not complete, and nothing is said of what is stuck."""
    found = explore(World(PROFILES[6], FAMILIES["everything"]), most_states=300)
    assert not found.complete
    assert 300 < found.states < 1806


def test_families_of_one_profile_may_go_on_from_each_other() -> None:
    """A world beside another one of its profile takes over what runs do, and comes to the same counts."""
    families = ("late request", "premises", "revocation", "lost lock")
    for family, found in explored(PROFILES[8], families, most_states=100_000):
        alone = explore(World(PROFILES[8], FAMILIES[family]))
        assert (found.states, found.steps) == (alone.states, alone.steps)


def test_a_table_makes_each_number_once() -> None:
    """Keys by the thousand, many of them close together and many asked for again, keep the number that was made for them."""
    asked: list[int] = []

    def make(key: int) -> int:
        asked.append(key)
        return 3 * key

    table = Table(make)
    keys = np.arange(0, 50_000, 7)
    for part in (keys[:10], keys, keys[::-1] << 30, keys):
        assert np.array_equal(table[part], 3 * part)
    assert len(asked) == len(set(asked)) == len(table)


def test_lines_keep_their_order_and_their_key() -> None:
    """A key may have no line or many; each is told with the place of the key that was asked for."""
    lines = Lines(lambda key: [(key, line) for line in range(key % 4)])
    sources, keys, numbers = lines[np.array([3, 4, 1, 3])]
    assert sources.tolist() == [0, 0, 0, 2, 3, 3, 3]
    assert keys.tolist() == [3, 3, 3, 1, 3, 3, 3]
    assert numbers.tolist() == [0, 1, 2, 0, 0, 1, 2]


def test_sorted_sets_know_what_they_hold() -> None:
    """Whatever was added in whichever portions is held, and nothing else."""
    sets, random = SortedSets(), np.random.default_rng(1)
    seen: set[int] = set()
    for size in (1, 5, 40, 3, 300, 2, 0):
        new = sets.without(sorted_set(random.integers(0, 1_000, size)))
        assert not seen & set(new.tolist())
        seen |= set(new.tolist())
        sets.add(new)
    assert sets.merged().tolist() == sorted(seen)
    assert np.flatnonzero(holds(sets.merged(), np.arange(1_000))).tolist() == sorted(seen)
