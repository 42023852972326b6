"""What was measured, on which machine, and whether it is within its limits: for a terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from harness.benchmarks.machine import Machine

_TITLES = {
    "actions": "Added time per committed action on SQLite, against two raw durable commits of the same bytes",
    "reads": "Reads on a large journal, against a small one",
    "recovery": "From crash to close, process start included",
}
_UNITS = {"ratio": "x", "seconds": " s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure.

    Args:
        part: which benchmark it is of.
        name: what was measured.
        value: the figure.
        unit: whether it is a ratio or seconds.
        limit: what it may be at most; None where it is for information.
        seen: the measurements behind it, in words.
    """

    part: str
    name: str
    value: float
    unit: Literal["ratio", "seconds"]
    limit: float | None
    seen: str

    @property
    def verdict(self) -> str:
        """`held`, `EXCEEDED`, or nothing where there is no limit. What is no number has not held."""
        if self.limit is None:
            return ""
        return "held" if self.value <= self.limit else "EXCEEDED"


def ratio(part: str, name: str, us: float, base_us: float, *, limit: float | None, base: str) -> Measure:
    """Return how many times the base something took.

    Args:
        part: which benchmark it is of.
        name: what was measured.
        us: how long it took, in microseconds.
        base_us: how long the base took, in microseconds.
        limit: what the ratio may be.
        base: what the base is, in words.
    """
    seen = f"{us:,.0f} µs against {base_us:,.0f} µs {base}"
    return Measure(part=part, name=name, value=us / base_us, unit="ratio", limit=limit, seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A run.

    Args:
        machine: where and when.
        quick: whether it was a short run, which is good for finding mistakes and not for figures.
        measures: the figures.
        failures: what could not be measured.
    """

    machine: Machine
    quick: bool
    measures: Sequence[Measure]
    failures: Sequence[str]

    @property
    def exit_code(self) -> int:
        """Return 0 where everything asked for was measured and is within its limits, else 1."""
        complete = bool(self.measures) and not self.failures
        return 0 if complete and all(measure.verdict != "EXCEEDED" for measure in self.measures) else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "machine": asdict(self.machine),
            "quick": self.quick,
            "measures": [{**asdict(measure), "verdict": measure.verdict} for measure in self.measures],
            "failures": list(self.failures),
            "exit_code": self.exit_code,
        }

    def to_markdown(self) -> str:
        """Return the report as a page with a table for each part."""
        machine = self.machine
        where = f"{machine.cpu}, {machine.cores} cores, load {machine.load:.1f}, Python {machine.python}, SQLite {machine.sqlite}"
        lines = ["# Benchmarks", "", f"{machine.at_utc}, commit {machine.commit}, {where}, {machine.system}."]
        lines += ["", "Read them as ratios: a machine is never alone. Both sides of a ratio were measured in turn, in one run."]
        if machine.load > machine.cores:
            lines += ["", "The machine was busy: waiting for it is on both sides of a ratio, and makes it smaller than it is."]
        if self.quick:
            lines += ["", "A quick run: too short for figures to be quoted."]
        for part in dict.fromkeys(measure.part for measure in self.measures):
            lines += ["", f"## {_TITLES[part]}", "", "| | value | limit | verdict | measured |", "|---|---|---|---|---|"]
            lines += [_row(measure) for measure in self.measures if measure.part == part]
        lines += [f"\nNOT MEASURED: {failure}" for failure in self.failures]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        """Write `bench.md` and `bench.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "bench.md").write_text(self.to_markdown(), encoding="utf-8")
        (folder / "bench.json").write_text(json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _row(measure: Measure) -> str:
    unit = _UNITS[measure.unit]
    limit = f"{measure.limit:g}{unit}" if measure.limit is not None else ""
    return f"| {measure.name} | {measure.value:.2f}{unit} | {limit} | {measure.verdict} | {measure.seen} |"
