"""Plays SIGKILL schedules, several at once, and prints the counts: `python -m harness.sigkill --schedules 300 --seed 0`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

from harness.sigkill.counts import Counts
from harness.sigkill.play import play_seed

_BAR = 40


def run(schedules: int, seed: int, at_once: int) -> tuple[Counts, list[str]]:
    """Play the schedules of the seeds from `seed` on, with a progress bar on standard error."""
    counts, failures, began_s = Counts(), list[str](), time.monotonic()
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn")) as pool:
        playing = [pool.submit(play_seed, seed + number) for number in range(schedules)]
        for done, future in enumerate(as_completed(playing), start=1):
            result = future.result()
            if isinstance(result, Counts):
                counts.add(result)
            else:
                failures.append(result)
            _show(done, schedules, began_s, counts, len(failures))
    sys.stderr.write("\n")
    return counts, failures


def page(counts: Counts, failures: int, seed: int, took_s: float) -> str:
    """Return the counts as Markdown."""
    rows = "\n".join(f"| {name} | {figure} |" for name, figure in counts.lines())
    return (
        "# SIGKILL schedules\n\n"
        "Four worker processes on one SQLite journal, the Stripe stand-in over HTTP, and its ledger as the judge (LOCAL).\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, seeds from {seed}, {took_s:.0f} s, {os.cpu_count()} processors: "
        f"{counts.schedules:,} schedules without a violation, {failures} with one.\n\n"
        f"| what | count |\n| --- | --- |\n{rows}\n"
    )


def main() -> int:
    """Run it from the command line; return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m harness.sigkill", description=__doc__)
    parser.add_argument("--schedules", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's; each has the next")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="how many schedules to play at once")
    parser.add_argument("--out", type=Path, help="a Markdown file for the counts")
    given = parser.parse_args()
    began_s = time.monotonic()
    counts, failures = run(given.schedules, given.seed, given.at_once)
    text = page(counts, len(failures), given.seed, time.monotonic() - began_s)
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
