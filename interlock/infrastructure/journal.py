"""The journal: loads aggregates, appends their events, finds actions. What differs between databases is in their recorders."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar, cast
from uuid import UUID

from eventsourcing.domain import BaseAggregate, CanMutateAggregate, EventSourcingError
from eventsourcing.persistence import ApplicationRecorder, StoredEvent

from interlock.domain.action import GatedAction
from interlock.domain.approvals import Approval
from interlock.domain.cursors import START, Cursor
from interlock.domain.log import JournalLog
from interlock.domain.log_states import LOG_ID
from interlock.domain.records import name_digest
from interlock.domain.requests import AppendAnswer
from interlock.domain.summary import ActionSummary, summarize, summary_of_erased
from interlock.errors import ActionErased, ApprovalErased, GateClosed, JournalCorrupt, JournalUnavailable, UnknownApproval
from interlock.evidence.log_store import LogStore
from interlock.infrastructure.application import JournalApplication
from interlock.infrastructure.clock import Clock
from interlock.infrastructure.locks import LeaderLock, Locks
from interlock.infrastructure.mapper import EventMapper
from interlock.infrastructure.recording import Backlog, Batch, JournalRecorder, Moved, Name, StoredRow, SummaryFilter

A = TypeVar("A", GatedAction, Approval, JournalLog)


class Journal(ABC):
    """The event store. Threads share one, and a forked child may go on with it.

    Args:
        log_id: the journal's id, which is in every record that is hashed.
        recorder: its database.

    Attributes:
        database: what the database is called.
        version: which version of its schema this program works with.
    """

    database: ClassVar[str]
    version: ClassVar[int]

    def __init__(self, log_id: str, recorder: JournalRecorder) -> None:
        self.log_id = log_id
        self._lock = threading.Lock()
        self._application: JournalApplication | None = JournalApplication(cast("ApplicationRecorder", recorder))

    @abstractmethod
    def take_lock(self) -> Locks:
        """Return a liveness lock of a new holder."""

    @abstractmethod
    def log_store(self) -> LogStore:
        """Return where the transparency log keeps its tree and what it signed."""

    @abstractmethod
    def log_lock(self) -> LeaderLock:
        """Return the lock of whoever signs the log: one process at a time."""

    @abstractmethod
    def clock(self) -> Clock:
        """Return the journal's clock: all gates on one journal go by it."""

    def __enter__(self) -> Self:
        """Return the journal."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the journal."""
        self.close()

    def close(self) -> None:
        """Close all connections. Closing twice does nothing."""
        with self._lock:
            if self._application is not None:
                self._recorder.close()
                self._application.close()
                self._application = None

    def find_action(self, key: str) -> GatedAction | None:
        """Return the action that has this key, or None.

        Raises:
            ActionErased: it was erased; the key stays taken.
        """
        return self._named("action", key, GatedAction)

    def id_of(self, key: str) -> UUID | None:
        """Return the id of the action that has this key, whether its events can be read or not; None where the key is free."""
        with self._translated("be read"):
            return self._recorder.named("action", name_digest(self.log_id, "action", key))

    def approval_id_of(self, approval_id: str) -> UUID | None:
        """Return the aggregate that has this approval's id, erased or not; None where the id is free."""
        with self._translated("be read"):
            return self._recorder.named("approval", name_digest(self.log_id, "approval", approval_id))

    def load_action(self, action_id: UUID) -> GatedAction:
        """Return an action whose id came from this journal.

        Raises:
            ActionErased: it was erased.
            JournalCorrupt: there is no such action, or it can't be read.
        """
        with self._translated("be read"):
            events = self._recorder.events_of(action_id)
        return self._action_of(action_id, events)

    def load_actions(self, action_ids: Sequence[UUID]) -> dict[UUID, GatedAction | ActionErased | JournalCorrupt]:
        """Return actions whose ids came from this journal, or why one of them can't be read."""
        with self._translated("be read"):
            events = self._recorder.events_of_all(action_ids)
        by_id: dict[Any, list[StoredEvent]] = {}
        for event in events:
            by_id.setdefault(event.originator_id, []).append(event)
        return {action_id: self._action_or_why_not(action_id, by_id.get(action_id, [])) for action_id in action_ids}

    def find_approval(self, approval_id: str) -> Approval | None:
        """Return the approval that has this id, or None."""
        return self._named("approval", approval_id, Approval)

    def find_action_or_approval(self, key: str, approval_id: str) -> GatedAction | Approval | None:
        """Return the action that has this key, or else the approval that has this id; both are read at once."""
        names = [(kind, name_digest(self.log_id, kind, name)) for kind, name in (("action", key), ("approval", approval_id))]
        with self._translated("be read"):
            of_action, of_approval = self._recorder.events_named(*names)
        return self._project(of_action, GatedAction) or self._project(of_approval, Approval)

    def find_log(self) -> JournalLog | None:
        """Return the log as it stands; None where nobody has begun to sign it."""
        with self._translated("be read"):
            events = self._recorder.events_of(LOG_ID)
        return self._project(events, JournalLog)

    def version_of(self, aggregate_id: UUID) -> int:
        """Return the latest version of an aggregate, 0 where there is none."""
        with self._translated("be read"):
            return self._recorder.version_of(aggregate_id)

    def append(self, action: GatedAction | None, approval: Approval | None = None) -> AppendAnswer:
        """Write the pending events of both in one transaction, or none of them.

        An approval without pending events is asserted: the transaction fails unless its version is the latest (I3).

        Raises:
            JournalUnavailable: nothing was written, as far as could be read back (I8).
            JournalCorrupt: a name is taken, and the events of what it stands for are gone; nothing was written.
        """
        aggregates: list[BaseAggregate[UUID]] = [aggregate for aggregate in (action, approval) if aggregate is not None]
        batch = Batch(
            names=tuple(name for aggregate in aggregates if (name := self._new_name(aggregate)) is not None),
            expected=tuple((aggregate.id, aggregate.version - len(aggregate.pending_events)) for aggregate in aggregates),
            summary=summarize(action) if action is not None else None,
            approval_id=approval.id if approval is not None else None,
        )
        try:
            self._write(aggregates, batch)
        except Moved as moved:
            mine = action is not None and moved.aggregate_id == action.id
            if mine or action is None:
                self._require_no_empty_name(batch)
            return AppendAnswer.ACTION_MOVED if mine else AppendAnswer.APPROVAL_MOVED
        return AppendAnswer.APPENDED

    def append_log(self, log: JournalLog) -> bool:
        """Write the log's own pending events; False, and nothing was written, where somebody else wrote some.

        Raises:
            JournalUnavailable: nothing was written, as far as could be read back (I8).
        """
        expected = ((log.id, log.version - len(log.pending_events)),)
        try:
            self._write([log], Batch(names=(), expected=expected, summary=None))
        except Moved:
            return False
        return True

    def summaries(
        self, conditions: SummaryFilter, *, limit: int, after: str | None = None, newest_first: bool = True
    ) -> list[ActionSummary]:
        """Return a page of summaries, ordered by the time of the action's first event."""
        with self._translated("be read"):
            return self._recorder.summaries(conditions, limit=limit, after=after, newest_first=newest_first)

    def find(self, conditions: SummaryFilter, *, limit: int, after: UUID | None = None) -> list[UUID]:
        """Return a page of ids, oldest first."""
        page = self.summaries(conditions, limit=limit, after=after.hex if after else None, newest_first=False)
        return [UUID(summary.action_id) for summary in page]

    def all_summaries(self, conditions: SummaryFilter | None = None) -> Iterator[ActionSummary]:
        """Return all summaries that fulfil the conditions, oldest action first."""
        after: str | None = None
        while page := self.summaries(conditions or SummaryFilter(), limit=1000, after=after, newest_first=False):
            yield from page
            after = page[-1].action_id

    def rebuild_summaries(self) -> int:
        """Drop all summaries and derive them again from the events. Returns how many there are."""
        with self._translated("rebuild its receipts"):
            return self._recorder.replace_summaries(self._derive_summary)

    def erasure_of(self, action_id: UUID) -> GatedAction.Erased:
        """Return what is left of an action that was erased.

        Raises:
            JournalCorrupt: it was not erased, or the event can't be read.
        """
        with self._translated("be read"):
            events = self._recorder.events_of(action_id)
        if not _is_erased(events, GatedAction.Erased):
            raise JournalCorrupt(f"action {action_id} was not erased; run `interlock verify`")
        return cast("GatedAction.Erased", self._app.mapper.to_domain_event(events[-1]))

    def forget(self, action_id: UUID) -> GatedAction.Erased:
        """Forget what the events of an erased action say, and return what is left. Doing it again does no harm.

        Raises:
            JournalCorrupt: it was not erased: that has to be durable first.
            JournalUnavailable: it could not be done.
        """
        erased = self.erasure_of(action_id)
        with self._translated("forget the states of an erased action: erase it again"):
            self._recorder.redact(action_id, summary_of_erased(erased))
        return erased

    def forget_approval(self, approval_id: str) -> None:
        """Forget what the events of an erased approval say. Doing it again does no harm.

        Raises:
            UnknownApproval: there is no such approval.
            JournalCorrupt: it was not erased: that has to be durable first.
            JournalUnavailable: it could not be done.
        """
        aggregate_id = self.approval_id_of(approval_id)
        if aggregate_id is None:
            raise UnknownApproval(f"there is no approval {approval_id!r}; nothing was erased")
        with self._translated("forget the states of an erased approval: erase it again"):
            if not _is_erased(self._recorder.events_of(aggregate_id), Approval.Erased):
                raise JournalCorrupt(f"approval {aggregate_id} was not erased; run `interlock verify`")
            self._recorder.redact(aggregate_id, None)

    def rows(self, *, after: int = 0, limit: int = 1000, aggregate_id: UUID | None = None) -> list[StoredRow]:
        """Return rows of the log as they stand, by position, without decoding them."""
        with self._translated("be read"):
            return self._recorder.rows(after=after, limit=limit, aggregate_id=aggregate_id)

    def rows_without_position(self, aggregate_id: UUID | None = None) -> list[StoredRow]:
        """Return rows of the log that no sequencer has given a position yet; none on SQLite."""
        with self._translated("be read"):
            return self._recorder.rows_without_position(aggregate_id)

    def tail(self, after: Cursor = START, *, limit: int = 1000) -> list[tuple[Cursor, StoredRow]]:
        """Return the events after a cursor, in the order in which everybody who follows the log sees them.

        Raises:
            JournalCorrupt: the log does not hold the event that the cursor names.
        """
        with self._translated("be read"):
            rows = self._recorder.tail(after, limit + 1)
        if after == START:
            return rows[:limit]
        if not rows or rows[0][0] != after:
            raise JournalCorrupt(
                f"the log does not hold the event that was read last, {after}: it was restored from an older backup, lost its "
                "end in a failover, is another journal's, or is read from a standby that is behind; nothing was handed out. "
                "Compare what was made of the events with the log, and go on from a cursor that it holds"
            )
        return rows[1:]

    def backlog(self, after: Cursor = START) -> Backlog:
        """Return how much there is after a cursor, and what holds it back."""
        with self._translated("be read"):
            return self._recorder.backlog(after)

    def sequence(self, at_most: int = 1000) -> int:
        """Give events that no transaction can come before any more their positions; return how many.

        One process does it at a time, and the others get 0. On SQLite a position comes with the event: nothing is to be done.

        Args:
            at_most: how many.
        """
        with self._translated("give its events their positions"):
            return self._recorder.sequence(at_most)

    def names(self) -> dict[tuple[str, bytes], str]:
        """Return which aggregate each taken name stands for."""
        with self._translated("be read"):
            return self._recorder.names()

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let all that this thread reads of the journal until the end be of one moment, whatever is written meanwhile."""
        with self._translated("be read"), self._recorder.snapshot():
            yield

    def domain_event(self, row: StoredRow) -> Any:
        """Decode one row of the log.

        Raises:
            JournalCorrupt: it is not what it says it is.
        """
        return self._app.mapper.to_domain_event(StoredEvent(UUID(row.aggregate_id), row.version, row.topic, row.state or b""))

    def _derive_summary(self, events: Sequence[StoredEvent]) -> ActionSummary | None:
        if _is_erased(events, GatedAction.Erased):
            return summary_of_erased(cast("GatedAction.Erased", self._app.mapper.to_domain_event(events[-1])))
        action = self._project(events, GatedAction)
        return None if action is None else summarize(action)

    def _write(self, aggregates: Sequence[BaseAggregate[UUID]], batch: Batch) -> None:
        """Write the aggregates' pending events and their batch, or nothing.

        Raises:
            Moved: an aggregate is not at the expected version, or a name is taken.
            JournalUnavailable: nothing was written, as far as could be read back (I8).
        """
        mapper, recorder = cast("EventMapper", self._app.mapper), self._recorder
        stored = mapper.to_stored_events([event for aggregate in aggregates for event in aggregate.pending_events])
        try:
            recorder.insert_events(stored, batch=batch)
        except recorder.errors as error:
            self._read_back(recorder, stored, error)
        for aggregate in aggregates:
            aggregate.pending_events.clear()

    def _read_back(self, recorder: JournalRecorder, stored: Sequence[StoredEvent], error: Exception) -> None:
        """Return if the events are stored although their acknowledgement was lost (I8).

        Raises:
            JournalUnavailable: they are not, or it can't be read.
        """
        if not stored:
            raise JournalUnavailable(f"the journal could not be asked: {error}; nothing was sent for it") from error
        with self._translated("be read back after a failed append, so it is not known whether that was written"):
            durable = recorder.holds(stored[-1])
        if not durable:
            raise JournalUnavailable(f"the journal could not be written: {error}; nothing was written") from error

    def _require_no_empty_name(self, batch: Batch) -> None:
        """Raise where a name is taken and stands for nothing: whoever looks what became of it would look for ever."""
        with self._translated("be read"):
            for name in batch.names:
                taken_by = self._recorder.named(name.kind, name.digest)
                if taken_by is not None and not self._recorder.version_of(taken_by):
                    raise JournalCorrupt(
                        f"the name of this {name.kind} is taken by {taken_by}, of which there is no event; nothing was sent, run "
                        "`interlock verify`"
                    )
                if taken_by is not None and _is_erased(self._recorder.events_of(taken_by), Approval.Erased):
                    raise ApprovalErased(f"this id is that of an approval that was erased ({taken_by}); nothing was written")

    def _action_of(self, action_id: UUID, events: Sequence[StoredEvent]) -> GatedAction:
        action = self._project(events, GatedAction)
        if action is None:
            raise JournalCorrupt(
                f"the journal has no action {action_id}, and what it forgot has to be looked for at the provider before anything "
                "is fired again; nothing was sent, run `interlock verify`"
            )
        return action

    def _action_or_why_not(self, action_id: UUID, events: Sequence[StoredEvent]) -> GatedAction | ActionErased | JournalCorrupt:
        try:
            return self._action_of(action_id, events)
        except (ActionErased, JournalCorrupt) as error:
            return error

    def _new_name(self, aggregate: BaseAggregate[UUID]) -> Name | None:
        if not aggregate.pending_events or aggregate.pending_events[0].originator_version != aggregate.INITIAL_VERSION:
            return None
        kind, name = (
            ("action", aggregate.key)
            if isinstance(aggregate, GatedAction)
            else ("approval", cast("Approval", aggregate).approval_id)
        )
        return Name(kind, name_digest(self.log_id, kind, name), aggregate.id)

    def _named(self, kind: str, name: str, aggregate_type: type[A]) -> A | None:
        with self._translated("be read"):
            (events,) = self._recorder.events_named((kind, name_digest(self.log_id, kind, name)))
        return self._project(events, aggregate_type)

    def _project(self, events: Sequence[StoredEvent], aggregate_type: type[A]) -> A | None:
        if _is_erased(events, Approval.Erased):
            return None  # it is as good as not there, but for its id, which is taken
        if _is_erased(events, GatedAction.Erased):
            erased = cast("GatedAction.Erased", self._app.mapper.to_domain_event(events[-1]))
            raise ActionErased(str(erased.originator_id), erased.remains.status)
        aggregate: Any = None
        for event in map(self._app.mapper.to_domain_event, events):
            try:
                aggregate = cast("CanMutateAggregate[UUID]", event).mutate(aggregate)
            except (EventSourcingError, AssertionError) as error:
                raise JournalCorrupt(
                    f"event {event.originator_version} of {event.originator_id} does not follow from those before it; nothing "
                    "was sent, run `interlock verify`"
                ) from error
        if aggregate is not None and not isinstance(aggregate, aggregate_type):
            raise JournalCorrupt(f"{aggregate.id} is no {aggregate_type.__name__}; nothing was sent, run `interlock verify`")
        return aggregate

    def _translated(self, doing: str) -> _Translated:
        """Turn the database's errors into ours; `doing` says what was not done.

        Raises:
            JournalUnavailable: the database is down, full, read-only or too busy.
        """
        return _Translated(self._recorder.errors, doing)

    @property
    def _app(self) -> JournalApplication:
        if self._application is None:
            raise GateClosed("the journal is closed; nothing was written or sent")
        return self._application

    @property
    def _recorder(self) -> JournalRecorder:
        return cast("JournalRecorder", self._app.recorder)


class _Translated:
    """A context in which a database's errors are ours. Each action is in it twice, and a generator costs three times as much."""

    __slots__ = ("_doing", "_errors")

    def __init__(self, errors: tuple[type[Exception], ...], doing: str) -> None:
        self._errors, self._doing = errors, doing

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Raise the journal's own error in the place of the database's."""
        if isinstance(error, self._errors):
            raise JournalUnavailable(f"the journal could not {self._doing}: {error}; nothing was sent for it") from error


def _is_erased(events: Sequence[StoredEvent], by: type[GatedAction.Erased | Approval.Erased]) -> bool:
    return bool(events) and events[-1].topic == by.TOPIC
