"""Each case against the provider's record: the money, the answer, the exit codes, the receipt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.audit.wanted import ALONE, COMMON, GATE, GATE_ALONE, MATRICES, WANTED

Json = dict[str, Any]

SIGKILL_EXIT = -9
NOTHING_MOVED = {"failed", "canceled"}


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
    yield from differs("want", case["want"], {"minor": want_minor, "refunds": want_refunds})
    yield from differs("wanted answer", case["want_answer"], want_answer)
    yield from differs("got", case["got"], {"minor": got_minor, "refunds": got_refunds})
    yield from differs("verdict", case["verdict"], verdict_of(want_minor, want_refunds, got_minor, got_refunds))
    yield from differs("refunds", sorted(one["id"] for one in case["refunds"]), sorted(one["refund"] for one in there))

    own = {one["refund"]: one["amount"] for one in there if case["case_id"] in one["metadata"].values()}
    yield from differs("own refunds", sorted(case["own_refunds"]), sorted(own))
    answer = case["answer"] or {"status": "nothing"}
    yield from differs("answer", case["answer_verdict"], _answer(answer, own))

    held = case["verdict"] == "held" and case["answer_verdict"] == "matches" and answer["status"] == want_answer
    codes = case["exit_codes"]
    clean = codes[:1] == [SIGKILL_EXIT] and len(codes) > 1 and set(codes[1:]) == {0} and case["problem"] is None
    yield from differs("as wanted", case["as_wanted"], held and clean)
    yield from differs("starts", case["starts"], len(codes))
    if codes[:1] != [SIGKILL_EXIT] or SIGKILL_EXIT in codes[1:]:
        yield f"exit codes {codes}: the first worker, and no other, has to be killed"
    if case["column"] in GATE:
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
    yield from differs("receipt's status", receipt["status"], statuses.get(answer["status"]))
    if receipt["status"] == "COMMITTED":
        yield from differs("receipt's refund", [receipt["evidence"]["reference"]], list(own))
    if receipt["subject"] != case["payment"] or receipt["amount_minor"] != 2000:
        yield f"its receipt is about {receipt['amount_minor']} of {receipt['subject']}"


def _whole(document: Json, refunds: dict[str, Json]) -> Iterator[str]:
    cases = document["cases"]
    ran = {(case["scenario"], case["column"]) for case in cases}
    columns = MATRICES[document["matrix"]]
    every = {(row, column) for row in COMMON for column in columns} | {
        (row, column) for row in GATE_ALONE for column in columns if column in ALONE
    }
    yield from differs("the run is complete", document["complete"], ran >= every)
    payments = [case["payment"] for case in cases]
    if len(set(payments)) != len(payments):
        yield "two cases share a payment"
    if strangers := {one["payment"] for one in refunds.values()} - set(payments):
        yield f"the record holds refunds of payments that belong to no case: {', '.join(sorted(strangers))}"


def differs(what: str, told: object, found: object) -> Iterator[str]:
    """Yield a finding where the results and the record say different things."""
    if told != found:
        yield f"{what}: the results say {told!r}, the record {found!r}"
