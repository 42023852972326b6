"""Which way each action went by what its states say: terms, attempts, deadlines, doors, evidence; where states may be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol
from uuid import UUID

import msgspec

from interlock.domain.legality import Progress, Rule, after, breaches
from interlock.domain.records import state_digest
from interlock.domain.states import ActionState
from interlock.errors import MalformedEvidence
from interlock.evidence.decoding import KINDS, decode_state
from interlock.evidence.records import Record
from interlock.monitor.findings import Finding, FindingKind

_DECODER = msgspec.json.Decoder(Progress)


class Progresses(Protocol):
    """Where it is kept how far each action has come."""

    def get_progress(self, aggregate_id: UUID) -> bytes | None:
        """Return what was kept of an action; None where nothing was."""
        ...

    def put_progress(self, aggregate_id: UUID, progress: bytes) -> None:
        """Keep it."""
        ...


def judge(kept: Progresses, place: str, record: Record, state: bytes | None) -> Iterator[Finding]:
    """Say what is wrong with what an event says, and go on from there.

    Args:
        kept: how far each action has come.
        place: where the record is, in words.
        record: the record.
        state: the event's state; None where it was erased.
    """
    if state is not None and state_digest(state) != record.state:
        yield Finding(FindingKind.STATE, place, "the state is not the one whose digest was recorded")
        return
    try:
        event = None if state is None else decode_state(record.topic, state)
    except MalformedEvidence as error:
        yield Finding(FindingKind.STATE, place, str(error))
        return
    kind, before = KINDS[record.topic], kept.get_progress(record.aggregate_id)
    if not issubclass(kind, ActionState) or (before is None and record.version > 1):
        return  # it was begun while states were not seen, and nothing can be said of the rest
    progress = Progress() if before is None else _DECODER.decode(before)
    for breach in breaches(record.aggregate_id, progress, kind, event):
        if breach.rule is not Rule.TIME:  # a clock that somebody set is a remark, and no fault of the log
            yield Finding(FindingKind.LEGALITY, place, breach.words)
    kept.put_progress(record.aggregate_id, msgspec.json.encode(after(progress, kind, event)))
