"""Endings: each is appended at the version that was read, with what becomes of the approval, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.domain import requests
from interlock.domain.action import Door, GatedAction, Via
from interlock.domain.answers import Evidence
from interlock.domain.approvals import Approval, ApprovalRef
from interlock.domain.endings import Ended, Refusal, record_ambiguity, record_done, record_refusal
from interlock.domain.requests import AppendAnswer
from interlock.errors import JournalUnavailable, OutcomeNotRecorded
from tests.scripted import AT, Outside, approval, checked, dispatched, evidence, gate, intended

REFUSAL = Refusal(code="code", words="words", door=Door.HORIZON, at_recovery=True, possible="possible", by="user:18", note="note")
MOVED, APPROVAL_MOVED = AppendAnswer.ACTION_MOVED, AppendAnswer.APPROVAL_MOVED


def reserved() -> Approval:
    """Return an approval with the action's reservation."""
    held = approval()
    held.reserve(intended().id, intended().intent.effect, AT)
    held.collect_events()
    return held


def committed_by(reference: str) -> GatedAction:
    """Return the action as somebody else ended it."""
    action = dispatched(gate())
    action.commit(Via.RECOVERY_QUERY, evidence(reference), AT)
    action.collect_events()
    return action


def refused() -> GatedAction:
    """Return the action as somebody else refused it."""
    action = dispatched(gate())
    action.refuse("code", "words", AT, door=Door.HORIZON, at_recovery=True)
    action.collect_events()
    return action


def ambiguous() -> GatedAction:
    """Return the action as somebody else left it."""
    action = dispatched(gate())
    action.leave_ambiguous("cannot_look", "words", AT)
    action.collect_events()
    return action


# --- one append


def test_a_refusal_says_all_that_it_was_given_and_releases_the_reservation() -> None:
    """I3 and I10: both stand in one transaction."""
    action, outside = dispatched(gate()), Outside(approval=reserved())
    checks = checked(action).checks
    assert outside.run(record_refusal(action, REFUSAL, checks)) == Ended(action)
    (ended,) = outside.events(GatedAction.Refused)
    assert (ended.code, ended.words, ended.door, ended.possible) == ("code", "words", Door.HORIZON, "possible")
    assert (ended.at_recovery, ended.by, ended.note, ended.checks) == (True, "user:18", "note", checks)
    assert [type(event).__name__ for event in outside.appended[0]] == ["Refused", "Released"]


def test_an_ambiguity_keeps_the_reservation_and_does_not_touch_the_approval() -> None:
    """I3: nothing is given back, so the approval is not part of the append."""
    action, outside = dispatched(gate()), Outside(approval=reserved())
    checks, said = checked(action).checks, evidence()
    assert outside.run(record_ambiguity(action, "code", "words", checks, said)) == Ended(action)
    (ended,) = outside.events(GatedAction.Ambiguous)
    assert (ended.code, ended.words, ended.checks, ended.evidence) == ("code", "words", checks, said)
    assert [request.approval for request in outside.trace if isinstance(request, requests.Append)] == [None]


def test_an_approval_that_lives_elsewhere_is_not_loaded() -> None:
    """The journal has nothing of it to settle."""
    action = intended()
    action.intent = GatedAction.intend(action.id, _elsewhere(action), AT).intent
    outside = Outside()
    outside.run(record_refusal(action, REFUSAL, None))
    assert outside.kinds == ["Append"]


def _elsewhere(action: GatedAction) -> Any:
    from dataclasses import replace

    return replace(action.intent, approval=ApprovalRef("case-1", "desk"))


# --- somebody else wrote


def test_an_ending_is_written_again_where_only_the_approval_moved() -> None:
    """The action is at the version that was read, so the ending still holds; the approval is loaded again."""
    action = dispatched(gate())
    outside = Outside(dispatched(gate()), reserved(), Append=[APPROVAL_MOVED])
    ended = outside.run(record_refusal(action, REFUSAL, None))
    assert isinstance(ended, Ended)
    assert outside.kinds == ["LoadApproval", "Append", "LoadAction", "LoadApproval", "Append"]
    assert len(outside.events(GatedAction.Refused)) == len(outside.events(Approval.Released)) == 1


def test_an_ending_is_not_forced_on_an_action_that_moved() -> None:
    """Rule 5: the caller thinks again."""
    outside = Outside(ambiguous(), reserved(), Append=[MOVED])
    assert outside.run(record_refusal(dispatched(gate()), REFUSAL, None)) is MOVED
    assert outside.appended == []


@pytest.mark.parametrize("answer", [MOVED, APPROVAL_MOVED])
def test_of_a_draft_that_was_not_written_nothing_can_be_loaded(answer: AppendAnswer) -> None:
    """Its own Intended was in the append: the caller is told what moved."""
    draft = GatedAction.intend(intended().id, intended().intent, AT)
    outside = Outside(approval=reserved(), Append=[answer])
    assert outside.run(record_refusal(draft, REFUSAL, None)) is answer
    assert "LoadAction" not in outside.kinds


# --- a definite Done


def done(action: GatedAction, outside: Outside, said: Evidence | None = None) -> Any:
    """Record that it was carried out."""
    return outside.run(record_done(action, said or evidence(), Via.FIRST_SEND, checked(action).checks))


def test_a_done_spends_what_was_reserved() -> None:
    """I3: in the same transaction, with what was checked."""
    action, outside = dispatched(gate()), Outside(approval=reserved())
    assert done(action, outside) == Ended(action)
    assert [type(event).__name__ for event in outside.appended[0]] == ["Committed", "Spent"]
    (committed,) = outside.events(GatedAction.Committed)
    assert (committed.via, committed.evidence, committed.checks) == (Via.FIRST_SEND, evidence(), checked(action).checks)


def test_evidence_that_disagrees_is_kept_and_leaves_it_ambiguous() -> None:
    """Every disagreement is said, and what was checked."""
    action, outside = dispatched(gate()), Outside(approval=reserved())
    said = evidence(disagreements=("amount is 1", "currency is eur"))
    done(action, outside, said)
    (ended,) = outside.events(GatedAction.Ambiguous)
    assert (ended.code, ended.evidence, ended.checks) == ("evidence_disagrees", said, checked(action).checks)
    assert ended.words == "the provider's answer disagrees with the effect: amount is 1; currency is eur"


def test_evidence_that_disagrees_adds_nothing_to_an_ambiguous_action() -> None:
    """That is what it says already."""
    action, outside = ambiguous(), Outside()
    assert done(action, outside, evidence(disagreements=("amount is 1",))) == Ended(action)
    assert outside.trace == []


def test_a_done_is_recorded_on_what_somebody_else_left_ambiguous() -> None:
    """Rule 6: whatever our term; the approval is loaded again, as somebody else may have moved it too."""
    theirs, held = ambiguous(), reserved()
    outside = Outside(theirs, held, Append=[MOVED])
    ended = outside.run(record_done(dispatched(gate()), evidence(), Via.FIRST_SEND, at_hand=reserved()))
    assert ended == Ended(theirs)
    assert outside.kinds == ["Append", "LoadAction", "LoadAction", "LoadApproval", "Append"]
    assert held.spent


def test_a_done_that_somebody_else_recorded_is_recorded_once() -> None:
    """The same reference is the same effect."""
    theirs = committed_by("tx_1")
    outside = Outside(theirs, reserved(), Append=[MOVED])
    assert done(dispatched(gate()), outside) == Ended(theirs)
    assert outside.appended == []


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (refused(), "the journal has it as refused"),
        (committed_by("tx_2"), "the journal has it as committed by tx_2, so there may be two"),
    ],
)
def test_a_done_that_contradicts_the_journal_is_said_aloud(theirs: GatedAction, words: str) -> None:
    """It can't be recorded, and it must not be dropped: the exception holds the evidence."""
    outside = Outside(theirs, reserved(), Append=[MOVED])
    with pytest.raises(OutcomeNotRecorded, match=words) as raised:
        done(dispatched(gate()), outside)
    assert (raised.value.key, raised.value.evidence) == ("refund:1", evidence())


@pytest.mark.parametrize("said", [evidence(), evidence(disagreements=("amount is 1",))])
@pytest.mark.parametrize("fails", ["Append", "LoadApproval"])
def test_a_journal_that_fails_after_the_answer_leaves_the_evidence_with_the_caller(said: Evidence, fails: str) -> None:
    """Sent, and not recorded: the exception says both, and why."""
    outside = Outside(dispatched(gate()), reserved(), **{fails: [JournalUnavailable("the disk is full")]})
    with pytest.raises(OutcomeNotRecorded, match="the disk is full") as raised:
        done(dispatched(gate()), outside, said)
    assert (raised.value.key, raised.value.evidence) == ("refund:1", said)


def test_a_journal_that_fails_after_a_conflict_leaves_the_evidence_with_the_caller() -> None:
    """The same while it is loaded again."""
    outside = Outside(None, reserved(), Append=[MOVED], LoadAction=[ambiguous(), JournalUnavailable("the disk is full")])
    with pytest.raises(OutcomeNotRecorded, match="the disk is full") as raised:
        done(dispatched(gate()), outside)
    assert (raised.value.key, raised.value.evidence) == ("refund:1", evidence())
