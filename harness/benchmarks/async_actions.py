"""What an event loop adds: `await AsyncGate.fire` against `Gate.fire`, one after the other, on the same journal."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from harness.benchmarks import null
from harness.benchmarks.report import Measure, ratio
from harness.benchmarks.timing import BenchmarkFailed, quiet_median_us, timed_ns
from harness.postgres.server import PostgresServer
from interlock import AsyncGate, Committed, Gate

_ROUNDS, _QUICK_ROUNDS = 12, 3
_ACTIONS = 25


def measure_async(*, quick: bool) -> list[Measure]:
    """Measure on both journals."""
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder, PostgresServer.start() as server:
        urls = {"SQLite": f"sqlite:///{Path(folder, 'gate.db')}", "PostgreSQL": server.create_database("bench")}
        return [asyncio.run(_compare(journal, url, rounds)) for journal, url in urls.items()]


async def _compare(journal: str, url: str, rounds: int) -> Measure:
    awaited: list[list[int]] = []
    called: list[list[int]] = []
    with Gate.open(url, targets=[null.null_target]) as gate:
        async with AsyncGate.open(url, targets=[null.null_target]) as async_gate:
            for turn in range(rounds + 1):
                first, second = ([f"{kind}-{turn}-{i}" for i in range(_ACTIONS)] for kind in ("sync", "async"))
                for name in (*first, *second):
                    null.grant(gate, name)
                called.append(timed_ns([partial(null.fire, gate, name) for name in first]))
                awaited.append(await _awaited_ns(async_gate, second))
    # The first round warms up.
    us, base_us = quiet_median_us(awaited[1:]), quiet_median_us(called[1:])
    return ratio("async", f"{journal}, one after the other, median", us, base_us, limit=None, base="for Gate")


async def _awaited_ns(gate: AsyncGate, names: Sequence[str]) -> list[int]:
    durations: list[int] = []
    for name in names:
        started = perf_counter_ns()
        outcome = await gate.fire(name, null.refund(), approval=name)
        if not isinstance(outcome, Committed) or outcome.receipt.key != name:
            raise BenchmarkFailed(f"{name} ended as {type(outcome).__name__}, not as Committed")
        durations.append(perf_counter_ns() - started)
    return durations
