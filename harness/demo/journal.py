"""The demo's journal, followed: which lines it shows of the events of one case, as they are written."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from harness.verdicts import dollars
from interlock import Receipts
from interlock.domain.action import GatedAction
from interlock.domain.approvals import Approval
from interlock.domain.cursors import START, Cursor
from interlock.errors import JournalOutdated
from interlock.infrastructure.opening import open_journal, upgrade_journal


class JournalTail:
    """Reads what is new in a journal, about one case at a time.

    Args:
        url: the journal; it is made where there is none, and brought up to this version where it is older.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            open_journal(url).close()
        except JournalOutdated:
            upgrade_journal(url)  # nobody else uses the demo's journal
        self._reader = Receipts.open(url)
        self._cursor: Cursor = START
        self._of_case: set[UUID] = set()
        self._case_id = ""
        for batch in self._reader.follow(wait=False):
            self._cursor = batch.cursor

    def begin(self, case_id: str) -> None:
        """Look at another case from now on.

        Args:
            case_id: its id, which is its approval's too.
        """
        self._case_id = case_id
        self._of_case.clear()

    def lines(self) -> list[tuple[datetime, str]]:
        """Return what was written about the case since the last time, an event a line, and by which time each was written."""
        told: list[tuple[datetime, str]] = []
        for batch in self._reader.follow(after=self._cursor, wait=False):
            for event in batch.events:
                decoded = event.decode()
                if self._names_case(decoded):
                    self._of_case.add(event.aggregate_id)
                if event.aggregate_id in self._of_case:
                    told.append((decoded.timestamp, words_of(decoded)))
            self._cursor = batch.cursor
        return told

    def close(self) -> None:
        """Close the journal."""
        self._reader.close()

    def _names_case(self, event: Any) -> bool:
        match event:
            case GatedAction.Intended(intent=intent):
                return intent.approval.id == self._case_id
            case Approval.Granted(approval_id=approval_id):
                return approval_id == self._case_id
            case _:
                return False


def words_of(event: Any) -> str:
    """Return what an event of an action or an approval says, on one line."""
    match event:
        case GatedAction.Event():
            return _action_words(event)
        case Approval.Granted(terms=terms):
            return f"approval granted, up to {dollars(terms.cap_minor or 0)}"
        case Approval.Reserved(amount_minor=minor):
            return f"{dollars(minor)} of the approval reserved"
        case Approval.Spent(amount_minor=minor):
            return f"{dollars(minor)} of the approval spent"
        case Approval.Released():
            return "approval's amount released"
        case Approval.Revoked(by=by):
            return f"approval revoked by {by}"
        case _:
            return type(event).__name__


def _action_words(event: GatedAction.Event) -> str:
    match event:
        case GatedAction.Intended(intent=intent):
            return f"intended: refund {dollars(intent.effect.amount_minor or 0)}"
        case GatedAction.Claimed(claim=claim, why=why):
            return f"claimed, term {claim.term} ({why})"
        case GatedAction.Dispatched(send=send, attempt=attempt):
            return f"dispatched: send {send}, key {attempt}"
        case GatedAction.Committed(via=via):
            return f"committed, via {via}"
        case GatedAction.Refused(code=code, door=door):
            return f"refused: {code}, {door}"
        case GatedAction.Ambiguous(code=code):
            return f"ambiguous: {code}"
        case _:
            return type(event).__name__.lower()
