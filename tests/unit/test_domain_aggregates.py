"""Aggregates: no clock, a legal order of events, and sums that never exceed a cap."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from interlock.domain.action import LEGAL_IN, GatedAction, Status, idempotency_key
from interlock.domain.approvals import Approval, ApprovalState, ApprovalTerms
from interlock.domain.effects import DataclassCodec, Effect, EffectRecord, Money, record_effect
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import InvalidConfiguration
from tests.provider_world import Transfer

AT = datetime(2026, 3, 1, tzinfo=UTC)
ID = UUID(int=1)


def _effect(amount: int) -> EffectRecord:
    return record_effect(Effect("w", "a", Transfer("a", amount, "usd"), Money(amount, "usd")), DataclassCodec(Transfer), 1)


def _approval(uses: int, cap: int) -> Approval:
    terms = ApprovalTerms(cap_minor=cap, currency="usd", by="u", expires_in_s=100, fingerprint=None, uses=uses)
    return Approval.grant(ID, "a", terms, AT)


@pytest.mark.parametrize("kind", [*GatedAction.Event.__subclasses__(), *Approval.Event.__subclasses__()])
def test_no_event_makes_up_a_time(kind: type[GatedAction.Event]) -> None:
    """The domain has no clock: whoever forgets the time is told so."""
    with pytest.raises(RuntimeError, match="clock"):
        kind.create_timestamp()


def test_there_is_a_legal_order_for_each_status_and_each_event() -> None:
    """Every event can be written in some status, and after Refused comes nothing but an erasure."""
    assert set(LEGAL_IN) == {None, *Status}
    assert set().union(*LEGAL_IN.values()) == {kind.__name__ for kind in GatedAction.Event.__subclasses__()}
    assert LEGAL_IN[Status.REFUSED] == {"Erased"}
    assert "Dispatched" not in LEGAL_IN[Status.AMBIGUOUS] | LEGAL_IN[Status.COMMITTED]


@given(st.uuids(), st.integers(1, 99))
def test_the_providers_key_is_made_of_the_random_id_and_the_attempt(action_id: UUID, attempt: int) -> None:
    """Another action or another attempt is another key."""
    assert idempotency_key(action_id, attempt) == f"il-{action_id}-{attempt}"


class ApprovalUnderLoad(RuleBasedStateMachine):
    """Actions come and go under one approval, and each is sent only while the approval is live for it."""

    def __init__(self) -> None:
        super().__init__()
        self.approval = _approval(uses=3, cap=100)
        self.at = AT

    @rule(number=st.integers(1, 6), amount=st.integers(1, 60))
    def fires(self, number: int, amount: int) -> None:
        ended = UUID(int=number).hex in self.approval.spent  # a committed action is never sent again
        if not ended and self.approval.state_for(UUID(int=number), _effect(amount), self.at) is ApprovalState.LIVE:
            assert self.approval.revoked_at is None
            self.approval.reserve(UUID(int=number), _effect(amount), self.at)

    @rule(number=st.integers(1, 6))
    def is_refused(self, number: int) -> None:
        self.approval.release(UUID(int=number), self.at)

    @rule(number=st.integers(1, 6))
    def is_committed(self, number: int) -> None:
        held = self.approval.reserved.get(UUID(int=number).hex)
        if held is not None:
            self.approval.spend(UUID(int=number), _effect(held), self.at)

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds: int) -> None:
        self.at += timedelta(seconds=seconds)

    @rule()
    def is_revoked(self) -> None:
        self.approval.revoke("u", "", self.at)

    @invariant()
    def the_cap_holds(self) -> None:
        held = {**self.approval.reserved, **self.approval.spent}
        assert len(held) <= 3
        assert sum(self.approval.reserved.values()) + sum(self.approval.spent.values()) <= 100
        assert self.approval.remaining_minor() == 100 - sum(held.values())


TestApprovalUnderLoad = ApprovalUnderLoad.TestCase


@pytest.mark.parametrize(("after_s", "state"), [(0, ApprovalState.LIVE), (99, ApprovalState.LIVE), (100, ApprovalState.EXPIRED)])
def test_an_approval_holds_until_it_expires(after_s: int, state: ApprovalState) -> None:
    """At the instant of its expiry it no longer does."""
    assert _approval(1, 5).state_for(ID, _effect(5), AT + timedelta(seconds=after_s)) is state


def test_an_actions_own_reservation_is_not_used_up_by_others() -> None:
    """Neither its use nor its amount; another action's is."""
    approval = _approval(1, 5)
    approval.reserve(ID, _effect(5), AT)
    assert approval.state_for(ID, _effect(5), AT) is ApprovalState.LIVE
    assert approval.state_for(UUID(int=2), _effect(1), AT) is ApprovalState.USED_UP


@pytest.mark.parametrize(
    "name", ["send_deadline_s", "kernel_s", "settle_s", "dedupe_margin_s", "roll_forward_s", "lookup_staleness_s"]
)
def test_a_negative_figure_is_no_profile(name: str) -> None:
    """It would move a horizon into the past."""
    with pytest.raises(InvalidConfiguration):
        CapabilityProfile(**{name: -0.1})  # type: ignore[arg-type]  # the names are all those of figures


def test_a_burn_needs_keys() -> None:
    """There is nothing to use up otherwise."""
    with pytest.raises(InvalidConfiguration):
        CapabilityProfile(burns=True)


def test_the_default_profile_promises_nothing() -> None:
    """No keys, no lookup, no burn, and failures that may roll forward at any time."""
    profile = CapabilityProfile()
    assert not any((profile.dedupes, profile.looks_up, profile.burns))
    assert profile.may_roll_forward_unbounded
    assert profile.key_expires(AT) is None


@pytest.mark.parametrize(
    "figures", [{"kernel_s": 1.0}, {"settle_s": 1.0}, {"dedupe_window_s": 86_400.0}, {"roll_forward_s": 0.0}]
)
def test_another_figure_is_another_digest(figures: dict[str, float]) -> None:
    """What was promised stands on the receipt by its digest."""
    assert CapabilityProfile(**figures).digest() != CapabilityProfile().digest()  # type: ignore[arg-type]  # as above


def test_a_key_expires_a_margin_before_its_window() -> None:
    """Counted from its first dispatch."""
    profile = CapabilityProfile(dedupe_window_s=100, dedupe_margin_s=40)
    assert profile.key_expires(AT) == AT + timedelta(seconds=60)


def test_an_approval_is_over_when_nothing_can_be_sent_under_it() -> None:
    """Revoked, expired or used up, and with no send that may still land."""
    other = UUID(int=2)

    def made(*, reserved: bool = False, spent: int = 0, revoked: bool = False) -> Approval:
        approval = _approval(uses=2, cap=100)
        for action in (UUID(int=9), other)[:spent]:
            approval.spend(action, _effect(1), AT)
        if reserved:
            approval.reserve(UUID(int=10), _effect(1), AT)
        if revoked:
            approval.revoke("u", "", AT)
        return approval

    late, end = AT + timedelta(seconds=99), AT + timedelta(seconds=100)
    assert [one.is_over(late) for one in (made(), made(spent=1), made(spent=2), made(revoked=True))] == [False, False, True, True]
    assert [one.is_over(end) for one in (made(), made(reserved=True), made(spent=2))] == [True, False, True]
    assert not made(reserved=True, revoked=True).is_over(late)


def test_an_approvals_erasure_says_who_asked_and_why() -> None:
    """And nothing else is said of it any more."""
    approval = _approval(uses=1, cap=100)
    approval.erase("request", "user:9", AT)
    last = approval.pending_events[-1]
    assert isinstance(last, Approval.Erased)
    assert (last.reason, last.by, last.timestamp, last.originator_version) == ("request", "user:9", AT, 2)
