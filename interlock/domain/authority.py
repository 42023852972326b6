"""An approval's authority: what may be reserved and spent under it, and until when, as a fold over states alone (I3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from interlock.domain.effects import EffectRecord
from interlock.domain.progress import Breach, Rule, name_of
from interlock.domain.states import (
    ErasedApprovalState,
    EventState,
    GrantedState,
    ReleasedState,
    ReservedState,
    RevokedState,
    SpentState,
)


def misfit(effect: EffectRecord, *, cap_minor: int | None, currency: str | None, fingerprint: str | None) -> str | None:
    """Return why an approval with these terms can never cover the effect, in words; None where it can."""
    if fingerprint is not None and fingerprint != effect.fingerprint:
        return "was given for another effect"
    if effect.amount_minor is None or effect.currency is None:
        return None
    if cap_minor is None or currency is None:
        return "covers no money"
    if currency != effect.currency:
        return f"is in {currency}, and the effect in {effect.currency}"
    if cap_minor < effect.amount_minor:
        return f"covers {cap_minor} {currency}, and the effect needs {effect.amount_minor}"
    return None


@dataclass(slots=True, kw_only=True)
class Authority:
    """How an approval stands, as far as its events say.

    Args:
        events: how many there were.
        granted: its first event; None where that was withheld.
        revoked: whether it was taken back.
        reserved: the amount that is held for each action, by the action's id.
        spent: the amount that was spent for each.
        withheld: whether sums can't be told, because a state was withheld.
        ever_reserved: the actions that it was ever reserved for.
        owes: the action whose send has just gone by it, and which it has to be reserved for next.
        erased: whether its states were given up.
    """

    events: int = 0
    granted: GrantedState | None = None
    revoked: bool = False
    reserved: dict[str, int] = field(default_factory=dict[str, int])
    spent: dict[str, int] = field(default_factory=dict[str, int])
    withheld: bool = False
    ever_reserved: set[str] = field(default_factory=set[str])
    owes: str | None = None
    erased: bool = False

    @property
    def expires_at(self) -> datetime | None:
        """When it expires."""
        return None if self.granted is None else self.granted.timestamp + timedelta(seconds=self.granted.terms.expires_in_s)

    @property
    def holders(self) -> frozenset[str]:
        """The actions that it is reserved or spent for."""
        return frozenset((*self.reserved, *self.spent))

    def take(self, kind: type[EventState], state: EventState | None) -> None:
        """Go on by one event."""
        self.events += 1
        self.owes = None
        self.revoked = self.revoked or kind is RevokedState
        self.erased = self.erased or kind is ErasedApprovalState
        match state:
            case GrantedState():
                self.granted = state
            case ReservedState():
                self.reserved[state.action_id] = state.amount_minor
                self.ever_reserved.add(state.action_id)
            case SpentState():
                self.reserved.pop(state.action_id, None)
                self.spent[state.action_id] = state.amount_minor
            case ReleasedState():
                self.reserved.pop(state.action_id, None)
            case _:
                self.withheld = self.withheld or state is None

    def breaches(self, kind: type[EventState], state: EventState | None) -> Iterator[Breach]:
        """Say what no gate could have written next."""
        if (kind is GrantedState) is not (self.events == 0):
            yield Breach(Rule.APPROVAL, f"{name_of(kind)} can't be event {self.events + 1} of an approval")
        if self.erased:
            yield Breach(Rule.APPROVAL, f"{name_of(kind)} can't follow on an erasure")
        if kind is ErasedApprovalState and self.reserved and not self.withheld:
            yield Breach(Rule.APPROVAL, "it was erased while it was reserved for an action")
        if self.revoked and kind in (ReservedState, RevokedState):
            yield Breach(Rule.APPROVAL, f"it was {name_of(kind).lower()} although it had been revoked")
        reserves = state.action_id if isinstance(state, ReservedState) else None
        if self.owes is not None and (kind is not ReservedState or (state is not None and reserves != self.owes)):
            yield Breach(Rule.APPROVAL, f"action {self.owes} was sent on the event before, and it was not reserved for it (I3)")
        match state:
            case ReservedState():
                yield from self._reserved(state)
            case SpentState() if state.action_id in self.spent:
                yield Breach(Rule.APPROVAL, "it was spent twice for one action")
            case ReleasedState() if not self.withheld and state.action_id not in self.reserved:
                yield Breach(Rule.APPROVAL, "it was released, and had not been reserved")
            case _:
                pass
        if isinstance(state, ReservedState | SpentState):
            yield from self._sum(state)

    def _reserved(self, state: ReservedState) -> Iterator[Breach]:
        if state.action_id in self.holders:
            yield Breach(Rule.APPROVAL, "it was reserved twice for one action")
        if self.expires_at is not None and state.timestamp >= self.expires_at:
            yield Breach(Rule.APPROVAL, "it was reserved although it had expired")
        others = self.holders - {state.action_id}
        if self.granted is not None and not self.withheld and len(others) >= self.granted.terms.uses:
            yield Breach(Rule.APPROVAL, f"it was reserved for more actions than it allows, {self.granted.terms.uses}")

    def _sum(self, state: ReservedState | SpentState) -> Iterator[Breach]:
        """I3: what is reserved and what is spent never exceed the cap together."""
        cap = self.granted.terms.cap_minor if self.granted is not None else None
        if cap is None or self.withheld:
            return
        amounts = {**self.reserved, **self.spent, state.action_id: state.amount_minor}
        if sum(amounts.values()) > cap:
            yield Breach(Rule.APPROVAL, f"the cap is exceeded by {sum(amounts.values()) - cap}")
