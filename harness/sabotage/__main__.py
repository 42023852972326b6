"""`python -m harness.sabotage [--only NAME]... [--schedules N] [--out FILE]`: put in each defect, and see a test go red."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.made_by import made_by
from harness.sabotage import report, runner
from harness.sabotage.catalogue import CATALOGUE
from harness.sabotage.defects import Defect
from harness.sabotage.kept import Kept


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where every defect was caught, 1 where one survived, and 2 where that could not be found out."""
    parser = argparse.ArgumentParser(prog="python -m harness.sabotage", description="Put in each defect, and see a test go red.")
    parser.add_argument(
        "--only", action="append", choices=[one.name for one in CATALOGUE], metavar="NAME", help="this defect; may be repeated"
    )
    parser.add_argument("--out", type=Path, help="write the table to this file, such as results/sabotage.md")
    parser.add_argument("--schedules", type=int, default=0, help="also play up to so many random schedules of the crash kit each")
    parser.add_argument("--processes", type=int, default=runner.PROCESSES, help="how many copies to work on at once")
    parser.add_argument("--keep", type=Path, help="write each run down in this file, and make none again that is in it")
    given = parser.parse_args(arguments)
    chosen = [one for one in CATALOGUE if not given.only or one.name in given.only]
    kept = Kept(given.keep, given.schedules)
    try:
        control = _without_defect(chosen, kept)
    except runner.NotRunError as error:
        print(error, file=sys.stderr)
        return 2
    runs = _with_each(chosen, kept, given.schedules, given.processes)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(
            report.render(control, runs, made_by("harness.sabotage", arguments), given.schedules), encoding="utf-8"
        )
    caught = sum(run.red is not None for run in runs)
    print(f"{caught} of {len(runs)} defects were caught")
    return 2 if any(run.trouble for run in runs) else 1 if caught < len(runs) else 0


def _without_defect(chosen: Sequence[Defect], kept: Kept) -> runner.Run:
    run = kept.without(chosen)
    if run is None:
        run = runner.run_without_defect(chosen)
        kept.add(run, chosen)
    print(report.line(run), flush=True)
    return run


def _with_each(chosen: Sequence[Defect], kept: Kept, schedules: int, processes: int) -> list[runner.Run]:
    runs = {defect.name: run for defect in chosen if (run := kept.of(defect)) is not None}
    missing = [defect for defect in chosen if defect.name not in runs]
    for defect, run in zip(missing, runner.run_with(missing, schedules, processes), strict=True):
        print(report.line(run), flush=True)
        kept.add(run, [defect])
        runs[defect.name] = run
    return [runs[defect.name] for defect in chosen]


if __name__ == "__main__":
    sys.exit(main())
