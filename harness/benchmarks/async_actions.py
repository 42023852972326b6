"""What an event loop adds: `await AsyncGate.fire` against `Gate.fire`, one after the other, on the same journal."""

from __future__ import annotations

import asyncio
import tempfile
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
    called: list[list[int]] = []
    awaited: list[list[int]] = []
    with Gate.open(url, targets=[null.null_target]) as gate:
        async with AsyncGate.open(url, targets=[null.null_target]) as async_gate:
            for turn in range(rounds + 1):
                names = [f"case-{turn}-{i}" for i in range(2 * _ACTIONS)]
                for name in names:
                    null.grant(gate, name)
                # One of each in turn: a disk is slow for a while, and then quick for a while.
                pairs = [
                    (timed_ns([partial(null.fire, gate, one)]), await _awaited_ns(async_gate, other))
                    for one, other in zip(names[::2], names[1::2], strict=True)
                ]
                called.append([ns for durations, _ in pairs for ns in durations])
                awaited.append([ns for _, ns in pairs])
    # The first round warms up.
    us, base_us = quiet_median_us(awaited[1:]), quiet_median_us(called[1:])
    return ratio("async", f"{journal}, one after the other, median", us, base_us, limit=None, base="for Gate")


async def _awaited_ns(gate: AsyncGate, name: str) -> int:
    started = perf_counter_ns()
    outcome = await gate.fire(name, null.refund(), approval=name)
    if not isinstance(outcome, Committed) or outcome.receipt.key != name:
        raise BenchmarkFailed(f"{name} ended as {type(outcome).__name__}, not as Committed")
    return perf_counter_ns() - started
