"""The protocol, request by request: what is read before the first commit, who may take a claim, and what a person may say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.domain import protocol
from interlock.domain.action import Door, GatedAction, Intent, Status, Via
from interlock.domain.answers import Absent, CannotTell, Done, Found, Settlement
from interlock.domain.approvals import ApprovalReading, ApprovalState
from interlock.domain.endings import Ended, Pending, PendingReason
from interlock.domain.premises import Premise, PremiseReading, ReadingState
from interlock.domain.requests import AppendAnswer, FindAction, Liveness, ProbeHolder
from interlock.errors import (
    ActionMismatch,
    ApprovalNotUsable,
    NotResolvable,
    OutcomeNotRecorded,
    PremiseUnreadable,
)
from tests.scripted import (
    ACTION_ID,
    AT,
    KEYS,
    Outside,
    approval,
    dispatched,
    effect,
    evidence,
    gate,
    intended,
    intent,
    later,
)

BOTH = replace(KEYS, lookup_staleness_s=0)
MOVED, APPROVAL_MOVED = AppendAnswer.ACTION_MOVED, AppendAnswer.APPROVAL_MOVED


def unreadable() -> PremiseReading:
    """Return a premise that could not be read."""
    return PremiseReading(
        target="world",
        subject="acct_1",
        policy="strict",
        policy_version=0,
        state=ReadingState.UNREADABLE,
        words="503",
        possible="",
        facts_json="{}",
        read_at=AT,
    )


def fire(outside: Outside, profile: Any = KEYS) -> Any:
    """Fire the intent through a gate."""
    return outside.run(protocol.fire(intent(), gate(profile)))


# --- fire


def test_a_committed_action_costs_two_commits_and_is_checked_right_before_the_first() -> None:
    """The approval is read last, because its version is asserted in the commit that follows."""
    outside = Outside(None, approval(), Send=[Done(evidence())])
    ended = fire(outside)
    assert isinstance(ended, Ended)
    assert outside.kinds == ["FindAction", "NewActionId", "ReadPremises", "LoadApproval", "Append", "StillAt", "Send", "Append"]
    assert [type(event).__name__ for event in outside.appended[0]] == ["Intended", "Claimed", "Dispatched", "Reserved"]
    assert (ended.action.id, ended.action.intent) == (ACTION_ID, intent())
    assert [(sent.attempt, sent.idempotency_key) for sent in ended.action.dispatches] == [(1, f"il-{ACTION_ID}-1")]
    assert [event.via for event in outside.events(GatedAction.Committed)] == [Via.FIRST_SEND]


SEEN = Premise(target="world", subject="acct_1", facts_json="{}", read_at=AT, policy="strict")


@pytest.mark.parametrize(
    ("wanted", "asked_next"),
    [(intent(), "case-1"), (replace(intent(), premises=(SEEN,)), None), (intent(source="table"), None)],
    ids=["nothing in between", "premises", "elsewhere"],
)
def test_an_approval_is_read_with_the_key_where_nothing_takes_time_in_between(wanted: Intent, asked_next: str | None) -> None:
    """After premises it is read as late as can be, and one that lives elsewhere is not the journal's to read."""
    assert next(protocol.fire(wanted, gate())) == FindAction(wanted.key, asked_next)


def test_a_refused_action_costs_one_commit_and_not_at_recovery() -> None:
    """A revoked approval: Intended and Refused in one, nothing sent, and with what was read."""
    held = approval()
    held.revoke("user:18", "", AT)
    held.collect_events()
    outside = Outside(None, held)
    fire(outside)
    assert [type(event).__name__ for event in outside.appended[0]] == ["Intended", "Refused"]
    (refused,) = outside.events(GatedAction.Refused)
    assert (refused.code, refused.at_recovery, refused.door) == ("approval_revoked", False, Door.NOTHING_SENT)


def test_an_approval_that_moved_before_the_first_commit_is_read_again_and_the_premises_are_not() -> None:
    """Nothing was written, so it begins again with what is nearest to the commit."""
    outside = Outside(None, approval(), Append=[APPROVAL_MOVED], Send=[Done(evidence())])
    assert isinstance(fire(outside), Ended)
    assert outside.kinds[:7] == ["FindAction", "NewActionId", "ReadPremises", "LoadApproval", "Append", "LoadApproval", "Append"]


def test_a_key_that_somebody_else_took_meanwhile_is_theirs() -> None:
    """The action that has it is recovered, which here has ended already."""
    theirs = dispatched(gate())
    theirs.commit(Via.FIRST_SEND, evidence(), AT)
    theirs.collect_events()
    outside = Outside(None, approval(), FindAction=[None, theirs], Append=[MOVED])
    assert fire(outside) == Ended(theirs)
    assert outside.appended == []


def test_a_key_that_names_another_effect_is_a_mismatch_and_changes_nothing() -> None:
    """I5: for fire as for propose."""
    other = GatedAction.intend(ACTION_ID, replace(intent(), effect=effect(1)), AT)
    for part in (protocol.fire(intent(), gate()), protocol.propose(intent())):
        outside = Outside(other)
        with pytest.raises(ActionMismatch):
            outside.run(part)
        assert outside.kinds == ["FindAction"]


@pytest.mark.parametrize("propose", [True, False])
def test_an_approval_that_can_never_be_used_raises_before_anything_is_written(propose: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """There is none of that name: the key is not used up."""
    outside = Outside(None, None)
    with pytest.raises(ApprovalNotUsable):
        outside.run(protocol.propose(intent()) if propose else protocol.fire(intent(), gate()))
    assert outside.appended == []


def test_a_premise_that_cannot_be_read_raises_before_anything_is_written() -> None:
    """I4: the key is not used up."""
    outside = Outside(None, approval(), ReadPremises=[(unreadable(),)])
    with pytest.raises(PremiseUnreadable, match="acct_1 could not be read: 503"):
        fire(outside)
    assert outside.appended == []


def test_an_approval_that_lives_elsewhere_is_read_and_not_held() -> None:
    """It is asked for its own reading, and no approval of the journal is part of the commit."""
    there = intent(source="desk")
    live = ApprovalReading(ref=there.approval, state=ApprovalState.LIVE, held=False, read_at=AT, cap_minor=2000, currency="usd")
    outside = Outside(None, ReadExternalApproval=[live], Send=[Done(evidence())])
    outside.run(protocol.fire(there, gate()))
    (sent,) = outside.events(GatedAction.Dispatched)
    assert sent.checks.approval == live
    assert "LoadApproval" not in outside.kinds


# --- propose


def test_propose_makes_the_intent_durable_once() -> None:
    """One event, nothing sent; and proposed again it is the same action."""
    outside = Outside(None, approval())
    action = outside.run(protocol.propose(intent()))
    assert [type(event).__name__ for event in outside.appended[0]] == ["Intended"]
    again = Outside(action)
    assert again.run(protocol.propose(intent())) is action
    assert again.kinds == ["FindAction"]


def test_propose_looks_again_where_somebody_else_took_the_key() -> None:
    """Their action is the one."""
    theirs = intended()
    outside = Outside(None, approval(), FindAction=[None, theirs], Append=[MOVED])
    assert outside.run(protocol.propose(intent())) is theirs


# --- who may take a claim


@pytest.mark.parametrize(
    ("liveness", "at_s", "why"),
    [
        (Liveness.GONE, 1, "holder gone"),
        (Liveness.GONE, 40, "expired"),
        (Liveness.ALIVE, 39.9, None),
        (Liveness.ALIVE, 40, "expired"),
        (Liveness.UNKNOWN, 39.9, None),
        (Liveness.UNKNOWN, 40, "expired"),
        (Liveness.IDLE, 40, "expired"),
    ],
)
def test_a_claim_is_taken_over_when_its_holder_is_gone_or_its_time_is_up(
    liveness: Liveness, at_s: float, why: str | None
) -> None:
    """I7: and from nobody who lives; the term rises."""
    action = dispatched(gate(holder="gate-0"))
    outside = Outside(action, approval(), ProbeHolder=[liveness], Send=[Done(evidence())])
    outside.now = later(at_s)
    conclusion = outside.run(protocol.recover(action, gate()))
    claims = outside.events(GatedAction.Claimed)
    (asked, *_) = (request for request in outside.trace if isinstance(request, ProbeHolder))
    assert asked.claim is not None
    assert (asked.action_id, asked.claim.holder) == (ACTION_ID, "gate-0")
    if why is None:
        assert isinstance(conclusion, Pending)
        assert (conclusion.reason, conclusion.retry_at) == (PendingReason.HELD, later(40))
        assert conclusion.words == "a gate on here, pid 7, holds the claim"
        assert claims == []
    else:
        assert (claims[0].why, claims[0].claim.term, claims[0].claim.holder) == (why, 2, "gate-1")


def test_a_claim_of_our_own_is_not_taken_again() -> None:
    """The same gate goes on under it: no event, no other term."""
    action = dispatched(gate())
    outside = Outside(action, approval(), Send=[Done(evidence())])
    outside.now = later(1)
    outside.run(protocol.recover(action, gate()))
    assert outside.events(GatedAction.Claimed) == []


def test_who_asks_for_a_claim_that_holds_for_long_is_told_to_ask_in_a_second() -> None:
    """Its holder may be done by then."""
    action = dispatched(gate())
    outside = Outside(action, ProbeHolder=[Liveness.ALIVE])
    outside.now = later(5)
    pending = outside.run(protocol.recover(action, gate()))
    assert isinstance(pending, Pending)
    assert pending.retry_at == later(6)


def test_an_action_without_a_claim_can_be_held_by_a_thread_of_this_gate() -> None:
    """It is told apart from another gate, and from the first claim."""
    outside = Outside(intended(), ProbeHolder=[Liveness.ALIVE])
    pending = outside.run(protocol.recover(intended(), gate()))
    assert isinstance(pending, Pending)
    assert (pending.reason, pending.retry_at, pending.words) == (
        PendingReason.HELD,
        later(1),
        "another thread of this gate is at work on it",
    )
    outside = Outside(intended(), approval(), ProbeHolder=[Liveness.GONE], Send=[Done(evidence())])
    outside.run(protocol.recover(intended(), gate()))
    assert [event.why for event in outside.events(GatedAction.Claimed)] == ["first"]


# --- recover


def test_an_action_that_has_ended_is_not_touched() -> None:
    """Its recorded outcome is the answer."""
    action = dispatched(gate())
    action.leave_ambiguous("cannot_look", "", AT)
    outside = Outside()
    assert outside.run(protocol.recover(action, gate())) == Ended(action)
    assert outside.trace == []


def test_an_action_that_never_reached_a_send_is_checked_and_begun_at_recovery() -> None:
    """Nothing can be found at the provider, so nobody looks; a refusal came at recovery."""
    held = approval()
    held.revoke("user:18", "", AT)
    held.collect_events()
    outside = Outside(intended(), held)
    outside.run(protocol.recover(intended(), gate(BOTH)))
    (refused,) = outside.events(GatedAction.Refused)
    assert (refused.at_recovery, refused.door) == (True, Door.NOTHING_SENT)
    assert "LookUp" not in outside.kinds


def test_an_action_that_never_reached_a_send_waits_where_a_fact_cannot_be_read() -> None:
    """I4: nothing is sent, and asking again makes sense in a second."""
    outside = Outside(intended(), approval(), ReadPremises=[(unreadable(),)])
    pending = outside.run(protocol.recover(intended(), gate()))
    assert isinstance(pending, Pending)
    assert (pending.reason, pending.retry_at) == (PendingReason.NOT_SENT, later(1))
    assert pending.words == "the premise acct_1 could not be read: 503"


def test_a_recovery_that_lost_the_race_for_the_claim_thinks_again() -> None:
    """Rule 5: with the action as the journal has it by then."""
    theirs = dispatched(gate())
    theirs.commit(Via.RECOVERY_QUERY, evidence(), AT)
    outside = Outside(theirs, ProbeHolder=[Liveness.GONE], Append=[MOVED])
    assert outside.run(protocol.recover(dispatched(gate()), gate())) == Ended(theirs)
    assert outside.appended == []


# --- refused behind our back


def refused_behind(holder: str, *, sent: bool = True) -> GatedAction:
    """Return an action that one gate dispatched, and that somebody else refused."""
    action = dispatched(gate(holder=holder)) if sent else intended()
    if not sent:
        action.take_claim(gate(holder=holder).claim(action, AT), "first", AT)
    action.refuse("premise_conflicting", "words", AT, door=Door.HORIZON, at_recovery=True)
    action.collect_events()
    return action


def raced(theirs: GatedAction, profile: Any, **answers: list[Any]) -> Outside:
    """Lose the race for an ending against somebody who refused."""
    outside = Outside(theirs, approval(), ProbeHolder=[Liveness.GONE], Append=[MOVED], **answers)
    outside.run(protocol.recover(dispatched(gate()), gate(profile)))
    return outside


def test_a_sender_whose_action_was_refused_meanwhile_looks_once_more_and_says_so() -> None:
    """What it sent a moment ago may have landed: too late to undo, and not too late to say."""
    with pytest.raises(OutcomeNotRecorded, match="the journal has it as refused") as raised:
        raced(refused_behind("gate-1"), BOTH, LookUp=[Found(evidence())])
    assert (raised.value.key, raised.value.evidence) == ("refund:1", evidence())
    outside = raced(refused_behind("gate-1"), BOTH, LookUp=[Absent(AT)])
    assert outside.kinds.count("LookUp") == 1


@pytest.mark.parametrize(
    ("theirs", "profile"),
    [
        (refused_behind("gate-0"), BOTH),
        (refused_behind("gate-1", sent=False), BOTH),
        (refused_behind("gate-1"), KEYS),
    ],
    ids=["never ours", "never sent", "nobody can look"],
)
def test_who_sent_nothing_of_it_or_cannot_look_has_nothing_to_say(theirs: GatedAction, profile: Any) -> None:
    """A refusal by others is the outcome."""
    assert "LookUp" not in raced(theirs, profile).kinds


def test_fire_that_lost_the_race_for_the_key_looks_once_more_too() -> None:
    """The same gate may have sent it on another thread."""
    outside = Outside(None, approval(), FindAction=[None, refused_behind("gate-1")], Append=[MOVED], LookUp=[Found(evidence())])
    with pytest.raises(OutcomeNotRecorded):
        fire(outside, BOTH)
    again = Outside(refused_behind("gate-1"))
    assert isinstance(fire(again, BOTH), Ended)
    assert again.kinds == ["FindAction"]


# --- reconcile


def test_reconcile_recovers_what_has_not_ended() -> None:
    """It is the same as recover then."""
    outside = Outside(dispatched(gate()), approval(), LookUp=[Found(evidence())])
    outside.now = later(1)
    outside.run(protocol.reconcile(dispatched(gate()), gate(BOTH)))
    assert [event.via for event in outside.events(GatedAction.Committed)] == [Via.RECOVERY_QUERY]


def test_reconcile_thinks_again_where_somebody_else_wrote() -> None:
    """Rule 5: with the action as it is by then."""
    ambiguous = dispatched(gate())
    ambiguous.leave_ambiguous("cannot_look", "", AT)
    ambiguous.collect_events()
    theirs = dispatched(gate())
    theirs.commit(Via.RESOLUTION, None, AT, by="user:18", note="")
    theirs.collect_events()
    outside = Outside(
        None,
        approval(),
        LookUp=[Found(evidence()), Found(evidence())],
        Append=[MOVED],
        LoadAction=[theirs, theirs, theirs],
    )
    ended = outside.run(protocol.reconcile(ambiguous, gate(BOTH)))
    assert isinstance(ended, Ended)
    assert ended.action.status is Status.COMMITTED


# --- a person decides


def ambiguous(profile: Any = KEYS) -> GatedAction:
    """Return an action that nobody knows the end of; nothing lands any more after 35 s."""
    action = dispatched(gate(profile))
    action.leave_ambiguous("cannot_look", "words", AT)
    action.collect_events()
    return action


def resolve(
    outside: Outside,
    action: GatedAction,
    *,
    happened: bool = False,
    looks_up: bool = False,
    despite: bool = False,
    at_s: float = 35,
) -> Any:
    """Let a person decide."""
    outside.now = later(at_s)
    return outside.run(
        protocol.resolve(
            action, happened=happened, by="user:19", note="I looked", looks_up=looks_up, despite_roll_forward=despite
        )
    )


def test_a_persons_yes_is_recorded_with_who_said_it_and_spends_the_approval() -> None:
    """At any time, without evidence."""
    action, held = ambiguous(), approval()
    outside = Outside(action, held)
    resolve(outside, action, happened=True, at_s=0)
    (committed,) = outside.events(GatedAction.Committed)
    assert (committed.via, committed.evidence, committed.by, committed.note) == (Via.RESOLUTION, None, "user:19", "I looked")
    assert held.spent == {action.id.hex: 2000}
    assert outside.kinds == ["LoadApproval", "Append"]


def test_a_persons_no_is_recorded_with_who_said_it_behind_the_closed_door() -> None:
    """From the horizon on, with the door named."""
    action = ambiguous()
    outside = Outside(action, approval())
    resolve(outside, action)
    (refused,) = outside.events(GatedAction.Refused)
    assert (refused.code, refused.door, refused.at_recovery) == ("resolved_as_not_done", Door.PERSON, True)
    assert (refused.by, refused.note) == ("user:19", "I looked")


@pytest.mark.parametrize("status", ["dispatched", "committed"])
@pytest.mark.parametrize("happened", [True, False])
def test_only_what_is_ambiguous_can_be_resolved(status: str, happened: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Anything else has its outcome, or will have it."""
    action = dispatched(gate())
    if status == "committed":
        action.commit(Via.FIRST_SEND, evidence(), AT)
    with pytest.raises(NotResolvable, match="not AMBIGUOUS"):
        resolve(Outside(), action, happened=happened)


def test_a_no_before_the_horizon_is_not_taken() -> None:
    """Rule 7: and it says until when."""
    with pytest.raises(NotResolvable, match=later(35).isoformat()[:19]):
        resolve(Outside(), ambiguous(), at_s=34.9)


def test_a_no_where_a_failure_may_roll_forward_is_taken_on_a_persons_own_risk_only() -> None:
    """Rule 7: whoever says so has made sure with the provider."""
    action = ambiguous(replace(KEYS, roll_forward_s=None))
    with pytest.raises(NotResolvable, match="despite_roll_forward"):
        resolve(Outside(), action)
    outside = Outside(action, approval())
    resolve(outside, action, despite=True)
    assert outside.events(GatedAction.Refused)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (CannotTell("503"), "could not be asked about 'refund:1': 503"),
        (
            Found(evidence(disagreements=("amount is 1", "currency is eur"))),
            r"tx_1 with this action's mark \(amount is 1; currency is eur\)",
        ),
    ],
)
def test_a_no_that_the_provider_may_contradict_is_not_taken(seen: Any, words: str) -> None:
    """I6: it could not be asked, or it has something with this action's mark."""
    with pytest.raises(NotResolvable, match=words):
        resolve(Outside(LookUp=[seen]), ambiguous(), looks_up=True)


@pytest.mark.parametrize("settlement", [Settlement.FINAL, Settlement.REVERSED])
def test_a_no_that_the_provider_contradicts_becomes_a_yes(settlement: Settlement) -> None:
    """What is found and agrees is committed, whatever became of it later."""
    outside = Outside(ambiguous(), approval(), LookUp=[Found(replace(evidence(), settlement=settlement))])
    resolve(outside, ambiguous(), looks_up=True)
    assert [event.via for event in outside.events(GatedAction.Committed)] == [Via.RECOVERY_QUERY]


def test_a_no_is_taken_where_what_disagrees_was_reversed() -> None:
    """It is not there any more."""
    said = replace(evidence(disagreements=("amount is 1",)), settlement=Settlement.REVERSED)
    outside = Outside(ambiguous(), approval(), LookUp=[Found(said)])
    resolve(outside, ambiguous(), looks_up=True)
    assert outside.events(GatedAction.Refused)


@pytest.mark.parametrize("happened", [True, False])
def test_a_person_who_lost_the_race_is_asked_again_by_what_the_journal_has(happened: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Somebody else resolved it meanwhile: theirs stands."""
    theirs = ambiguous()
    theirs.commit(Via.RESOLUTION, None, AT, by="user:18", note="")
    theirs.collect_events()
    outside = Outside(theirs, approval(), Append=[MOVED])
    with pytest.raises(NotResolvable, match="COMMITTED"):
        resolve(outside, ambiguous(), happened=happened)
