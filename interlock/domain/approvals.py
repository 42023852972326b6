"""Approvals: the authority to act, with a cap that no interleaving can exceed (I3)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from eventsourcing.domain import BaseAggregate, CanMutateAggregate, DomainEvent

from interlock.domain.clockless import Clockless, FirstEvent
from interlock.domain.effects import EffectRecord
from interlock.domain.legality import misfit
from interlock.domain.states import (
    ApprovalReading,
    ApprovalRef,
    ApprovalState,
    ApprovalTerms,
    ErasedApprovalState,
    GrantedState,
    ReleasedState,
    ReservedState,
    RevokedState,
    SpentState,
)

__all__ = ["Approval", "ApprovalReading", "ApprovalRef", "ApprovalState", "ApprovalTerms", "misfit"]


class Approval(BaseAggregate[UUID]):
    """The authority to act: who gave it, for how much, until when, and what has been reserved and spent under it."""

    TOPIC = "interlock.approval"

    class Event(Clockless, CanMutateAggregate[UUID], DomainEvent):
        """The base of the events of an approval."""

    class Granted(GrantedState, Event, FirstEvent):
        """Somebody gave it."""

        def made_with(self) -> tuple[str, ApprovalTerms, datetime]:
            """Return its name, its terms, and since when."""
            return self.approval_id, self.terms, self.timestamp

    class Reserved(ReservedState, Event):
        """An action is about to be sent under it; written in the transaction of its Dispatched."""

        def apply(self, aggregate: Approval) -> None:
            """Hold the amount for that action."""
            aggregate.reserved[self.action_id] = self.amount_minor

    class Spent(SpentState, Event):
        """The action was carried out."""

        def apply(self, aggregate: Approval) -> None:
            """Turn the reservation into a spend."""
            aggregate.reserved.pop(self.action_id, None)
            aggregate.spent[self.action_id] = self.amount_minor

    class Released(ReleasedState, Event):
        """The action was refused after it had been reserved, and did not happen."""

        def apply(self, aggregate: Approval) -> None:
            """Give the reservation back."""
            aggregate.reserved.pop(self.action_id, None)

    class Revoked(RevokedState, Event):
        """Somebody took it back."""

        def apply(self, aggregate: Approval) -> None:
            """Let nothing more be sent under it."""
            aggregate.revoked_at = self.timestamp
            aggregate.revoked_by = self.by

    class Erased(ErasedApprovalState, Event):
        """What its other events say is given up; its id stays taken."""

    def __init__(self, approval_id: str, terms: ApprovalTerms, timestamp: datetime) -> None:
        """Begin with nothing reserved; the arguments are Granted's."""
        self.approval_id = approval_id
        self.terms = terms
        self.expires_at = timestamp + timedelta(seconds=terms.expires_in_s)
        self.revoked_at: datetime | None = None
        self.revoked_by: str | None = None
        self.reserved: dict[str, int] = {}
        self.spent: dict[str, int] = {}

    @classmethod
    def grant(cls, aggregate_id: UUID, approval_id: str, terms: ApprovalTerms, at: datetime) -> Approval:
        """Return a new approval with its Granted event pending."""
        return cls._create(cls.Granted, id=aggregate_id, timestamp=at, approval_id=approval_id, terms=terms)

    def state_for(self, action_id: UUID, effect: EffectRecord, at: datetime) -> ApprovalState:
        """Return how it stands for this action. The action's own reservation does not count as used up by others."""
        if self.revoked_at is not None:
            return ApprovalState.REVOKED
        if at >= self.expires_at:
            return ApprovalState.EXPIRED
        mine, amount = action_id.hex, effect.amount_minor or 0
        others = [key for key in (*self.reserved, *self.spent) if key != mine]
        remaining = self.remaining_minor(except_action=mine)
        if len(others) >= self.terms.uses or (remaining is not None and remaining < amount):
            return ApprovalState.USED_UP
        return ApprovalState.LIVE

    def remaining_minor(self, except_action: str | None = None) -> int | None:
        """Return what is left of the cap, in the minor unit, beside what that action itself holds; None where there is no cap."""
        if self.terms.cap_minor is None:
            return None
        held = sum(amount for key, amount in (*self.reserved.items(), *self.spent.items()) if key != except_action)
        return self.terms.cap_minor - held

    def reading(self, action_id: UUID, effect: EffectRecord, at: datetime) -> ApprovalReading:
        """Return what an event or a receipt says about it at this moment."""
        return ApprovalReading(
            ref=ApprovalRef(self.approval_id),
            state=self.state_for(action_id, effect, at),
            held=True,
            read_at=at,
            cap_minor=self.terms.cap_minor,
            currency=self.terms.currency,
            remaining_minor=self.remaining_minor(action_id.hex),
            by=self.terms.by,
            expires_at=self.expires_at,
            version=self.version,
            misfit=misfit(
                effect,
                cap_minor=self.terms.cap_minor,
                currency=self.terms.currency,
                fingerprint=self.terms.fingerprint,
            ),
        )

    def reserve(self, action_id: UUID, effect: EffectRecord, at: datetime) -> None:
        """Hold the effect's amount for the action, unless it is held already."""
        if (mine := action_id.hex) not in self.reserved:
            self._trigger(self.Reserved, at, action_id=mine, amount_minor=effect.amount_minor or 0)

    def spend(self, action_id: UUID, effect: EffectRecord, at: datetime) -> None:
        """Record that the action was carried out, reserved before or not."""
        if (mine := action_id.hex) not in self.spent:
            self._trigger(self.Spent, at, action_id=mine, amount_minor=effect.amount_minor or 0)

    def release(self, action_id: UUID, at: datetime) -> None:
        """Give the action's reservation back, where it has one."""
        if action_id.hex in self.reserved:
            self._trigger(self.Released, at, action_id=action_id.hex)

    def revoke(self, by: str, note: str, at: datetime) -> None:
        """Take it back; revoking twice changes nothing."""
        if self.revoked_at is None:
            self._trigger(self.Revoked, at, by=by, note=note)

    def is_over(self, at: datetime) -> bool:
        """Whether nothing is or can be sent under it any more: no reservation is left, and it lets no further action go on."""
        used_up = len(self.spent) >= self.terms.uses
        return not self.reserved and (self.revoked_at is not None or at >= self.expires_at or used_up)

    def erase(self, reason: str, by: str, at: datetime) -> None:
        """Give up what its events say. Nothing is forgotten before this is durable."""
        self._trigger(self.Erased, at, reason=reason, by=by)

    def _trigger(self, event: type[CanMutateAggregate[UUID]], at: datetime, **fields: Any) -> None:
        made: Any = event
        happened = made(originator_id=self.id, originator_version=self.version + 1, timestamp=at, **fields)
        happened.mutate(self)
        self.pending_events.append(happened)
