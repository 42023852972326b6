"""The report of an exploration, as Markdown: counts, tables, and the shortest schedule of each violation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from interlock.testing.exploration.cells import SIDES, unexplained, why_not
from interlock.testing.exploration.counts import Explored, Task
from interlock.testing.exploration.families import FAMILIES, families_of
from interlock.testing.exploration.schedules import ROWS, Cell, Enumerated
from interlock.testing.exploration.scope import Figures, SmallProfile


def schedule_lines(violation: str, schedule: list[str]) -> Iterator[str]:
    """Yield a violation and its schedule, step by step."""
    yield f"{violation}, after {len(schedule)} steps:"
    yield from (f"{number}. {words}" for number, words in enumerate(schedule, 1))


def introduction(figures: Figures) -> Iterator[str]:
    """Yield what was explored."""
    yield "# Exhaustive exploration of the protocol"
    yield ""
    ticks = (
        f"a send's deadline is {figures.deadline}, a claim's time to live {figures.claim_ttl}, a lookup's staleness "
        f"{figures.staleness}, the roll-forward time {figures.roll_forward}, the landing of a request {figures.landing}"
    )
    yield (
        "The real generators of `interlock/domain/protocol.py`, driven request by request in a small world: one action under one "
        "approval, a journal that makes the real journal's checks, a provider with the faults of its profile, and time in ticks "
        f"({ticks}; 25 hours end every key window). Only the order of these instants matters."
    )
    yield ""


def one_worker_table(found: dict[SmallProfile, dict[str, Enumerated]]) -> Iterator[str]:
    """Yield the counts of the schedules of one worker."""
    kinds = list(next(iter(found.values())))
    yield "## One worker: every schedule"
    yield ""
    yield (
        "Each request is a step of its own; a step that many schedules share is carried out once. `ends` are the statuses "
        "that were reached."
    )
    yield ""
    yield f"| profile | {' | '.join(f'{kind}: schedules | steps' for kind in kinds)} | ends | violations |"
    yield f"|---|{'---:|---:|' * len(kinds)}---|---:|"
    for profile, by_kind in found.items():
        counts = " | ".join(f"{each.schedules:,} | {each.steps:,}" for each in by_kind.values())
        ends = ", ".join(sorted({end for each in by_kind.values() for end in each.ends}))
        wrong = sum(len(each.violations) + len(each.endless) for each in by_kind.values())
        yield f"| {profile} | {counts} | {ends} | {wrong} |"
    totals = [Enumerated() for _ in kinds]
    for by_kind in found.values():
        for total, each in zip(totals, by_kind.values(), strict=True):
            total.add(each)
    yield f"| all {len(found)} | {' | '.join(f'{each.schedules:,} | {each.steps:,}' for each in totals)} | | {_wrong(totals)} |"
    yield ""


def _wrong(totals: list[Enumerated]) -> int:
    return sum(len(each.violations) + len(each.endless) for each in totals)


def cells_table(total: Enumerated) -> Iterator[str]:
    """Yield which cells were reached, and why the others can't be."""
    yield "## Crashes: request, side, and what recovery made of it"
    yield ""
    yield "A number says in how many places a cell was reached, over all profiles; a letter stands for why it can't be."
    yield ""
    places = sorted({(cell.request, SIDES.index(cell.side)) for cell in total.cells})
    reasons: dict[str, str] = {}
    yield f"| request | killed | {' | '.join(ROWS)} |"
    yield f"|---|---|{'---:|' * len(ROWS)}"
    for request, side in places:
        cells = [Cell(request, SIDES[side], row) for row in ROWS]
        yield f"| {request} | {SIDES[side]} | {' | '.join(_mark(cell, total.cells, reasons) for cell in cells)} |"
    yield ""
    yield from (f"- **{letter}**: {reason}" for reason, letter in reasons.items())
    yield ""
    missing = unexplained(total.cells, ROWS)
    yield f"Cells that were not reached and that nothing explains: {', '.join(map(str, missing)) if missing else 'none'}."
    yield ""


def more_cells(total: Enumerated, more: Enumerated) -> Iterator[str]:
    """Yield which cells only a pair of faults reaches."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in sorted(set(more.cells) - set(total.cells)):
        rows.setdefault((cell.request, cell.side), []).append(cell.row)
    if rows:
        yield "Reached with a pair of faults alone, where a crash is one of the two:"
        yield ""
        yield from (f"- {request}, {side}: {', '.join(names)}" for (request, side), names in rows.items())
        yield ""


def _mark(cell: Cell, reached: Counter[Cell], reasons: dict[str, str]) -> str:
    if reached[cell]:
        return str(reached[cell])
    reason = why_not(cell)
    return reasons.setdefault(reason, chr(ord("a") + len(reasons))) if reason is not None else "?"


def prefixes_table(total: Enumerated) -> Iterator[str]:
    """Yield which events of an action were durable at some moment; what repeats is written once."""
    shapes: Counter[str] = Counter()
    shortest: dict[str, int] = {}
    for prefix, count in total.prefixes.items():
        shape = shape_of(prefix)
        shapes[shape] += count
        shortest[shape] = min(len(prefix), shortest.get(shape, len(prefix)))
    yield "## Durable prefixes of an action's events"
    yield ""
    yield f"{len(total.prefixes)} different sequences of events, of these shapes (`(…)+` is repeated):"
    yield ""
    yield "| events | places |"
    yield "|---|---:|"
    for shape in sorted(shapes, key=lambda each: (shortest[each], each)):
        yield f"| {shape or '(nothing)'} | {shapes[shape]:,} |"
    yield ""


def shape_of(prefix: Iterable[str]) -> str:
    """Return the sequence with what repeats written once."""
    text = ", ".join(prefix)
    text = re.sub(r"Claimed(, Claimed)+", "(Claimed)+", text)
    text = re.sub(r"Dispatched(, Dispatched)+", "(Dispatched)+", text)
    sends = r"(?:\(?Claimed\)?\+?, )?\(?Dispatched\)?\+?"
    return re.sub(rf"{sends}(, {sends})+", "([Claimed,] Dispatched)+", text)


def two_workers_table(found: Mapping[Task, Explored], profiles: Sequence[SmallProfile]) -> Iterator[str]:
    """Yield the counts of the states of two workers."""
    yield "## Two workers: every interleaving, breadth first over visited states"
    yield ""
    yield (
        "Each may be killed or paused anywhere and go on later, answers get lost, requests of dead senders land late or never, "
        "and the provider says no, fails, or stores a failure as its profile lets it. Two idempotency keys are followed. Beside "
        "that:"
    )
    yield ""
    for family in dict.fromkeys(task.family for task in found):
        yield f"- **{family}**: {FAMILIES[family].in_words()}"
    yield ""
    main = {task: each for task, each in found.items() if task.family in families_of(profiles[task.number])}
    yield from _table_of_all_faults(main, profiles)
    rarer = {task: each for task, each in found.items() if task not in main}
    if rarer:
        yield from _table_of_states(rarer, profiles)


def _table_of_all_faults(found: Mapping[Task, Explored], profiles: Sequence[SmallProfile]) -> Iterator[str]:
    yield "| profile | faults | states | transitions | explored | violations | stuck |"
    yield "|---|---|---:|---:|---|---:|---:|"
    for task, each in sorted(found.items(), key=lambda item: (item[0].number, list(FAMILIES).index(item[0].family))):
        whole = "to the end" if each.complete else "not to the end"
        counts = f"{each.states:,} | {each.steps:,} | {whole} | {len(each.violations)} | {each.stuck}"
        yield f"| {profiles[task.number]} | {task.family} | {counts} |"
    yield f"| all {len(found)} | | {_sums(found.values())} |"
    yield ""


def _table_of_states(found: Mapping[Task, Explored], profiles: Sequence[SmallProfile]) -> Iterator[str]:
    """Yield how many states each profile has under each of the other families."""
    families = [family for family in FAMILIES if any(task.family == family for task in found)]
    yield "The same under one other family at a time: how many states there are."
    yield ""
    yield f"| profile | {' | '.join(families)} |"
    yield f"|---|{'---:|' * len(families)}"
    for number in sorted({task.number for task in found}):
        row = (found.get(Task(number, family)) for family in families)
        yield f"| {profiles[number]} | {' | '.join(f'{each.states:,}' if each is not None else '' for each in row)} |"
    yield ""
    yield "| | states | transitions | explored | violations | stuck |"
    yield "|---|---:|---:|---|---:|---:|"
    yield f"| all {len(found)} | {_sums(found.values())} |"
    yield ""


def _sums(found: Collection[Explored]) -> str:
    whole = "to the end" if all(each.complete for each in found) else "not all to the end"
    counts = f"{sum(each.states for each in found):,} | {sum(each.steps for each in found):,}"
    return f"{counts} | {whole} | {sum(len(each.violations) for each in found)} | {sum(each.stuck for each in found)}"


def violations(
    one: Mapping[SmallProfile, dict[str, Enumerated]], two: Mapping[Task, Explored], profiles: Sequence[SmallProfile]
) -> Iterator[str]:
    """Yield every violation with its schedule."""
    yield "## Violations"
    yield ""
    lines: list[str] = []
    for profile, by_kind in one.items():
        for each in by_kind.values():
            for violation, schedule in each.violations.items():
                lines += [f"{profile}, one worker: ", *schedule_lines(violation, schedule), ""]
            for schedule in each.endless[:1]:
                lines += [f"{profile}, one worker: ", *schedule_lines("comes to no end", schedule), ""]
    for task, explored in two.items():
        place = f"{profiles[task.number]}, two workers, {task.family}: "
        for violation, schedule in explored.violations.items():
            lines += [place, *schedule_lines(violation, schedule), ""]
        if explored.stuck:
            lines += [place, *schedule_lines("stuck", explored.stuck_schedule), ""]
    yield from lines or ["None."]
