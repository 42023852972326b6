"""`python -m interlock.testing.exploration`: explore, print the tables, and write them down."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from multiprocessing import Pool
from multiprocessing.pool import Pool as PoolOfProcesses
from pathlib import Path

from interlock.testing.exploration import report
from interlock.testing.exploration.counts import Explored, Task, explored, keep, kept
from interlock.testing.exploration.families import FAMILIES, families_of, profiles_of
from interlock.testing.exploration.schedules import KINDS, MORE_KINDS, Enumerated, Enumeration, Options
from interlock.testing.exploration.scope import Figures, SmallProfile, all_profiles

One = dict[SmallProfile, dict[str, Enumerated]]
Two = dict[Task, Explored]


def one_worker(profile: SmallProfile, kinds: dict[str, Options]) -> dict[str, Enumerated]:
    """Carry out every schedule of one worker with a profile, by kind."""
    return {kind: Enumeration(profile, **options).run() for kind, options in kinds.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore what the command line asks for.

    Args:
        arguments: the command line; the process's own where it is None.

    Returns:
        0 where nothing is wrong, 1 otherwise.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.two_workers and find_spec("numpy") is None:
        parser.error("two workers need numpy: `pip install interlock-gate[exploration]`. Nothing was explored.")
    profiles = list(all_profiles(Figures(deadline=options.deadline, claim_ttl=options.deadline + 1)))
    numbers: list[int] = options.profile or list(range(len(profiles)))
    two: Two = dict(kept(options.counts)) if options.counts is not None else {}
    with Pool(options.processes, maxtasksperchild=1) as pool:
        one = _one_worker(pool, [profiles[number] for number in numbers], options) if options.one_worker else {}
        tasks = _tasks(options.two_workers or (), numbers, profiles)
        two |= _two_workers(pool, [task for task in tasks if task not in two], profiles, options)
    text = "\n".join(_lines(one, two, profiles)) + "\n"
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    wrong = any(each.violations or each.endless for by_kind in one.values() for each in by_kind.values())
    return int(wrong or any(each.violations or each.stuck for each in two.values()))


def _one_worker(pool: PoolOfProcesses, profiles: list[SmallProfile], options: argparse.Namespace) -> One:
    enumerates = partial(one_worker, kinds=MORE_KINDS if options.two_faults else KINDS)
    found: One = {}
    for profile, enumerated in zip(profiles, pool.imap(enumerates, profiles), strict=True):
        found[profile] = enumerated
        _say(f"{profile}: {sum(each.schedules for each in enumerated.values()):,} schedules")
    return found


def _two_workers(pool: PoolOfProcesses, tasks: list[Task], profiles: list[SmallProfile], options: argparse.Namespace) -> Two:
    families: dict[int, list[str]] = {}
    for task in tasks:
        families.setdefault(task.number, []).append(task.family)
    explores = partial(_explored, profiles=profiles, options=options)
    return {task: found for results in pool.imap(explores, families.items()) for task, found in results.items()}


def _explored(row: tuple[int, list[str]], profiles: list[SmallProfile], options: argparse.Namespace) -> Two:
    """Explore two workers with one profile. What is found is kept at once."""
    (number, families), results = row, Two()
    for family, found in explored(profiles[number], families, options.most_states):
        task = Task(number, family)
        results[task] = found
        if options.counts is not None:
            keep(options.counts, task, found)
        _say(f"{profiles[number]}, {family}: {found.states:,} states, {len(found.violations)} violations")
    return results


def _tasks(families: Sequence[str], numbers: list[int], profiles: list[SmallProfile]) -> list[Task]:
    tasks = [Task(number, family) for family in families if family != ALL for number in numbers]
    tasks = [task for task in tasks if profiles[task.number] in set(profiles_of(task.family, profiles))]
    if ALL in families:
        tasks += [Task(number, family) for number in numbers for family in families_of(profiles[number])]
    return tasks


def _lines(one: One, two: Two, profiles: list[SmallProfile]) -> list[str]:
    lines = list(report.introduction(profiles[0].figures))
    if one:
        total, more = Enumerated(), Enumerated()
        for by_kind in one.values():
            for kind, each in by_kind.items():
                (total if kind in KINDS else more).add(each)
        lines += [*report.one_worker_table(one), *report.cells_table(total), *report.more_cells(total, more)]
        total.add(more)
        lines += report.prefixes_table(total)
    if two:
        lines += report.two_workers_table(two, profiles)
    return [*lines, *report.violations(one, two, profiles)]


ALL = "all"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m interlock.testing.exploration", description=__doc__)
    parser.add_argument("--profile", type=int, nargs="*", help="numbers of profiles, 0 to 32; all where none is named")
    parser.add_argument("--one-worker", action="store_true", help="every schedule of one worker")
    parser.add_argument("--two-faults", action="store_true", help="one worker: every pair of faults as well; it takes minutes")
    parser.add_argument(
        "--two-workers", nargs="+", choices=(ALL, *FAMILIES), help="every state of two workers, with these families of faults"
    )
    parser.add_argument("--most-states", type=int, default=500_000_000, help="where to give a profile of two workers up")
    parser.add_argument("--deadline", type=int, default=1, help="a send's deadline in ticks; a claim lives one longer")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--counts", type=Path, help="keep what two workers came to in this file, and skip what it has already")
    parser.add_argument("--out", type=Path, help="where to write the report, such as results/exploration.md")
    return parser


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
