"""Reading a journal: receipts, attention and verification, without targets and without a claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from interlock.domain.action import GatedAction
from interlock.domain.summary import IN_FLIGHT, ActionSummary
from interlock.errors import InvalidInput, JournalCorrupt, UnknownAction
from interlock.infrastructure.clock import Clock
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.recording import SummaryFilter
from interlock.projections.receipts import Receipt, receipt_of, unreadable_receipt
from interlock.projections.verification import Verification, verify_journal

MAX_PAGE = 500
STATUSES = ("COMMITTED", "REFUSED", "AMBIGUOUS", IN_FLIGHT)


@dataclass(frozen=True, slots=True)
class ReceiptPage:
    """A page of receipts, newest first.

    Attributes:
        receipts: the receipts.
        next_page: what to pass as `after` for the next page; None on the last.
    """

    receipts: tuple[Receipt, ...]
    next_page: str | None


class JournalReader:
    """What can be read of a journal, by a gate or without one."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the journal."""
        self.close()

    def close(self) -> None:
        """Close the journal. Closing twice does nothing."""
        self._journal.close()

    def receipt(self, key: str) -> Receipt:
        """Return the receipt of one action.

        Raises:
            UnknownAction: no action has this key.
        """
        return receipt_of(self.action(key))

    def action(self, key: str) -> GatedAction:
        """Return the aggregate of one action.

        Raises:
            UnknownAction: no action has this key.
        """
        action = self._journal.find_action(key)
        if action is None:
            raise UnknownAction(f"the journal knows no action {key!r}")
        return action

    def receipts(
        self,
        *,
        status: str | None = None,
        approval: str | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        min_amount_minor: int | None = None,
        max_amount_minor: int | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> ReceiptPage:
        """Return a page of receipts, newest first.

        Args:
            status: COMMITTED, REFUSED, AMBIGUOUS or IN_FLIGHT.
            approval: the approval's id.
            target: the target's name.
            since: intended at or after this time.
            until: intended before this time.
            min_amount_minor: at least this amount, in the minor unit.
            max_amount_minor: at most this amount, in the minor unit.
            limit: how many, 1 to 500.
            after: `next_page` of the page before.

        Raises:
            InvalidInput: an unknown status, a limit out of range, a time without a zone, or an `after` that no page gave.
        """
        if status is not None and status not in STATUSES:
            raise InvalidInput(f"status must be one of {', '.join(STATUSES)}, not {status!r}")
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidInput(f"limit must be 1 to {MAX_PAGE}")
        conditions = SummaryFilter(
            status=status,
            approval_id=approval,
            target=target,
            intended_from=_utc("since", since),
            intended_until=_utc("until", until),
            min_amount_minor=min_amount_minor,
            max_amount_minor=max_amount_minor,
        )
        rows = self._journal.summaries(conditions, limit=limit + 1, after=_cursor(after))
        page = rows[:limit]
        return ReceiptPage(self._receipts_of(page), page[-1].action_id if len(rows) > limit else None)

    def attention(self, *, limit: int = 100) -> tuple[Receipt, ...]:
        """Return what a person has to look at.

        Ambiguous ones, refusals with a way forward, commits that are not final at the provider, and actions in flight whose
        claim has run out, so that nobody is at work on them.

        Args:
            limit: how many of each kind at the most.
        """
        marked = self._journal.summaries(SummaryFilter(attention=True), limit=limit)
        now = self._clock.now()
        flying = self._journal.summaries(SummaryFilter(status=IN_FLIGHT), limit=limit, newest_first=False)
        stuck = [summary for summary in flying if summary.claim_expires_at is None or summary.claim_expires_at < now]
        return self._receipts_of([*marked, *stuck])

    def verify(self, key: str | None = None) -> Verification:
        """Check the log: positions, digests, chains, names, rows, and that every action followed a legal path.

        Args:
            key: check the events of this action only.

        Raises:
            UnknownAction: no action has this key.
        """
        if key is None:
            return verify_journal(self._journal)
        action_id = self._journal.id_of(key)
        if action_id is None:
            raise UnknownAction(f"the journal knows no action {key!r}")
        return verify_journal(self._journal, action_id)

    def _receipts_of(self, summaries: Sequence[ActionSummary]) -> tuple[Receipt, ...]:
        return tuple(self._receipt_of(summary) for summary in summaries)

    def _receipt_of(self, summary: ActionSummary) -> Receipt:
        """Return an action's receipt; of one that can't be read, what its summary says, and that it is not valid."""
        try:
            return receipt_of(self._journal.load_action(UUID(summary.action_id)))
        except (JournalCorrupt, ValueError) as error:
            return unreadable_receipt(summary, str(error))


class Receipts(JournalReader):
    """Reads a journal without targets and without a claim. Open one with `Receipts.open(url)`."""

    @classmethod
    def open(cls, url: str) -> Receipts:
        """Open an existing journal for reading.

        Args:
            url: such as `sqlite:///interlock.db`.

        Raises:
            InvalidConfiguration: there is no journal.
            JournalTooNew: it was written by a newer version.
        """
        journal = open_journal(url, create=False)
        return cls(journal, journal.clock())


def _utc(name: str, at: datetime | None) -> datetime | None:
    """Return the time in UTC: rows are compared by their text."""
    if at is None:
        return None
    if at.utcoffset() is None:
        raise InvalidInput(f"{name} needs a time zone")
    return at.astimezone(UTC)


def _cursor(after: str | None) -> str | None:
    try:
        return UUID(after).hex if after is not None else None
    except ValueError:
        raise InvalidInput("`after` is not what a page gave as `next_page`") from None
