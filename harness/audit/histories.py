"""The columns on Temporal against Temporal's own histories: attempts, when a workflow was closed, and how."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from harness.audit.cases import differs
from harness.audit.wanted import STANDALONE

Json = dict[str, Any]

MOVES_MONEY = "refund"
SOONER_S, LATER_S = 0.05, 2.0
"""How far the time that the parent took may be from the history's: it saw the death a little late, and the end later."""


def audit(document: Json, lines: list[str]) -> Iterator[str]:
    """Yield what differs, with its cell.

    Args:
        document: the results.
        lines: the histories, an event a line.
    """
    histories: dict[str, list[Json]] = {}
    for line in lines:
        event = json.loads(line)
        histories.setdefault(event["workflow"], []).append(event)
    for case in document["cases"]:
        for finding in _case(case, histories):
            yield f"{case['scenario']} / {case['column']} ({case['case_id']}): {finding}"
    of_cases = {f"refund-{case['case_id']}" for case in document["cases"]}
    if strangers := histories.keys() - of_cases:
        yield f"there are histories of workflows that belong to no case: {', '.join(sorted(strangers))}"


def _case(case: Json, histories: dict[str, list[Json]]) -> Iterator[str]:
    told = case["workflow"]
    if case["column"] in STANDALONE:
        yield from differs("workflow", told, None)
        return
    if told is None:
        yield "it has no workflow"
        return
    yield from differs("workflow id", told["workflow_id"], f"refund-{case['case_id']}")
    events = histories.get(told["workflow_id"], [])
    if not events:
        yield "its workflow has no history"
        return
    last = events[-1]
    yield from differs("the workflow's end", "WORKFLOW_EXECUTION_COMPLETED", last["kind"])
    yield from differs("closed at", _at(told["closed_at"]), _at(last["at"]))
    starts = [event for event in events if event.get("activity") == MOVES_MONEY]
    yield from differs("attempts", told["attempts"], max((event["attempt"] for event in starts), default=0))
    yield from _times(case, events)


def _times(case: Json, events: list[Json]) -> Iterator[str]:
    killed_at = _at(case["killed_at"])
    # The gate may answer for the attempt that the worker died in, so there need not be another one.
    if not any(event["kind"] == "ACTIVITY_TASK_COMPLETED" and _at(event["at"]) > killed_at for event in events):
        yield "no activity was completed after the worker's death"
    took_s, told_s = (_at(events[-1]["at"]) - killed_at).total_seconds(), case["crash_to_close_s"]
    if told_s is None or not took_s - SOONER_S <= told_s <= took_s + LATER_S:
        yield f"crash to close: the results say {told_s}, the history {took_s:.3f}"


def _at(text: str | None) -> datetime:
    return datetime.fromisoformat(text or "1970-01-01T00:00:00+00:00")
