"""`python -m harness.benchmarks`: measure, write the results, and exit non-zero past a limit."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.benchmarks.machine import this_machine
from harness.benchmarks.report import Measure, Report
from harness.benchmarks.timing import BenchmarkFailed
from harness.made_by import made_by
from harness.postgres.binaries import PostgresFailed, PostgresUnavailable


class Part(Protocol):
    """One benchmark."""

    def __call__(self, *, quick: bool) -> list[Measure]:
        """Measure.

        Args:
            quick: make it short, for finding mistakes and not for figures.

        Raises:
            BenchmarkFailed: what was measured did not do what it is there for.
        """
        ...


def _actions() -> Part:
    from harness.benchmarks.actions import measure_actions

    return measure_actions


def _recovery() -> Part:
    from harness.benchmarks.recovery import measure_recovery

    return measure_recovery


def _postgres() -> Part:
    from harness.benchmarks.postgres import measure_postgres

    return measure_postgres


def _slow_disk() -> Part:
    from harness.benchmarks.slow_disk import measure_slow_disk

    return measure_slow_disk


def _takeover() -> Part:
    from harness.benchmarks.takeover import measure_takeover

    return measure_takeover


def _async() -> Part:
    from harness.benchmarks.async_actions import measure_async

    return measure_async


def _growth() -> Part:
    from harness.benchmarks.growth import measure_growth

    return measure_growth


def _million() -> Part:
    from harness.benchmarks.growth import measure_million

    return measure_million


def _signed_log() -> Part:
    from harness.benchmarks.signed_log import measure_signed_log

    return measure_signed_log


def _large_log() -> Part:
    from harness.benchmarks.signed_log import measure_large_log

    return measure_large_log


PARTS: Mapping[str, Callable[[], Part]] = {
    "actions": _actions,
    "postgres": _postgres,
    "slow-disk": _slow_disk,
    "takeover": _takeover,
    "async": _async,
    "growth": _growth,
    "recovery": _recovery,
    "signed-log": _signed_log,
}
"""Loaded when they are run: the SDKs that some of them drive take seconds."""

MILLION: Mapping[str, Callable[[], Part]] = {"growth": _million, "signed-log": _large_log}
"""Takes minutes, and goes into files of its own."""


def run(parts: Mapping[str, Callable[[], Part]], *, quick: bool) -> Report:
    """Run the parts one after the other. One that fails is reported, and the others go on."""
    machine = this_machine()
    measures: list[Measure] = []
    failures: list[str] = []
    for name, load in parts.items():
        print(f"measuring {name} …", file=sys.stderr)
        started_s = time.monotonic()
        try:
            measures += load()(quick=quick)
        except (BenchmarkFailed, PostgresFailed, PostgresUnavailable) as error:
            failures.append(f"{name}: {error}")
        print(f"  took {time.monotonic() - started_s:.0f} s", file=sys.stderr)
    return Report(machine=machine, quick=quick, measures=measures, failures=failures)


def main(arguments: Sequence[str] | None = None, parts: Mapping[str, Callable[[], Part]] = PARTS) -> int:
    """Run what the command line asks for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.benchmarks", description=__doc__)
    parser.add_argument("--only", choices=sorted(parts), action="append", help="this part only; may be given again")
    parser.add_argument(
        "--million", action="store_true", help="growth, and the signed log, up to a million events, and nothing else"
    )
    parser.add_argument("--quick", action="store_true", help="a short run, for finding mistakes and not for figures")
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder for the results")
    asked = parser.parse_args(arguments)
    asked_for = MILLION if asked.million else parts
    chosen = {name: load for name, load in asked_for.items() if not asked.only or name in asked.only}
    report = run(chosen, quick=asked.quick)
    stem = "bench-million" if asked.million else "bench"
    report.write(asked.out, stem, made_by("harness.benchmarks", arguments))
    print(report.to_markdown())
    print(f"written to {asked.out / stem}.md and .json", file=sys.stderr)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
