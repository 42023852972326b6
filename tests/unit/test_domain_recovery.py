"""Recovery, request by request: what is read before what, and what each answer leads to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.domain import requests
from interlock.domain.action import Door, Doubt, GatedAction, SendPurpose, Via
from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    Burned,
    CannotTell,
    Declined,
    Done,
    Found,
    InProgress,
    KeyState,
    NotSent,
    Unknown,
)
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalRef, ApprovalState
from interlock.domain.endings import Ended, Pending, PendingReason
from interlock.domain.premises import PremiseReading, ReadingState
from interlock.domain.recovery import look_again, resolve_doubt
from interlock.domain.requests import AppendAnswer
from tests.scripted import AT, KEYS, Outside, approval, dispatched, evidence, gate, later

LOOKS = replace(KEYS, dedupe_window_s=None, lookup_staleness_s=0)
BOTH = replace(KEYS, lookup_staleness_s=0)
BURNS = replace(KEYS, burns=True)
ALL = replace(KEYS, burns=True, lookup_staleness_s=0)
HORIZON_S = 35
"""The send's deadline, the kernel's time and the settle time."""

NO = Declined("insufficient", "there is not enough left")
SETTLING, BUSY, NOT_SENT = PendingReason.SETTLING, PendingReason.PROVIDER_BUSY, PendingReason.NOT_SENT


def reading(state: ReadingState) -> PremiseReading:
    """Return a premise that was read again."""
    return PremiseReading(
        target="world",
        subject="acct_1",
        policy="strict",
        policy_version=1,
        state=state,
        words=f"it is {state}",
        possible="decide again",
        facts_json="{}",
        read_at=AT,
    )


UNREADABLE, CHANGED, UNCHANGED = (
    (reading(state),) for state in (ReadingState.UNREADABLE, ReadingState.CONFLICTING, ReadingState.UNCHANGED)
)


def absent() -> Absent:
    """Return what a lookup says that does not find it."""
    return Absent(AT)


class Recovery:
    """An action in doubt, and what its recovery comes to."""

    def __init__(self, profile: Any = BOTH, *attempts: int, at_s: float = 60, **answers: list[Any]) -> None:
        self.sender = gate(profile)
        self.held = approval()
        self.action = dispatched(self.sender, *attempts)
        self.held.reserve(self.action.id, self.action.intent.effect, AT)
        self.held.collect_events()
        self.outside = Outside(self.action, self.held, **answers)
        self.outside.now = later(at_s)

    def run(self, doubt: Doubt | None = None) -> Any:
        """Resolve the doubt."""
        return self.outside.run(resolve_doubt(self.action, self.sender, doubt or Doubt()))

    def pends(self, doubt: Doubt | None = None) -> Pending:
        """Resolve the doubt, which must stay one for now."""
        pending = self.run(doubt)
        assert isinstance(pending, Pending)
        return pending

    def ends(self, doubt: Doubt | None = None) -> Any:
        """Resolve the doubt, and return the event that ends it."""
        ended = self.run(doubt)
        assert isinstance(ended, Ended)
        return ended.action.ending

    @property
    def sends(self) -> list[GatedAction.Dispatched]:
        """The sends that were announced."""
        return self.outside.events(GatedAction.Dispatched)


# --- what is found, and what can't be read


def test_what_is_found_is_committed_with_what_the_re_check_read() -> None:
    """I10: the receipt of a commit by lookup has the checks of the recovery, although they decide nothing."""
    recovery = Recovery(LookUp=[Found(evidence())], ReadPremises=[CHANGED])
    committed = recovery.ends()
    assert (committed.via, committed.evidence.reference, committed.checks.premises) == (Via.RECOVERY_QUERY, "tx_1", CHANGED)
    assert recovery.outside.kinds == ["LookUp", "ReadPremises", "LoadApproval", "LoadApproval", "Append"]


def test_a_lookup_that_fails_is_asked_again_before_anything_is_read() -> None:
    """I6: it is neither found nor absent, so nothing else is done."""
    recovery = Recovery(LookUp=[CannotTell("503")])
    pending = recovery.pends()
    assert (pending.reason, pending.words) == (SETTLING, "the lookup failed: 503")
    assert recovery.outside.kinds == ["LookUp"]


def test_a_premise_that_cannot_be_read_is_waited_for() -> None:
    """I4: it is no reason to go on, and none to refuse."""
    recovery = Recovery(LookUp=[absent()], ReadPremises=[UNREADABLE])
    pending = recovery.pends()
    assert (pending.reason, pending.words) == (SETTLING, "the premise acct_1 could not be read: it is unreadable")
    assert recovery.outside.appended == []


# --- the row is chosen


def test_a_send_again_is_under_the_same_key_and_counts() -> None:
    """Absent, the re-check holds, the key is known: the same attempt, with a send of its own."""
    recovery = Recovery(LookUp=[absent()], Send=[Done(replace(evidence(), replayed=True))])
    committed = recovery.ends()
    assert (committed.via, [(sent.attempt, sent.send) for sent in recovery.sends]) == (Via.RETRY_IDEMPOTENT, [(1, 2)])


@pytest.mark.parametrize(("sends", "sent"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_a_pass_sends_as_often_as_it_may_and_then_lets_its_caller_decide(sends: int, sent: int) -> None:
    """After the second unanswered send of a pass it waits; what it sent before counts."""
    recovery = Recovery(LookUp=[absent()] * 4, Send=[Unknown("no answer")] * 4)
    pending = recovery.pends(Doubt(sends=sends))
    assert (len(recovery.sends), pending.reason, pending.words) == (sent, SETTLING, "the provider gives no answer")


@pytest.mark.parametrize("key", [KeyState.STORED_FAILURE, KeyState.MISMATCHED])
def test_a_key_that_can_only_replay_is_not_sent_under_again(key: KeyState) -> None:
    """Its window is open, and it is of no use: a new key behind the closed door, or a wait for it."""
    recovery = Recovery(LookUp=[absent()], at_s=20)
    assert recovery.pends(Doubt(key=key)).retry_at == later(HORIZON_S)
    assert recovery.sends == []


@pytest.mark.parametrize(
    ("premises", "declined", "code"),
    [(CHANGED, None, "premise_conflicting"), (UNCHANGED, NO, "declined:insufficient"), (CHANGED, NO, "premise_conflicting")],
)
def test_an_objection_or_a_no_each_refuse_behind_the_closed_door(premises: Any, declined: Declined | None, code: str) -> None:
    """Either is enough, our own objection says why before the provider's no, and it came at recovery."""
    recovery = Recovery(LookUp=[absent(), absent()], ReadPremises=[premises])
    refused = recovery.ends(Doubt(declined=declined))
    assert (refused.code, refused.door, refused.at_recovery) == (code, Door.HORIZON, True)
    assert refused.possible
    assert refused.checks.premises == premises
    assert recovery.outside.events(Approval.Released)
    assert recovery.outside.kinds.count("LookUp") == 2


# --- the door


@pytest.mark.parametrize(("at_s", "closed"), [(HORIZON_S - 0.1, False), (HORIZON_S, True)])
def test_the_door_is_closed_from_the_horizon_on(at_s: float, closed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Until then the answer says when to ask again, which is the horizon itself."""
    recovery = Recovery(LOOKS, LookUp=[absent(), absent()], ReadPremises=[CHANGED], at_s=at_s)
    if closed:
        assert recovery.ends().door is Door.HORIZON
    else:
        pending = recovery.pends()
        assert (pending.reason, pending.retry_at, pending.words) == (
            SETTLING,
            later(HORIZON_S),
            "a send may still land until its horizon",
        )


def test_behind_the_closed_door_a_new_key_is_used_once() -> None:
    """The next attempt, with its own key, and if its answer is lost, nothing is sent a third time in this pass."""
    recovery = Recovery(LOOKS, LookUp=[absent()] * 2, Send=[Done(evidence("tx_2"))])
    committed = recovery.ends(Doubt(sends=1))
    assert [sent.attempt for sent in recovery.sends] == [2]
    assert recovery.sends[0].idempotency_key.endswith("-2")
    assert committed.via is Via.FIRST_SEND


@pytest.mark.parametrize(("sends", "sent"), [(1, 1), (2, 0)])
def test_a_new_key_counts_as_a_send_of_the_pass(sends: int, sent: int) -> None:
    """What the pass sent under the key before counts with it."""
    recovery = Recovery(LOOKS, LookUp=[absent()] * 4, Send=[Unknown("no answer")])
    pending = recovery.pends(Doubt(sends=sends))
    assert (len(recovery.sends), pending.reason) == (sent, SETTLING)


def test_a_new_key_is_not_sent_under_again_where_the_pass_has_sent_enough() -> None:
    """Its window is open, so it could be; the send under the key before counts all the same."""
    recovery = Recovery(BOTH, LookUp=[absent()] * 4, Send=[Unknown("no answer")] * 3)
    assert recovery.pends(Doubt(key=KeyState.STORED_FAILURE, sends=1)).words == "the provider gives no answer"
    assert [sent.attempt for sent in recovery.sends] == [2]


@pytest.mark.parametrize(("premises", "reason"), [(UNREADABLE, SETTLING), (CHANGED, None)])
def test_the_facts_are_read_again_behind_the_closed_door(premises: Any, reason: PendingReason | None) -> None:
    """I4: closing it may have taken a while. What can't be read is waited for, and what changed refuses."""
    recovery = Recovery(LOOKS, LookUp=[absent(), absent()], ReadPremises=[UNCHANGED, premises])
    if reason is not None:
        pending = recovery.pends()
        assert (pending.reason, pending.words) == (reason, "the premise acct_1 could not be read: it is unreadable")
    else:
        refused = recovery.ends()
        assert (refused.code, refused.door, refused.checks.premises) == ("premise_conflicting", Door.HORIZON, premises)
    assert recovery.sends == []


@pytest.mark.parametrize("answer", [CannotTell("503"), Found(evidence())])
def test_the_lookup_behind_the_closed_door_is_the_one_that_counts(answer: Any) -> None:
    """Rule 2: failed, it is asked again; and what it finds is committed, with what was checked."""
    recovery = Recovery(LOOKS, LookUp=[absent(), answer], ReadPremises=[CHANGED])
    if isinstance(answer, CannotTell):
        assert recovery.pends().words == "the lookup failed: 503"
    else:
        committed = recovery.ends()
        assert (committed.via, committed.checks.premises) == (Via.RECOVERY_QUERY, CHANGED)


def test_a_key_is_burned_where_it_can_be_although_its_horizon_is_past() -> None:
    """A sender that was paused may wake up later still; the burnt door is the one that holds."""
    recovery = Recovery(ALL, LookUp=[absent(), absent()], ReadPremises=[CHANGED], Burn=[Burned()])
    assert recovery.ends().door is Door.BURNED
    burned = [request.idempotency_key for request in recovery.outside.trace if isinstance(request, requests.Burn)]
    assert burned == [recovery.action.first_dispatch_of(1).idempotency_key]


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (InProgress(), BUSY, "a request is in progress"),
        (CannotTell("503"), SETTLING, "the burn failed: 503"),
    ],
)
def test_a_burn_that_tells_nothing_closes_nothing(answer: Any, reason: PendingReason, words: str) -> None:
    """I6: it is asked again."""
    recovery = Recovery(ALL, LookUp=[absent()], ReadPremises=[CHANGED], Burn=[answer])
    pending = recovery.pends()
    assert (pending.reason, pending.words) == (reason, words)


def test_every_key_is_burned_the_current_one_last() -> None:
    """Rule 2: a late request under the first key is as real as one under the second."""
    recovery = Recovery(BURNS, 1, 2, ReadPremises=[CHANGED], Burn=[Burned(), Burned()])
    assert recovery.ends().door is Door.BURNED
    burned = [request.idempotency_key[-2:] for request in recovery.outside.trace if isinstance(request, requests.Burn)]
    assert burned == ["-1", "-2"]


def test_a_burn_of_an_earlier_key_that_tells_nothing_closes_nothing() -> None:
    """The second key is not even tried."""
    recovery = Recovery(BURNS, 1, 2, ReadPremises=[CHANGED], Burn=[CannotTell("503")])
    assert recovery.pends().reason is SETTLING
    assert recovery.outside.kinds.count("Burn") == 1


@pytest.mark.parametrize("profile", [ALL, BURNS])
def test_an_earlier_key_that_was_used_stays_closed(profile: Any) -> None:
    """Its door was closed before the next key was used; how the door of that one is closed now is what is told."""
    recovery = Recovery(profile, 1, 2, LookUp=[absent()] * 2, ReadPremises=[CHANGED], Burn=[AlreadyUsed(), Burned()])
    assert recovery.ends().door is Door.BURNED


def test_without_a_lookup_or_a_burn_nobody_can_know() -> None:
    """A key past its window, and no way to ask: Ambiguous, with what was read."""
    recovery = Recovery(KEYS, at_s=86_400, ReadPremises=[CHANGED])
    ambiguous = recovery.ends()
    assert isinstance(ambiguous, GatedAction.Ambiguous)
    assert (ambiguous.code, ambiguous.checks and ambiguous.checks.premises) == ("cannot_look", CHANGED)
    assert not recovery.outside.events(Approval.Released)


@pytest.mark.parametrize("seen", [absent(), Found(evidence()), CannotTell("503")])
def test_a_failure_that_may_roll_forward_at_any_time_is_looked_for_once_more(seen: Any) -> None:
    """Rule 3: past the horizon it is committed where it is found, waited for where nobody can tell, and else Ambiguous."""
    profile = replace(LOOKS, roll_forward_s=None)
    recovery = Recovery(profile, LookUp=[absent(), seen], ReadPremises=[CHANGED])
    end = recovery.run()
    if isinstance(seen, CannotTell):
        assert isinstance(end, Pending)
        return
    ending = end.action.ending
    assert ending.checks.premises == CHANGED
    assert isinstance(ending, GatedAction.Committed if isinstance(seen, Found) else GatedAction.Ambiguous)
    if isinstance(ending, GatedAction.Ambiguous):
        assert ending.code == "may_roll_forward"


# --- a key that is used


def used(answer: Any) -> tuple[Recovery, Any]:
    """Recover where the re-check fails, the burn says that the key is used, and its stored answer is read."""
    recovery = Recovery(BURNS, LookUp=[absent()] * 2, ReadPremises=[CHANGED] * 3, Burn=[AlreadyUsed()] * 3, Send=[answer])
    return recovery, recovery.run()


def test_the_answer_that_is_stored_under_a_used_key_is_read_and_taken() -> None:
    """The original got there first: its stored yes commits, without another reservation."""
    recovery, ended = used(Done(replace(evidence(), replayed=True)))
    assert isinstance(ended, Ended)
    assert [event.via for event in recovery.outside.events(GatedAction.Committed)] == [Via.RETRY_IDEMPOTENT]
    assert [(sent.attempt, sent.purpose) for sent in recovery.sends] == [(1, SendPurpose.READ_STORED)]
    (announced, *_) = [request for request in recovery.outside.trace if isinstance(request, requests.Append)]
    assert announced.approval is None


def test_the_no_that_is_stored_under_a_used_key_refuses() -> None:
    """It answers the very request that was in doubt, at recovery."""
    recovery, ended = used(replace(NO, replayed=True))
    assert isinstance(ended, Ended)
    (refused,) = recovery.outside.events(GatedAction.Refused)
    assert (refused.code, refused.door, refused.at_recovery) == ("declined:insufficient", Door.ANSWERED, True)


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (Unknown("busy", KeyState.IN_PROGRESS), BUSY, "busy"),
        (Unknown("no answer"), SETTLING, "the stored answer could not be read"),
        (NotSent("turned away"), SETTLING, "the stored answer could not be read"),
        (NO, SETTLING, "the stored answer could not be read"),
    ],
)
def test_a_stored_answer_that_cannot_be_read_is_asked_for_again(answer: Any, reason: PendingReason, words: str) -> None:
    """I6: nothing is concluded from it, nor from a no that is not the stored one."""
    _, pending = used(answer)
    assert isinstance(pending, Pending)
    assert (pending.reason, pending.words) == (reason, words)


def test_a_stored_answer_is_not_read_when_its_keys_window_ends_meanwhile() -> None:
    """The same request would be carried out again then: the window is judged right before the write."""
    margin_s = 86_400 - 600
    recovery = Recovery(BURNS, at_s=margin_s - 1, ReadPremises=[CHANGED], Burn=[AlreadyUsed()])

    def pass_time(request: requests.Request[Any]) -> None:
        if isinstance(request, requests.StillAt):
            recovery.outside.now = later(margin_s)

    recovery.outside.before = pass_time
    assert recovery.pends().words == "the stored answer could not be read"
    assert "Send" not in recovery.outside.kinds


def test_a_stored_failure_is_kept_and_leaves_only_the_horizon() -> None:
    """Where nobody can look it ends as Ambiguous; the failure is not read a second time."""
    recovery, ended = used(Unknown("500", KeyState.STORED_FAILURE))
    assert isinstance(ended, Ended)
    assert [event.code for event in recovery.outside.events(GatedAction.Ambiguous)] == ["cannot_look"]
    assert len(recovery.sends) == 1


def test_a_used_key_whose_effect_can_be_found_is_not_sent_under() -> None:
    """The lookup that follows finds what the original did."""
    recovery = Recovery(ALL, LookUp=[absent(), Found(evidence())], ReadPremises=[CHANGED], Burn=[AlreadyUsed()])
    committed = recovery.ends()
    assert (committed.via, committed.checks.premises, recovery.sends) == (Via.RECOVERY_QUERY, CHANGED, [])


@pytest.mark.parametrize(("profile", "reads"), [(ALL, 1), (BURNS, 2), (replace(ALL, roll_forward_s=None), 2)])
def test_a_stored_answer_is_read_again_only_where_the_horizon_tells_nothing(profile: Any, reads: int) -> None:
    """Each reading moves the horizon: where that ends the doubt by itself, one that was lost is not repeated."""
    recovery = Recovery(
        profile,
        LookUp=[absent()] * 9,
        ReadPremises=[CHANGED] * 9,
        Burn=[AlreadyUsed()] * 9,
        Send=[Unknown("no answer"), Unknown("no answer")],
    )
    recovery.pends()
    recovery.run()
    assert len(recovery.sends) == reads


def test_somebody_elses_write_before_a_stored_answer_is_read_is_thought_about_again() -> None:
    """Rule 5: nothing is sent then."""
    recovery = Recovery(BURNS, ReadPremises=[CHANGED], Burn=[AlreadyUsed()], Append=[AppendAnswer.ACTION_MOVED])
    assert recovery.run() is AppendAnswer.ACTION_MOVED
    recovery = Recovery(BURNS, ReadPremises=[CHANGED], Burn=[AlreadyUsed()], StillAt=[False])
    assert recovery.run() is AppendAnswer.ACTION_MOVED


# --- nothing was sent


def test_an_action_that_was_not_sent_begins_again_under_its_key() -> None:
    """No lookup, no door: a re-check, and the same attempt."""
    recovery = Recovery(BOTH, Send=[Done(evidence())])
    assert recovery.ends(Doubt(nothing_sent=True)).via is Via.FIRST_SEND
    assert [sent.attempt for sent in recovery.sends] == [1]
    assert "LookUp" not in recovery.outside.kinds


@pytest.mark.parametrize(("premises", "reason"), [(UNREADABLE, NOT_SENT), (CHANGED, None)])
def test_an_action_that_was_not_sent_is_refused_or_waits_without_a_lookup(premises: Any, reason: PendingReason | None) -> None:
    """There is nothing to find: what can't be read is waited for, what changed refuses, at recovery."""
    recovery = Recovery(BOTH, ReadPremises=[premises])
    if reason is not None:
        assert recovery.pends(Doubt(nothing_sent=True)).reason is reason
    else:
        refused = recovery.ends(Doubt(nothing_sent=True))
        assert (refused.door, refused.at_recovery) == (Door.NOTHING_SENT, True)


# --- an approval that lives elsewhere


def test_an_approval_that_cannot_be_read_is_waited_for() -> None:
    """Its source is down: neither a yes nor a no."""
    recovery = Recovery(LookUp=[absent()])
    ref = ApprovalRef("case-1", "desk")
    recovery.action.intent = replace(recovery.action.intent, approval=ref)
    unreadable = ApprovalReading(ref=ref, state=ApprovalState.UNREADABLE, held=False, read_at=AT)
    recovery.outside.answers["ReadExternalApproval"] = [unreadable]
    pending = recovery.pends()
    assert (pending.reason, pending.words) == (SETTLING, "the approval case-1 could not be read")


# --- asking about an action that has ended


@pytest.mark.parametrize(
    ("answer", "committed"),
    [
        (absent(), False),
        (CannotTell("503"), False),
        (Found(evidence(disagreements=("amount",))), False),
        (Found(evidence()), True),
    ],
)
def test_an_ambiguous_action_ends_as_committed_only_where_it_is_found(answer: Any, committed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Absence proves nothing by now, and evidence that disagrees is no yes."""
    recovery = Recovery(BOTH, LookUp=[answer])
    recovery.action.leave_ambiguous("cannot_look", "", AT)
    recovery.action.collect_events()
    recovery.outside.run(look_again(recovery.action, recovery.sender))
    assert [event.via for event in recovery.outside.events(GatedAction.Committed)] == [Via.RECOVERY_QUERY] * committed


@pytest.mark.parametrize(
    ("known", "state", "written"), [("pending", "failed", 1), ("failed", "failed", 0), (None, "succeeded", 1)]
)
def test_a_committed_action_gets_newer_evidence_only_where_the_state_moved(known: str | None, state: str, written: int) -> None:
    """A refund that failed later is written down; the same again is not; and one without evidence gets some."""
    recovery = Recovery(BOTH, LookUp=[Found(evidence(state=state))])
    recovery.action.commit(Via.FIRST_SEND, evidence(state=known) if known else None, AT)
    recovery.action.collect_events()
    recovery.outside.run(look_again(recovery.action, recovery.sender))
    assert len(recovery.outside.events(GatedAction.Committed)) == written


def test_a_refused_action_stays_refused_whatever_is_found() -> None:
    """Refused is the end of everything."""
    recovery = Recovery(BOTH, LookUp=[Found(evidence())])
    recovery.action.refuse("code", "words", AT, door=Door.HORIZON, at_recovery=True)
    recovery.action.collect_events()
    ended = recovery.outside.run(look_again(recovery.action, recovery.sender))
    assert ended == Ended(recovery.action)
    assert recovery.outside.appended == []
