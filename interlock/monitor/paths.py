"""Which way each action may go, as far as the records alone tell: who it is, which event, what follows on what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from interlock.domain.action import LEGAL_IN, Status
from interlock.evidence.records import Record
from interlock.monitor.findings import Finding, FindingKind

ACTION, APPROVAL, LOG = "interlock.action", "interlock.approval", "interlock.log"
ERASED = "ERASED"
_APPROVAL_FIRST, _APPROVAL_NEXT = "granted", ("reserved", "spent", "released", "revoked")
_LOG_FIRST, _LOG_NEXT = "opened", ("epoch_started", "key_rotated")
_BEGUN = "BEGUN"
"""Where an approval or the log's own aggregate stands: they have no ending."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where one aggregate stands.

    Args:
        family: an action, an approval or the log, as the topics begin.
        version: of its last event.
        leaf: the leaf hash of that.
        status: of an action, as its events make it.
    """

    family: str
    version: int
    leaf: bytes
    status: str


class Heads(Protocol):
    """Where the heads of all aggregates are kept."""

    def get(self, aggregate_id: UUID) -> Head | None:
        """Return where an aggregate stands; None where it has no event."""
        ...

    def put(self, aggregate_id: UUID, head: Head) -> None:
        """Note where an aggregate stands."""
        ...


def step(heads: Heads, index: int, record: Record, leaf: bytes) -> Iterator[Finding]:
    """Say what is wrong with one record after all those before it, and go on from there.

    Args:
        heads: where all aggregates stand.
        index: the record's place in the log, from 0.
        record: the record.
        leaf: its leaf hash.
    """
    before = heads.get(record.aggregate_id)
    family, _, event = record.topic.rpartition(".")
    place = f"index {index}, event {record.version} of {record.aggregate_id}"
    version, prev = (0, None) if before is None else (before.version, before.leaf)
    if (record.version, record.prev) != (version + 1, prev):
        yield Finding(FindingKind.CHAIN, place, f"it does not follow on event {version} of the same aggregate")
    objection = _objection(before, family, event)
    if objection is not None:
        yield Finding(FindingKind.LEGALITY, place, objection)
    heads.put(record.aggregate_id, Head(family, record.version, leaf, _after(before, family, event)))


def _objection(before: Head | None, family: str, event: str) -> str | None:
    if before is not None and before.family != family:
        return f"{family}.{event} stands among the events of {before.family}"
    if family == ACTION:
        return _action_objection(before, event)
    first, following = {APPROVAL: (_APPROVAL_FIRST, _APPROVAL_NEXT), LOG: (_LOG_FIRST, _LOG_NEXT)}.get(family, ("", ()))
    if not first:
        return f"{family}.{event} is no event that this monitor knows"
    if before is None and event != first:
        return f"{event} comes before {first}"
    if before is not None and before.status == ERASED:
        return f"{event} comes after an erasure"
    if before is not None and event not in (*following, "erased"):
        return f"{event} can't follow"
    return None


def _action_objection(before: Head | None, event: str) -> str | None:
    status = None if before is None else before.status
    if status == ERASED:
        return f"{event} comes after an erasure"
    legal = LEGAL_IN[None if status is None else Status(status)]
    return None if event.capitalize() in legal else f"{event} can't follow in status {status}"


def _after(before: Head | None, family: str, event: str) -> str:
    if event == "erased":
        return ERASED
    if family != ACTION:
        return _BEGUN
    if event == "claimed" and before is not None and before.status == Status.DISPATCHED:
        return Status.DISPATCHED
    if event.upper() in Status.__members__:
        return event.upper()
    return Status.INTENDED if before is None else before.status  # it was objected to, and the rest is looked at all the same
