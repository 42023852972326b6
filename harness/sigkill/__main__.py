"""Plays SIGKILL schedules, several at once, and prints the counts: `python -m harness.sigkill --schedules 300 --seed 0`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.made_by import made_by
from harness.postgres.journals import JournalKind, journal_database
from harness.sigkill.counts import Counts
from harness.sigkill.gates import GateKind
from harness.sigkill.play import play_seed

_BAR = 40


@dataclass(frozen=True, slots=True)
class Played:
    """What the schedules on one kind of journal, with one kind of gate, came to."""

    kind: JournalKind
    gates: GateKind
    counts: Counts
    failures: list[str]
    took_s: float


def run(kind: JournalKind, gates: GateKind, schedules: int, seed: int, at_once: int) -> Played:
    """Play the schedules of the seeds from `seed` on, with a progress bar on standard error."""
    counts, failures, began_s = Counts(), list[str](), time.monotonic()
    with (
        journal_database(kind, in_memory=True) as database,
        ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        playing = [pool.submit(play_seed, seed + number, database, gates) for number in range(schedules)]
        for done, future in enumerate(as_completed(playing), start=1):
            result = future.result()
            if isinstance(result, Counts):
                counts.add(result)
            else:
                failures.append(result)
            _show(done, schedules, began_s, counts, len(failures))
    sys.stderr.write("\n")
    return Played(kind, gates, counts, failures, time.monotonic() - began_s)


def page(played: Sequence[Played], seed: int, made: str) -> str:
    """Return the counts as Markdown, which says how it was made."""
    return (
        "# SIGKILL schedules\n\n"
        "Four worker processes on one journal, the Stripe stand-in over HTTP, and its ledger as the judge (LOCAL).\n"
        f"{made}\n\n" + "\n".join(_part(one, seed) for one in played)
    )


def _part(played: Played, seed: int) -> str:
    rows = "\n".join(f"| {name} | {figure} |" for name, figure in played.counts.lines())
    return (
        f"## {played.kind}, {played.gates}\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, seeds from {seed}, {played.took_s:.0f} s, {os.cpu_count()} processors: "
        f"{played.counts.schedules:,} schedules without a violation, {len(played.failures)} with one.\n\n"
        f"| what | count |\n| --- | --- |\n{rows}\n"
    )


def main() -> int:
    """Run it from the command line; return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m harness.sigkill", description=__doc__)
    parser.add_argument("--schedules", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's; each has the next")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="how many schedules to play at once")
    parser.add_argument("--journal", action="append", type=JournalKind, choices=list(JournalKind), help="may be repeated")
    parser.add_argument("--gate", action="append", type=GateKind, choices=list(GateKind), help="the workers'; may be repeated")
    parser.add_argument("--out", type=Path, help="a Markdown file for the counts")
    given = parser.parse_args()
    kinds = given.journal or [JournalKind.SQLITE]
    gates = given.gate or [GateKind.SYNC]
    played = [run(kind, gate, given.schedules, given.seed, given.at_once) for kind in kinds for gate in gates]
    failures, text = [failure for one in played for failure in one.failures], page(played, given.seed, made_by("harness.sigkill"))
    print("\n\n".join([*failures, text]))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text, encoding="utf-8")
    return 1 if failures else 0


def _show(done: int, wanted: int, began_s: float, counts: Counts, failed: int) -> None:
    filled = _BAR * done // max(1, wanted)
    bar = "#" * filled + "." * (_BAR - filled)
    rate = done / max(0.001, time.monotonic() - began_s)
    sys.stderr.write(f"\r[{bar}] {done}/{wanted}  {rate:.1f}/s  {counts.kills.total()} kills  {failed} failed ")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
