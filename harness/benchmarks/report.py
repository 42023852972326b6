"""What was measured, on which machine, and whether it is within its limits: for a terminal, as Markdown, JSON and a chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from harness.benchmarks.chart import Rate, bars
from harness.benchmarks.machine import Machine

_TITLES = {
    "actions": "Added time per committed action on SQLite, against two raw durable commits of the same bytes",
    "postgres": "PostgreSQL: actions a second, against two raw durable commits of the same bytes on the same server",
    "half load": "PostgreSQL: time per action while as many are due as are half of full load",
    "slow disk": "PostgreSQL on a disk where a sync takes 1 ms longer",
    "takeover": "From SIGKILL of a holder to the end of its action by another process",
    "async": "AsyncGate, against Gate",
    "growth": "A large journal, against a small one",
    "recovery": "From crash to close, process start included",
    "signed log": "The log that is signed: what it adds, proofs, and receipts",
}
_UNITS = {"ratio": "x", "seconds": " s", "milliseconds": " ms", "per second": " a second", "kilobytes": " kB"}

Unit = Literal["ratio", "seconds", "milliseconds", "per second", "kilobytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure.

    Args:
        part: which benchmark it is of.
        name: what was measured.
        value: the figure.
        unit: what it is in.
        limit: what it may be; None where it is for information.
        bound: whether it may be at most that, or has to be at least that.
        seen: the measurements behind it, in words.
        rate: what it adds to the chart.
    """

    part: str
    name: str
    value: float
    unit: Unit
    limit: float | None
    seen: str
    bound: Literal["at most", "at least"] = "at most"
    rate: Rate | None = None

    @property
    def verdict(self) -> str:
        """`held`, `MISSED`, or nothing where there is no limit. What is no number has not held."""
        if self.limit is None:
            return ""
        within = self.value <= self.limit if self.bound == "at most" else self.value >= self.limit
        return "held" if within else "MISSED"


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
        return 0 if complete and all(measure.verdict != "MISSED" for measure in self.measures) else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "machine": asdict(self.machine),
            "quick": self.quick,
            "measures": [{**asdict(measure), "verdict": measure.verdict} for measure in self.measures],
            "failures": list(self.failures),
            "exit_code": self.exit_code,
        }

    def to_markdown(self, chart: str | None = None, made: str = "") -> str:
        """Return the report as a page with a table for each part.

        Args:
            chart: the file with the chart, beside the page.
            made: which command made it.
        """
        machine = self.machine
        lines = ["# Benchmarks", "", f"{machine.at_utc}, commit {machine.commit}, {machine.words}. {made}".rstrip()]
        lines += ["", "Read them as ratios: a machine is never alone. Both sides of a ratio were measured in turn, in one run."]
        if machine.load > machine.cores:
            lines += ["", _BUSY]
        if self.quick:
            lines += ["", "A quick run: too short for figures to be quoted."]
        for part in dict.fromkeys(measure.part for measure in self.measures):
            lines += ["", f"## {_TITLES[part]}", ""]
            lines += [f"![Actions a second]({chart})", ""] if chart and part == "postgres" else []
            lines += ["| | value | limit | verdict | measured |", "|---|---|---|---|---|"]
            lines += [_row(measure) for measure in self.measures if measure.part == part]
        lines += [f"\nNOT MEASURED: {failure}" for failure in self.failures]
        return "\n".join(lines) + "\n"

    def write(self, folder: Path, stem: str = "bench", made: str = "") -> None:
        """Write the page, the values and, where there are rates, the chart.

        Args:
            folder: where to.
            stem: what the files' names begin with.
            made: which command made them.
        """
        folder.mkdir(parents=True, exist_ok=True)
        rates = [measure.rate for measure in self.measures if measure.rate is not None]
        if rates:
            (folder / f"{stem}.svg").write_text(bars(rates), encoding="utf-8")
        page = self.to_markdown(f"{stem}.svg" if rates else None, made)
        (folder / f"{stem}.md").write_text(page, encoding="utf-8")
        values = json.dumps(self.to_dict(), indent=2, ensure_ascii=False)
        (folder / f"{stem}.json").write_text(values + "\n", encoding="utf-8")


_BUSY = (
    "The machine was busy. Where both sides of a ratio wait for the disk, that brings the ratio nearer to 1 than it is; where "
    "the yardstick waits for the disk and the other side for the processor, it makes it worse than it is."
)


def _row(measure: Measure) -> str:
    unit = _UNITS[measure.unit]
    limit = f"{measure.bound} {measure.limit:g}{unit}" if measure.limit is not None else ""
    return f"| {measure.name} | {measure.value:.2f}{unit} | {limit} | {measure.verdict} | {measure.seen} |"
