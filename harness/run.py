"""The crash matrix: `python -m harness.run` kills a refund agent in every situation, in every way of working, and compares."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness import results, table
from harness.case import Case, CaseResult
from harness.columns import COLUMNS, Engine
from harness.keys import LiveKeyRefused
from harness.live import NoKeys, add_options, live_world
from harness.matrices import E2E, MATRICES, STANDALONE, Matrix
from harness.postgres.journals import JournalKind, journal_database
from harness.scenarios import BURN_OFF, SCENARIOS, Scenario
from harness.warm import WarmStandalone
from harness.world import LocalWorld, World

BAD_USAGE = 2

_PROCESSORS = os.cpu_count() or 1
Cell = tuple[Scenario, str, int]
"""A scenario, a column's name, and which repetition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which cells to run, and how often."""

    matrix: Matrix = STANDALONE
    scenarios: tuple[Scenario, ...]
    columns: tuple[str, ...]
    repeat: int = 1

    def cells(self) -> list[Cell]:
        """Return scenario, column and repetition of every case, so ordered that those which wait are not side by side."""
        cells = [
            (scenario, column, repetition)
            for scenario in self.scenarios
            for column in self.columns
            for repetition in range(1, self.repeat + 1)
            if COLUMNS[column].has(gate_only=scenario.interlock_only)
        ]
        waiting = [cell for cell in cells if cell[0].settings == BURN_OFF]
        ordered = [cell for cell in cells if cell not in waiting]
        apart = len(ordered) // max(1, len(waiting)) + 1
        for nth, cell in enumerate(waiting):
            ordered.insert(nth * apart, cell)
        return ordered

    def ordered(self, cases: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
        """Return cases in the order of rows, columns and repetitions."""
        rows = {scenario.name: nth for nth, scenario in enumerate(self.scenarios)}
        return tuple(sorted(cases, key=lambda case: (rows[case.scenario], self.columns.index(case.column), case.repetition)))


def main(arguments: list[str] | None = None) -> int:
    """Run the matrix, print the table, write the results; return 0 where every column did what is expected of it."""
    options = _options().parse_args(arguments)
    matrix = MATRICES[options.matrix]
    plan = Plan(
        matrix=matrix,
        scenarios=tuple(SCENARIOS[name] for name in options.scenario or SCENARIOS),
        columns=tuple(name for name in matrix.columns if name in (options.column or matrix.columns)),
        repeat=options.repeat,
    )
    if options.live and options.journal is not JournalKind.SQLITE:
        print("a live run keeps its journals in files; nothing was run", file=sys.stderr)
        return BAD_USAGE
    if not plan.cells():
        print("none of these rows can be had in these columns; nothing was run", file=sys.stderr)
        return BAD_USAGE
    try:
        live = live_world(options) if options.live else None
    except (LiveKeyRefused, NoKeys) as error:
        print(error, file=sys.stderr)
        return BAD_USAGE
    with case_folder(keep=options.keep) as folder, temporal_server(plan, folder) as temporal:
        if live is not None:
            live.temporal = temporal
            with live:
                run = carry_out(plan, live, folder)
        else:
            # On a disk: crash to close is measured.
            with (
                journal_database(options.journal, in_memory=False) as database,
                LocalWorld(folder, database, temporal) as world,
            ):
                run = carry_out(plan, world, folder)
    return report(run, options.out)


@contextmanager
def temporal_server(plan: Plan, folder: Path) -> Iterator[str | None]:
    """Run a Temporal server where a column of the plan needs one, and give its address."""
    if all(COLUMNS[name].engine is Engine.NONE for name in plan.columns):
        yield None
        return
    from harness.temporal.server import TemporalServer

    with TemporalServer.start(folder) as server:
        yield server.address


def carry_out(plan: Plan, world: World, folder: Path) -> results.Run:
    """Run every case of the plan.

    Engine by engine, so that cases beside each other lose the same time for the same reasons.

    Args:
        plan: the cells.
        world: where they take place.
        folder: where cases keep their files.
    """
    started_at, began = datetime.now(UTC), time.monotonic()
    cells = plan.cells()
    progress = table.Progress(len(cells))
    cases: list[CaseResult] = []
    for engine in Engine:
        at_once = cases_at_once(engine, measured=plan.matrix is E2E)
        of_engine = [cell for cell in cells if COLUMNS[cell[1]].engine is engine]
        cases += _carry_cells(of_engine, world, folder, progress, min(at_once, world.cases_at_once))
    progress.finish()
    return results.Run(
        matrix=plan.matrix,
        live=world.live,
        rehearsal=world.rehearsal,
        journal=JournalKind.SQLITE if world.database is None else JournalKind.POSTGRES,
        started_at=started_at,
        finished_at=datetime.now(UTC),
        wall_s=time.monotonic() - began,
        scenarios=plan.scenarios,
        columns=plan.columns,
        cases=plan.ordered(cases),
    )


def cases_at_once(engine: Engine, *, measured: bool) -> int:
    """Return how many cases of an engine run at once.

    Args:
        engine: what carries them.
        measured: whether their times are held against bounds.
    """
    match engine:
        case Engine.NONE:
            return max(1, _PROCESSORS // 2) if measured else _PROCESSORS
        case Engine.TEMPORAL:
            return _PROCESSORS  # most of each case is waiting for the server to notice a death
        case Engine.TEMPORAL_DEFAULTS:
            return 6 * _PROCESSORS  # nearly all of each case is waiting for 15 s and more


def _carry_cells(cells: list[Cell], world: World, folder: Path, progress: table.Progress, at_once: int) -> list[CaseResult]:
    def carry(cell: Cell) -> CaseResult:
        scenario, column, repetition = cell
        warm = WarmStandalone(world) if COLUMNS[column].engine is Engine.NONE else None
        name = f"{scenario.name} / {column}"
        world.begin()
        progress.begun(name)
        result = Case(world, scenario, column, folder, repetition, carrier=warm).carry()
        progress.ended(name, result)
        return result

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return list(pool.map(carry, cells))


def report(run: results.Run, out: Path) -> int:
    """Print the table, write the results, and return 0 where everything is as expected and every target reached."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    print(f"\n{table.render(run, colour=colour)}\n")
    for path in results.write(run, out):
        print(f"wrote {path}")
    found = results.surprises(run.cases)
    for one in found:
        print(f"NOT AS EXPECTED: {one}", file=sys.stderr)
    missed = [target for target in run.targets if not target.met]
    for target in missed:
        print(f"TARGET MISSED: {target.what}: {target.measured}, at most {target.at_most:g}", file=sys.stderr)
    if not found and not missed:
        print(f"as expected: {len(run.cases)} cases in {run.wall_s:.0f} s")
    return 1 if found or missed else 0


@contextmanager
def case_folder(*, keep: bool) -> Iterator[Path]:
    """Give a folder for the cases' files, and remove it unless it is to be kept."""
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
    parser.add_argument(
        "--matrix", choices=list(MATRICES), default=STANDALONE.name, help="standalone, or with Temporal beside it"
    )
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this row (may be repeated)")
    parser.add_argument("--column", action="append", choices=list(COLUMNS), help="only this column (may be repeated)")
    parser.add_argument("--repeat", type=_positive, default=1, metavar="N", help="how often each cell is run")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="where the results go")
    parser.add_argument("--keep", action="store_true", help="keep the cases' journals and the ledgers")
    parser.add_argument(
        "--journal", type=JournalKind, choices=list(JournalKind), default=JournalKind.SQLITE, help="where the gate's journals are"
    )
    add_options(parser)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
