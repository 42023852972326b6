"""Durations: taken with the finest clock, and described by their median and 99th percentile."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns


class BenchmarkFailed(Exception):
    """Something could not be measured, or what was measured did not do what it is there for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A run's durations, described.

    Attributes:
        median_us: half of them took no longer, in microseconds.
        p99_us: 99 of 100 took no longer, in microseconds.
        mean_us: what all of them took together, shared out, in microseconds.
    """

    median_us: float
    p99_us: float
    mean_us: float

    @classmethod
    def of(cls, durations_ns: Sequence[int]) -> Spread:
        """Describe durations in nanoseconds.

        Raises:
            BenchmarkFailed: there are none.
        """
        if not durations_ns:
            raise BenchmarkFailed("nothing was timed")
        ordered = sorted(durations_ns)
        # The smallest value that at least 99 % do not exceed (nearest rank): never one that did not occur.
        p99 = ordered[-(-99 * len(ordered) // 100) - 1]
        return cls(median_us=statistics.median(ordered) / 1000, p99_us=p99 / 1000, mean_us=statistics.fmean(ordered) / 1000)


def quiet_median_us(rounds_ns: Sequence[Sequence[int]]) -> float:
    """Return the lower quartile of the rounds' medians, in microseconds: what it takes while nobody disturbs."""
    ordered = sorted(Spread.of(durations_ns).median_us for durations_ns in rounds_ns)
    return ordered[-(-len(ordered) // 4) - 1]


def timed_ns(calls: Sequence[Callable[[], object]]) -> list[int]:
    """Make the calls one after the other, and return how long each took, in nanoseconds."""
    durations: list[int] = []
    for call in calls:
        started = perf_counter_ns()
        call()
        durations.append(perf_counter_ns() - started)
    return durations
