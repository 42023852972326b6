"""Followers: whoever reads the log on and on, each event exactly once, and in an order in which none is passed over.

A follower hands out batches, and remembers nothing itself: its reader writes the batch's cursor down in the same transaction as
what it makes of the events, and goes on from there after whatever interrupted it. That is what makes it exactly once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from interlock.domain.action import GatedAction
from interlock.domain.cursors import Cursor
from interlock.errors import ActionErased, GateClosed, JournalCorrupt
from interlock.projections.receipts import Receipt, receipt_of, receipt_of_erased
from interlock.projections.verification import LogRow


class FollowableLog(Protocol):
    """What a follower reads of a journal."""

    def tail(self, after: Cursor, *, limit: int) -> Sequence[tuple[Cursor, Any]]:
        """Return the events after a cursor."""
        ...

    def backlog(self, after: Cursor) -> Any:
        """Return how much there is after a cursor."""
        ...

    def domain_event(self, row: Any) -> Any:
        """Decode a row."""
        ...

    def load_action(self, action_id: UUID) -> GatedAction:
        """Return an action."""
        ...

    def erasure_of(self, action_id: UUID) -> GatedAction.Erased:
        """Return what is left of an action that was erased."""
        ...


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event of the log.

    Attributes:
        cursor: where it is.
        aggregate_id: whose event it is: an action's or an approval's.
        version: which of its events, counted from 1.
        topic: what happened, such as `interlock.action.committed`.
    """

    cursor: Cursor
    aggregate_id: UUID
    version: int
    topic: str
    _row: LogRow
    _log: FollowableLog

    def decode(self) -> Any:
        """Return the domain event; None where its action was erased.

        Raises:
            JournalCorrupt: it can't be read as what it says it is.
        """
        return None if self._row.state is None else self._log.domain_event(self._row)

    def receipt(self) -> Receipt | None:
        """Return the receipt of the action, as it stands *now*, which may be later than this event; None for an approval's event.

        Raises:
            JournalCorrupt: the action can't be read.
        """
        if not self.topic.startswith(f"{GatedAction.TOPIC}."):
            return None
        try:
            return receipt_of(self._log.load_action(self.aggregate_id))
        except ActionErased:
            return receipt_of_erased(self._log.erasure_of(self.aggregate_id))


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that follow on a cursor.

    Attributes:
        events: the events, each aggregate's in the order of its versions.
        after: the cursor that they follow on: what has to stand where the reader writes its cursor down.
        cursor: the cursor of the last of them: what is to be written down, with what was made of the events.
    """

    events: tuple[LogEvent, ...]
    after: Cursor
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a reader of the log is behind.

    Attributes:
        events: how many events it has not read.
        held_back: how many of them it can't be given yet, because a transaction that began before them is still open.
        held_back_s: for how long the oldest of those has been waiting, in seconds; None where there is none.
        held_by: whose transaction that is, in words; None where it can't be told.
        unplaced_s: for how long an event that nothing holds back has been waiting for its position in the transparency log, in
            seconds; None where none does. Whatever recovers gives positions: where this grows, no node does.
    """

    events: int
    held_back: int = 0
    held_back_s: float | None = None
    held_by: str | None = None
    unplaced_s: float | None = None

    def is_over(self, bound_s: float) -> bool:
        """Whether events have been held back, or have been without a position, for more than so many seconds."""
        return any(waited_s is not None and waited_s > bound_s for waited_s in (self.held_back_s, self.unplaced_s))


def lag_of(log: FollowableLog, after: Cursor, now: datetime) -> Lag:
    """Return how far a reader at this cursor is behind."""
    backlog = log.backlog(after)
    held_back_s, unplaced_s = (_age_s(log, row, now) for row in (backlog.oldest_held, backlog.unplaced))
    return Lag(backlog.events, backlog.held_back, held_back_s, backlog.held_by, unplaced_s)


def _age_s(log: FollowableLog, row: LogRow | None, now: datetime) -> float | None:
    if row is None:
        return None
    try:
        written_at: datetime = log.domain_event(row).timestamp
    except JournalCorrupt:
        return float("inf")  # nobody can say how old it is, and somebody has to look at it
    return max(0.0, (now - written_at).total_seconds())


class Follower:
    """Hands out the events of the log, batch by batch: `for batch in follower`, or `async for`.

    A batch counts as read when the next one is asked for. A reader that raises leaves the follower where it was.

    Args:
        log: the journal.
        after: where to go on.
        batch_size: how many events a batch has at the most.
        wait: whether to wait for more at the end of the log, until the journal is closed; or else to stop there.
        poll_s: how long to wait before looking again, in seconds.

    Attributes:
        cursor: up to where everything was read.
    """

    def __init__(self, log: FollowableLog, *, after: Cursor, batch_size: int, wait: bool, poll_s: float) -> None:
        self.cursor = after
        self._log, self._batch_size, self._wait, self._poll_s = log, batch_size, wait, poll_s
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End the iteration, from another thread or a signal handler, instead of waiting for more."""
        self._stopped.set()

    def __iter__(self) -> Iterator[EventBatch]:
        """Hand out batches.

        Raises:
            JournalCorrupt: the log does not hold the event that was read last.
            JournalUnavailable: the journal can't be read; iterate again to go on.
        """
        while not self._stopped.is_set():
            batch = self._read()
            if batch is not None:
                yield batch
                self.cursor = batch.cursor
            elif not self._wait or self._stopped.wait(self._poll_s):
                return

    async def __aiter__(self) -> AsyncIterator[EventBatch]:
        """Hand out batches, and read them on a thread, so that the event loop goes on meanwhile."""
        while not self._stopped.is_set():
            batch = await asyncio.to_thread(self._read)
            if batch is not None:
                yield batch
                self.cursor = batch.cursor
            elif not self._wait:
                return
            else:
                await asyncio.sleep(self._poll_s)

    def _read(self) -> EventBatch | None:
        try:
            rows = self._log.tail(self.cursor, limit=self._batch_size)
        except GateClosed:
            self.stop()
            return None
        if not rows:
            return None
        events = tuple(LogEvent(cursor, UUID(row.aggregate_id), row.version, row.topic, row, self._log) for cursor, row in rows)
        return EventBatch(events, self.cursor, events[-1].cursor)
