"""From crash to close of the column `interlock`, in every scenario: the harness's own cases, one at a time."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from harness.benchmarks.report import Measure
from harness.benchmarks.timing import BenchmarkFailed
from harness.case import Case, CaseResult
from harness.scenarios import SCENARIOS, Scenario
from harness.world import LocalWorld

LIMIT_S = 2.0
REPETITIONS = 3


def measure_recovery(*, quick: bool) -> list[Measure]:
    """Carry each scenario's case out again and again, between real processes and the stand-ins."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder, LocalWorld(Path(folder)) as world:
        return [
            closing_time(scenario, [Case(world, scenario, "interlock", Path(folder), turn).carry() for turn in turns])
            for scenario in SCENARIOS.values()
            # Without burning a case waits for the horizon, most of ten seconds, and has no limit: once is enough to show it.
            for turns in [range(1, 2 if quick or not scenario.settings.burn else REPETITIONS + 1)]
        ]


def closing_time(scenario: Scenario, results: list[CaseResult]) -> Measure:
    """Return the median from crash to close. Where burning is switched off, the row waits for the horizon and has no limit.

    Raises:
        BenchmarkFailed: a case did not end as it has to, so its time says nothing.
    """
    wrong = [result for result in results if not result.as_wanted or result.crash_to_close_s is None]
    if wrong:
        raise BenchmarkFailed(f"{scenario.name} ended as {wrong[0].verdict}, {wrong[0].answer_verdict}: {wrong[0].problem}")
    took_s = [result.crash_to_close_s for result in results if result.crash_to_close_s is not None]
    return Measure(
        part="recovery",
        name=scenario.name,
        value=statistics.median(took_s),
        unit="seconds",
        limit=LIMIT_S if scenario.settings.burn else None,
        seen=f"median of {len(took_s)}, {min(took_s):.2f} to {max(took_s):.2f} s",
    )
