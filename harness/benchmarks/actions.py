"""Added time per committed action: `fire` with the null target, as a ratio to two raw commits of the same bytes.

Each round fires actions through the gate and then writes what it stored through plain `sqlite3`, in the same processes, so
that whatever else the machine does meets both alike. A busy disk makes both slow and their ratio small, so the median is that
of a quiet round: a quarter of the rounds were faster.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Literal

from harness.benchmarks import null, raw
from harness.benchmarks.report import Measure, ratio
from harness.benchmarks.timing import Spread, quiet_median_us, timed_ns
from interlock import Gate

_START_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much is fired.

    Args:
        processes: how many fire at once, each its own keys, on one file.
        rounds: how many are counted; one more before them warms up.
        actions: how many each process fires in a round.
        limited: which figure has a limit.
        limit: what its ratio may be.
    """

    processes: int
    rounds: int
    actions: int
    limited: Literal["median", "mean"]
    limit: float


# Several raw writers are not served in turn: SQLite lets one of them go on while the others sleep, so their median is that of
# one alone, and their 99th percentile a thousand times that. What standing in line costs shows in the mean.
LOADS = (
    Load(processes=1, rounds=25, actions=60, limited="median", limit=3.0),
    Load(processes=4, rounds=12, actions=25, limited="mean", limit=6.0),
    Load(processes=16, rounds=6, actions=12, limited="mean", limit=6.0),
)
QUICK_LOADS = (
    Load(processes=1, rounds=5, actions=30, limited="median", limit=3.0),
    Load(processes=4, rounds=3, actions=15, limited="mean", limit=6.0),
    Load(processes=16, rounds=2, actions=5, limited="mean", limit=6.0),
)


@dataclass(frozen=True, slots=True)
class Round:
    """What one process measured in one round, in nanoseconds an action."""

    gate_ns: list[int]
    raw_ns: list[int]


def measure_actions(*, quick: bool) -> list[Measure]:
    """Measure every load."""
    return [measure for load in (QUICK_LOADS if quick else LOADS) for measure in _measure(load)]


def _measure(load: Load) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        return ratios(load, run_processes(load, Path(folder)))


def ratios(load: Load, by_process: Sequence[Sequence[Round]]) -> list[Measure]:
    """Return the figures of a load, whichever of its processes they are of.

    The median is the lower quartile of the rounds' medians. The other figures need more than a round holds, and are taken over
    all of them.

    Args:
        load: what was run.
        by_process: the rounds of each process.
    """
    rounds = [
        Round([ns for one in parts for ns in one.gate_ns], [ns for one in parts for ns in one.raw_ns])
        for parts in zip(*by_process, strict=True)
    ]
    gate = Spread.of([ns for one in rounds for ns in one.gate_ns])
    plain = Spread.of([ns for one in rounds for ns in one.raw_ns])
    figures = {
        "median": (quiet_median_us([one.gate_ns for one in rounds]), quiet_median_us([one.raw_ns for one in rounds])),
        "p99": (gate.p99_us, plain.p99_us),
        "mean": (gate.mean_us, plain.mean_us),
    }
    name = f"{load.processes} process{'es' if load.processes > 1 else ''}"
    return [
        ratio(
            "actions",
            f"{name}, {figure}",
            us,
            base_us,
            limit=load.limit if figure == load.limited else None,
            base="for two raw commits",
        )
        for figure, (us, base_us) in figures.items()
    ]


def run_processes(load: Load, folder: Path) -> list[list[Round]]:
    """Run a load on files in this folder, and return the rounds of each process."""
    journal = folder / "gate.db"
    Gate.open(f"sqlite:///{journal}").close()
    with closing(raw.connect(journal)) as made, closing(raw.connect(folder / "raw.db")) as equal:
        raw.make_equal_schema(made, equal)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(load.processes, mp_context=context) as pool:
        barrier = manager.Barrier(load.processes, timeout=_START_TIMEOUT_S)
        running = [pool.submit(_process, load, folder, number, barrier) for number in range(load.processes)]
        failures = [error for process in running if (error := process.exception()) is not None]
        # The others break off because of the one that failed: theirs is not the reason.
        for error in sorted(failures, key=lambda error: isinstance(error, BrokenBarrierError)):
            raise error
        return [process.result() for process in running]


def _process(load: Load, folder: Path, number: int, together: Barrier) -> list[Round]:
    """Run every round in one of the processes. All of them wait for each other around each part."""
    journal = folder / "gate.db"
    try:
        with (
            Gate.open(f"sqlite:///{journal}", targets=[null.null_target]) as gate,
            closing(raw.connect(journal)) as stored,
            closing(raw.connect(folder / "raw.db")) as equal,
        ):
            rounds: list[Round] = []
            for turn in range(load.rounds + 1):
                names = [f"case-{number:02}-{turn:02}-{action:04}" for action in range(load.actions)]
                for name in names:
                    null.grant(gate, name)
                gate_ns = _together(together, [partial(null.fire, gate, name) for name in names])
                commits = [raw.stored_commits(stored, name, name) for name in names]
                raw_ns = _together(together, [partial(raw.write, equal, each) for each in commits])
                rounds.append(Round(gate_ns, raw_ns))
            return rounds[1:]
    except BaseException:
        together.abort()
        raise


def _together(together: Barrier, calls: Sequence[Callable[[], object]]) -> list[int]:
    together.wait()
    durations = timed_ns(calls)
    together.wait()
    return durations
