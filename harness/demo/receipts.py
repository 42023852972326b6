"""The receipts of the demo's journal: found, shown, verified, and drawn as a chain."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from harness.demo.journal import words_of
from harness.demo.notary import Notary
from interlock import Receipts
from interlock.domain.action import GatedAction
from interlock.errors import InvalidInput
from interlock.evidence.findings import Verdict
from interlock.infrastructure.opening import open_journal
from interlock.projections.receipts import Receipt
from interlock.reading import STATUSES

PAGE = 20
_DIGITS = 12


def listed(url: str, asked: Mapping[str, str]) -> dict[str, Any]:
    """Return a page of receipts, newest first, as JSON values.

    Args:
        url: the journal.
        asked: the filters: status, approval, since, min_amount_minor, max_amount_minor, and `after` of the page before.

    Raises:
        InvalidInput: a filter can't be read.
    """
    with Receipts.open(url) as reader:
        page = reader.receipts(
            status=asked.get("status") or None,
            approval=asked.get("approval") or None,
            since=_time("since", asked.get("since")),
            min_amount_minor=_minor("min_amount_minor", asked.get("min_amount_minor")),
            max_amount_minor=_minor("max_amount_minor", asked.get("max_amount_minor")),
            limit=PAGE,
            after=asked.get("after") or None,
        )
    return {"receipts": [_row(one) for one in page.receipts], "next_page": page.next_page, "statuses": list(STATUSES)}


def shown(url: str, key: str) -> dict[str, Any]:
    """Return one receipt and its chain, as JSON values.

    Raises:
        UnknownAction: no action has this key.
    """
    with Receipts.open(url) as reader:
        receipt = reader.receipt(key)
    return {"receipt": receipt.to_dict(), "chain": _chain(url, UUID(receipt.action_id))}


def verified(url: str, key: str) -> dict[str, Any]:
    """Verify one action's events and the whole log, there and then; return what was found, as JSON values.

    Raises:
        UnknownAction: no action has this key.
    """
    with Receipts.open(url) as reader:
        of_action, of_log = reader.verify(key), reader.verify()
    findings = {finding.words: finding for finding in (*of_action.findings, *of_log.findings)}.values()
    return {
        "key": key,
        "valid": of_action.valid and of_log.valid,
        "events": of_action.events,
        "events_of_log": of_log.events,
        "findings": [f"{finding.place}: {finding.words}" for finding in findings],
        "completeness": of_log.completeness,
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def checked(notary: Notary, key: str) -> dict[str, Any]:
    """Make the receipt's file and check it as an outsider does; return what was found, as JSON values.

    Raises:
        UnknownAction: no action has this key.
    """
    found = notary.check(notary.bundle(key))
    wrong = [finding for finding in found.findings if finding.verdict > Verdict.NOTE]
    return {
        "bundle": found.verdict.name.lower(),
        "bundle_findings": [f"{finding.kind}: {finding.words}" for finding in wrong],
        "checks": len(found.findings),
    }


def _row(receipt: Receipt) -> dict[str, Any]:
    return {
        "key": receipt.key,
        "status": receipt.status,
        "via": receipt.via,
        "refusal": receipt.refusal.code if receipt.refusal else None,
        "amount_minor": receipt.amount_minor,
        "currency": receipt.currency,
        "approval": receipt.approval_id,
        "subject": receipt.subject,
        "at": receipt.timeline[0].at.isoformat() if receipt.timeline else None,
    }


def _chain(url: str, action_id: UUID) -> list[dict[str, Any]]:
    """Return the events of an action as the links of its chain: each one's hash covers the one before."""
    with open_journal(url, create=False) as journal:
        links = []
        for row in journal.rows(aggregate_id=action_id):
            event: GatedAction.Event = journal.domain_event(row)
            links.append(
                {
                    "event": type(event).__name__,
                    "at": event.timestamp.isoformat(),
                    "words": words_of(event),
                    "position": row.position,
                    "leaf": row.leaf_hash.hex()[:_DIGITS],
                }
            )
    return links


def _time(name: str, text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{name} is no time") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _minor(name: str, text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{name} is a whole number of minor units") from None
