"""The terminal: a line of progress while it runs, and the table at the end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator

from harness.case import CaseResult
from harness.columns import COLUMNS, Engine
from harness.columns.job import Status
from harness.results import Run, Tally
from harness.scenarios import Scenario
from harness.verdicts import HELD, AnswerVerdict, in_words

_GREEN, _RED, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[0m"
_CLEAR_LINE = "\r\x1b[2K"


class Progress:
    """Says how far a run is: one line that is overwritten on a terminal, a line per case elsewhere.

    Args:
        cases: how many cases there will be.
    """

    def __init__(self, cases: int) -> None:
        self._cases, self._done, self._running = cases, 0, list[str]()
        self._out, self._terminal = sys.stdout, sys.stdout.isatty()
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def begun(self, name: str) -> None:
        """Say that a case runs."""
        with self._lock:
            self._running.append(name)
            if self._terminal:
                self._show(self._line())

    def ended(self, name: str, result: CaseResult) -> None:
        """Say that a case has ended."""
        with self._lock:
            self._running.remove(name)
            self._done += 1
            self._show(self._line() if self._terminal else f"{self._count()} {name}: {result.verdict}\n")

    def finish(self) -> None:
        """Leave the terminal clean for what follows."""
        if self._terminal:
            self._show(_CLEAR_LINE)

    def _line(self) -> str:
        columns = os.get_terminal_size(self._out.fileno()).columns
        text = f"{self._count()} {time.monotonic() - self._began:3.0f} s  running: {'; '.join(self._running)}"
        return _CLEAR_LINE + text[: columns - 1]

    def _count(self) -> str:
        return f"{self._done:3}/{self._cases}"

    def _show(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def render(run: Run, *, colour: bool) -> str:
    """Return the table.

    Args:
        run: the run.
        colour: whether to mark cells with colours.
    """
    return "\n".join(_lines(run, colour=colour))


def _lines(run: Run, *, colour: bool) -> Iterator[str]:
    yield f"{run.label}: one payment of $100, one approved refund of $20, a worker killed with SIGKILL in the middle of it"
    for engine in Engine:
        columns = [name for name in run.columns if COLUMNS[name].engine is engine]
        if columns:
            yield from _table(run, columns, colour=colour)
    yield ""
    yield from _tallies(run)
    if run.emulated:
        yield f"EMULATED: {', '.join(run.emulated)}"


def _table(run: Run, columns: list[str], *, colour: bool) -> Iterator[str]:
    widths = [max(len(name) for name in _words_of_rows(run)), 9, *(max(23, len(name)) for name in columns)]
    yield ""
    yield _row(["scenario", "wanted", *columns], widths)
    yield "  ".join("-" * width for width in widths)
    for scenario in run.scenarios:
        cells = [run.cell(scenario.name, column) for column in columns]
        if any(cells):
            yield from _rows(scenario, cells, widths, colour=colour)


def _words_of_rows(run: Run) -> list[str]:
    return [word for scenario in run.scenarios for word in _name(scenario)]


def _name(scenario: Scenario) -> tuple[str, str]:
    name, _, label = scenario.name.partition(" ")
    return name, f"  {label}" if label else ""


def _rows(scenario: Scenario, cells: list[list[CaseResult]], widths: list[int], *, colour: bool) -> Iterator[str]:
    """Yield two lines: the verdicts, and under each the answer and the time."""
    first, second = _name(scenario)
    wanted = [in_words(scenario.want), scenario.answer]
    for name, want, show in ((first, wanted[0], _verdict), (second, wanted[1], _answer)):
        texts = [name, want, *(show(cell) if cell else "" for cell in cells)]
        padded = [text.ljust(width) for text, width in zip(texts, widths, strict=True)]
        marks = [None, None, *map(_right, cells)]
        yield "  ".join(_coloured(text, mark) if colour else text for text, mark in zip(padded, marks, strict=True)).rstrip()


def _verdict(cell: list[CaseResult]) -> str:
    kinds = list(dict.fromkeys(case.verdict for case in cell))
    if len(cell) == 1:
        return kinds[0]
    return ", ".join(f"{kind} {sum(case.verdict == kind for case in cell)}/{len(cell)}" for kind in kinds)


def _answer(cell: list[CaseResult]) -> str:
    worst = max(cell, key=lambda case: list(AnswerVerdict).index(case.answer_verdict))
    closes = [case.crash_to_close_s for case in cell if case.crash_to_close_s is not None]
    told = "AMBIGUOUS" if worst.answer and worst.answer.status is Status.AMBIGUOUS else str(worst.answer_verdict)
    tries = [case.workflow.attempts for case in cell if case.workflow]
    words = [told, *([f"{max(closes):.2f} s"] if closes else []), *([f"{max(tries)} tries"] if tries else [])]
    return ", ".join(words)


def _right(cell: list[CaseResult]) -> bool | None:
    return all(case.verdict == HELD and case.answer_verdict is AnswerVerdict.MATCHES for case in cell) if cell else None


def _tallies(run: Run) -> Iterator[str]:
    common = sum(not scenario.interlock_only for scenario in run.scenarios)
    yield f"over the {common} rows that every column has:"
    for column in run.columns:
        yield f"  {column:<27} {_figures(run.tally(column))}"
    alone = [column for column in run.columns if COLUMNS[column].has(gate_only=True)]
    if alone and common < len(run.scenarios):
        yield f"over the {len(run.scenarios) - common} rows that are the gate's alone:"
        for column in alone:
            yield f"  {column:<27} {_figures(run.tally(column, interlock_only=True))}"
    for target in run.targets:
        reached = "reached" if target.met else "MISSED"
        yield f"{reached}: {target.what}: {_number(target.measured)}, at most {_number(target.at_most)}"


def _number(number: float | None) -> str:
    return "none" if number is None else f"{number:.2f}".rstrip("0").rstrip(".")


def _figures(tally: Tally) -> str:
    of = f"/{tally.cases}"
    median_s = "no end" if tally.crash_to_close_median_s is None else f"{tally.crash_to_close_median_s:.2f} s"
    return (
        f"held {tally.held}{of}   answers right {tally.answers_right}{of}   known outcomes {tally.known_outcomes}{of}   "
        f"crash to close, median {median_s}"
    )


def _row(texts: list[str], widths: list[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip()


def _coloured(text: str, right: bool | None) -> str:  # noqa: FBT001 - it is the value that is shown
    if right is None:
        return text
    return f"{_GREEN if right else _RED}{text}{_PLAIN}"
