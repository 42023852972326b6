"""Rounds: everything that is compared runs in turn, again and again, so that what else the machine does meets all alike."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.benchmarks.crew import PROCESSES, Crew, Done, Task
from harness.benchmarks.timing import BenchmarkFailed, Spread

_WARM_UP_ACTIONS = 3


@dataclass(frozen=True, slots=True)
class Contest:
    """One peer with so many writers."""

    peer: str
    writers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long to measure.

    Args:
        rounds: how many are counted; two more before them warm up, and say how many actions are a round.
        round_s: how long one contest takes in a round, about.
        most_actions: for each writer in a round.
    """

    rounds: int
    round_s: float
    most_actions: int = 500


@dataclass(frozen=True, slots=True)
class Rounds:
    """What one contest came to, round by round."""

    done: Sequence[Done]

    @property
    def per_s(self) -> float:
        """Actions a second: the median of the rounds."""
        return statistics.median(each.per_s for each in self.done)

    @property
    def p50_ms(self) -> float:
        """The median of the rounds' median durations, in milliseconds."""
        return statistics.median(Spread.of(each.durations_ns).median_us for each in self.done) / 1000

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of all durations, in milliseconds: a round holds too few."""
        return Spread.of([ns for each in self.done for ns in each.durations_ns]).p99_us / 1000


def play(crew: Crew, contests: Sequence[Contest], length: Length) -> Mapping[Contest, Rounds]:
    """Run every contest once in each round.

    Raises:
        BenchmarkFailed: one could not be run.
    """
    actions = dict.fromkeys(contests, _WARM_UP_ACTIONS)
    done: dict[Contest, list[Done]] = {contest: [] for contest in contests}
    for turn in range(length.rounds + 2):
        for contest in contests:
            name = f"{contest.peer}-{contest.writers}-{turn}"
            found = crew.run(Task(peer=contest.peer, name=name, writers=contest.writers, actions=actions[contest]))
            actions[contest] = fitting(found.per_s, contest.writers, length)
            done[contest].append(found)
    return {contest: Rounds(each[2:]) for contest, each in done.items()}


def fitting(per_s: float, writers: int, length: Length) -> int:
    """Return how many actions each writer has time for in a round, at least one."""
    return max(1, min(length.most_actions, round(per_s * length.round_s / writers)))


def pace(crew: Crew, contests: Sequence[Contest], per_s: Mapping[int, float], length: Length) -> Mapping[Contest, Rounds]:
    """Run every contest in turn, with actions that are due at a rate, whether the one before is done or not.

    Args:
        crew: who runs them.
        contests: what to run.
        per_s: how many actions are due a second, by the number of writers.
        length: how long.

    Raises:
        BenchmarkFailed: one could not be run.
    """
    done: dict[Contest, list[Done]] = {contest: [] for contest in contests}
    for turn in range(length.rounds):
        for contest in contests:
            rate = per_s[contest.writers]
            if rate <= 0:
                raise BenchmarkFailed(f"{contest.peer} with {contest.writers} writers did nothing")
            task = Task(
                peer=contest.peer,
                name=f"{contest.peer}-{contest.writers}-paced-{turn}",
                writers=contest.writers,
                actions=fitting(rate, contest.writers, length),
                interval_s=contest.writers / rate,
            )
            done[contest].append(crew.run(task))
    return {contest: Rounds(each) for contest, each in done.items()}


def writers_in_words(writers: int) -> str:
    """Return how many writers there are, and how they are spread."""
    if writers == 1:
        return "1 writer"
    threads = -(-writers // PROCESSES)
    return f"{writers} writers ({PROCESSES} process{'es' if PROCESSES > 1 else ''} of {threads} threads)"
