"""Verification: does the log say what it was written to say?

Typed findings, and never one boolean alone. What it can't see: a log whose owner recomputed every hash, and a tail that was cut
off whole. For those somebody has to hold an older state outside; until then completeness is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID

from eventsourcing.domain import EventSourcingError

from interlock.domain.action import GatedAction
from interlock.domain.approvals import Approval
from interlock.domain.legality import Legality, Rule
from interlock.domain.records import leaf_hash, name_digest, record, running_hash, state_digest
from interlock.domain.summary import ActionSummary, summarize, summary_of_erased
from interlock.errors import JournalCorrupt
from interlock.evidence.decoding import KINDS

PAGE = 2000


class FindingKind(StrEnum):
    """What is wrong."""

    POSITION = "position"
    """Positions are not dense, or not in the order that was recorded: an event was removed or moved."""
    CHAIN = "chain"
    """A record does not follow from the one before: edited, removed, swapped or retyped."""
    STATE = "state"
    """A stored state is not the one whose digest was recorded, or is gone without an erasure."""
    UNREADABLE = "unreadable"
    """An event is not what its topic says."""
    LEGALITY = "legality"
    """A valid chain that no gate could have written."""
    APPROVAL = "approval"
    """A send without a reservation, or a cap exceeded (I3)."""
    NAME = "name"
    """A key or an approval's id does not name what the log says."""
    ERASURE = "erasure"
    """An action was erased, and what its events say is still there: erase it again."""
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
        redacted: how many events' states were erased, as the log says they were.
        completeness: always `unknown` here: what a cut-off tail held can't be seen from what is left.
    """

    log_id: str
    events: int
    findings: tuple[Finding, ...]
    redacted: int = 0
    completeness: str = "unknown"

    @property
    def valid(self) -> bool:
        """Whether nothing is wrong with what is there."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"valid": self.valid, **asdict(self)}


_KINDS = {Rule.ORDER: FindingKind.LEGALITY, Rule.APPROVAL: FindingKind.APPROVAL}
"""How a broken rule is called here. A clock that somebody set is no fault of the log, and would be named for ever."""


_NO_EVENT = (JournalCorrupt, EventSourcingError, AssertionError, KeyError, TypeError, ValueError, OverflowError)
"""What an event that no gate wrote raises when it is read or reckoned with, such as a time without a zone."""


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
        check.gone()
        if action_id is None:
            check.names(log.names())
            check.approvals()
            check.rows(log)
    return Verification(log.log_id, check.events, tuple(check.findings), check.redacted)


class _Check:
    def __init__(self, log_id: str) -> None:
        self.log_id = log_id
        self.events = 0
        self.findings: list[Finding] = []
        self.heads: dict[str, tuple[int, bytes]] = {}
        self.aggregates: dict[str, Any] = {}
        self.legality = Legality()
        self.broken: set[str] = set()
        self.redacted = 0
        self.hidden: dict[str, list[str]] = {}
        self.erased: dict[str, GatedAction.Erased] = {}
        self.erased_approvals: set[str] = set()
        self.half_erased: set[str] = set()

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
                self._break(str(row.aggregate_id))
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
            self._break(row.aggregate_id)
        digest_holds = row.state is None or state_digest(row.state) == row.state_digest
        if row.state is None:
            self.hidden.setdefault(row.aggregate_id, []).append(place)  # rightly so only if an Erased follows
        if not digest_holds:
            self.add(FindingKind.STATE, place, "the stored state is not the one whose digest was recorded")
            self._break(row.aggregate_id)
        if leaf_hash(self._record(row, prev)) != row.leaf_hash:
            self.add(FindingKind.CHAIN, place, "its record does not have the hash that was recorded: edited, moved or retyped")
            self._break(row.aggregate_id)
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
            event = None if row.state is None else log.domain_event(row)
            breaches = self.legality.read(UUID(row.aggregate_id), KINDS[row.topic], event)
            if isinstance(event, GatedAction.Erased | Approval.Erased):
                self._erasure(row, event)
            elif event is not None and row.aggregate_id not in self.hidden:
                self.aggregates[row.aggregate_id] = event.mutate(self.aggregates.get(row.aggregate_id))
        except _NO_EVENT as error:
            self.add(FindingKind.UNREADABLE, _place(row), str(error))
            self._break(row.aggregate_id)
            return
        for breach in breaches:
            if breach.rule in _KINDS:
                self.add(_KINDS[breach.rule], _place(row), breach.words)

    def _erasure(self, row: LogRow, event: GatedAction.Erased | Approval.Erased) -> None:
        gone = len(self.hidden.pop(row.aggregate_id, []))
        self.redacted += gone
        if isinstance(event, GatedAction.Erased):
            self.erased[row.aggregate_id] = event
        else:
            self.erased_approvals.add(row.aggregate_id)
        self.aggregates.pop(row.aggregate_id, None)
        if gone != row.version - 1:
            words = f"{row.version - 1 - gone} of its states are still there: erase it again"
            self.add(FindingKind.ERASURE, row.aggregate_id, words)
            self.half_erased.add(row.aggregate_id)

    def gone(self) -> None:
        """Name the states that are gone although no Erased follows."""
        for aggregate_id, places in self.hidden.items():
            if aggregate_id not in self.broken:
                for place in places:
                    self.add(FindingKind.STATE, place, "the stored state is gone, and no erasure says why")
                self._break(aggregate_id)

    def _break(self, aggregate_id: str) -> None:
        """Say no more of what follows in a chain that is broken."""
        self.broken.add(aggregate_id)
        with suppress(ValueError):  # it may be no id at all
            self.legality.lose(UUID(aggregate_id))

    def approvals(self) -> None:
        for action_id in self.legality.unreserved():
            if action_id.hex not in self.broken:
                self.add(FindingKind.APPROVAL, f"action {action_id.hex}", "it was dispatched without a reservation")

    def names(self, names: dict[tuple[str, bytes], str]) -> None:
        expected = list(self._expected_names())
        for entry, aggregate_id in expected:
            if names.get(entry) != aggregate_id:
                self.add(FindingKind.NAME, f"{entry[0]} {aggregate_id}", f"its name stands for {names.get(entry)}")
        known, erased = {entry for entry, _ in expected}, self.erased.keys() | self.erased_approvals
        for entry, aggregate_id in names.items():
            if entry not in known and aggregate_id not in self.broken | erased:
                self.add(FindingKind.NAME, f"{entry[0]} {aggregate_id}", "a name without its first event")
        for aggregate_id in sorted(erased - set(names.values())):
            self.add(FindingKind.NAME, aggregate_id, "it was erased, and its name is free again")

    def _expected_names(self) -> Iterator[tuple[tuple[str, bytes], str]]:
        for aggregate_id, aggregate in self.aggregates.items():
            if isinstance(aggregate, GatedAction):
                yield ("action", name_digest(self.log_id, "action", aggregate.key)), aggregate_id
            elif isinstance(aggregate, Approval):
                yield ("approval", name_digest(self.log_id, "approval", aggregate.approval_id)), aggregate_id

    def rows(self, log: ReadableLog) -> None:
        seen: set[str] = set()
        for summary in log.all_summaries():
            action = self.aggregates.get(summary.action_id)
            seen.add(summary.action_id)
            if summary.action_id in self.broken or summary.action_id in self.half_erased:
                continue
            erased = self.erased.get(summary.action_id)
            if erased is not None:
                wanted = asdict(summary_of_erased(erased))
            elif isinstance(action, GatedAction):
                wanted = asdict(summarize(action))
            else:
                self.add(FindingKind.ROW, f"receipt {summary.action_id}", "there is no such action in the log")
                continue
            there = asdict(summary)
            wrong = sorted(name for name in wanted if wanted[name] != there[name])
            if wrong:
                self.add(FindingKind.ROW, f"receipt {summary.action_id}", f"{', '.join(wrong)} differ from the events")
        actions = {action_id for action_id, aggregate in self.aggregates.items() if isinstance(aggregate, GatedAction)}
        for action_id in sorted((actions | self.erased.keys()) - seen):
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


def _place(row: LogRow) -> str:
    place = f"position {row.position}" if row.position is not None else "no position yet"
    return f"{place}, event {row.version} of {row.aggregate_id}"
