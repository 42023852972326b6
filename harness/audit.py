"""The audit: `python -m harness.audit [RESULTS.json]` reads the results and the provider's record again, on its own.

It shares no code with what wrote them: what is wanted stands here once more, and the record is read and added up anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

DEFAULT_RESULTS = Path("results/standalone.json")
SIGKILL_EXIT = -9
NOTHING_MOVED = {"failed", "canceled"}
TOLERANCE_S = 0.0015
"""Times are written in milliseconds, and a median of them is rounded again."""

_COMMON = {
    "crash_after_commit": (2000, 1, "refunded"),
    "hand_refund_before_decision": (2500, 2, "refunded"),
    "hand_refund_during_outage": (2000, 1, "refused"),
    "unrelated_refund_during_outage": (2500, 2, "refunded"),
    "approval_revoked_during_outage": (0, 0, "refused"),
    "approval_revoked_after_commit": (2000, 1, "refunded"),
    "key_pruned_after_24h": (2000, 1, "refunded"),
    "key_lost_inside_window": (2000, 1, "refunded"),
}
_GATE_ALONE = {
    "no_lookup_after_24h": (2000, 1, "ambiguous"),
    "hand_refund_during_outage (burn off)": (2000, 1, "refused"),
    "approval_revoked_during_outage (burn off)": (0, 0, "refused"),
}
WANTED = _COMMON | _GATE_ALONE
"""For each scenario: the amount in cents, in how many refunds, and the answer."""

COLUMNS = ("standard", "checked", "checked_with_our_rule", "interlock")


def main(arguments: list[str] | None = None) -> int:
    """Audit the results; return 0 where every cell is what the record says."""
    parser = argparse.ArgumentParser(prog="python -m harness.audit", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=DEFAULT_RESULTS)
    path = parser.parse_args(arguments).results
    if not path.exists():
        print(f"there are no results at {path}; `make demo` writes them", file=sys.stderr)
        return 2
    document = json.loads(path.read_text(encoding="utf-8"))
    findings = list(audit(document, (path.parent / document["ledger"]).read_text(encoding="utf-8").splitlines()))
    for finding in findings:
        print(f"AUDIT: {finding}")
    counted = f"{len(document['cases'])} cases of {document['mode']} results"
    if findings:
        print(f"{counted} audited: {len(findings)} findings")
        return 1
    print(f"{counted} audited: each cell is what the provider's record says")
    return 0


def audit(document: Json, ledger_lines: list[str]) -> Iterator[str]:
    """Yield what differs, with its cell.

    Args:
        document: the results.
        ledger_lines: the provider's record, line by line.
    """
    refunds = _refunds_at_end(ledger_lines)
    for case in document["cases"]:
        there = [one for one in refunds.values() if one["payment"] == case["payment"] and one["status"] not in NOTHING_MOVED]
        for finding in _case(case, there):
            yield f"{case['scenario']} / {case['column']} ({case['case_id']}): {finding}"
    yield from _whole(document, refunds)


def _refunds_at_end(lines: list[str]) -> dict[str, Json]:
    refunds: dict[str, Json] = {}
    for line in lines:
        row = json.loads(line)
        if row["kind"] in ("refund_created", "refund_listed"):
            refunds[row["refund"]] = {name: row[name] for name in ("refund", "payment", "amount", "status", "metadata")}
        elif row["kind"] == "refund_status_changed":
            refunds[row["refund"]]["status"] = row["status"]
        elif row["kind"] == "metadata_updated" and row["object_id"] in refunds:
            refunds[row["object_id"]]["metadata"] = row["metadata"]
    return refunds


def _case(case: Json, there: list[Json]) -> Iterator[str]:
    want_minor, want_refunds, want_answer = WANTED[case["scenario"]]
    got_minor, got_refunds = sum(one["amount"] for one in there), len(there)
    yield from _differs("want", case["want"], {"minor": want_minor, "refunds": want_refunds})
    yield from _differs("wanted answer", case["want_answer"], want_answer)
    yield from _differs("got", case["got"], {"minor": got_minor, "refunds": got_refunds})
    yield from _differs("verdict", case["verdict"], verdict_of(want_minor, want_refunds, got_minor, got_refunds))
    yield from _differs("refunds", sorted(one["id"] for one in case["refunds"]), sorted(one["refund"] for one in there))

    own = {one["refund"]: one["amount"] for one in there if case["case_id"] in one["metadata"].values()}
    yield from _differs("own refunds", sorted(case["own_refunds"]), sorted(own))
    answer = case["answer"] or {"status": "nothing"}
    yield from _differs("answer", case["answer_verdict"], _answer(answer, own))

    held = case["verdict"] == "held" and case["answer_verdict"] == "matches" and answer["status"] == want_answer
    codes = case["exit_codes"]
    clean = codes[:1] == [SIGKILL_EXIT] and len(codes) > 1 and set(codes[1:]) == {0} and case["problem"] is None
    yield from _differs("as wanted", case["as_wanted"], held and clean)
    yield from _differs("starts", case["starts"], len(codes))
    if codes[:1] != [SIGKILL_EXIT] or SIGKILL_EXIT in codes[1:]:
        yield f"exit codes {codes}: the first worker, and no other, has to be killed"
    if case["column"] == "interlock":
        yield from _receipt(case, answer, own, want_answer)


def verdict_of(want_minor: int, want_refunds: int, got_minor: int, got_refunds: int) -> str:
    """Return the verdict, worked out anew."""
    if got_minor < want_minor:
        return f"SHORT by {_dollars(want_minor - got_minor)}"
    if (got_minor, got_refunds) != (want_minor, want_refunds):
        return f"VIOLATED by {_dollars(got_minor - want_minor)}"
    return "held"


def _dollars(cents: int) -> str:
    whole, rest = divmod(cents, 100)
    return f"${whole}.{rest:02}" if rest else f"${whole}"


def _answer(answer: Json, own: dict[str, int]) -> str:
    if answer["status"] == "refunded":
        right = own == {answer["refund"]: answer["amount_minor"]}
    elif answer["status"] == "refused":
        right = not own
    elif answer["status"] == "ambiguous":
        right = True
    else:
        return "no answer"
    return "matches" if right else "CONTRADICTS"


def _receipt(case: Json, answer: Json, own: dict[str, int], want_answer: str) -> Iterator[str]:
    """Every interlock row has to be as wanted, with a receipt that says the same as the provider's record."""
    if not case["as_wanted"]:
        yield f"not as wanted: {case['verdict']}, answered {answer['status']}, wanted {want_answer}"
    receipt = answer.get("receipt")
    if receipt is None:
        yield "it has no receipt"
        return
    statuses = {"refunded": "COMMITTED", "refused": "REFUSED", "ambiguous": "AMBIGUOUS"}
    yield from _differs("receipt's status", receipt["status"], statuses.get(answer["status"]))
    if receipt["status"] == "COMMITTED":
        yield from _differs("receipt's refund", [receipt["evidence"]["reference"]], list(own))
    if receipt["subject"] != case["payment"] or receipt["amount_minor"] != 2000:
        yield f"its receipt is about {receipt['amount_minor']} of {receipt['subject']}"


def _whole(document: Json, refunds: dict[str, Json]) -> Iterator[str]:
    cases = document["cases"]
    ran = {(case["scenario"], case["column"]) for case in cases}
    every = {(row, column) for row in _COMMON for column in COLUMNS} | {(row, "interlock") for row in _GATE_ALONE}
    yield from _differs("the run is complete", document["complete"], ran >= every)
    payments = [case["payment"] for case in cases]
    if len(set(payments)) != len(payments):
        yield "two cases share a payment"
    if strangers := {one["payment"] for one in refunds.values()} - set(payments):
        yield f"the record holds refunds of payments that belong to no case: {', '.join(sorted(strangers))}"
    for column, told in document["tallies"].items():
        mine = [case for case in cases if case["column"] == column and case["scenario"] in _COMMON]
        yield from _tally(f"tally of {column}", told, mine)
    for column, told in document["tallies_of_rows_of_its_own"].items():
        mine = [case for case in cases if case["column"] == column and case["scenario"] in _GATE_ALONE]
        yield from _tally(f"tally of {column}'s own rows", told, mine)


def _tally(name: str, told: Json, cases: list[Json]) -> Iterator[str]:
    statuses = [case["answer"]["status"] for case in cases if case["answer"]]
    yield from _differs(f"{name}, cases", told["cases"], len(cases))
    yield from _differs(f"{name}, held", told["held"], sum(case["verdict"] == "held" for case in cases))
    yield from _differs(f"{name}, answers", told["answers_right"], sum(case["answer_verdict"] == "matches" for case in cases))
    yield from _differs(f"{name}, known", told["known_outcomes"], sum(status in ("refunded", "refused") for status in statuses))
    closes = [case["crash_to_close_s"] for case in cases if case["crash_to_close_s"] is not None]
    median_s = statistics.median(closes) if closes else None
    told_s = told["crash_to_close_median_s"]
    if (median_s is None) != (told_s is None) or (median_s is not None and abs(median_s - told_s) > TOLERANCE_S):
        yield f"{name}, median: the results say {told_s}, the cases {median_s}"


def _differs(what: str, told: object, found: object) -> Iterator[str]:
    if told != found:
        yield f"{what}: the results say {told!r}, the record {found!r}"


if __name__ == "__main__":
    sys.exit(main())
