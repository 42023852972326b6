"""Runs the crash test over every profile of the simulated provider, in as many processes as there are processors.

python -m harness.crash_test --schedules 200000
python -m harness.crash_test --schedules 5000 --journal postgres
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.made_by import made_by
from harness.postgres.journals import JournalKind, journal_database
from interlock.domain.profiles import CapabilityProfile
from interlock.testing import PROFILES, CrashTest, CrashTestFailure, Report, SimulatedProvider, SimulatedTarget

BATCH = 250
"""How many schedules a process plays before it reports."""

FEW = 10
"""How many schedules of one profile are played before it is another's turn, where the first failure is waited for."""

APART = 1_000_000
"""How far the seeds of one profile are from those of the next."""

_COLUMNS = ("profile", "schedules", "steps", "requests", "kills", "sends", "effects", "COMMITTED", "REFUSED", "AMBIGUOUS")
_MATTERED = """\
A fault mattered where it struck; one of the provider's own, where anything was sent after it. An approval that is granted again
mattered where it held no more. Everything else mattered where an action was open, and a gate could do it."""

_BAR = 40


@dataclass(frozen=True, slots=True)
class Batch:
    """Some schedules of one profile."""

    profile: str
    seed: int
    schedules: int
    database: str | None = None


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a batch: its counts, or what it found."""

    batch: Batch
    report: Report
    failure: str | None = None


def simulated(profile: CapabilityProfile, database: str | None = None) -> CrashTest[SimulatedProvider, SimulatedTarget]:
    """Return the crash test of a provider with this profile, in memory or on a PostgreSQL database."""
    return CrashTest(
        world=lambda clock: SimulatedProvider(clock, profile),
        target=SimulatedTarget,
        effect=lambda _provider, target: target.transfer(2000),
        other_effect=lambda _provider, target: target.transfer(1999),
        journal_url=database,
    )


def play(batch: Batch) -> Played:
    """Play a batch."""
    try:
        return Played(batch, simulated(PROFILES[batch.profile], batch.database).run(batch.schedules, seed=batch.seed))
    except CrashTestFailure as failure:
        return Played(batch, Report(), str(failure))


def batches(schedules: int, seed: int, database: str | None = None, size: int = BATCH) -> list[Batch]:
    """Share the schedules out among the profiles, so that all of them come up early, and none has the draws of another."""
    each, more = divmod(schedules, len(PROFILES))
    wanted = {name: each + (number < more) for number, name in enumerate(PROFILES)}
    return [
        Batch(name, seed + number * APART + done, min(size, count - done), database)
        for done in range(0, each + 1, size)
        for number, (name, count) in enumerate(wanted.items())
        if done < count
    ]


def until_found(schedules: int, seed: int) -> int | None:
    """Return how many schedules, of all profiles in turn, it took to find something; None where that many found nothing."""
    played = 0

    def count(_done: int) -> None:
        nonlocal played
        played += 1

    for batch in batches(schedules, seed, size=FEW):
        try:
            simulated(PROFILES[batch.profile]).run(batch.schedules, seed=batch.seed, progress=count)
        except CrashTestFailure:
            return played + 1
    return None


def run(schedules: int, seed: int, processes: int, database: str | None = None) -> tuple[dict[str, Report], list[Played]]:
    """Play everything, with a progress bar on standard error; return the counts by profile, and what was found."""
    reports = {name: Report() for name in PROFILES}
    found: list[Played] = []
    started_s = time.monotonic()
    with ProcessPoolExecutor(processes) as pool:
        for one in as_completed([pool.submit(play, batch) for batch in batches(schedules, seed, database)]):
            played = one.result()
            reports[played.batch.profile].merge(played.report)
            if played.failure is not None:
                found.append(played)
                print(f"\n{played.batch.profile}, seeds {played.batch.seed} and on:\n{played.failure}\n", flush=True)
            _show(sum(report.schedules for report in reports.values()), schedules, started_s, len(found))
    sys.stderr.write("\n")
    return reports, found


def table(reports: dict[str, Report], found: list[Played], seed: int, made: str) -> str:
    """Return the counts as a Markdown page, which says how it was made: the ends, what was drawn, and what was answered."""
    total = Report()
    for report in reports.values():
        total.merge(report)
    about = f"{datetime.now(UTC):%Y-%m-%d}, seed {seed}, {len(found)} violations. {made}"
    ends = _table(_COLUMNS, [_row(name, report) for name, report in [*reports.items(), ("all", total)]])
    drawn = _table(
        ("what happened", "drawn", "mattered"),
        [(what, f"{count:,}", f"{total.mattered[what]:,}") for what, count in sorted(total.drawn.items())],
    )
    answers = _table(("call: answer", "times"), [(what, f"{count:,}") for what, count in sorted(total.answers.items())])
    parts = (f"# Crash test\n\n{about}", ends, f"## What was drawn\n\n{_MATTERED}", drawn, "## What the target answered", answers)
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Run it from the command line; return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m harness.crash_test", description=__doc__)
    parser.add_argument("--schedules", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's; each has the next")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--journal", type=JournalKind, choices=list(JournalKind), default=JournalKind.SQLITE)
    parser.add_argument("--out", type=Path, help="a Markdown file for the counts")
    parser.add_argument("--until-found", action="store_true", help="print how many it took to find something, and no counts")
    given = parser.parse_args()
    if given.until_found:
        print(until_found(given.schedules, given.seed) or "nothing")
        return 0
    with journal_database(given.journal, in_memory=True) as database:
        reports, found = run(given.schedules, given.seed, given.processes, database)
    page = table(reports, found, given.seed, made_by("harness.crash_test"))
    print(page)
    if given.out is not None:
        given.out.write_text(page, encoding="utf-8")
    return 1 if found else 0


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(name: str, report: Report) -> tuple[str, ...]:
    numbers = (report.schedules, sum(report.steps.values()), report.requests, report.crashes, report.sends, report.effects)
    endings = (report.endings[status] for status in ("COMMITTED", "REFUSED", "AMBIGUOUS"))
    return (name, *(f"{number:,}" for number in (*numbers, *endings)))


def _show(done: int, wanted: int, started_s: float, found: int) -> None:
    filled = _BAR * done // max(1, wanted)
    rate = done / max(0.001, time.monotonic() - started_s)
    bar = "#" * filled + "." * (_BAR - filled)
    sys.stderr.write(f"\r[{bar}] {done:,}/{wanted:,}  {rate:,.0f}/s  {found} found ")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
