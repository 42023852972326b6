"""Receipts for outsiders: an action's events, its approval's, and the proofs that they are in the log, signed by the attestor.

An attestor that signs what somebody has edited would make it true, so everything is checked before it is signed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from interlock.domain.account import account_of
from interlock.domain.legality import Legality, Placed, Progress, Rule, fold
from interlock.domain.records import state_digest
from interlock.domain.states import ActionState, EventState, IntendedState, ReleasedState, ReservedState, SpentState
from interlock.errors import InvalidInput, JournalCorrupt, MalformedEvidence
from interlock.evidence.bundles import (
    CHAIN_NAME,
    MAX_RECORDS,
    PREDICATE_TYPE,
    AsOf,
    Bundle,
    Claim,
    digest_of,
)
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.decoding import KINDS, decode_state
from interlock.evidence.dsse import EnvelopeSigner, sign_envelope
from interlock.evidence.encoding import to_base64
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import Policy
from interlock.evidence.records import Record
from interlock.evidence.statements import PAYLOAD_TYPE, Statement, Subject
from interlock.evidence.tlog_proofs import TlogProof

EVERYTHING, THE_APPROVAL = "all", "approval"


class ReceiptLog(Protocol):
    """What is asked of the log. Indexes count from 0."""

    def covering(self, index: int, policy: Policy | None = None) -> SignedNote | None:
        """Return the newest checkpoint that covers a leaf and that a policy accepts; None while there is none."""
        ...

    def first_covering(self, index: int) -> SignedNote | None:
        """Return the oldest one."""
        ...

    def before(self, index: int) -> SignedNote | None:
        """Return the newest checkpoint that does not cover a leaf yet."""
        ...

    def inclusion(self, index: int, note: SignedNote) -> TlogProof:
        """Return the proof that an event is in the log."""
        ...


class ExportableJournal(Protocol):
    """What is asked of the journal."""

    log_id: str

    def snapshot(self) -> AbstractContextManager[None]:
        """Let all that is read until the end be of one moment."""
        ...

    def rows(self, *, after: int = 0, limit: int = 1000, aggregate_id: UUID | None = None) -> Sequence[Any]:
        """Return rows of the log, by position."""
        ...

    def rows_without_position(self, aggregate_id: UUID | None = None) -> Sequence[Any]:
        """Return rows that no sequencer has given a position yet."""
        ...

    def approval_id_of(self, approval_id: str) -> UUID | None:
        """Return the aggregate that has this approval's id, erased or not."""
        ...


@dataclass(frozen=True, slots=True)
class _Event:
    """One event: its record, its stored state, what that says, and its index in the log, where it has one."""

    record: Record
    stored: bytes | None
    state: EventState | None
    index: int | None

    @property
    def kind(self) -> type[EventState]:
        return KINDS[self.record.topic]


def export_receipt(
    journal: ExportableJournal,
    log: ReceiptLog,
    action_id: UUID,
    signer: EnvelopeSigner,
    withhold: Collection[str] = (),
    policy: Policy | None = None,
) -> Bundle:
    """Return the receipt of an action, as it stands now, for somebody who has no journal.

    Args:
        journal: the journal.
        log: its log.
        action_id: the action.
        signer: the attestor's key.
        withhold: whose states are left out: events by the last word of their topic, such as `intended`, `approval` for all of
            the approval's, or `all`. What the approval says of other actions is always left out.
        policy: which checkpoints count; any unless given.

    Raises:
        InvalidInput: no event goes by such a name, or the case has more events than a receipt holds.
        JournalCorrupt: the events are not what a gate wrote; nothing was signed.
    """
    with journal.snapshot():
        action = _chain(journal, action_id)
        approval_id = _approval_of(journal, action)
        approval = _chain(journal, approval_id) if approval_id is not None else []
        events = [*action, *approval]
        indexes = [event.index for event in events if event.index is not None]
        # Of the same moment: a later checkpoint may cover events that are not here, and would prove that they were left out.
        note = log.covering(min(indexes), policy) if indexes else None
    _require_exportable(events, withhold)
    progress = _require_legal(events).actions[action_id]
    claim = _claim(journal.log_id, action, approval, progress, note)
    records = tuple(event.record.serialize().decode() for event in events)
    statement = Statement((Subject(CHAIN_NAME, {"sha256": digest_of(records)}),), PREDICATE_TYPE, claim.to_fields())
    return Bundle(
        sign_envelope(PAYLOAD_TYPE, statement.serialize(), signer),
        records,
        tuple(_shown(event, withhold, action_id) for event in events),
        tuple(_proof(event, note, log) for event in events),
        _bounds(indexes, note, log),
    )


def _chain(journal: ExportableJournal, aggregate_id: UUID) -> list[_Event]:
    """Read an aggregate's events, and check each against the hashes that were recorded.

    Raises:
        JournalCorrupt: they do not hold.
    """
    rows = [*journal.rows(limit=MAX_RECORDS + 1, aggregate_id=aggregate_id), *journal.rows_without_position(aggregate_id)]
    events: list[_Event] = []
    for n, row in enumerate(rows, 1):
        prev = events[-1].record.leaf if events else None
        try:
            record = Record(aggregate_id, journal.log_id, row.version, prev, row.state_digest, row.topic)
            holds = record.leaf == row.leaf_hash and row.version == n and row.topic in KINDS
            holds = holds and (row.state is None or state_digest(row.state) == row.state_digest)
            state = None if row.state is None else decode_state(row.topic, row.state)
        except (MalformedEvidence, ValueError, TypeError, AttributeError) as error:
            raise _corrupt(f"event {n} of {aggregate_id} can't be read: {error}") from error
        if not holds:
            raise _corrupt(f"event {n} of {aggregate_id} is not what was recorded")
        events.append(_Event(record, row.state, state, None if row.position is None else row.position - 1))
    return events


def _corrupt(words: str) -> JournalCorrupt:
    return JournalCorrupt(f"{words}; nothing was signed, run `interlock verify`")


def _approval_of(journal: ExportableJournal, action: list[_Event]) -> UUID | None:
    """Return the approval whose events belong to the receipt; None where it lives elsewhere, or was erased with the intent."""
    state = action[0].state if action else None
    if not isinstance(state, IntendedState) or state.intent.approval.source is not None:
        return None
    return journal.approval_id_of(state.intent.approval.id)


def _require_exportable(events: list[_Event], withhold: Collection[str]) -> None:
    """Refuse what would not be a receipt.

    Raises:
        InvalidInput: an unknown name to withhold, or too many events.
    """
    names = {EVERYTHING, THE_APPROVAL, *(_name(kind) for kind in KINDS.values())}
    unknown = sorted(set(withhold) - names)
    if unknown:
        raise InvalidInput(f"{unknown[0]!r} can't be withheld: name one of {', '.join(sorted(names))}; nothing was signed")
    if len(events) > MAX_RECORDS:
        raise InvalidInput(f"this case and its approval have more than {MAX_RECORDS} events; no receipt holds them")


def _require_legal(events: Iterable[_Event]) -> Legality:
    """Fold the events; what no gate could have written is not signed.

    Raises:
        JournalCorrupt: there is such a thing.
    """
    placed = [Placed(event.record.aggregate_id, event.kind, event.state, event.index) for event in events]
    try:
        legality, found = fold(placed)
    except (ValueError, TypeError, OverflowError) as error:
        raise _corrupt(f"an event holds what no gate can have reckoned with: {error}") from error
    for at, breach in found:
        if breach.rule is not Rule.TIME:
            raise _corrupt(f"{placed[at].kind.TOPIC} of {placed[at].aggregate_id}: {breach.words}")
    return legality


def _claim(log_id: str, action: list[_Event], approval: list[_Event], progress: Progress, note: SignedNote | None) -> Claim:
    account = account_of(progress.status, progress.sends, [(event.kind, event.state) for event in action])
    return Claim(
        log=log_id,
        action=str(action[0].record.aggregate_id),
        events=len(action),
        approval=str(approval[0].record.aggregate_id) if approval else None,
        approval_events=len(approval),
        status=account.status,
        happened=account.happened.value if account.happened is not None else None,
        via=account.via,
        door=account.door,
        as_of=None if note is None else _as_of(Checkpoint.parse(note.text), action),
    )


def _as_of(checkpoint: Checkpoint, action: list[_Event]) -> AsOf:
    covered = [event.record.version for event in action if event.index is not None and event.index < checkpoint.size]
    return AsOf(checkpoint.origin, checkpoint.size, to_base64(checkpoint.root), max(covered, default=0))


def _shown(event: _Event, withhold: Collection[str], action_id: UUID) -> str | None:
    """Return the stored state, unless it is withheld."""
    is_action = issubclass(event.kind, ActionState)
    of_another = isinstance(event.state, ReservedState | SpentState | ReleasedState) and event.state.action_id != action_id.hex
    names = {EVERYTHING, _name(event.kind), *(() if is_action else (THE_APPROVAL,))}
    return None if event.stored is None or of_another or names & set(withhold) else event.stored.decode()


def _proof(event: _Event, note: SignedNote | None, log: ReceiptLog) -> str | None:
    if note is None or event.index is None or event.index >= Checkpoint.parse(note.text).size:
        return None
    return log.inclusion(event.index, note).serialize().decode()


def _bounds(indexes: list[int], note: SignedNote | None, log: ReceiptLog) -> tuple[str, ...]:
    """Return the checkpoints that bound the time of the events: the last before the first, and the first behind the last."""
    if note is None:
        return ()
    around = (log.before(min(indexes)), log.first_covering(max(indexes)))
    return tuple(one.serialize().decode() for one in dict.fromkeys(around) if one is not None and one != note)


def _name(kind: type[EventState]) -> str:
    return kind.TOPIC.rpartition(".")[2]
