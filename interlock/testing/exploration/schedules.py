"""One worker: every schedule of one action with one fault, or with two crashes, counted and carried out.

A schedule is a path from the beginning to an end. Paths that meet go on alike, so each step is carried out once and the paths
are counted; every request is a step of its own. While nothing goes wrong, time passes only where the worker has been told to
come back later; a pause in the middle is a fault. What a crash leaves behind (a request on its way, what happens before the next
start) is branched over in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict

from interlock.domain.recovery import Row
from interlock.testing.exploration.canonical import functions_of, kept_value
from interlock.testing.exploration.scope import SmallProfile
from interlock.testing.exploration.state import Faults, State, Step
from interlock.testing.exploration.workers import Run
from interlock.testing.exploration.world import World, described

LONGEST_PAUSE = 6
"""In ticks: past every deadline, claim and horizon."""
MOST_STEPS = 500
"""In a schedule: several times as many as any takes that comes to an end."""
CHANGES = 2
"""How often the world may change between a crash and the next start."""
CRASHES = frozenset(("kill",))
BEFORE, ON_ITS_WAY, AFTER = "before", "on its way", "after"
FIRED_ANEW, START, GO_ON = "no action: fired anew", "nothing dispatched: start", "nothing sent: go on"
FOUND, ENDED = "found", "ended already"
ROWS = (FIRED_ANEW, START, GO_ON, FOUND, *(row.name.replace("_", " ").lower() for row in Row), ENDED)
"""What recovery may make of a crash: the rows of the recovery table, and what needs none of them."""


class Options(TypedDict):
    """What distinguishes one kind of schedules."""

    faults: int
    crashes_only: bool


KINDS: dict[str, Options] = {
    "one fault": {"faults": 1, "crashes_only": False},
    "two crashes": {"faults": 2, "crashes_only": True},
}
MORE_KINDS: dict[str, Options] = {**KINDS, "two faults": {"faults": 2, "crashes_only": False}}
"""With every pair of faults, crashes among them; it takes minutes."""


class Cell(NamedTuple):
    """A crash and what recovery made of it.

    Args:
        request: the request beside which the worker was killed.
        side: before it, or after it was carried out.
        row: what the next run found, as a row of the recovery table or in words.
    """

    request: str
    side: str
    row: str


class Node(NamedTuple):
    """A state, with what a schedule may still do.

    Args:
        state: the state of the world.
        faults: how many more may happen.
        waits: whether the worker was told to come back later.
        changes: how many times the world may still change before another worker starts, after a crash.
        crash: beside what it was killed, until it is known what recovery makes of it.
        last: the last request that was carried out.
    """

    state: State
    faults: int
    waits: bool = False
    changes: int = 0
    crash: tuple[tuple[str, str], ...] | None = None
    last: str = ""


@dataclass(slots=True)
class Enumerated:
    """What the schedules of one profile came to.

    Args:
        schedules: how many there are.
        steps: how many different steps they are made of.
        cells: in how many places each cell was reached.
        prefixes: which events of the action were durable at some moment.
        ends: how many different ends of each status there are.
        violations: the shortest schedule found to each violation.
        endless: schedules that come to no end: they come back to where they were, or go on and on.
    """

    schedules: int = 0
    steps: int = 0
    cells: Counter[Cell] = field(default_factory=Counter[Cell])
    prefixes: Counter[tuple[str, ...]] = field(default_factory=Counter[tuple[str, ...]])
    ends: Counter[str] = field(default_factory=Counter[str])
    violations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    endless: list[list[str]] = field(default_factory=list[list[str]])

    def add(self, other: Enumerated) -> None:
        """Add another profile's."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.cells += other.cells
        self.prefixes += other.prefixes
        self.ends += other.ends
        self.violations |= other.violations
        self.endless += other.endless


@dataclass(slots=True)
class _Opened:
    """A node on the trail, the steps that are still to be taken from it, and the paths that were counted so far."""

    node: Node
    following: list[tuple[Node, str]]
    paths: int = 0


class Enumeration:
    """All schedules of one worker with a profile.

    Args:
        profile: what the provider can do.
        faults: how many faults a schedule has at most.
        crashes_only: whether kills are the only faults; the world may change after each then.
    """

    def __init__(self, profile: SmallProfile, *, faults: int, crashes_only: bool) -> None:
        self.world = World(
            profile,
            Faults(
                workers=1,
                orphans=2,
                attempts=4,
                locks_are_lost=False,
                premises_change=True,
                resolve=False,
                journal=not crashes_only,
                reads=not crashes_only,
                propose=True,
                every_request=True,
            ),
            keep=frozenset(("row",)),
        )
        self.crashes_only = crashes_only
        self.found = Enumerated()
        self._first = Node(self.world.initial(), faults)
        self._paths: dict[Node, int] = {}
        self._rows: dict[int, str | None] = {}

    def run(self) -> Enumerated:
        """Carry every schedule out, and count them: depth first, each node once."""
        trail, words = [self._opened(self._first, [])], list[str]()
        on_trail = {self._first}
        while trail:
            here = trail[-1]
            if not here.following:
                trail.pop()
                on_trail.discard(here.node)
                self._paths[here.node] = here.paths or 1
                if trail:
                    words.pop()
                    trail[-1].paths += self._paths[here.node]
                continue
            child, step = here.following.pop()
            if child in on_trail:
                self.found.endless.append([*words, step])
            elif child in self._paths:
                here.paths += self._paths[child]
            elif len(words) == MOST_STEPS:
                # It writes on and on, and so never comes back to where it was. There is no end to what could be enumerated.
                self.found.endless.append([*words, step])
                break
            else:
                words.append(step)
                on_trail.add(child)
                trail.append(self._opened(child, words))
        self.found.schedules = self._paths.get(self._first, 0)
        return self.found

    def _opened(self, node: Node, words: list[str]) -> _Opened:
        self.found.prefixes[self.world.journals.logs[node.state.journal].prefix] += 1
        following = [(child, step.words) for child, step in self._following(node) if not self._violates(step, words)]
        self.found.steps += len(following)
        if not following:
            self.found.ends[str(self.world.journals.facts[node.state.journal].status)] += 1
        return _Opened(node, following)

    def _violates(self, step: Step, words: list[str]) -> bool:
        violation = step.violation or self.world.violation(step.state)
        if violation is not None:
            self.found.violations.setdefault(violation, [*words, step.words])
        return violation is not None

    def _following(self, node: Node) -> Iterator[tuple[Node, Step]]:
        world, state = self.world, node.state
        worker = world.workers.values[state.workers[0]]
        idle = not worker.run
        if world.is_end(state) and idle and not world.orphans.values[state.orphans]:
            return
        steps = list(world.steps(state))
        for step in steps:
            child = self._child(node, step, idle=idle)
            if child is not None:
                yield self._seen(child, step), step
        if node.changes:
            yield from self._meanwhile(node, steps)
        if node.faults and not idle and not self.crashes_only:
            yield from self._pauses(node)

    def _child(self, node: Node, step: Step, *, idle: bool) -> Node | None:
        """Return what follows from a step; None where it has no place in a schedule."""
        after = self.world.canonical(step.state)
        if step.by in ("orphan", "provider"):
            lost = step.fault == "lost"
            return (
                node._replace(state=after) if not step.fault or (lost and self.crashes_only) else self._faulty(node, step, after)
            )
        if step.by == "time" and not step.fault:
            return node._replace(state=after, waits=False) if idle and node.waits else None
        if step.fault:
            return self._faulty(node, step, after)
        if idle and node.waits:
            return None
        ended = not self.world.workers.values[after.workers[0]].run
        last = self._last(node) or node.last
        return node._replace(state=after, waits=ended, changes=0, last="" if ended else last)

    def _faulty(self, node: Node, step: Step, after: State) -> Node | None:
        if not node.faults or (self.crashes_only and step.fault not in CRASHES):
            return None
        if step.fault not in CRASHES:
            waits = not self.world.workers.values[after.workers[0]].run
            return node._replace(state=after, faults=node.faults - 1, waits=waits and step.by == "worker")
        worker = self.world.workers.values[node.state.workers[0]]
        if not worker.run:
            return None
        return Node(after, node.faults - 1, changes=CHANGES * self.crashes_only, crash=self._place(node))

    def _place(self, node: Node) -> tuple[tuple[str, str], ...]:
        """Return beside what the worker is killed: the request that it waits to make, and the one that it has made."""
        worker = self.world.workers.values[node.state.workers[0]]
        here = self._last(node)
        if worker.air:
            return ((here, ON_ITS_WAY),)
        return ((here, BEFORE), (node.last, AFTER)) if node.last else ((here, BEFORE),)

    def _last(self, node: Node) -> str:
        worker = self.world.workers.values[node.state.workers[0]]
        request = self.world.runs.requests[worker.run]
        return described(request) if request is not None else ""

    def _meanwhile(self, node: Node, steps: list[Step]) -> Iterator[tuple[Node, Step]]:
        """What may happen while nobody is at work: a revocation, a premise that turns bad, 25 hours, the horizon's end."""
        for step in steps:
            if step.fault in ("revoked", "premise", "leap"):
                yield node._replace(state=self.world.canonical(step.state), changes=node.changes - 1), step
        for child, step in self._ticks(node, LONGEST_PAUSE):
            if step.words.startswith(f"{LONGEST_PAUSE} "):
                yield child._replace(changes=node.changes - 1), step

    def _pauses(self, node: Node) -> Iterator[tuple[Node, Step]]:
        for child, step in self._ticks(node, LONGEST_PAUSE):
            yield child._replace(faults=node.faults - 1), step

    def _ticks(self, node: Node, most: int) -> Iterator[tuple[Node, Step]]:
        state = node.state
        for number in range(1, most + 1):
            tick = next((step for step in self.world.steps(state) if step.by == "time" and not step.fault), None)
            if tick is None:
                return
            state = self.world.canonical(tick.state)
            yield node._replace(state=state), tick._replace(words=f"{number} ticks pass", state=state)

    # --- what recovery makes of a crash

    def _seen(self, child: Node, step: Step) -> Node:
        idle = not self.world.workers.values[child.state.workers[0]].run
        if child.crash is None or (idle and not child.waits and not self.world.is_end(child.state)):
            return child
        row = self._row(child, step)
        if row is None:
            return child
        for request, side in child.crash:
            self.found.cells[Cell(request, side, row)] += 1
        return child._replace(crash=None)

    def _row(self, child: Node, step: Step) -> str | None:
        if self.world.is_end(child.state) and not self.world.workers.values[child.state.workers[0]].run:
            return ENDED
        run = self.world.workers.values[child.state.workers[0]].run
        if not run:
            return None
        if run not in self._rows:
            self._rows[run] = self._row_of(run)
        del step
        return self._rows[run]

    def _row_of(self, run: int) -> str | None:
        copy = Run(self.world.runs.histories[run], self.world.runs.sender)
        names, row = functions_of(copy.generator), kept_value(copy.generator, "row")
        for name, words in _ROWS.items():
            if name in names:
                return words
        if row is not None:
            return str(row.name).replace("_", " ").lower()
        return FOUND if "record_done" in names else None


_ROWS = {"_begin": FIRED_ANEW, "_start": START, "_begin_unsent": GO_ON}
