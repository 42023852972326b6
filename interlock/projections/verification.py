"""Verification: does the log say what it was written to say?

Typed findings, and never one boolean alone. What it can't see: a log whose owner recomputed every hash, and a tail that was cut
off whole. For those somebody has to hold an older state outside; until then completeness is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from eventsourcing.domain import EventSourcingError

from interlock.domain.action import LEGAL_IN, GatedAction, SendPurpose, Via, idempotency_key
from interlock.domain.approvals import Approval
from interlock.domain.records import leaf_hash, name_digest, record, running_hash, state_digest
from interlock.domain.summary import ActionSummary, summarize
from interlock.errors import JournalCorrupt

PAGE = 2000


class FindingKind(StrEnum):
    """What is wrong."""

    POSITION = "position"
    """Positions are not dense, or not in the order that was recorded: an event was removed or moved."""
    CHAIN = "chain"
    """A record does not follow from the one before: edited, removed, swapped or retyped."""
    STATE = "state"
    """A stored state is not the one whose digest was recorded."""
    UNREADABLE = "unreadable"
    """An event is not what its topic says."""
    LEGALITY = "legality"
    """A valid chain that no gate could have written."""
    APPROVAL = "approval"
    """A send without a reservation, or a cap exceeded (I3)."""
    NAME = "name"
    """A key or an approval's id does not name what the log says."""
    ROW = "row"
    """A receipt row disagrees with the events; it can be rebuilt."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where.

    Attributes:
        kind: what is wrong.
        place: where, such as `position 7, event 3 of <action id>`.
        words: what was expected and what is there.
    """

    kind: FindingKind
    place: str
    words: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was checked, and what is wrong.

    Attributes:
        log_id: the journal's id.
        events: how many events were read.
        findings: everything that is wrong.
        completeness: always `unknown` here: what a cut-off tail held can't be seen from what is left.
    """

    log_id: str
    events: int
    findings: tuple[Finding, ...]
    completeness: str = "unknown"

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong with what is there."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"valid": self.valid, **asdict(self)}


class LogRow(Protocol):
    """A row of the log, as it stands in the database."""

    @property
    def position(self) -> int | None: ...  # noqa: D102 - the columns of ADR 2
    @property
    def aggregate_id(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> int: ...  # noqa: D102
    @property
    def topic(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> bytes | None: ...  # noqa: D102
    @property
    def state_digest(self) -> bytes: ...  # noqa: D102
    @property
    def leaf_hash(self) -> bytes: ...  # noqa: D102
    @property
    def running_hash(self) -> bytes | None: ...  # noqa: D102
    @property
    def passed_over(self) -> bool: ...  # noqa: D102


class ReadableLog(Protocol):
    """What verification reads of a journal."""

    log_id: str

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all that is read until the end be of one moment."""
        ...

    def rows(self, *, after: int = 0, limit: int = 1000, aggregate_id: UUID | None = None) -> list[Any]:
        """Return rows of the log, by position."""
        ...

    def rows_without_position(self, aggregate_id: UUID | None = None) -> list[Any]:
        """Return rows that no sequencer has given a position yet."""
        ...

    def domain_event(self, row: Any) -> Any:
        """Decode one row."""
        ...

    def names(self) -> dict[tuple[str, bytes], str]:
        """Return which aggregate each taken name stands for."""
        ...

    def all_summaries(self) -> Iterator[ActionSummary]:
        """Return all summaries."""
        ...


def verify_journal(log: ReadableLog, action_id: UUID | None = None) -> Verification:
    """Check a whole journal, or one action's events.

    Args:
        log: the journal.
        action_id: check this action only; names, rows and approvals of others are left out then.
    """
    check = _Check(log.log_id)
    with log.snapshot():  # or what is written meanwhile would look like names and rows without events
        check.read(log, action_id)
        if action_id is None:
            check.names(log.names())
            check.approvals()
            check.rows(log)
    return Verification(log.log_id, check.events, tuple(check.findings))


class _Check:
    def __init__(self, log_id: str) -> None:
        self.log_id = log_id
        self.events = 0
        self.findings: list[Finding] = []
        self.heads: dict[str, tuple[int, bytes]] = {}
        self.aggregates: dict[str, GatedAction | Approval] = {}
        self.approvals_by_id: dict[str, str] = {}
        self.broken: set[str] = set()
        self.reservations: set[tuple[str, str]] = set()

    def add(self, kind: FindingKind, place: str, words: str) -> None:
        self.findings.append(Finding(kind, place, words))

    def read(self, log: ReadableLog, action_id: UUID | None) -> None:
        expected, running = 1, None
        for row in _all_rows(log, action_id):
            if _is_missing(row):
                self.add(
                    FindingKind.POSITION, f"position {row.position}", "its event is missing, or was moved in the log's order"
                )
                expected, running = (row.position or 0) + 1, None
                continue
            self.events += 1
            wrong = _wrong_types(row)
            if wrong:
                self.add(FindingKind.UNREADABLE, f"position {row.position}", f"{wrong} is not of the type that was written")
                self.broken.add(str(row.aggregate_id))
                expected, running = expected + 1, None
                continue
            if row.position is not None:
                if action_id is None:
                    self._order(row, row.position, expected, running)
                expected, running = row.position + 1, row.running_hash
            if row.passed_over:
                self.add(FindingKind.POSITION, _place(row), "it will never have one: it lies before events that have a position")
            if self._chain(row):
                self._event(row, log)

    def _order(self, row: LogRow, position: int, expected: int, running: bytes | None) -> None:
        if position != expected:
            self.add(FindingKind.POSITION, f"position {expected}", f"the next event stands at {position}")
        elif (running is not None or position == 1) and running_hash(running, row.leaf_hash) != row.running_hash:
            self.add(FindingKind.POSITION, _place(row), "it does not stand where it was recorded")

    def _chain(self, row: LogRow) -> bool:
        """Check one row's bytes; return whether its state can be read as what was written."""
        version, prev = self.heads.get(row.aggregate_id, (0, None))
        place = _place(row)
        if row.version != version + 1:
            self.add(FindingKind.CHAIN, place, f"it follows event {version} of the same aggregate")
            self.broken.add(row.aggregate_id)
        digest_holds = row.state is not None and state_digest(row.state) == row.state_digest
        if not digest_holds:
            self.add(FindingKind.STATE, place, "the stored state is not the one whose digest was recorded")
            self.broken.add(row.aggregate_id)
        if leaf_hash(self._record(row, prev)) != row.leaf_hash:
            self.add(FindingKind.CHAIN, place, "its record does not have the hash that was recorded: edited, moved or retyped")
            self.broken.add(row.aggregate_id)
        self.heads[row.aggregate_id] = (row.version, row.leaf_hash)
        return digest_holds

    def _record(self, row: LogRow, prev: bytes | None) -> bytes:
        try:
            return record(
                log=self.log_id,
                aggregate_id=UUID(row.aggregate_id),
                version=row.version,
                topic=row.topic,
                state=row.state_digest,
                prev=prev,
            )
        except ValueError:
            return b""

    def _event(self, row: LogRow, log: ReadableLog) -> None:
        if row.aggregate_id in self.broken:
            return  # its chain is named already; what follows from it would only be noise
        try:
            event = log.domain_event(row)
            before = self.aggregates.get(row.aggregate_id)
            problems = [*_illegal(event, before), *self._overrun(event)]
            after = self.aggregates[row.aggregate_id] = event.mutate(before)
        except (JournalCorrupt, EventSourcingError, AssertionError) as error:
            self.add(FindingKind.UNREADABLE, _place(row), str(error))
            self.broken.add(row.aggregate_id)
            return
        for kind, words in problems:
            self.add(kind, _place(row), words)
        if isinstance(event, Approval.Reserved):
            self.reservations.add((row.aggregate_id, event.action_id))
        if isinstance(after, Approval):
            self.approvals_by_id[after.approval_id] = row.aggregate_id
            self._cap(row, after)

    def _overrun(self, event: Any) -> Iterator[tuple[FindingKind, str]]:
        """Say where an approval moved between what a send goes by and the send's place in the log (I3)."""
        if not isinstance(event, GatedAction.Dispatched) or event.purpose is not SendPurpose.EXECUTE:
            return
        reading = event.checks.approval
        place = self.approvals_by_id.get(reading.ref.id)
        approval = self.aggregates.get(place) if place is not None and place not in self.broken else None
        if reading.held and isinstance(approval, Approval) and approval.version != reading.version:
            words = f"it was sent on event {reading.version} of its approval, which had come to event {approval.version}"
            yield FindingKind.APPROVAL, words

    def _cap(self, row: LogRow, approval: Approval) -> None:
        remaining = approval.remaining_minor()
        if remaining is not None and remaining < 0:
            self.add(FindingKind.APPROVAL, _place(row), f"the cap is exceeded by {-remaining}")

    def approvals(self) -> None:
        for action_id, action in self.aggregates.items():
            if not isinstance(action, GatedAction) or not action.dispatches or action.intent.approval.source is not None:
                continue
            approval = self.approvals_by_id.get(action.intent.approval.id, "")
            if (approval, action_id) not in self.reservations:
                self.add(FindingKind.APPROVAL, f"action {action_id}", "it was dispatched without a reservation")

    def names(self, names: dict[tuple[str, bytes], str]) -> None:
        expected = list(self._expected_names())
        for entry, aggregate_id in expected:
            if names.get(entry) != aggregate_id:
                self.add(FindingKind.NAME, f"{entry[0]} {aggregate_id}", f"its name stands for {names.get(entry)}")
        known = {entry for entry, _ in expected}
        for entry, aggregate_id in names.items():
            if entry not in known and aggregate_id not in self.broken:
                self.add(FindingKind.NAME, f"{entry[0]} {aggregate_id}", "a name without its first event")

    def _expected_names(self) -> Iterator[tuple[tuple[str, bytes], str]]:
        for aggregate_id, aggregate in self.aggregates.items():
            if isinstance(aggregate, GatedAction):
                yield ("action", name_digest(self.log_id, "action", aggregate.key)), aggregate_id
            else:
                yield ("approval", name_digest(self.log_id, "approval", aggregate.approval_id)), aggregate_id

    def rows(self, log: ReadableLog) -> None:
        seen: set[str] = set()
        for summary in log.all_summaries():
            action = self.aggregates.get(summary.action_id)
            seen.add(summary.action_id)
            if summary.action_id in self.broken:
                continue
            if not isinstance(action, GatedAction):
                self.add(FindingKind.ROW, f"receipt {summary.action_id}", "there is no such action in the log")
                continue
            wanted, there = asdict(summarize(action)), asdict(summary)
            wrong = sorted(name for name in wanted if wanted[name] != there[name])
            if wrong:
                self.add(FindingKind.ROW, f"receipt {summary.action_id}", f"{', '.join(wrong)} differ from the events")
        for action_id, action in self.aggregates.items():
            if isinstance(action, GatedAction) and action_id not in seen:
                self.add(FindingKind.ROW, f"receipt {action_id}", "it is missing")


def _all_rows(log: ReadableLog, action_id: UUID | None) -> Iterator[LogRow]:
    after = 0
    while page := log.rows(after=after, limit=PAGE, aggregate_id=action_id):
        yield from page
        after = page[-1].position
    yield from log.rows_without_position(action_id)


_ROW_TYPES: dict[str, tuple[type, ...]] = {
    "position": (int, type(None)),
    "aggregate_id": (str,),
    "version": (int,),
    "topic": (str,),
    "state": (bytes, type(None)),
    "state_digest": (bytes,),
    "leaf_hash": (bytes,),
    "running_hash": (bytes, type(None)),
}


def _is_missing(row: LogRow) -> bool:
    """Whether there is a place without its event."""
    return all(getattr(row, name) is None for name in _ROW_TYPES if name not in ("position", "running_hash"))


def _wrong_types(row: LogRow) -> str:
    """Return the columns that hold a value of another type: SQLite takes any in any column."""
    return ", ".join(name for name, kinds in _ROW_TYPES.items() if type(getattr(row, name)) not in kinds)


def _illegal(event: Any, before: GatedAction | Approval | None) -> Iterable[tuple[FindingKind, str]]:
    """Say what no gate could have written."""
    if isinstance(event, Approval.Reserved) and isinstance(before, Approval):
        yield from _illegal_reservation(event, before)
    if not isinstance(event, GatedAction.Event) or isinstance(before, Approval):
        return
    name, status = type(event).__name__, before.status if before is not None else None
    if name not in LEGAL_IN[status]:
        yield FindingKind.LEGALITY, f"{name} can't follow in status {status}"
    if isinstance(event, GatedAction.Claimed) and before is not None and event.claim.term != _term(before) + 1:
        yield FindingKind.LEGALITY, f"term {event.claim.term} does not follow term {_term(before)}"
    if isinstance(event, GatedAction.Dispatched) and before is not None:
        yield from _illegal_dispatch(event, before)
    if isinstance(event, GatedAction.Committed) and event.evidence is None and event.via is not Via.RESOLUTION:
        yield FindingKind.LEGALITY, "committed without evidence and without a person"


def _illegal_reservation(event: Approval.Reserved, before: Approval) -> Iterable[tuple[FindingKind, str]]:
    others = {*before.reserved, *before.spent} - {event.action_id}
    if before.revoked_at is not None:
        yield FindingKind.APPROVAL, "it was reserved although it had been revoked"
    if event.timestamp >= before.expires_at:
        yield FindingKind.APPROVAL, "it was reserved although it had expired"
    if len(others) >= before.terms.uses:
        yield FindingKind.APPROVAL, f"it was reserved for more actions than it allows, {before.terms.uses}"


def _illegal_dispatch(event: GatedAction.Dispatched, before: GatedAction) -> Iterable[tuple[FindingKind, str]]:
    if event.attempt not in (before.attempt, before.attempt + 1) or event.attempt < 1:
        yield FindingKind.LEGALITY, f"attempt {event.attempt} does not follow attempt {before.attempt}"
    if event.idempotency_key != idempotency_key(before.id, event.attempt):
        yield FindingKind.LEGALITY, "its idempotency key is not the action's"
    if event.purpose is SendPurpose.EXECUTE and not event.checks.approval.holds:
        yield FindingKind.APPROVAL, f"it was sent although the approval was {event.checks.approval.state}"
    if event.purpose is SendPurpose.EXECUTE and not all(reading.holds for reading in event.checks.premises):
        yield FindingKind.LEGALITY, "it was sent although a premise did not hold"


def _term(action: GatedAction) -> int:
    return action.claim.term if action.claim else 0


def _place(row: LogRow) -> str:
    place = f"position {row.position}" if row.position is not None else "no position yet"
    return f"{place}, event {row.version} of {row.aggregate_id}"
