"""What a journal records, and how its recorder is asked for it; each database has a recorder of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Protocol, cast
from uuid import UUID

from eventsourcing.persistence import StoredEvent

from interlock.domain.cursors import Cursor
from interlock.domain.records import Digests, leaf_hash, record, state_digest
from interlock.domain.summary import ActionSummary

SUMMARY_COLUMNS = tuple(field.name for field in fields(ActionSummary))
CHANGING_COLUMNS = ("version", "key", "status", "via", "code", "attention", "claim_lock", "claim_expires_at", "changed_at")
"""Those that an action's later events, or its erasure, can change."""


class Moved(Exception):
    """Somebody else wrote to an aggregate, or took a name; nothing was written."""

    def __init__(self, aggregate_id: UUID) -> None:
        self.aggregate_id = aggregate_id
        super().__init__(str(aggregate_id))


@dataclass(slots=True)
class Name:
    """A name that an aggregate takes with its first event."""

    kind: str
    digest: bytes
    aggregate_id: UUID


@dataclass(slots=True)
class Batch:
    """What is written in one transaction, beside the events.

    Args:
        names: taken by new aggregates.
        expected: the version that each aggregate has to be at; its transaction fails otherwise (I3, rule 5).
        summary: the action's row.
        approval_id: the approval that is written to or asserted: its writers stand in line, and nobody else's.
    """

    names: tuple[Name, ...]
    expected: tuple[tuple[UUID, int], ...]
    summary: ActionSummary | None
    approval_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row of the log, as it stands in the database.

    `position` and `running_hash` are None while no sequencer has given the row its place (PostgreSQL), and `passed_over` says
    that it never will. Where an event that had a place is gone, all but the place is None.
    """

    position: int | None
    aggregate_id: str
    version: int
    topic: str
    state: bytes | None
    state_digest: bytes
    leaf_hash: bytes
    running_hash: bytes | None
    passed_over: bool = False


@dataclass(frozen=True, slots=True)
class Backlog:
    """What somebody who follows the log has not read yet.

    Args:
        events: how many events there are after the cursor.
        held_back: how many of them can't be handed out yet, because a transaction that began earlier may still write.
        oldest_held: the first of those.
        held_by: whose transaction it is, in words, where that can be told.
        unplaced: the first event of the log that could have its position, and has none.
    """

    events: int
    held_back: int = 0
    oldest_held: StoredRow | None = None
    held_by: str | None = None
    unplaced: StoredRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFilter:
    """Which actions to list. Every condition that is not None has to hold."""

    status: str | None = None
    approval_id: str | None = None
    target: str | None = None
    attention: bool | None = None
    intended_from: datetime | None = None
    intended_until: datetime | None = None
    min_amount_minor: int | None = None
    max_amount_minor: int | None = None


def digests_of(event: StoredEvent, *, log: str, prev: bytes | None) -> Digests:
    """Return what is stored beside an event (ADR 2).

    Args:
        event: the event.
        log: the journal's id.
        prev: the leaf hash of the aggregate's event before it; None for its first.
    """
    digest = state_digest(event.state)
    header = record(
        log=log,
        aggregate_id=cast("UUID", event.originator_id),
        version=event.originator_version,
        topic=event.topic,
        state=digest,
        prev=prev,
    )
    return Digests(digest, leaf_hash(header))


_COMPARED = {
    "status": "status =",
    "approval_id": "approval_id =",
    "target": "target =",
    "attention": "attention =",
    "intended_from": "intended_at >=",
    "intended_until": "intended_at <",
    "min_amount_minor": "amount_minor >=",
    "max_amount_minor": "amount_minor <=",
}


def clauses_of(conditions: SummaryFilter, *, mark: str, marked: str) -> tuple[list[str], list[Any]]:
    """Return the conditions as SQL, and the values that they are given.

    Args:
        conditions: what has to hold.
        mark: what stands for a value.
        marked: the condition of the index on what wants attention, as the database has it.
    """
    given = {name: value for name in _COMPARED if (value := getattr(conditions, name)) is not None}
    clauses = [f"{_COMPARED[name]} {mark}" for name in given]
    # A partial index is used only where the query says the index's own condition; nothing is concluded from a parameter.
    if conditions.status not in (None, "COMMITTED"):
        clauses.append("status <> 'COMMITTED'")
    if conditions.attention:
        clauses.append(marked)
    return clauses, list(given.values())


class JournalRecorder(Protocol):
    """What the journal asks of a database; beside it stands what `eventsourcing` asks of its recorders."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """What the database raises when it can't do as it was asked."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Write the events and their `batch` in one transaction, or nothing.

        Raises:
            Moved: an aggregate is not at the expected version, or a name is taken.
        """
        ...

    def events_of(self, aggregate_id: UUID) -> list[StoredEvent]:
        """Return the events of an aggregate, oldest first."""
        ...

    def events_of_all(self, aggregate_ids: Sequence[UUID]) -> list[StoredEvent]:
        """Return the events of several aggregates, each one's oldest first."""
        ...

    def events_named(self, *names: tuple[str, bytes]) -> list[list[StoredEvent]]:
        """Return the events of the aggregates that have these one or two names (kind and digest); none where a name is free."""
        ...

    def named(self, kind: str, digest: bytes) -> UUID | None:
        """Return the aggregate that has this name, whether its events can be read or not."""
        ...

    def version_of(self, aggregate_id: UUID) -> int:
        """Return the latest version of an aggregate, 0 where there is none."""
        ...

    def holds(self, event: StoredEvent) -> bool:
        """Whether exactly this event is stored: its salt is random, so equal bytes are our own (I8)."""
        ...

    def summaries(self, conditions: SummaryFilter, *, limit: int, after: str | None, newest_first: bool) -> list[ActionSummary]:
        """Return a page of summaries, ordered by the time of the action's first event."""
        ...

    def replace_summaries(self, derive: Callable[[list[StoredEvent]], ActionSummary | None]) -> int:
        """Derive all summaries again from the events, in one transaction; return how many actions there are."""
        ...

    def redact(self, aggregate_id: UUID, summary: ActionSummary | None) -> None:
        """Forget the states of the events before an aggregate's Erased, and put another row in the place of its summary."""
        ...

    def rows(self, *, after: int, limit: int, aggregate_id: UUID | None) -> list[StoredRow]:
        """Return rows of the log that have a position, by position."""
        ...

    def rows_without_position(self, aggregate_id: UUID | None) -> list[StoredRow]:
        """Return rows of the log that no sequencer has given a position yet."""
        ...

    def tail(self, start: Cursor, limit: int) -> list[tuple[Cursor, StoredRow]]:
        """Return events from `start` on, itself included, in an order in which none is ever passed over, nor comes twice."""
        ...

    def backlog(self, after: Cursor) -> Backlog:
        """Return how much there is after a cursor."""
        ...

    def sequence(self, at_most: int) -> int:
        """Give events that no transaction can come before any more their positions; return how many."""
        ...

    def names(self) -> dict[tuple[str, bytes], str]:
        """Return which aggregate each taken name stands for."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all that this thread reads until the end be of one moment."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
