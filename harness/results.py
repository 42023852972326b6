"""The results of a run: tallies, what differs from what is expected, and the files that are written."""

from __future__ import annotations

import json
import os
import platform
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
from harness.case import KILLED, CaseResult
from harness.columns import COLUMNS
from harness.columns.job import Status
from harness.postgres.journals import JournalKind
from harness.scenarios import BURN_OFF, EXPECTED_TO_FAIL, SCENARIOS, Scenario
from harness.verdicts import HELD, AnswerVerdict
from harness.world import ROOT

LOCAL = "LOCAL"
LIVE = "LIVE (test mode)"

WHAT_IS_LOCAL = (
    "The payment provider is a stand-in on 127.0.0.1 that keeps the rules which Stripe documents; the real SDK speaks to it.",
    "The model is a scripted stand-in on 127.0.0.1 with wording drawn anew; the real SDK speaks to it.",
    "The 25 hours are moved clocks, the provider's and the gate's. The forgotten key is forgotten because it was told to be.",
    "Real are the processes, the SIGKILL, the SDKs, the database, and the ledger that the verdicts are read from.",
)
WHAT_IS_EMULATED = "EMULATED only: it needs a key that is forgotten, a moved clock, or figures of the stand-in"
LIMITS = (
    "One kill per case, at one of two points. Kills elsewhere, stopped processes and many workers at once are left to tests.",
    "Nothing happens between a hand-written column's last check and its send, so the matrix does not show that gap.",
    "The next worker starts at once. How long a supervisor takes to notice a death is not part of crash to close.",
    "Times were taken with as many cases at once as there are processors.",
    f"Rows with burning off use figures of the stand-in: it settles within {BURN_OFF.settle_s:g} s and carries on no failure.",
    f"Their send deadline is {BURN_OFF.send_deadline_s:g} s, their claim holds for {BURN_OFF.claim_ttl_s:g} s.",
    "Stripe states no such figures: without burning, and with the library's own, a refusing row ends as AMBIGUOUS.",
    "Locally the model always asks for the approved refund. What is sent comes from the approval, in every column.",
)


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
        live: whether it took place at the real services.
        journal: what the gate's journals were.
        started_at: in UTC.
        finished_at: in UTC.
        wall_s: how long it took, in seconds.
        scenarios: the rows that were asked for.
        columns: the columns that were asked for.
        not_run: rows that can't be had where it took place.
        cases: every case.
    """

    live: bool
    journal: JournalKind = JournalKind.SQLITE
    started_at: datetime
    finished_at: datetime
    wall_s: float
    scenarios: tuple[Scenario, ...]
    columns: tuple[str, ...]
    not_run: tuple[str, ...]
    cases: tuple[CaseResult, ...]

    @property
    def label(self) -> str:
        """Where it took place, in a word."""
        return LIVE if self.live else LOCAL

    @property
    def name(self) -> str:
        """What its files are called."""
        return "standalone" if self.journal is JournalKind.SQLITE else f"standalone-{self.journal.value}"

    @property
    def complete(self) -> bool:
        """Whether every cell of the matrix was run."""
        return len(self.scenarios) == len(SCENARIOS) and len(self.columns) == len(COLUMNS) and not self.not_run

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
    if case.column == "interlock" and not case.as_wanted:
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
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def as_json(run: Run) -> dict[str, Any]:
    """Return the results as JSON values."""
    gate_alone = [name for name in run.columns if name == "interlock"]
    return {
        "matrix": "standalone",
        "mode": run.label,
        "journal": str(run.journal),
        "started_at": run.started_at.isoformat(timespec="seconds"),
        "finished_at": run.finished_at.isoformat(timespec="seconds"),
        "wall_s": round(run.wall_s, 1),
        "processors": os.cpu_count(),
        "complete": run.complete,
        "versions": _versions(),
        "git_commit": _git_commit(),
        "what_is_local": [] if run.live else list(WHAT_IS_LOCAL),
        "not_run": dict.fromkeys(run.not_run, WHAT_IS_EMULATED),
        "limits": list(LIMITS),
        "columns": {name: COLUMNS[name].about for name in run.columns},
        "scenarios": {scenario.name: _scenario_json(scenario) for scenario in run.scenarios},
        "tallies": {name: asdict(run.tally(name)) for name in run.columns},
        "tallies_of_rows_of_its_own": {name: asdict(run.tally(name, interlock_only=True)) for name in gate_alone},
        "surprises": surprises(run.cases),
        "ledger": f"{run.name}-ledger.jsonl",
        "cases": [_case_json(case) for case in run.cases],
    }


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
    seconds = case.crash_to_close_s
    return built | {"starts": case.starts, "crash_to_close_s": None if seconds is None else round(seconds, 3)}


def _versions() -> dict[str, str]:
    libraries = {"interlock": "interlock-gate", "stripe": "stripe", "anthropic": "anthropic", "eventsourcing": "eventsourcing"}
    found = {name: version(distribution) for name, distribution in libraries.items()}
    return {"python": platform.python_version()} | found | {"SQLite": sqlite3.sqlite_version}


def _git_commit() -> str | None:
    """Return the commit that was run, with a mark where files differ from it; None outside a repository."""
    command = ["git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--abbrev=40", "--match", ""]
    try:
        described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None
