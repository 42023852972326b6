"""`python -m harness.sabotage [--only NAME]... [--schedules N] [--out FILE]`: put in each defect, and see a test go red."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.sabotage import report, runner
from harness.sabotage.catalogue import CATALOGUE
from harness.sabotage.defects import StaleCatalogueError


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where every defect was caught, 1 where one survived, and 2 where that could not be found out."""
    parser = argparse.ArgumentParser(prog="python -m harness.sabotage", description="Put in each defect, and see a test go red.")
    parser.add_argument("--only", action="append", choices=[one.name for one in CATALOGUE], help="this defect; may be repeated")
    parser.add_argument("--out", type=Path, help="write the table to this file, such as results/sabotage.md")
    parser.add_argument("--schedules", type=int, default=0, help="also play up to so many random schedules of the crash kit each")
    given = parser.parse_args(arguments)
    chosen = [one for one in CATALOGUE if not given.only or one.name in given.only]
    runs: list[runner.Run] = []
    try:
        control = runner.run_without_defect(chosen)
        print(report.line(control), flush=True)
        for run in runner.run_with(chosen, given.schedules):
            print(report.line(run), flush=True)
            runs.append(run)
    except (StaleCatalogueError, runner.NotRunError) as error:
        print(error, file=sys.stderr)
        return 2
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(report.render(control, runs), encoding="utf-8")
    survivors = [run for run in runs if run.survived]
    print(f"{len(runs) - len(survivors)} of {len(runs)} defects were caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
