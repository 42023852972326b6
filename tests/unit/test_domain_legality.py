"""The rules as a fold: what each of them says of an event that no gate could have written, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from interlock.domain.action import SendPurpose, Via
from interlock.domain.approvals import Approval, ApprovalTerms
from interlock.domain.legality import CLOCKS_MAY_FALL, Legality, Progress, Rule, after, breaches
from interlock.domain.log_states import LOG_ID, EpochStartedState, KeyRotatedState, OpenedState
from interlock.domain.states import (
    ClaimedState,
    DispatchedState,
    EventState,
    GrantedState,
    Status,
)
from interlock.evidence.decoding import KINDS
from tests.folded import folded, last_send, states_of, words
from tests.scripted import ACTION_ID, AT, KEYS, checked, dispatched, effect, evidence, gate, later


def claimed(**changed: Any) -> ClaimedState:
    """Return a claim of the second term, by somebody else."""
    sender = gate(holder="gate-2")
    claim = replace(sender.claim(dispatched(gate()), later(100)), **changed)
    return ClaimedState(later(100), claim, "expired", None)


# --- claims


def test_a_claim_whose_time_is_up_may_be_taken_over() -> None:
    """By anybody, with the next term."""
    assert words(folded(dispatched(gate())), claimed()) == []


def test_a_claim_without_a_lock_is_not_taken_over_early() -> None:
    """I7: nothing could have said that its holder is gone; with a lock, something could."""
    progress = folded(dispatched(gate()))
    early = replace(claimed(), timestamp=later(1))
    assert "a claim was taken over before its time was up, and no lock could say that its holder is gone (I7)" in words(
        progress, early
    )
    assert progress.claim is not None
    locked = replace(progress, claim=replace(progress.claim, lock="lock-1"))
    assert words(locked, early) == []
    same = replace(early, claim=replace(early.claim, holder="gate-1"))
    assert words(progress, same) == []


@pytest.mark.parametrize("term", [0, 1, 3])
def test_terms_rise_one_by_one(term: int) -> None:
    """A fencing token that stands still or jumps fences nothing."""
    assert words(folded(dispatched(gate())), claimed(term=term)) == [f"term {term} does not follow term 1"]


# --- sends


def sent(**changed: Any) -> DispatchedState:
    """Return a second send under the first key."""
    action = dispatched(gate())
    action.dispatch(1, SendPurpose.EXECUTE, checked(action).checks, KEYS, later(1))
    return replace(last_send(action), **changed)


def test_another_send_under_the_same_key_is_legal() -> None:
    """With its own number."""
    assert words(folded(dispatched(gate())), sent()) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"send": 3}, "send 3 does not follow send 1"),
        ({"attempt": 3, "idempotency_key": f"il-{ACTION_ID}-3"}, "attempt 3 does not follow attempt 1"),
        ({"attempt": 0, "idempotency_key": f"il-{ACTION_ID}-0"}, "attempt 0 does not follow attempt 1"),
        ({"idempotency_key": f"il-{UUID(int=9)}-1"}, "its idempotency key is not the action's"),
        ({"deadline_at": later(0)}, "its deadline does not lie between its own time and its horizon"),
        ({"horizon_at": later(5)}, "its deadline does not lie between its own time and its horizon"),
        ({"deadline_at": later(41)}, "its deadline lies behind the end of the claim"),
    ],
    ids=str,
)
def test_a_send_that_does_not_follow_is_named(changed: dict[str, Any], said: str) -> None:
    """Numbers, keys, deadlines: each is derived from what came before."""
    assert said in words(folded(dispatched(gate())), sent(**changed))


def test_a_stored_answer_is_read_under_a_key_that_was_used() -> None:
    """And not under the next one."""
    read = sent(purpose=SendPurpose.READ_STORED)
    assert words(folded(dispatched(gate())), read) == []
    fresh = replace(read, attempt=2, idempotency_key=f"il-{ACTION_ID}-2")
    assert words(folded(dispatched(gate())), fresh) == ["a stored answer can't be read under a key that was never used"]


def test_a_stored_answer_may_be_read_without_an_approval() -> None:
    """It can only replay: a revoked approval must not keep it from being read."""
    checks = checked(dispatched(gate())).checks
    expired = replace(checks, approval=replace(checks.approval, expires_at=AT))
    assert words(folded(dispatched(gate())), sent(purpose=SendPurpose.READ_STORED, checks=expired)) == []
    assert words(folded(dispatched(gate())), sent(checks=expired)) == ["it was sent although the approval had expired"]


# --- time


def test_a_clock_that_was_set_back_is_a_remark() -> None:
    """Further than clocks may fall; and no other rule speaks of it."""
    progress = folded(dispatched(gate()))
    for fall, rules in ((CLOCKS_MAY_FALL, []), (CLOCKS_MAY_FALL + timedelta(seconds=1), [Rule.TIME])):
        state = replace(claimed(), timestamp=AT - fall, claim=replace(claimed().claim, holder="gate-1"))
        assert [breach.rule for breach in breaches(ACTION_ID, progress, ClaimedState, state)] == rules


# --- what was withheld


def test_nothing_is_held_against_what_is_not_known() -> None:
    """After a withheld claim any term may follow, and after a withheld send any attempt; the order still counts."""
    progress = folded(dispatched(gate()))
    hidden = after(progress, ClaimedState, None)
    assert words(hidden, claimed(term=17)) == []
    assert after(hidden, ClaimedState, claimed(term=17)).term == 17
    unknown = after(progress, DispatchedState, None)
    assert unknown.sends == 2
    assert words(unknown, sent(attempt=5, send=3, idempotency_key=f"il-{ACTION_ID}-5")) == []
    assert words(unknown, sent(attempt=5, send=2, idempotency_key=f"il-{ACTION_ID}-5")) == ["send 2 does not follow send 2"]


def test_an_ending_follows_what_is_not_known_too() -> None:
    """By its kind alone."""
    action = dispatched(gate())
    action.commit(Via.FIRST_SEND, evidence(), later(1))
    progress = Progress()
    for kind, _ in states_of(action):
        assert not list(breaches(ACTION_ID, progress, kind, None))
        progress = after(progress, kind, None)
    assert progress.status is Status.COMMITTED
    assert [one.words for one in breaches(ACTION_ID, progress, DispatchedState, None)] == [
        "Dispatched can't follow in status COMMITTED"
    ]


# --- both together


def test_events_are_of_what_their_aggregate_is() -> None:
    """An approval's event on an action is none."""
    legality = Legality()
    assert not legality.read(ACTION_ID, GrantedState, None)
    assert [one.words for one in legality.read(ACTION_ID, ClaimedState, None)] == [f"Claimed is no event of what {ACTION_ID} is"]


def test_a_lost_approval_is_held_against_nobody() -> None:
    """Whose chain is broken is named already, and what follows from it would be noise."""
    terms = ApprovalTerms(cap_minor=2000, currency="usd", by="u", expires_in_s=10_000, fingerprint=None, uses=1)
    approval = Approval.grant(UUID(int=2), "case-1", terms, AT)
    action = dispatched(gate())
    for lost in (False, True):
        legality = Legality()
        for event in approval.pending_events:
            legality.read(approval.id, GrantedState, event)  # type: ignore[arg-type]  # it is one
        if lost:
            legality.lose(approval.id)
        for kind, state in states_of(action):
            legality.read(action.id, kind, state)
        assert list(legality.unreserved()) == ([] if lost else [action.id])


def test_the_effect_is_what_was_fingerprinted() -> None:
    """I5: an amount that was changed has another fingerprint."""
    action = dispatched(gate())
    kind, state = states_of(action)[0]
    intent = replace(action.intent, effect=replace(effect(), amount_minor=1))
    found = list(breaches(ACTION_ID, Progress(), kind, replace(state, intent=intent)))  # type: ignore[call-arg]  # it is Intended's
    assert [one.words for one in found] == ["the fingerprint is not that of its effect (I5)"]


OPENED = OpenedState(AT, "interlock.log", "acme.example/interlock/prod")
ROTATED = KeyRotatedState(AT, "log", "old", "new", "", "")


def epoch(number: int) -> EpochStartedState:
    """Return the beginning of an epoch."""
    return EpochStartedState(AT, number, f"acme.example/interlock/prod-{number}", "vkey", None)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([OPENED, epoch(1), ROTATED, epoch(2), epoch(5)], None),
        ([epoch(1)], "EpochStarted stands before the log was opened"),
        ([OPENED, OPENED], "the log was opened before"),
        ([OPENED, epoch(2), epoch(2)], "epoch 2 does not follow epoch 2"),
        ([OPENED, epoch(2), epoch(1)], "epoch 1 does not follow epoch 2"),
        ([OPENED, ROTATED], "before an epoch began"),
    ],
    ids=range(6),
)
def test_what_the_log_says_of_itself_has_an_order_too(events: list[EventState], words: str | None) -> None:
    """It is opened once, its epochs rise, and keys change within one."""
    legality = Legality()
    found = [breach.words for state in events for breach in legality.read(LOG_ID, KINDS[state.TOPIC], state)]
    assert [words in one for one in found] == [True] if words is not None else not found
