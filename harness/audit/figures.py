"""The figures that were made from the cases: tallies over rows that all columns have, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from harness.audit.cases import differs
from harness.audit.wanted import COMMON, DEFAULTS, GATE, GATE_ALONE

Json = dict[str, Any]

TOLERANCE_S = 0.0015
"""Times are written in milliseconds, and what is made of them is rounded again."""

WAITS_FOR_HORIZON = "(burn off)"


def audit(document: Json) -> Iterator[str]:
    """Yield which figures differ."""
    cases = document["cases"]
    for column, told in document["tallies"].items():
        mine = [case for case in cases if case["column"] == column and case["scenario"] in COMMON]
        yield from _tally(f"tally of {column}", told, mine)
    for column, told in document["tallies_of_rows_of_its_own"].items():
        mine = [case for case in cases if case["column"] == column and case["scenario"] in GATE_ALONE]
        yield from _tally(f"tally of {column}'s own rows", told, mine)
    yield from _targets(document)


def _tally(name: str, told: Json, cases: list[Json]) -> Iterator[str]:
    statuses = [case["answer"]["status"] for case in cases if case["answer"]]
    yield from differs(f"{name}, cases", told["cases"], len(cases))
    yield from differs(f"{name}, held", told["held"], sum(case["verdict"] == "held" for case in cases))
    yield from differs(f"{name}, answers", told["answers_right"], sum(case["answer_verdict"] == "matches" for case in cases))
    yield from differs(f"{name}, known", told["known_outcomes"], sum(status in ("refunded", "refused") for status in statuses))
    closes = [case["crash_to_close_s"] for case in cases if case["crash_to_close_s"] is not None]
    median_s = statistics.median(closes) if closes else None
    told_s = told["crash_to_close_median_s"]
    if (median_s is None) != (told_s is None) or (median_s is not None and abs(median_s - told_s) > TOLERANCE_S):
        yield f"{name}, median: the results say {told_s}, the cases {median_s}"


def _targets(document: Json) -> Iterator[str]:
    told = {one["name"]: one for one in document["targets"]}
    judged = document["matrix"] == "e2e" and document["complete"] and document["mode"] == "LOCAL"
    found = dict(_figures(document["cases"])) if judged else {}
    yield from differs("targets", sorted(told), sorted(found))
    for name in told.keys() & found.keys():
        figure, bound = found[name]
        one = told[name]
        if (figure is None) != (one["measured"] is None) or (figure is not None and abs(figure - one["measured"]) > TOLERANCE_S):
            yield f"target {name}: the results say {one['measured']}, the cases {figure}"
        yield from differs(f"target {name}, bound", one["at_most"], bound)
        yield from differs(f"target {name}, met", one["met"], one["measured"] is not None and one["measured"] <= bound)


def _figures(cases: list[Json]) -> Iterator[tuple[str, tuple[float | None, float]]]:
    """Yield each target's name, figure and bound."""
    of: dict[str, list[Json]] = {}
    for case in cases:
        of.setdefault(case["column"], []).append(case)
    for column in of.keys() & GATE:
        yield f"{column}_not_as_wanted", (sum(not case["as_wanted"] for case in of[column]), 0)
    if "interlock" in of:
        burning = [case for case in of["interlock"] if WAITS_FOR_HORIZON not in case["scenario"]]
        yield "interlock_longest_s", (_of(max, burning), 2.0)
    medians = {column: _of(statistics.median, [one for one in mine if one["scenario"] in COMMON]) for column, mine in of.items()}
    ours, theirs = medians.get("temporal_interlock"), medians.get("temporal")
    if "temporal_interlock" in of:
        yield "temporal_interlock_median_s", (ours, 5.0)
        yield "temporal_interlock_attempts", (max(case["workflow"]["attempts"] for case in of["temporal_interlock"]), 3)
    if {"temporal_interlock", "temporal"} <= of.keys():
        yield "above_temporal_s", (None if ours is None or theirs is None else ours - theirs, 0.5)
    if of.keys() >= set(DEFAULTS):
        by_hand = [median for name in DEFAULTS if name not in GATE and (median := medians[name]) is not None]
        gate = medians["temporal_interlock_defaults"]
        yield "share_of_defaults", (None if gate is None or not by_hand else gate / min(by_hand), 0.5)


def _of(fold: Any, cases: list[Json]) -> float | None:
    closes = [case["crash_to_close_s"] for case in cases]
    return None if not closes or None in closes else fold(closes)
