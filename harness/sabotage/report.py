"""The table of what caught which defect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.sabotage.defects import PROMISES
from harness.sabotage.runner import Run


def render(control: Run, runs: Sequence[Run]) -> str:
    """Return the table as Markdown.

    Args:
        control: the run of all the tests without a defect.
        runs: a run for each defect.
    """
    return "\n".join(_lines(control, runs)) + "\n"


def line(run: Run) -> str:
    """Return one run for a terminal."""
    name = run.defect.name if run.defect else "no defect"
    said = "SURVIVED" if run.survived else f"caught by {_short(run.red)}" if run.red else "green"
    drawn = f", {run.schedules} schedules" if run.schedules is not None else ""
    return f"{name:55} {said} ({run.tests} tests{drawn}, {run.seconds:.1f} s)"


def _lines(control: Run, runs: Sequence[Run]) -> Iterator[str]:
    survivors = [run.defect.name for run in runs if run.defect and run.survived]
    yield "# Sabotage"
    yield ""
    yield "Small deliberate defects, each put into a copy of the library alone. *Tests* is how many were run until the first"
    yield "one failed, in the files that have to catch it. *Schedules* is how many random ones the crash kit then played on the"
    yield "same copy, over all its profiles in turn, until it found something (with `--schedules N`); it is empty where N of them"
    yield "found nothing, or where the defect lies in what the kit has a stand-in for. Made by `python -m harness.sabotage`."
    yield ""
    yield f"- without a defect: {control.tests} tests, all green"
    yield f"- defects: {len(runs)}, caught: {len(runs) - len(survivors)}, survived: {', '.join(survivors) or 'none'}"
    yield ""
    yield "| defect | breaks | red first | tests | s | schedules |"
    yield "|---|---|---|---:|---:|---:|"
    for run in runs:
        if run.defect is not None:
            red = f"`{_short(run.red)}`" if run.red else "**SURVIVED**"
            breaks, drawn = ", ".join(run.defect.breaks), "" if run.schedules is None else f"{run.schedules:,}"
            yield f"| {run.defect.name} | {breaks} | {red} | {run.tests} | {run.seconds:.1f} | {drawn} |"
    yield ""
    yield "| promise | defects that break it |"
    yield "|---|---|"
    for promise in PROMISES:
        yield f"| {promise} | {', '.join(r.defect.name for r in runs if r.defect and promise in r.defect.breaks) or 'none run'} |"


def _short(red: str | None) -> str:
    module, _, test = (red or "").partition("::")
    return f"{module.rsplit('.', 1)[-1]}::{test}".replace("|", "\\|")
