"""The crash matrix: `python -m harness.run` kills a refund agent in every situation, in every way of working, and compares."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness import results, table
from harness.case import Case, CaseResult
from harness.columns import COLUMNS
from harness.keys import DEFAULT_MODEL, LiveKeyRefused, anthropic_key_from_environment, stripe_key_from_environment
from harness.postgres.journals import JournalKind, journal_database
from harness.scenarios import BURN_OFF, SCENARIOS, Scenario
from harness.world import LiveWorld, LocalWorld, World

BAD_USAGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which cells to run, and how often."""

    scenarios: tuple[Scenario, ...]
    columns: tuple[str, ...]
    repeat: int = 1

    def cells(self, *, live: bool) -> list[tuple[Scenario, str, int]]:
        """Return scenario, column and repetition of every case, so ordered that those which wait are not side by side.

        Args:
            live: without the rows that can't be had at the real provider.
        """
        cells = [
            (scenario, column, repetition)
            for scenario in self.scenarios
            for column in self.columns
            for repetition in range(1, self.repeat + 1)
            if (column == "interlock" or not scenario.interlock_only) and not (live and scenario.emulated)
        ]
        waiting = [cell for cell in cells if cell[0].settings == BURN_OFF]
        ordered = [cell for cell in cells if cell not in waiting]
        apart = len(ordered) // max(1, len(waiting)) + 1
        for nth, cell in enumerate(waiting):
            ordered.insert(nth * apart, cell)
        return ordered


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix, print the table, write the results; return 0 where every column did what is expected of it."""
    options = _options().parse_args(arguments)
    plan = Plan(
        scenarios=tuple(SCENARIOS[name] for name in options.scenario or SCENARIOS),
        columns=tuple(options.column or COLUMNS),
        repeat=options.repeat,
    )
    if options.live and options.journal is not JournalKind.SQLITE:
        print("a live run keeps its journals in files; nothing was run", file=sys.stderr)
        return BAD_USAGE
    if not plan.cells(live=options.live):
        print("none of these rows can be had here in these columns; nothing was run", file=sys.stderr)
        return BAD_USAGE
    with _folder(keep=options.keep) as folder:
        if not options.live:
            # On a disk: crash to close is measured.
            with journal_database(options.journal, in_memory=False) as database, LocalWorld(folder, database) as world:
                run = carry_out(plan, world, folder)
        elif (live := _live_world(options.model)) is not None:
            run = carry_out(plan, live, folder)
        else:
            return BAD_USAGE
    return _report(run, options.out)


def carry_out(plan: Plan, world: World, folder: Path) -> results.Run:
    """Run every case of the plan that the world can have, as many at once as there are processors.

    Args:
        plan: the cells.
        world: where they take place.
        folder: where cases keep their files.
    """
    started_at, began = datetime.now(UTC), time.monotonic()
    cells = plan.cells(live=world.live)
    progress = table.Progress(len(cells))

    def carry(cell: tuple[Scenario, str, int]) -> CaseResult:
        scenario, column, repetition = cell
        name = f"{scenario.name} / {column}"
        progress.begun(name)
        result = Case(world, scenario, column, folder, repetition).carry()
        progress.ended(name, result)
        return result

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        cases = list(pool.map(carry, cells))
    progress.finish()
    rows = {scenario.name: nth for nth, scenario in enumerate(plan.scenarios)}
    return results.Run(
        live=world.live,
        journal=JournalKind.SQLITE if world.database is None else JournalKind.POSTGRES,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        wall_s=time.monotonic() - began,
        scenarios=tuple(scenario for scenario in plan.scenarios if not (world.live and scenario.emulated)),
        columns=plan.columns,
        not_run=tuple(scenario.name for scenario in plan.scenarios if world.live and scenario.emulated),
        cases=tuple(sorted(cases, key=lambda case: (rows[case.scenario], plan.columns.index(case.column), case.repetition))),
    )


def _report(run: results.Run, out: Path) -> int:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f"\n{table.render(run, colour=colour)}\n")
    for path in results.write(run, out):
        print(f"wrote {path}")
    found = results.surprises(run.cases)
    for one in found:
        print(f"NOT AS EXPECTED: {one}", file=sys.stderr)
    if not found:
        print(f"as expected: {len(run.cases)} cases in {run.wall_s:.0f} s")
    return 1 if found else 0


def _live_world(model: str) -> LiveWorld | None:
    try:
        stripe_key = stripe_key_from_environment()
    except LiveKeyRefused as error:
        print(error, file=sys.stderr)
        return None
    anthropic_key = anthropic_key_from_environment()
    if stripe_key is None or anthropic_key is None:
        print("--live needs STRIPE_SECRET_KEY (a test key) and ANTHROPIC_API_KEY; nothing was run", file=sys.stderr)
        return None
    return LiveWorld(stripe_key=stripe_key, anthropic_key=anthropic_key, model=model)


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="interlock-matrix-"))
    try:
        yield folder
    finally:
        if keep:
            print(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.run", description=__doc__)
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this row (may be repeated)")
    parser.add_argument("--column", action="append", choices=list(COLUMNS), help="only this column (may be repeated)")
    parser.add_argument("--repeat", type=_positive, default=1, metavar="N", help="how often each cell is run")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where the results go")
    parser.add_argument("--keep", action="store_true", help="keep the cases' journals and the ledgers")
    parser.add_argument(
        "--journal", type=JournalKind, choices=list(JournalKind), default=JournalKind.SQLITE, help="where the gate's journals are"
    )
    parser.add_argument("--live", action="store_true", help="Stripe's test mode and the real model; test keys only")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="the model of a live run")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
