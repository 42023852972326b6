"""One send: its claim, its deadline, its tries, and what its answer leaves in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.domain import requests
from interlock.domain.action import Doubt, GatedAction, SendPurpose, Via
from interlock.domain.answers import Declined, Done, KeyState, NotSent, Unknown
from interlock.domain.approvals import Approval
from interlock.domain.endings import Ended, Pending, PendingReason
from interlock.domain.requests import Append, AppendAnswer
from interlock.domain.sending import announce, announce_and_send, key_still_deduped, pend, send, take_answer
from tests.scripted import AT, KEYS, Outside, approval, checked, dispatched, evidence, gate, intended, later

FRESH = Doubt(nothing_sent=True)


def test_the_first_send_of_an_action_takes_the_first_claim() -> None:
    """An action without a claim gets one in the transaction of its send, of term 1, and says that it is the first."""
    action, outside = intended(), Outside()
    assert outside.run(announce(action, gate(), checked(action), 1)) is AppendAnswer.APPENDED
    (claimed,) = outside.events(GatedAction.Claimed)
    assert (claimed.why, claimed.claim.term, claimed.claim.expires_at) == ("first", 1, later(40))


@pytest.mark.parametrize(("left_s", "renewed"), [(14.9, True), (15, False), (40, False)])
def test_a_claim_outlasts_the_deadline_of_its_send_by_five_seconds(left_s: float, renewed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A claim with less left than the send's 10 s and the margin's 5 s is taken anew; another one is kept."""
    action, outside = intended(), Outside()
    action.take_claim(replace(gate().claim(action, AT), expires_at=later(left_s)), "first", AT)
    action.collect_events()
    outside.run(announce(action, gate(), checked(action), 1))
    assert [(event.why, event.claim.term) for event in outside.events(GatedAction.Claimed)] == (
        [("sending", 2)] if renewed else []
    )
    (sent,) = outside.events(GatedAction.Dispatched)
    assert action.claim is not None
    assert (action.claim.expires_at - sent.deadline_at).total_seconds() >= 5


def test_a_claim_says_who_holds_it_and_how_that_is_found_out() -> None:
    """The gate, where it runs, the handle of its lock, and a term that rises."""
    sender, action = replace(gate(), lock="lock-1"), dispatched(gate())
    claim = sender.claim(action, later(1))
    assert (claim.holder, claim.host, claim.pid, claim.lock) == ("gate-1", "here", 7, "lock-1")
    assert (claim.term, claim.expires_at) == (2, later(41))


@pytest.mark.parametrize(("after_s", "announced"), [(99.9, True), (100, False)])
def test_nothing_is_announced_under_an_approval_that_expired_since_it_was_read(after_s: float, announced: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """I3: a sender that was paused reads it again; to read a stored answer no approval is needed."""
    action, outside = intended(), Outside()
    outside.now = later(after_s)
    read = checked(action, approval(expires_in_s=100))
    answer = outside.run(announce(action, gate(), read, 1))
    assert answer is (AppendAnswer.APPENDED if announced else AppendAnswer.APPROVAL_MOVED)
    assert bool(outside.appended) is announced
    assert outside.run(announce(action, gate(), read, 1, SendPurpose.READ_STORED)) is AppendAnswer.APPENDED


@pytest.mark.parametrize(("after_s", "deduped"), [(599.9, True), (600, False)])
def test_a_key_counts_as_deduped_until_its_margin_begins(after_s: float, deduped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Counted from its first send; and a window that is over keeps a resend from being made, but no first send."""
    profile = replace(KEYS, dedupe_window_s=1200, send_deadline_s=1000)
    action = dispatched(gate(profile))
    action.dispatch(1, SendPurpose.EXECUTE, checked(action).checks, profile, later(300))
    action.collect_events()
    assert key_still_deduped(action, 1, profile, later(after_s)) is deduped
    for fresh_key in (False, True):
        outside = Outside(Send=[Unknown("no answer")])
        outside.now = later(after_s)
        answer = outside.run(send(action, gate(profile), fresh_key=fresh_key))
        assert isinstance(answer, Unknown if deduped or fresh_key else NotSent)


def test_the_approval_is_reserved_in_the_transaction_of_the_send() -> None:
    """I3: both stand in one append, and the approval is asserted there although it has nothing new the second time."""
    action, held, outside = intended(), approval(), Outside()
    outside.run(announce(action, gate(), checked(action, held), 1))
    outside.run(announce(action, gate(), checked(action, held), 1))
    assert [isinstance(event, Approval.Reserved) for event in outside.appended[0]].count(True) == 1
    assert [request.approval for request in outside.trace if isinstance(request, Append)] == [held, held]


def test_a_sender_whose_action_moved_sends_nothing() -> None:
    """I7: the term is looked at right before the write, and the answer says that somebody else took over."""
    action = dispatched(gate())
    outside = Outside(StillAt=[False])
    assert outside.run(send(action, gate(), fresh_key=True)) is None
    assert outside.trace == [requests.StillAt(action.id, action.version)]


@pytest.mark.parametrize("anchored", [True, False])
def test_a_gate_that_anchors_sends_behind_its_anchor_only(anchored: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The announcement of that very send, at the version that announced it; without an anchor nothing left, and why is said."""
    action = dispatched(gate())
    outside = Outside(Anchor=[None if anchored else "no checkpoint yet"], Send=[Unknown("no answer")])
    answer = outside.run(send(action, replace(gate(), anchors=True), fresh_key=True))
    assert outside.trace[0] == requests.Anchor(action.id, action.version)
    assert answer == (Unknown("no answer") if anchored else NotSent("no checkpoint yet"))
    assert outside.kinds == (["Anchor", "StillAt", "Send"] if anchored else ["Anchor"])


@pytest.mark.parametrize(("seconds", "sent"), [(9.9, True), (10, False)])
def test_a_send_is_made_before_its_deadline_only(seconds: float, sent: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """At the deadline itself it is too late, and that is said as not sent."""
    action, outside = dispatched(gate()), Outside(Send=[Unknown("no answer")])
    outside.now = later(seconds)
    answer = outside.run(send(action, gate(), fresh_key=True))
    assert isinstance(answer, Unknown if sent else NotSent)


def test_an_answer_is_recorded_with_the_approval_at_hand() -> None:
    """A commit costs no further read: the approval that the send reserved is the one that is spent."""
    action, held, outside = intended(), approval(), Outside(Send=[Done(evidence())])
    ended = outside.run(announce_and_send(action, gate(), checked(action, held), 1, FRESH))
    assert isinstance(ended, Ended)
    assert outside.kinds == ["Append", "StillAt", "Send", "Append"]
    assert [event.amount_minor for event in outside.events(Approval.Spent)] == [2000]
    assert [event.via for event in outside.events(GatedAction.Committed)] == [Via.FIRST_SEND]


@pytest.mark.parametrize(
    ("doubt", "replayed", "via"),
    [(FRESH, False, Via.FIRST_SEND), (FRESH, True, Via.RETRY_IDEMPOTENT), (Doubt(), False, Via.RETRY_IDEMPOTENT)],
)
def test_how_a_commit_was_established_says_whether_anything_was_sent_before(doubt: Doubt, replayed: bool, via: Via) -> None:  # noqa: FBT001 - a parameter of the test
    """Only the first request under a fresh key, answered from no memory, is a first send."""
    action, held = dispatched(gate()), approval()
    outside = Outside()
    outside.run(take_answer(action, gate(), doubt, Done(replace(evidence(), replayed=replayed)), held))
    assert [event.via for event in outside.events(GatedAction.Committed)] == [via]


def test_a_request_in_progress_means_that_something_was_sent() -> None:
    """I6: another request under the key is being worked on, so nobody may conclude that nothing was sent."""
    action, outside = dispatched(gate()), Outside()
    pending = outside.run(take_answer(action, gate(), FRESH, Unknown("busy", KeyState.IN_PROGRESS), None))
    assert isinstance(pending, Pending)
    assert pending.reason is PendingReason.PROVIDER_BUSY
    assert not action.doubt.nothing_sent
    assert not any(event.doubt and event.doubt.nothing_sent for event in outside.events(GatedAction.Claimed))


@pytest.mark.parametrize("known", [KeyState.STORED_FAILURE, KeyState.MISMATCHED])
def test_an_answer_that_tells_nothing_of_the_key_forgets_nothing_of_it(known: KeyState) -> None:
    """A time-out after a stored failure: the key is as useless as it was."""
    action = dispatched(gate())
    doubt = Outside().run(take_answer(action, gate(), Doubt(key=known), Unknown("no answer"), None))
    assert doubt == Doubt(key=known, sends=1)
    told = Outside().run(take_answer(action, gate(), FRESH, Unknown("500", known), None))
    assert told == Doubt(key=known, sends=1)


def test_a_no_to_a_resend_is_kept_and_ends_nothing() -> None:
    """Rule 4: it is remembered with the number of sends, and is no ending."""
    no = Declined("insufficient", "there is not enough left")
    action, outside = dispatched(gate()), Outside()
    assert outside.run(take_answer(action, gate(), Doubt(sends=1), no, None)) == Doubt(declined=no, sends=2)
    assert outside.appended == []


@pytest.mark.parametrize(("doubt", "at_recovery"), [(FRESH, False), (Doubt(), True)])
def test_a_refusal_by_the_provider_says_whether_it_came_at_recovery(doubt: Doubt, at_recovery: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A no to the first request came at once; one that is replayed to a resend came at recovery."""
    action, outside = dispatched(gate()), Outside(approval=approval())
    outside.run(take_answer(action, gate(), doubt, Declined("insufficient", "no", replayed=True), None))
    (refused,) = outside.events(GatedAction.Refused)
    assert (refused.code, refused.at_recovery) == ("declined:insufficient", at_recovery)


# --- what was not sent is tried again


def tries(deadline_s: float, **answers: list[Any]) -> tuple[Outside, Any]:
    """Let every request be turned away, until the protocol gives up; return what it comes to."""
    action, held = intended(), approval()
    profile = replace(KEYS, send_deadline_s=deadline_s)
    outside = Outside(action, held, Send=[NotSent("turned away")] * 20, **answers)
    return outside, outside.run(announce_and_send(action, gate(profile), checked(action, held), 1, FRESH))


def test_what_was_not_sent_is_tried_again_after_longer_and_longer_pauses() -> None:
    """0.1, 0.2, 0.5, 1, 2, and then 5 s again and again, as long as the next try is before the first deadline."""
    outside, pending = tries(deadline_s=25)
    slept = [(request.at - AT).total_seconds() for request in outside.trace if isinstance(request, requests.SleepUntil)]
    assert slept == pytest.approx([0.1, 0.3, 0.8, 1.8, 3.8, 8.8, 13.8, 18.8, 23.8])
    assert isinstance(pending, Pending)
    assert pending.reason is PendingReason.NOT_SENT
    assert len(outside.events(GatedAction.Dispatched)) == 10


def test_what_was_not_sent_is_not_tried_at_its_deadline() -> None:
    """A try that would come exactly at the deadline of the first send is not made."""
    outside, _ = tries(deadline_s=0.3)
    assert outside.kinds.count("Send") == 2


def test_what_was_not_sent_is_written_down_before_the_wait() -> None:
    """Whoever comes after a crash in the pause knows that nothing was sent, and why the claim was taken."""
    outside, _ = tries(deadline_s=0.2)
    claims = outside.events(GatedAction.Claimed)
    assert [event.why for event in claims][:2] == ["first", "not sent"]
    assert claims[1].doubt == FRESH


def test_an_approval_that_is_revoked_between_two_tries_refuses_at_once_and_not_at_recovery() -> None:
    """The same pass re-checks before each try: nothing was sent, and the refusal says so."""
    action, held = intended(), approval()
    outside = Outside(action, held, Send=[NotSent("turned away")])

    def revoke(request: requests.Request[Any]) -> None:
        if isinstance(request, requests.SleepUntil):
            held.revoke("user:18", "", AT)
            held.collect_events()

    outside.before = revoke
    outside.run(announce_and_send(action, gate(), checked(action, held), 1, FRESH))
    (refused,) = outside.events(GatedAction.Refused)
    assert (refused.code, refused.at_recovery, refused.door.value) == ("approval_revoked", False, "nothing-sent")
    assert refused.possible
    assert refused.checks is not None
    assert refused.checks.approval.state.value == "revoked"


# --- waiting


@pytest.mark.parametrize("doubt", [Doubt(), Doubt(sends=2), Doubt(key=KeyState.IN_PROGRESS)])
def test_a_wait_writes_nothing_down_that_the_next_pass_learns_anyway(doubt: Doubt) -> None:
    """Nothing worth keeping was learned, so the wait costs no commit; and asking again makes sense in a second."""
    action, outside = dispatched(gate()), Outside()
    pending = outside.run(pend(action, gate(), doubt, PendingReason.SETTLING, "words"))
    assert isinstance(pending, Pending)
    assert (pending.retry_at, pending.words, outside.appended) == (later(1), "words", [])


def test_a_wait_writes_down_once_what_the_next_pass_would_learn_by_sending() -> None:
    """A stored failure is written down with a claim of the next term; the same again is not."""
    action, outside = dispatched(gate()), Outside()
    doubt = Doubt(key=KeyState.STORED_FAILURE, sends=1)
    for _ in range(2):
        outside.run(pend(action, gate(), doubt, PendingReason.SETTLING, "words", later(30)))
    (claimed,) = outside.events(GatedAction.Claimed)
    assert (claimed.why, claimed.claim.term, claimed.doubt) == ("waiting: settling", 2, replace(doubt, sends=0))


def test_a_wait_that_could_not_be_written_down_is_thought_about_again() -> None:
    """Rule 5: somebody else wrote meanwhile."""
    action, outside = dispatched(gate()), Outside(Append=[AppendAnswer.ACTION_MOVED])
    doubt = Doubt(key=KeyState.MISMATCHED)
    assert outside.run(pend(action, gate(), doubt, PendingReason.SETTLING, "")) is AppendAnswer.ACTION_MOVED
