"""`python -m interlock.testing.exploration`: explore, print the tables, and write them down."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from multiprocessing import Pool
from pathlib import Path

from interlock.testing.exploration import report
from interlock.testing.exploration.schedules import KINDS, MORE_KINDS, Enumerated, Enumeration, Options
from interlock.testing.exploration.scope import Figures, SmallProfile, all_profiles
from interlock.testing.exploration.search import Explored, explore
from interlock.testing.exploration.state import Faults
from interlock.testing.exploration.world import World


def one_worker(profile: SmallProfile, kinds: dict[str, Options]) -> dict[str, Enumerated]:
    """Carry out every schedule of one worker with a profile, by kind."""
    return {kind: Enumeration(profile, **options).run() for kind, options in kinds.items()}


def two_workers(profile: SmallProfile, faults: Faults, most_states: int) -> Explored:
    """Visit every state of two workers with a profile."""
    return explore(World(profile, faults), most_states=most_states)


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore what the command line asks for.

    Args:
        arguments: the command line; the process's own where it is None.

    Returns:
        0 where nothing is wrong, 1 otherwise.
    """
    options = _parser().parse_args(arguments)
    profiles = list(all_profiles(Figures(deadline=options.deadline, claim_ttl=options.deadline + 1)))
    chosen: list[SmallProfile] = [profiles[number] for number in options.profile] if options.profile else profiles
    one: dict[SmallProfile, dict[str, Enumerated]] = {}
    two: dict[SmallProfile, Explored] = {}
    faults = Faults(orphans=options.orphans, locks_are_lost=not options.locks_hold, resolve=not options.no_person)
    with Pool(options.processes, maxtasksperchild=1) as pool:
        if not options.only_two_workers:
            enumerates = partial(one_worker, kinds=MORE_KINDS if options.two_faults else KINDS)
            for profile, enumerated in zip(chosen, pool.imap(enumerates, chosen), strict=True):
                one[profile] = enumerated
                _say(f"{profile}: {sum(each.schedules for each in enumerated.values()):,} schedules")
        if options.two_workers or options.only_two_workers:
            explores = partial(two_workers, faults=faults, most_states=options.most_states)
            for profile, explored in zip(chosen, pool.imap(explores, chosen), strict=True):
                two[profile] = explored
                _say(f"{profile}: {explored.states:,} states, {len(explored.violations)} violations, {explored.stuck} stuck")
    text = "\n".join(_lines(one, two, profiles[0].figures, faults)) + "\n"
    sys.stdout.write(text)
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")
    wrong = any(each.violations or each.endless for by_kind in one.values() for each in by_kind.values())
    return int(wrong or any(each.violations or each.stuck for each in two.values()))


def _lines(
    one: dict[SmallProfile, dict[str, Enumerated]], two: dict[SmallProfile, Explored], figures: Figures, faults: Faults
) -> list[str]:
    lines = list(report.introduction(figures))
    if one:
        total, more = Enumerated(), Enumerated()
        for by_kind in one.values():
            for kind, each in by_kind.items():
                (total if kind in KINDS else more).add(each)
        lines += [*report.one_worker_table(one), *report.cells_table(total), *report.more_cells(total, more)]
        total.add(more)
        lines += report.prefixes_table(total)
    if two:
        lines += report.two_workers_table(two, faults.in_words())
    return [*lines, *report.violations(one, two)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m interlock.testing.exploration", description=__doc__)
    parser.add_argument("--profile", type=int, nargs="*", help="numbers of profiles, 0 to 32; all where none is named")
    parser.add_argument("--two-faults", action="store_true", help="one worker: every pair of faults as well")
    parser.add_argument("--two-workers", action="store_true", help="explore two workers as well")
    parser.add_argument("--only-two-workers", action="store_true", help="explore two workers alone")
    parser.add_argument("--most-states", type=int, default=10_000_000, help="where to give a profile of two workers up")
    parser.add_argument("--deadline", type=int, default=1, help="a send's deadline in ticks; a claim lives one longer")
    parser.add_argument("--orphans", type=int, default=2, help="requests without a sender at the same time")
    parser.add_argument("--locks-hold", action="store_true", help="no worker loses its lock while it lives")
    parser.add_argument("--no-person", action="store_true", help="nobody resolves an Ambiguous action")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where to write the report, such as results/exploration.md")
    return parser


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
