"""The judge: holds the journal against the provider's ledger, and what the workers were told against the journal."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.soak.provider import read_ledger
from interlock import Receipt, Receipts

WORDS_OF_TROUBLE = frozenset({"JournalUnavailable", "OutcomeNotRecorded", "ApprovalNotUsable"})
"""What a worker may be told beside outcomes: the database is killed and cut off all the time."""

_STAYS = {"COMMITTED": ("COMMITTED",), "REFUSED": ("REFUSED",), "AMBIGUOUS": ("AMBIGUOUS", "COMMITTED")}

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that is judged.

    Args:
        receipts: the gate's statements, by key.
        payouts: the provider's, by the mark of the action.
        announced: what the workers were told.
        findings: what the journal's verification found.
        events: how many it read.
    """

    receipts: dict[str, Receipt]
    payouts: dict[str, list[Line]]
    announced: list[Line]
    findings: tuple[str, ...]
    events: int

    @property
    def endings(self) -> Counter[str]:
        """How many actions ended how."""
        return Counter(receipt.status for receipt in self.receipts.values())

    @property
    def told(self) -> Counter[str]:
        """What workers were told, by outcome or error."""
        return Counter(line.get("status") or line["error"] for line in self.announced if line["what"] in ("outcome", "raised"))


def record_of(url: str, ledger: Path, folder: Path) -> Record:
    """Read what a soak has left."""
    payouts: dict[str, list[Line]] = defaultdict(list)
    for payout in read_ledger(ledger):
        payouts[payout["action"]].append(payout)
    announced = [json.loads(line) for file in sorted(folder.glob("worker-*.jsonl")) for line in file.read_text().splitlines()]
    with Receipts.open(url) as reader:
        verification = reader.verify()
        receipts, after = dict[str, Receipt](), None
        while True:
            page = reader.receipts(limit=500, after=after)
            receipts |= {receipt.key: receipt for receipt in page.receipts}
            after = page.next_page
            if after is None:
                break
    return Record(receipts, dict(payouts), announced, tuple(map(str, verification.findings)), verification.events)


def violations(record: Record) -> Iterator[str]:
    """Say what must never be, a line each."""
    yield from (f"the journal does not verify: {finding}" for finding in record.findings)
    for receipt in record.receipts.values():
        yield from _receipt_and_ledger(receipt, record.payouts.get(receipt.action_id, []))
    marks = {receipt.action_id for receipt in record.receipts.values()}
    yield from (f"the journal lost the action of {payouts}" for mark, payouts in record.payouts.items() if mark not in marks)
    for line in record.announced:
        yield from _announcement(record, line)


def _receipt_and_ledger(receipt: Receipt, payouts: list[Line]) -> Iterator[str]:
    allowed = {"COMMITTED": (1,), "REFUSED": (0,), "AMBIGUOUS": (0, 1)}.get(receipt.status)
    if allowed is None:
        yield f"{receipt.key} is {receipt.status} for ever: {receipt.to_text()}"
    elif len(payouts) not in allowed:
        yield f"{receipt.key} is {receipt.status}, and the ledger has {len(payouts)} payouts of it: {receipt.to_text()}"
    for payout in payouts:
        if (payout["subject"], payout["amount_minor"]) != (receipt.subject, receipt.amount_minor):
            yield f"{receipt.key} is not what was paid out: {payout}"
        if receipt.status == "COMMITTED" and (receipt.evidence is None or receipt.evidence.reference != payout["id"]):
            yield f"{receipt.key} has not {payout['id']} as its evidence, but {receipt.evidence}"


def _announcement(record: Record, line: Line) -> Iterator[str]:
    if line["what"] == "raised" and line["error"] not in WORDS_OF_TROUBLE:
        yield f"a worker met {line}"
    if line["what"] == "outcome":
        receipt = record.receipts.get(line["key"])
        if receipt is None:
            yield f"a worker was told {line['status']} of {line['key']}, which the journal lost"
        elif receipt.status not in _STAYS.get(line["status"], (receipt.status,)):
            yield f"a worker was told {line['status']} of {line['key']}, which is {receipt.status}"
