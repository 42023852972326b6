"""The report that people read against the results that it was made from: each cell of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]


def audit(document: Json, report: str) -> Iterator[str]:
    """Yield which cells say something else than the results.

    Args:
        document: the results.
        report: the report, as Markdown.
    """
    shown = dict(_cells(report))
    told: dict[tuple[str, str], list[Json]] = {}
    for case in document["cases"]:
        told.setdefault((case["scenario"], case["column"]), []).append(case)
    for (scenario, column), cases in told.items():
        parts = shown.get((scenario, column), "").split("<br>")
        if [_in_words(case) for case in cases] != parts:
            yield f"{scenario} / {column}: the report shows {' '.join(parts)!r}"
    for scenario, column in shown.keys() - told.keys():
        yield f"{scenario} / {column}: the report shows a cell that was not run"


def _cells(report: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield scenario, column and text of each cell of the verdicts. A column that stands twice has to say the same twice."""
    columns: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    inside = False
    for line in report.splitlines():
        if line.startswith("## "):
            inside, columns = line.startswith("## Verdicts"), []
        elif inside and line.startswith("| "):
            first, wanted, *texts = [part.strip() for part in line.strip("|").split("|")]
            if not columns:
                columns = texts
            elif first != "---":
                for column, text in zip(columns, texts, strict=True):
                    place = (first.strip("`"), column)
                    if text and seen.setdefault(place, text) != text:
                        seen[place] = f"{seen[place]} and {text}, wanted {wanted}"
    yield from seen.items()


def _in_words(case: Json) -> str:
    """Return what a cell has to say of a case."""
    status = case["answer"]["status"] if case["answer"] else "nothing"
    shown = "AMBIGUOUS" if status == "ambiguous" else status
    took = "no end" if case["crash_to_close_s"] is None else f"{case['crash_to_close_s']:.2f} s"
    held = case["verdict"] == "held"
    got = "" if held else f": {_dollars(case['got']['minor'])} in {case['got']['refunds']}"
    tried = case["workflow"]["attempts"] if case["workflow"] else 0
    attempts = f", {tried} attempt{'' if tried == 1 else 's'}" if tried else ""
    return f"**{case['verdict']}**{got}, answer {shown} {case['answer_verdict']}, {took}{attempts}"


def _dollars(cents: int) -> str:
    return f"${cents // 100}" if cents % 100 == 0 else f"${cents / 100:.2f}"
