"""The judge: holds what the gate recorded, and what the workers were told, against the provider's own ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from harness.sigkill.schedule import CURRENCY, Point
from harness.sigkill.worker import FINISHER, Line, Log, Site
from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.ledger import RefundCreated, read_ledger
from interlock import Receipt
from interlock.stripe import marks

WORDS_OF_NO = frozenset({"PremiseUnreadable", "ApprovalNotUsable"})
"""What a job may raise: nothing was written, and nothing sent."""

_MAY_BECOME = {
    "COMMITTED": ("COMMITTED",),
    "REFUSED": ("REFUSED",),
    # A definite yes is taken also where somebody else has recorded doubt meanwhile.
    "AMBIGUOUS": ("AMBIGUOUS", "COMMITTED"),
}
"""What an ending that somebody was told may be at the end."""

_MAY_BE_BEFORE_THE_FIRST_COMMIT = (Point.BEFORE_READ, Point.IN_SEND, Point.DELAY)
"""Deaths that can come before the journal has the action; the second is some time after a send, so perhaps in the next job."""


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that is judged.

    Args:
        site: what the processes shared.
        receipts: the gate's statements, by key.
        refunds: the provider's, by the mark of the action.
        log: what the workers announced, in the order of time.
        left_minor: what is left of each approval, by case.
        findings: what the journal's verification found.
    """

    site: Site
    receipts: dict[str, Receipt]
    refunds: dict[str, list[RefundCreated]]
    log: list[Line]
    left_minor: list[int | None]
    findings: tuple[str, ...]


def record_of(site: Site, workers: int) -> Record:
    """Read what a schedule has left."""
    refunds: dict[str, list[RefundCreated]] = defaultdict(list)
    for row in read_ledger(StripeStandIn.attach(site.handshake).ledger_path):
        if isinstance(row.effect, RefundCreated) and row.effect.by == "api":
            refunds[marks.action_of(row.effect.metadata)].append(row.effect)
    log = [line for name in (*(f"worker-{slot}" for slot in range(workers)), FINISHER) for line in Log(site.folder, name).lines()]
    with site.gate(site.refunds()) as gate:
        verification = gate.verify()
        return Record(
            site,
            {receipt.key: receipt for receipt in gate.receipts(limit=500).receipts},
            dict(refunds),
            sorted(log, key=lambda line: float(line["at"])),
            [gate.approval(f"case-{number}").remaining_minor for number in range(len(site.cases))],
            () if verification.valid else tuple(map(str, verification.findings)),
        )


def violations(record: Record) -> Iterator[str]:
    """Say what must never be, a line each."""
    yield from (f"the journal does not verify: {finding}" for finding in record.findings)
    yield from (f"a process raised: {line['traceback']}" for line in record.log if line["what"] == "crashed")
    decided = {key: (one.payment, one.case.amount_minor, CURRENCY) for one in record.site.cases for key in one.case.keys}
    for receipt in record.receipts.values():
        yield from _receipt_and_ledger(receipt, record.refunds.get(receipt.action_id, []), decided.get(receipt.key))
    known = {receipt.action_id for receipt in record.receipts.values()}
    yield from (
        f"{refunds} carry the mark of an action that the journal lost"
        for mark, refunds in record.refunds.items()
        if mark not in known
    )
    yield from _announcements(record)
    for number in range(len(record.site.cases)):
        yield from _cap(record, number)


def _receipt_and_ledger(receipt: Receipt, refunds: list[RefundCreated], decided: tuple[str, int, str] | None) -> Iterator[str]:
    """Hold both against each other, and against what was decided: a gate that records its own mistake agrees with the ledger."""
    allowed = {"COMMITTED": (1,), "REFUSED": (0,), "AMBIGUOUS": (0, 1)}.get(receipt.status)
    if len(refunds) > 1:
        yield f"{receipt.key} was refunded {len(refunds)} times"
    if allowed is None:
        yield f"{receipt.key} is {receipt.status} for ever"
    elif len(refunds) not in allowed:
        yield f"{receipt.key} is {receipt.status}, and the ledger has {len(refunds)} refunds of it"
    if (receipt.subject, receipt.amount_minor, receipt.currency) != decided:
        yield f"{receipt.key} is {receipt.amount_minor} {receipt.currency} of {receipt.subject}, and it was to be {decided}"
    for refund in refunds:
        if (refund.payment, refund.amount, refund.currency) != decided:
            yield f"{receipt.key} was to be {decided}, and what was refunded is {refund}"
        if receipt.status == "COMMITTED" and (receipt.evidence is None or receipt.evidence.reference != refund.refund):
            yield f"{receipt.key} has not {refund.refund} as its evidence, but {receipt.evidence}"


def _announcements(record: Record) -> Iterator[str]:
    """An action that somebody was told about is in the journal, and an ending that somebody was told stays."""
    for line in record.log:
        if line["what"] == "raised" and line["error"] not in WORDS_OF_NO:
            yield f"{line['who']} met {line['error']} at {line['key']}: {line['words']}"
        if line["what"] != "outcome":
            continue
        receipt = record.receipts.get(line["key"])
        if receipt is None:
            yield f"{line['who']} was told {line['status']} of {line['key']}, which the journal lost"
        elif receipt.status not in _MAY_BECOME.get(line["status"], (receipt.status,)):
            yield f"{line['who']} was told {line['status']} of {line['key']}, which is {receipt.status}"
    yield from _unaccounted(record)


def _unaccounted(record: Record) -> Iterator[str]:
    """A key that was begun has a receipt, or what followed shows that it never came to be.

    That is an error that says so, or a death that can have come before the first commit, before which nothing is sent (I1).
    """
    for who in {line["who"] for line in record.log}:
        lines = [line for line in record.log if line["who"] == who]
        for line, after in zip(lines, [*lines[1:], None], strict=True):
            if line["what"] != "begin" or not line["key"] or line["key"] in record.receipts:
                continue
            if after is None or not (after["what"] == "raised" or _may_have_died_too_early(after)):
                yield f"{who} began {line['key']}, went on to {after}, and the journal has no such action"


def _may_have_died_too_early(line: Line) -> bool:
    return line["what"] == "dying" and line["death"].split(" ")[0] in _MAY_BE_BEFORE_THE_FIRST_COMMIT


def _cap(record: Record, number: int) -> Iterator[str]:
    case = record.site.cases[number].case
    receipts = [record.receipts[key] for key in case.keys if key in record.receipts]
    refunds = [refund for receipt in receipts for refund in record.refunds.get(receipt.action_id, [])]
    if sum(refund.amount for refund in refunds) > case.cap_minor or len(refunds) > case.uses:
        yield f"case-{number} allows {case.uses} of {case.cap_minor} in all, and the ledger has {refunds}"
    held = sum(case.amount_minor for receipt in receipts if receipt.status in ("COMMITTED", "AMBIGUOUS"))
    if record.left_minor[number] != case.cap_minor - held:
        yield f"case-{number} has {record.left_minor[number]} left of {case.cap_minor}, and its actions hold {held}"
