"""The table of what caught which defect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.sabotage.defects import PROMISES, Defect
from harness.sabotage.runner import Run, in_the_crash_kit


def render(control: Run, runs: Sequence[Run], made: str, schedules: int = 0) -> str:
    """Return the table as Markdown.

    Args:
        control: the run of all the tests without a defect.
        runs: a run for each defect.
        made: which command made it.
        schedules: how many random schedules were played at most, where the crash kit can see a defect.
    """
    return "\n".join(_lines(control, runs, made, schedules)) + "\n"


def line(run: Run) -> str:
    """Return one run for a terminal."""
    name = run.defect.name if run.defect else "no defect"
    said = "SURVIVED" if run.survived else f"caught by {_short(run.red)}" if run.red else run.trouble or "green"
    drawn = f", {run.schedules} schedules" if run.schedules is not None else ""
    return f"{name:55} {said} ({run.tests} tests{drawn}, {run.seconds:.1f} s)"


def _lines(control: Run, runs: Sequence[Run], made: str, schedules: int) -> Iterator[str]:
    survivors = [run.defect.name for run in runs if run.defect and run.survived]
    caught = sum(run.red is not None for run in runs)
    yield "# Sabotage"
    yield ""
    yield "Small deliberate defects, each put into a copy of the library alone. *Tests* is how many were run until the first"
    yield f"one failed, in the files that have to catch it. {made}"
    yield ""
    yield f"- without a defect: {control.tests} tests, all green"
    yield f"- defects: {len(runs)}, caught: {caught}, survived: {', '.join(survivors) or 'none'}"
    yield from _drawn(runs, schedules)
    yield ""
    yield "| defect | breaks | red first | tests | s | schedules |"
    yield "|---|---|---|---:|---:|---:|"
    yield from (_row(run.defect, run, schedules) for run in runs if run.defect is not None)
    yield ""
    yield "| promise | defects that break it |"
    yield "|---|---|"
    for promise in PROMISES:
        yield f"| {promise} | {', '.join(r.defect.name for r in runs if r.defect and promise in r.defect.breaks) or 'none run'} |"


def _drawn(runs: Sequence[Run], schedules: int) -> Iterator[str]:
    if not schedules:
        return
    drawn = [run for run in runs if run.defect and in_the_crash_kit(run.defect)]
    found = sum(run.schedules is not None for run in drawn)
    yield f"- random schedules: {len(drawn)} defects lie where the crash kit can see them; in {found} of them it found something"
    yield f"  within {schedules:,} schedules, over all profiles in turn. *Schedules* is how many that took; `-`: that many found"
    yield "  nothing; empty: the defect lies in what the kit has a stand-in for."


def _row(defect: Defect, run: Run, schedules: int) -> str:
    red = f"`{_short(run.red)}`" if run.red else "not run" if run.trouble else "**SURVIVED**"
    drawn = f"{run.schedules:,}" if run.schedules is not None else "-" if schedules and in_the_crash_kit(defect) else ""
    return f"| {defect.name} | {', '.join(defect.breaks)} | {red} | {run.tests} | {run.seconds:.1f} | {drawn} |"


def _short(red: str | None) -> str:
    module, _, test = (red or "").partition("::")
    return f"{module.rsplit('.', 1)[-1]}::{test}".replace("|", "\\|")
