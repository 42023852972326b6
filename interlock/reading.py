"""Reading a journal: receipts, attention and verification, without targets and without a claim."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self
from uuid import UUID

from interlock.domain.action import GatedAction, require_key
from interlock.domain.cursors import START, Cursor
from interlock.domain.effects import MAX_SAFE_INTEGER, is_a
from interlock.domain.summary import IN_FLIGHT, ActionSummary
from interlock.errors import ActionErased, InvalidInput, UnknownAction
from interlock.evidence.bundles import Bundle
from interlock.evidence.dsse import EnvelopeSigner
from interlock.evidence.policies import Policy
from interlock.infrastructure.clock import Clock
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.recording import SummaryFilter
from interlock.projections.exporting import export_receipt
from interlock.projections.followers import Follower, Lag, lag_of
from interlock.projections.log.coverage import logged
from interlock.projections.log.tree import TransparencyLog
from interlock.projections.receipts import Receipt, receipt_of, receipt_of_erased, unreadable_receipt
from interlock.projections.verification import Verification, verify_journal

MAX_PAGE = 500
_NO_PLACE = 2**63
"""Positions and transactions are counted in 64 bits."""

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


@dataclass(frozen=True, slots=True)
class JournalDescription:
    """What a journal is.

    Attributes:
        log_id: its id, which is in every record that is hashed.
        database: what holds it.
        version: of its schema.
    """

    log_id: str
    database: str
    version: int


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
        try:
            action = self.action(key)
            receipt, version = receipt_of(action), action.version
        except ActionErased as erased:
            left = self._journal.erasure_of(UUID(erased.action_id))
            receipt, version = receipt_of_erased(left), left.originator_version
        return logged(self._journal.log_store(), [(receipt, version)])[0]

    def action(self, key: str) -> GatedAction:
        """Return the aggregate of one action.

        Raises:
            ActionErased: it was erased; its receipt says what is left to say.
            UnknownAction: no action has this key.
        """
        action = self._journal.find_action(require_key(key))
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
            InvalidInput: an unknown status, a limit or an amount out of range, a time without a zone, text that is not printable,
                or an `after` that no page gave.
        """
        if status is not None and status not in STATUSES:
            raise InvalidInput(f"status must be one of {', '.join(STATUSES)}, not {status!r}")
        _require_limit(limit)
        conditions = SummaryFilter(
            status=status,
            approval_id=_text("approval", approval),
            target=_text("target", target),
            intended_from=_utc("since", since),
            intended_until=_utc("until", until),
            min_amount_minor=_amount("min_amount_minor", min_amount_minor),
            max_amount_minor=_amount("max_amount_minor", max_amount_minor),
        )
        rows = self._journal.summaries(conditions, limit=limit + 1, after=_cursor(after))
        page = rows[:limit]
        return ReceiptPage(self._receipts_of(page), page[-1].action_id if len(rows) > limit else None)

    def attention(self, *, limit: int = 100) -> tuple[Receipt, ...]:
        """Return what a person has to look at.

        Ambiguous ones, refusals with a way forward, commits that are not final at the provider, and actions in flight whose
        claim has run out, so that nobody is at work on them.

        Args:
            limit: how many of each kind at the most, 1 to 500.

        Raises:
            InvalidInput: a limit out of range.
        """
        _require_limit(limit)
        marked = self._journal.summaries(SummaryFilter(attention=True), limit=limit)
        now = self._clock.now()
        flying = self._journal.summaries(SummaryFilter(status=IN_FLIGHT), limit=limit, newest_first=False)
        # A row that somebody edited by hand may say no time.
        stuck = [one for one in flying if not isinstance(one.claim_expires_at, datetime) or one.claim_expires_at < now]
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
        action_id = self._journal.id_of(require_key(key))
        if action_id is None:
            raise UnknownAction(f"the journal knows no action {key!r}")
        return verify_journal(self._journal, action_id)

    def _receipts_of(self, summaries: Sequence[ActionSummary]) -> tuple[Receipt, ...]:
        """Return the actions' receipts; of one that can't be read, what its summary says, and that it is not valid."""
        ids = [_id_of(summary) for summary in summaries]
        actions = self._journal.load_actions([each for each in ids if isinstance(each, UUID)])
        found = [actions[each] if isinstance(each, UUID) else each for each in ids]
        made = [self._receipt_from(summary, each) for summary, each in zip(summaries, found, strict=True)]
        versions = [summary.version for summary in summaries]
        return logged(self._journal.log_store(), list(zip(made, versions, strict=True)))

    def _receipt_from(self, summary: ActionSummary, found: GatedAction | Exception) -> Receipt:
        if isinstance(found, GatedAction):
            return receipt_of(found)
        if isinstance(found, ActionErased):
            return receipt_of_erased(self._journal.erasure_of(UUID(found.action_id)))
        return unreadable_receipt(summary, str(found))


class Receipts(JournalReader):
    """Reads a journal without targets and without a claim. Open one with `Receipts.open(url)`."""

    @classmethod
    def open(cls, url: str) -> Receipts:
        """Open an existing journal for reading.

        Args:
            url: such as `sqlite:///interlock.db`, or `postgresql://…` with the extra `postgres`.

        Raises:
            InvalidConfiguration: there is no journal, or the URL names none.
            JournalTooNew: it was written by a newer version.
            JournalOutdated: it was made by an older version, and has to be upgraded first.
            JournalUnavailable: it can't be read.
        """
        journal = open_journal(url, create=False)
        return cls(journal, journal.clock())

    def follow(self, *, after: Cursor | str = START, batch_size: int = 500, wait: bool = True, poll_s: float = 0.5) -> Follower:
        """Follow the log: iterate over what this returns, and each event comes exactly once, and none is passed over.

        Write `batch.cursor` down in the same transaction as what you make of the batch, where `batch.after` stands now, and
        begin from what is written there.

        Args:
            after: the cursor of the batch that was read last, or its text; from the first event on unless given.
            batch_size: how many events come at once at the most.
            wait: whether to wait for more at the end of the log, until the journal is closed or the follower stopped.
            poll_s: how often to look for more, in seconds.

        Raises:
            InvalidInput: `after` is no cursor, or a figure is not positive.
        """
        if batch_size < 1 or poll_s <= 0:
            raise InvalidInput("batch_size and poll_s must be positive")
        return Follower(self._journal, after=_place(after), batch_size=batch_size, wait=wait, poll_s=poll_s)

    def log(self) -> TransparencyLog:
        """Return the transparency log: checkpoints, proofs and entries."""
        return TransparencyLog(self._journal)

    def export_receipt(
        self, key: str, *, attestor: EnvelopeSigner, withhold: Collection[str] = (), policy: Policy | None = None
    ) -> Bundle:
        """Return the receipt of one action as a file for somebody who has no journal: see `interlock.evidence.bundles`.

        Args:
            key: the action's key.
            attestor: who signs it: `interlock.keyfiles.read_attestor_key(path)`.
            withhold: whose states are left out: events by name, such as `intended`, `approval` for all of the approval's, or
                `all`. What the approval says of other actions is always left out.
            policy: which checkpoints count: the newest that it accepts is taken, such as one that enough witnesses have cosigned;
                the newest of all unless given.

        Raises:
            UnknownAction: no action has this key.
            InvalidInput: no event goes by a name that is to be withheld, or there are more events than a receipt holds.
            JournalCorrupt: the events are not what a gate wrote; nothing was signed.
        """
        action_id = self._journal.id_of(require_key(key))
        if action_id is None:
            raise UnknownAction(f"the journal knows no action {key!r}")
        return export_receipt(self._journal, self.log(), action_id, attestor, withhold, policy)

    def description(self) -> JournalDescription:
        """Return what the journal is."""
        return JournalDescription(self._journal.log_id, self._journal.database, self._journal.version)

    def lag(self, after: Cursor | str = START) -> Lag:
        """Return how far a reader at this cursor is behind, and what holds events back from everybody.

        Args:
            after: how far it has read.

        Raises:
            InvalidInput: `after` is no cursor.
        """
        return lag_of(self._journal, _place(after), self._clock.now())


def _id_of(summary: ActionSummary) -> UUID | ValueError:
    """Return the action's id, or why what somebody put there by hand is none."""
    try:
        return UUID(summary.action_id)
    except ValueError as error:
        return error


def _utc(name: str, at: datetime | None) -> datetime | None:
    """Return the time in UTC: rows are compared by their text."""
    if at is None:
        return None
    if not is_a(at, datetime) or at.utcoffset() is None:
        raise InvalidInput(f"{name} needs a time zone")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{name} is before or after all times in UTC") from None


def _require_limit(limit: int) -> None:
    if type(limit) is not int or not 1 <= limit <= MAX_PAGE:
        raise InvalidInput(f"limit must be an integer of 1 to {MAX_PAGE}")


def _text(name: str, value: str | None) -> str | None:
    """Return the text, unless it is one that no row holds, and that not every database can be asked for."""
    if value is not None and (type(value) is not str or not value.isprintable()):
        raise InvalidInput(f"{name} must be printable text")
    return value


def _amount(name: str, value: int | None) -> int | None:
    if value is not None and (type(value) is not int or abs(value) > MAX_SAFE_INTEGER):
        raise InvalidInput(f"{name} is no integer, or larger than any amount, {MAX_SAFE_INTEGER}")
    return value


def _place(after: Cursor | str) -> Cursor:
    place = Cursor.parse(after) if isinstance(after, str) else after
    if not (0 <= place.order < _NO_PLACE and 0 <= place.arrival < _NO_PLACE):
        raise InvalidInput(f"{str(place)!r} is no cursor of a follower; nothing was read")
    return place


def _cursor(after: str | None) -> str | None:
    try:
        return UUID(after).hex if after is not None else None
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("`after` is not what a page gave as `next_page`") from None
