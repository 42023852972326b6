"""`python -m harness.benchmarks`: measure, write `bench.md` and `bench.json`, and exit non-zero past a limit."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.benchmarks.machine import this_machine
from harness.benchmarks.report import Measure, Report
from harness.benchmarks.timing import BenchmarkFailed


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


def _reads() -> Part:
    from harness.benchmarks.reads import measure_reads

    return measure_reads


def _recovery() -> Part:
    from harness.benchmarks.recovery import measure_recovery

    return measure_recovery


PARTS: Mapping[str, Callable[[], Part]] = {"actions": _actions, "reads": _reads, "recovery": _recovery}
"""Loaded when they are run: the SDKs that one of them drives take seconds."""


def run(parts: Mapping[str, Callable[[], Part]], *, quick: bool) -> Report:
    """Run the parts one after the other. One that fails is reported, and the others go on."""
    machine = this_machine()
    measures: list[Measure] = []
    failures: list[str] = []
    for name, load in parts.items():
        print(f"measuring {name} …", file=sys.stderr)
        try:
            measures += load()(quick=quick)
        except BenchmarkFailed as error:
            failures.append(f"{name}: {error}")
    return Report(machine=machine, quick=quick, measures=measures, failures=failures)


def main(arguments: Sequence[str] | None = None, parts: Mapping[str, Callable[[], Part]] = PARTS) -> int:
    """Run what the command line asks for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.benchmarks", description=__doc__)
    parser.add_argument("--only", choices=sorted(parts), action="append", help="this part only; may be given again")
    parser.add_argument("--quick", action="store_true", help="a short run, for finding mistakes and not for figures")
    parser.add_argument("--out", type=Path, default=Path("results"), help="the folder for bench.md and bench.json")
    asked = parser.parse_args(arguments)
    report = run({name: load for name, load in parts.items() if not asked.only or name in asked.only}, quick=asked.quick)
    report.write(asked.out)
    print(report.to_markdown())
    print(f"written to {asked.out / 'bench.md'} and {asked.out / 'bench.json'}", file=sys.stderr)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
