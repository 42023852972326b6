"""An approval's authority as a fold: its terms, its end, its sums, and what a withheld or erased event leaves known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.domain.approvals import ApprovalTerms
from interlock.domain.authority import Authority, misfit
from interlock.domain.states import (
    STATES_BY_TOPIC,
    ErasedApprovalState,
    EventState,
    GrantedState,
    ReleasedState,
    ReservedState,
    RevokedState,
    SpentState,
)
from tests.scripted import AT, effect, later

ONE, OTHER, THIRD = "1" * 32, "2" * 32, "3" * 32
ERASED = ErasedApprovalState(AT, "request", "user:9")


def granted(**terms: Any) -> GrantedState:
    """Return a grant of 100 for two actions, for 100 s."""
    given = {"cap_minor": 100, "currency": "usd", "by": "u", "expires_in_s": 100, "fingerprint": None, "uses": 2, **terms}
    return GrantedState(AT, "interlock.approval", "case-1", ApprovalTerms(**given))


def reserved(action: str = ONE, amount: int = 1, at_s: float = 1) -> ReservedState:
    """Return a reservation."""
    return ReservedState(later(at_s), action, amount)


def authority(*states: EventState) -> Authority:
    """Return how an approval stands after these, all of which are legal."""
    made = Authority()
    for state in states:
        assert said(made, state) == []
        made.take(STATES_BY_TOPIC[state.TOPIC], state)
    return made


def said(made: Authority, state: EventState) -> list[str]:
    """Return what is said of one more event."""
    return [breach.words for breach in made.breaches(STATES_BY_TOPIC[state.TOPIC], state)]


# --- its terms


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        ({}, None),
        ({"cap_minor": 1999}, "covers 1999 usd, and the effect needs 2000"),
        ({"currency": "eur"}, "is in eur, and the effect in usd"),
        ({"cap_minor": None, "currency": None}, "covers no money"),
        ({"cap_minor": None}, "covers no money"),
        ({"currency": None}, "covers no money"),
        ({"fingerprint": effect().fingerprint}, None),
        ({"fingerprint": effect(1).fingerprint}, "was given for another effect"),
    ],
    ids=range(8),
)
def test_an_approval_covers_what_its_terms_say(terms: dict[str, Any], why: str | None) -> None:
    """Up to its cap, in its currency, and of one effect alone where it names one."""
    assert misfit(effect(), **{"cap_minor": 2000, "currency": "usd", "fingerprint": None, **terms}) == why


def test_what_moves_no_money_needs_no_cap() -> None:
    """And the effect that it was given for all the same."""
    free = replace(effect(), amount_minor=None, currency=None)
    assert misfit(free, cap_minor=None, currency=None, fingerprint=None) is None
    assert misfit(free, cap_minor=None, currency=None, fingerprint="sha256:00") == "was given for another effect"


# --- its sums


@pytest.mark.parametrize(
    ("before", "state", "words"),
    [
        ([], reserved(ONE, 1), "Reserved can't be event 1 of an approval"),
        ([granted()], granted(), "Granted can't be event 2 of an approval"),
        ([granted(), RevokedState(AT, "u", "")], reserved(ONE, 1), "it was reserved although it had been revoked"),
        ([granted(), RevokedState(AT, "u", "")], RevokedState(AT, "u", ""), "it was revoked although it had been revoked"),
        ([granted()], reserved(at_s=100), "it was reserved although it had expired"),
        ([granted()], reserved(ONE, 101), "the cap is exceeded by 1"),
        ([granted(), reserved(ONE, 60)], reserved(OTHER, 41), "the cap is exceeded by 1"),
        ([granted(), reserved(ONE, 60), SpentState(AT, ONE, 60)], reserved(OTHER, 41), "the cap is exceeded by 1"),
        ([granted(), reserved(ONE, 1)], SpentState(AT, ONE, 101), "the cap is exceeded by 1"),
        ([granted(), reserved(ONE, 1)], reserved(ONE, 1), "it was reserved twice for one action"),
        ([granted(uses=1), reserved(ONE, 1)], reserved(OTHER, 1), "it was reserved for more actions than it allows, 1"),
        ([granted(), reserved(ONE, 1), SpentState(AT, ONE, 1)], SpentState(AT, ONE, 1), "it was spent twice for one action"),
        ([granted()], ReleasedState(AT, ONE), "it was released, and had not been reserved"),
    ],
    ids=range(13),
)
def test_an_approval_that_is_overdrawn_is_named(before: list[EventState], state: EventState, words: str) -> None:
    """I3: its order, its end, its uses and its sums."""
    assert words in said(authority(*before), state)


def test_what_was_released_may_be_reserved_by_another() -> None:
    """The cap is for what is held and what was spent."""
    made = authority(granted(uses=1), reserved(ONE, 100), ReleasedState(AT, ONE))
    assert said(made, reserved(OTHER, 100)) == []


def test_sums_are_not_told_where_one_is_withheld() -> None:
    """Another action's reservation is not in a receipt: how much is left is not known, and the revocation still is."""
    made = authority(granted(uses=1))
    made.take(ReservedState, None)
    assert said(made, reserved(ONE, 100)) == []
    made.take(RevokedState, None)
    assert said(made, reserved(ONE, 100)) == ["it was reserved although it had been revoked"]


@pytest.mark.parametrize(
    ("before", "state"),
    [
        ([granted()], reserved(amount=100)),
        ([granted()], reserved(at_s=99.999)),
        ([granted(), reserved(ONE, 60)], reserved(OTHER, 40)),
        ([granted(), reserved(ONE, 60), SpentState(AT, ONE, 60)], reserved(OTHER, 40)),
        ([granted(), reserved(ONE, 60)], SpentState(AT, ONE, 60)),
        ([granted(cap_minor=None, currency=None)], reserved(amount=0)),
        ([granted(uses=3), reserved(ONE), reserved(OTHER)], reserved(THIRD)),
        ([granted(uses=1)], SpentState(AT, ONE, 100)),
        ([granted(), reserved(ONE), ReleasedState(AT, ONE)], reserved(ONE)),
        ([granted(), RevokedState(AT, "u", "")], SpentState(AT, ONE, 1)),
        ([granted(), reserved(ONE), RevokedState(AT, "u", "")], ReleasedState(AT, ONE)),
    ],
    ids=range(11),
)
def test_what_an_approval_allows_is_allowed_to_the_last(before: list[EventState], state: EventState) -> None:
    """The whole cap, the last moment, each use; and what was sent is spent or released, revoked or not."""
    assert said(authority(*before), state) == []


@pytest.mark.parametrize(
    ("before", "state", "words"),
    [
        (
            [granted(uses=2), reserved(ONE), reserved(OTHER)],
            reserved(THIRD),
            "it was reserved for more actions than it allows, 2",
        ),
        ([granted(), reserved(ONE), SpentState(AT, ONE, 1)], reserved(ONE), "it was reserved twice for one action"),
        (
            [granted(), reserved(ONE), ReleasedState(AT, ONE)],
            ReleasedState(AT, ONE),
            "it was released, and had not been reserved",
        ),
        (
            [granted(), reserved(ONE), SpentState(AT, ONE, 1)],
            ReleasedState(AT, ONE),
            "it was released, and had not been reserved",
        ),
        ([granted(), reserved(ONE)], ERASED, "it was erased while it was reserved for an action"),
    ],
    ids=range(5),
)
def test_what_it_does_not_allow_is_named(before: list[EventState], state: EventState, words: str) -> None:
    """And nothing else is said of it."""
    assert said(authority(*before), state) == [words]


def test_it_counts_its_events() -> None:
    """A send goes by their number."""
    made = authority(granted(), reserved(ONE), SpentState(AT, ONE, 1))
    assert (made.events, made.holders, made.ever_reserved) == (3, frozenset({ONE}), {ONE})
    assert (made.reserved, made.spent, made.expires_at) == ({}, {ONE: 1}, later(100))
    assert Authority().expires_at is None


# --- the send that has just gone by it


def test_it_is_reserved_next_for_the_send_that_went_by_it() -> None:
    """I3: in the transaction of the send, so that nothing of the approval's comes between."""
    owing = authority(granted())
    owing.owes = ONE
    unpaid = f"action {ONE} was sent on the event before, and it was not reserved for it (I3)"
    assert said(owing, reserved(ONE)) == []
    assert said(owing, reserved(OTHER)) == [unpaid]
    assert said(owing, RevokedState(AT, "u", "")) == [unpaid]
    assert [one.words for one in owing.breaches(ReservedState, None)] == []
    assert [one.words for one in owing.breaches(RevokedState, None)] == [unpaid]
    owing.take(ReservedState, reserved(ONE))
    assert owing.owes is None


# --- what was withheld, and what was erased


def test_what_was_withheld_makes_no_sum() -> None:
    """Neither of amounts nor of uses; and a release of what may have been reserved is none that was not."""
    made = authority(granted(uses=1))
    made.take(ReservedState, None)
    assert made.withheld
    assert said(made, reserved(OTHER, 1000)) == []
    assert said(made, SpentState(AT, OTHER, 1000)) == []
    assert said(made, ReleasedState(AT, OTHER)) == []
    assert said(made, ERASED) == []
    made.take(SpentState, SpentState(AT, OTHER, 1))
    made.take(ReleasedState, ReleasedState(AT, THIRD))
    assert (made.withheld, made.reserved, made.spent) == (True, {}, {OTHER: 1})


def test_a_revocation_hides_nothing() -> None:
    """What is there is not withheld."""
    made = authority(granted(), RevokedState(AT, "u", ""))
    assert (made.revoked, made.withheld, made.erased) == (True, False, False)
    made.take(ReservedState, reserved(ONE))
    assert made.revoked


@pytest.mark.parametrize("state", [None, ERASED], ids=["withheld", "there"])
def test_nothing_follows_an_approvals_erasure(state: ErasedApprovalState | None) -> None:
    """Nothing is sent under what nobody can read any more."""
    made = authority(granted(), reserved(ONE), ReleasedState(AT, ONE))
    assert said(made, ERASED) == []
    made.take(ErasedApprovalState, state)
    assert (made.erased, made.withheld) == (True, state is None)
    assert said(made, reserved(OTHER)) == ["Reserved can't follow on an erasure"]
    made.take(ReservedState, reserved(OTHER))
    assert said(made, RevokedState(AT, "u", "")) == ["Revoked can't follow on an erasure"]
