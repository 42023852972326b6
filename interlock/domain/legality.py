"""What may follow what: the rules that an action and an approval are written by, as a fold over states alone.

The aggregates write by these rules, `verify` reads a journal by them, and so does whoever checks a receipt without a journal: a
chain of right hashes that no gate could have written is found by them. A state that was withheld or erased is None, and whatever
depends on it is not known from there on, and not held against anybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from interlock.domain.authority import Authority, misfit
from interlock.domain.log_states import EpochStartedState, KeyRotatedState, LogEventState, OpenedState
from interlock.domain.progress import (
    CLOCKS_MAY_FALL,
    LEGAL_IN,
    Breach,
    Progress,
    Rule,
    after,
    breaches,
    idempotency_key,
    name_of,
)
from interlock.domain.states import (
    ActionState,
    ApprovalEventState,
    DispatchedState,
    EventState,
    GrantedState,
    ReleasedState,
    ReservedState,
    SendPurpose,
    SpentState,
    Status,
)

__all__ = [
    "CLOCKS_MAY_FALL",
    "LEGAL_IN",
    "Authority",
    "Breach",
    "Legality",
    "Placed",
    "Progress",
    "Rule",
    "after",
    "breaches",
    "fold",
    "idempotency_key",
    "misfit",
    "name_of",
]


_ALONGSIDE: dict[type[EventState], Status] = {
    ReservedState: Status.DISPATCHED,
    SpentState: Status.COMMITTED,
    ReleasedState: Status.REFUSED,
}
"""What the action is when its approval is written to: that comes in the transaction of the action's own event, behind it."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An event, and where it stands in the log.

    Args:
        aggregate_id: whose event it is.
        kind: the kind of the event.
        state: what it says; None where that was withheld or erased.
        index: its place; None where that is not known.
    """

    aggregate_id: UUID
    kind: type[EventState]
    state: EventState | None
    index: int | None


def fold(events: Sequence[Placed]) -> tuple[Legality, list[tuple[int, Breach]]]:
    """Fold the events of an action and its approval, each in its order; together where all have their places in the log.

    Without them nothing can be said of how the action's events stand among the approval's, and each is folded alone.

    Args:
        events: the events.

    Returns:
        Where everything stands, and the rules that are broken, each with the number of the event that breaks it, from 0.

    Raises:
        ValueError: an amount or a time that nobody can reckon with; also TypeError and OverflowError.
    """
    whole, alone = Legality(), dict[UUID, Legality]()
    together = all(event.index is not None for event in events)
    found: list[tuple[int, Breach]] = []
    for at, event in sorted(enumerate(events), key=lambda one: one[1].index or 0 if together else one[0]):
        legality = whole if together else alone.setdefault(event.aggregate_id, Legality())
        found += [(at, breach) for breach in legality.read(event.aggregate_id, event.kind, event.state)]
    for legality in alone.values():
        whole.actions |= legality.actions
    return whole, found


class Legality:
    """Actions and their approvals, folded together in the log's order.

    Attributes:
        actions: where each action stands.
        approvals: how each approval stands.
    """

    def __init__(self) -> None:
        self.actions: dict[UUID, Progress] = {}
        self.approvals: dict[UUID, Authority] = {}
        self._named: dict[str, UUID] = {}
        self._by_hex: dict[str, UUID] = {}
        self._lost: set[UUID] = set()
        self._epoch: int | None = None

    def read(self, aggregate_id: UUID, kind: type[EventState], state: EventState | None) -> list[Breach]:
        """Go on by one event.

        Args:
            aggregate_id: whose event it is.
            kind: the kind of the event.
            state: what it says; None where that was withheld or erased.

        Returns:
            The rules that it breaks.
        """
        if aggregate_id in (self.approvals if issubclass(kind, ActionState) else self.actions):
            return [Breach(Rule.ORDER, f"{name_of(kind)} is no event of what {aggregate_id} is")]
        if issubclass(kind, ApprovalEventState):
            return self._read_approval(aggregate_id, kind, state)
        if issubclass(kind, LogEventState):
            return list(self._read_log(kind, state))
        if not issubclass(kind, ActionState):
            return []
        before = self.actions.get(aggregate_id, Progress())
        found = list(breaches(aggregate_id, before, kind, state))
        if isinstance(state, DispatchedState) and state.purpose is SendPurpose.EXECUTE:
            found += self._overrun(aggregate_id, before, state)
        self.actions[aggregate_id] = after(before, kind, state)
        self._by_hex[aggregate_id.hex] = aggregate_id
        return found

    def lose(self, aggregate_id: UUID) -> None:
        """Take note that what follows of this aggregate can't be told: nothing is held against it any more."""
        self._lost.add(aggregate_id)

    def unreserved(self) -> Iterator[UUID]:
        """Say which actions were sent although their approval, which the journal holds, was never reserved for them (I3)."""
        nameless = any(approval.granted is None for approval in self.approvals.values())
        for action_id, action in self.actions.items():
            if not action.sends or action.intent is None or action.intent.approval.source is not None:
                continue
            approval_id = self._named.get(action.intent.approval.id)
            if approval_id is None and nameless:
                continue  # it may be that one
            approval = self.approvals[approval_id] if approval_id is not None else Authority()
            if approval_id not in self._lost and not approval.withheld and action_id.hex not in approval.ever_reserved:
                yield action_id

    def _read_approval(self, aggregate_id: UUID, kind: type[EventState], state: EventState | None) -> list[Breach]:
        approval = self.approvals.setdefault(aggregate_id, Authority())
        found = list(approval.breaches(kind, state))
        approval.take(kind, state)
        if isinstance(state, GrantedState):
            self._named[state.approval_id] = aggregate_id
        if isinstance(state, ReservedState | SpentState):
            found += self._another_amount(state)
        if isinstance(state, ReservedState | SpentState | ReleasedState):
            found += self._out_of_step(kind, state)
        return found

    def _out_of_step(self, kind: type[EventState], state: ReservedState | SpentState | ReleasedState) -> Iterator[Breach]:
        """Compare with what became of the action: an approval is written to in the transaction of its send or its ending (I3)."""
        action_id = self._by_hex.get(state.action_id)
        status = self.actions[action_id].status if action_id is not None and action_id not in self._lost else None
        if status not in (None, _ALONGSIDE[kind]):
            yield Breach(Rule.APPROVAL, f"{name_of(kind)} was written for an action that was {status}")

    def _read_log(self, kind: type[EventState], state: EventState | None) -> Iterator[Breach]:
        """Check what the log says of itself: it is opened once, its epochs rise, and keys change within one."""
        if kind is OpenedState and self._epoch is not None:
            yield Breach(Rule.ORDER, "the log was opened before")
        if kind is not OpenedState and self._epoch is None:
            yield Breach(Rule.ORDER, f"{name_of(kind)} stands before the log was opened")
        before = self._epoch or 0
        if isinstance(state, EpochStartedState) and state.epoch <= before:
            yield Breach(Rule.ORDER, f"epoch {state.epoch} does not follow epoch {before}")
        if kind is KeyRotatedState and before == 0:
            yield Breach(Rule.ORDER, "a key was replaced before an epoch began")
        self._epoch = max(before, state.epoch) if isinstance(state, EpochStartedState) else before

    def _another_amount(self, state: ReservedState | SpentState) -> Iterator[Breach]:
        action = self._by_hex.get(state.action_id)
        intent = self.actions[action].intent if action is not None else None
        if intent is not None and state.amount_minor != (intent.effect.amount_minor or 0):
            yield Breach(Rule.APPROVAL, f"it says {state.amount_minor}, and the action's effect {intent.effect.amount_minor}")

    def _overrun(self, action_id: UUID, before: Progress, state: DispatchedState) -> Iterator[Breach]:
        """Say where an approval moved between what a send goes by and the send's place in the log (I3)."""
        reading = state.checks.approval
        approval_id = self._named.get(reading.ref.id)
        if not reading.held or approval_id is None or approval_id in self._lost:
            return
        approval = self.approvals[approval_id]
        if approval.events != reading.version:
            words = f"it was sent on event {reading.version} of its approval, which had come to event {approval.events}"
            yield Breach(Rule.APPROVAL, words)
        granted = approval.granted
        if granted is not None and before.intent is not None:
            terms = granted.terms
            effect = before.intent.effect
            why = misfit(effect, cap_minor=terms.cap_minor, currency=terms.currency, fingerprint=terms.fingerprint)
            if why is not None:
                yield Breach(Rule.APPROVAL, f"it was sent under an approval that {why}")
        if action_id.hex not in approval.holders and not approval.withheld:
            approval.owes = action_id.hex
