"""An action's progress as a fold: what a send rests on, and what an ending needs, rule by rule and up to its border."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interlock.domain.answers import Evidence
from interlock.domain.approvals import ApprovalRef, ApprovalState
from interlock.domain.legality import Progress, after
from interlock.domain.premises import Premise, PremiseReading, ReadingState
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.states import (
    AmbiguousState,
    Checks,
    ClaimedState,
    CommittedState,
    DispatchedState,
    Door,
    Doubt,
    ErasedState,
    IntendedState,
    RefusedState,
    Remains,
    SendPurpose,
    Status,
    Via,
)
from tests.folded import folded, last_send, states_of, words
from tests.scripted import ACTION_ID, AT, checked, dispatched, effect, evidence, gate, intended, intent, later

SENT = folded(dispatched(gate()))
"""Sent once, under the first key: its horizon is 35 s after the beginning."""
HORIZON_S = 35
CLAIMED = replace(SENT, status=Status.CLAIMED, attempt=0, sends=0, horizon_at=None, attempt_horizon_at=None)
DOUBTFUL = replace(SENT, status=Status.AMBIGUOUS)
LIVE = checked(dispatched(gate())).checks
REVOKED = replace(LIVE, approval=replace(LIVE.approval, state=ApprovalState.REVOKED))


def reading(state: ReadingState = ReadingState.UNCHANGED, subject: str = "pi_1") -> PremiseReading:
    """Return a premise as it was read again."""
    return PremiseReading(
        target="world",
        subject=subject,
        policy="strict",
        policy_version=1,
        state=state,
        words="",
        possible="",
        facts_json="{}",
        read_at=AT,
    )


CONFLICTING = replace(LIVE, premises=(reading(), reading(ReadingState.CONFLICTING)))


# --- where it stands


def test_an_event_moves_what_it_is_about_and_nothing_else() -> None:
    """Each event by itself: the first claim makes it Claimed, a takeover leaves the status, a send counts from its own key."""
    intended_kind, state = states_of(intended())[0]
    progress = after(Progress(), intended_kind, state)
    assert progress == Progress(status=Status.INTENDED, intent=intent(), at=AT)
    claim = gate().claim(intended(), later(1))
    progress = after(progress, ClaimedState, ClaimedState(later(1), claim, "first", None))
    assert (progress.status, progress.claim, progress.term, progress.at) == (Status.CLAIMED, claim, 1, later(1))
    assert after(SENT, ClaimedState, ClaimedState(later(1), claim, "expired", None)).status is Status.DISPATCHED
    kept = Doubt(nothing_sent=True)
    assert after(SENT, ClaimedState, ClaimedState(later(1), claim, "pause", kept)).doubt == kept
    assert after(replace(SENT, doubt=kept), ClaimedState, ClaimedState(later(1), claim, "expired", None)).doubt == kept


def test_a_withheld_event_keeps_what_does_not_depend_on_it() -> None:
    """The time of the last event that is known, the intent, and the horizons of the sends that are known."""
    hidden = after(SENT, DispatchedState, None)
    assert (hidden.at, hidden.intent, hidden.horizon_at) == (AT, intent(), later(HORIZON_S))
    assert (hidden.attempt, hidden.doubt, hidden.attempt_horizon_at, hidden.sends) == (None, None, None, 2)
    taken = after(SENT, ClaimedState, None)
    assert (taken.claim, taken.term, taken.doubt, taken.attempt, taken.sends) == (None, None, None, 1, 1)
    assert after(SENT, CommittedState, None) == replace(SENT, status=Status.COMMITTED)


def send(attempt: int = 1, number: int = 2, at_s: float = 1, **changed: Any) -> DispatchedState:
    """Return another send, with the horizon that the profile gives it."""
    action = dispatched(gate())
    action.dispatch(attempt, SendPurpose.EXECUTE, LIVE, changed.pop("profile", gate().profile), later(at_s))
    return replace(last_send(action), send=number, **changed)


def test_a_key_has_the_latest_horizon_of_its_own_sends() -> None:
    """A further send can only move it on; under a new key it begins anew, and the action keeps the latest of all."""
    again = after(SENT, DispatchedState, send(at_s=7))
    assert (again.attempt_horizon_at, again.horizon_at, again.sends) == (later(HORIZON_S + 7), later(HORIZON_S + 7), 2)
    quick = CapabilityProfile(send_deadline_s=1, kernel_s=0, settle_s=0)
    same_key = after(SENT, DispatchedState, send(profile=quick))
    assert (same_key.attempt_horizon_at, same_key.horizon_at) == (later(HORIZON_S), later(HORIZON_S))
    new_key = after(SENT, DispatchedState, send(attempt=2, profile=quick))
    assert (new_key.attempt_horizon_at, new_key.horizon_at) == (later(2), later(HORIZON_S))


def test_a_send_is_in_doubt_again() -> None:
    """Under the same key what is known of it stays, but for that nothing was sent; a new key has no past."""
    before = replace(SENT, doubt=Doubt(nothing_sent=True, sends=3))
    assert after(before, DispatchedState, send()).doubt == Doubt(sends=3)
    assert after(before, DispatchedState, send(attempt=2)).doubt == Doubt()
    assert after(replace(SENT, doubt=None), DispatchedState, send()).doubt is None
    assert after(replace(SENT, attempt=None, doubt=None), DispatchedState, send()).doubt == Doubt()


# --- sends


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (send(1, 1), []),
        (send(2, 1), ["attempt 2 does not follow attempt 0"]),
        (send(0, 1), ["attempt 0 does not follow attempt 0"]),
        (send(1, 1, purpose=SendPurpose.READ_STORED), ["a stored answer can't be read under a key that was never used"]),
    ],
    ids=["first", "second", "none", "read"],
)
def test_the_first_send_is_under_the_first_key(sent: DispatchedState, said: list[str]) -> None:
    """And it is a send, and no reading."""
    assert words(CLAIMED, replace(sent, idempotency_key=f"il-{ACTION_ID}-{sent.attempt}")) == said


def test_attempts_are_not_counted_down_where_none_is_known() -> None:
    """Attempt 0 is none, whatever came before it was withheld."""
    hidden = after(SENT, DispatchedState, None)
    zero = send(0, 3, idempotency_key=f"il-{ACTION_ID}-0")
    assert words(hidden, zero) == ["attempt 0 does not follow attempt None"]
    assert words(hidden, send(9, 3, idempotency_key=f"il-{ACTION_ID}-9", purpose=SendPurpose.READ_STORED)) == []


def test_a_deadline_may_lie_on_either_border() -> None:
    """At the time of the send itself, at its horizon, and at the end of the claim."""
    at_once = send(deadline_at=later(1), horizon_at=later(1))
    assert words(SENT, at_once) == []
    assert SENT.claim is not None
    assert words(SENT, send(deadline_at=SENT.claim.expires_at, horizon_at=later(90))) == []


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        (LIVE, []),
        (REVOKED, ["it was sent although the approval was revoked"]),
        (replace(LIVE, approval=replace(LIVE.approval, expires_at=later(1))), ["it was sent although the approval had expired"]),
        (replace(LIVE, approval=replace(LIVE.approval, expires_at=later(1.5))), []),
        (replace(LIVE, approval=replace(LIVE.approval, expires_at=None)), []),
        (
            replace(LIVE, approval=replace(LIVE.approval, ref=ApprovalRef("case-2"))),
            ["it was sent under another approval than the one that it was intended under"],
        ),
        (
            replace(LIVE, approval=replace(LIVE.approval, held=False)),
            ["it was sent under another approval than the one that it was intended under"],
        ),
        (replace(LIVE, premises=(reading(),)), ["it was sent without each of its premises having been read again (I4)"]),
    ],
    ids=["live", "revoked", "expired", "not yet", "for ever", "another", "not held", "another premise"],
)
def test_a_send_rests_on_what_was_read_for_it(checks: Checks, said: list[str]) -> None:
    """I3 and I4: a live approval, the one that was named, and each premise."""
    assert words(SENT, send(checks=checks)) == said


@pytest.mark.parametrize(
    ("premises", "said"),
    [
        ((reading(), reading(ReadingState.COMPATIBLE, "pi_2")), []),
        ((reading(), reading(ReadingState.CONFLICTING, "pi_2")), ["it was sent although a premise did not hold"]),
        ((reading(),), ["it was sent without each of its premises having been read again (I4)"]),
        ((reading(subject="pi_2"), reading()), ["it was sent without each of its premises having been read again (I4)"]),
    ],
    ids=["all", "one does not hold", "one is missing", "in another order"],
)
def test_each_premise_is_read_again(premises: tuple[PremiseReading, ...], said: list[str]) -> None:
    """I4: all of them, in their order, and all of them hold."""
    seen = tuple(
        Premise(target="world", subject=subject, facts_json="{}", read_at=AT, policy="strict") for subject in ("pi_1", "pi_2")
    )
    before = replace(SENT, intent=replace(intent(), premises=seen))
    assert words(before, send(checks=replace(LIVE, premises=premises))) == said


def test_an_approval_elsewhere_is_read_and_not_held() -> None:
    """Whoever says that the journal held it says what was not so."""
    before = replace(SENT, intent=intent(source="crm"))
    elsewhere = replace(LIVE.approval, ref=ApprovalRef("case-1", "crm"))
    assert words(before, send(checks=replace(LIVE, approval=replace(elsewhere, held=False)))) == []
    assert words(before, send(checks=replace(LIVE, approval=elsewhere))) == [
        "it was sent under another approval than the one that it was intended under"
    ]


def test_what_is_not_known_of_the_intent_is_not_compared() -> None:
    """A withheld Intended leaves nothing to hold a send against, but what the send itself says."""
    nameless = replace(SENT, intent=None)
    other = replace(LIVE.approval, ref=ApprovalRef("case-2"))
    assert words(nameless, send(checks=replace(LIVE, approval=other))) == []
    assert words(nameless, send(checks=REVOKED)) == ["it was sent although the approval was revoked"]


# --- claims


def test_a_claim_ends_after_it_was_taken() -> None:
    """One that ends as it begins holds nobody off."""
    claim = gate(holder="gate-2").claim(dispatched(gate()), later(100))
    for end, said in ((100, ["its claim had run out when it was taken"]), (100.001, [])):
        state = ClaimedState(later(100), replace(claim, expires_at=later(end)), "expired", None)
        assert words(SENT, state) == said


def test_a_claim_may_be_taken_over_at_its_very_end() -> None:
    """From then on nobody holds it."""
    assert SENT.claim is not None
    claim = gate(holder="gate-2").claim(dispatched(gate()), SENT.claim.expires_at)
    assert words(SENT, ClaimedState(SENT.claim.expires_at, claim, "expired", None)) == []


def test_the_fingerprint_is_made_of_the_money_too() -> None:
    """I5: of an effect without any, and of one with."""
    for record in (effect(), replace(effect(), amount_minor=None, currency=None)):
        state = IntendedState(AT, "interlock.action", replace(intent(), effect=record))
        assert bool(words(Progress(), state)) is (record != effect())


# --- what was committed


def committed(via: Via = Via.FIRST_SEND, found: Evidence | None = None, by: str | None = None) -> CommittedState:
    """Return a commit."""
    return CommittedState(later(1), via, found, None, by, None)


DISAGREES = evidence(disagreements=("amount",))
REPLAYED = replace(evidence(), replayed=True)


@pytest.mark.parametrize(
    ("before", "state", "said"),
    [
        (SENT, committed(found=evidence()), []),
        (SENT, committed(), ["committed without evidence and without a person"]),
        (SENT, committed(by="user:17"), ["committed without evidence and without a person"]),
        (SENT, committed(found=DISAGREES), ["committed although the provider's answer disagrees with the effect"]),
        (SENT, committed(found=REPLAYED), ["committed by its first send, and the provider answered from memory"]),
        (SENT, committed(Via.RETRY_IDEMPOTENT, REPLAYED), []),
        (SENT, committed(Via.RECOVERY_QUERY, evidence()), []),
        (DOUBTFUL, committed(Via.RECOVERY_QUERY, evidence()), []),
        (DOUBTFUL, committed(Via.RESOLUTION, by="user:17"), []),
        (DOUBTFUL, committed(Via.RESOLUTION), ["a person decided, and nobody is named"]),
        (SENT, committed(Via.RESOLUTION, by="user:17"), ["a person decided, and it was DISPATCHED, not AMBIGUOUS"]),
    ],
    ids=range(11),
)
def test_a_commit_has_evidence_or_a_person(before: Progress, state: CommittedState, said: list[str]) -> None:
    """An answer that agrees, or, of an ambiguous action, somebody who says so."""
    assert words(before, state) == said


@pytest.mark.parametrize(("found", "legal"), [(None, True), (DISAGREES, True), (evidence(), False)], ids=["none", "odd", "good"])
def test_an_answer_that_agrees_leaves_no_doubt(found: Evidence | None, legal: bool) -> None:  # noqa: FBT001 - the case's end
    """I6: nobody is in doubt who was told that it happened."""
    said = words(SENT, AmbiguousState(later(1), "code", "words", found, None))
    assert said == ([] if legal else ["nobody knows whether it happened, and the provider's answer says that it did"])


# --- what was refused


def refused(door: Door, code: str = "declined:card", at_s: float = 100, **changed: Any) -> RefusedState:
    """Return a refusal."""
    made = RefusedState(later(at_s), code, "words", "", at_recovery=False, door=door, checks=None, by=None, note=None)
    return replace(made, **changed)


NOT_ITS_OWN = "an ambiguous action is refused by a person, and any other is not"
LEFT = "it was refused as never sent, and nothing written down says that its sends did not leave (I6)"
EARLY = f"it was refused before {later(HORIZON_S).isoformat()}, until when a send could still land (I6)"
NOTHING_LEFT = replace(SENT, doubt=Doubt(nothing_sent=True))


@pytest.mark.parametrize(
    ("before", "state", "said"),
    [
        (SENT, refused(Door.ANSWERED), []),
        (SENT, refused(Door.BURNED, at_s=1), []),
        (SENT, refused(Door.HORIZON, at_s=HORIZON_S), []),
        (SENT, refused(Door.HORIZON, at_s=HORIZON_S - 0.001), [EARLY]),
        (replace(SENT, attempt_horizon_at=None), refused(Door.HORIZON, at_s=1), []),
        (replace(SENT, horizon_at=later(90)), refused(Door.HORIZON, at_s=HORIZON_S), []),
        (DOUBTFUL, refused(Door.PERSON, by="user:17", at_s=HORIZON_S), []),
        (DOUBTFUL, refused(Door.PERSON, by="user:17", at_s=HORIZON_S - 1), [EARLY]),
        (replace(DOUBTFUL, attempt_horizon_at=AT), refused(Door.PERSON, by="user:17", at_s=HORIZON_S - 1), [EARLY]),
        (DOUBTFUL, refused(Door.PERSON), ["a person decided, and nobody is named"]),
        (DOUBTFUL, refused(Door.HORIZON), [NOT_ITS_OWN]),
        (SENT, refused(Door.PERSON, by="user:17"), [NOT_ITS_OWN]),
        (CLAIMED, refused(Door.NOTHING_SENT), []),
        (CLAIMED, refused(Door.BURNED), ["nothing was sent, and it was refused as burned"]),
        (SENT, refused(Door.NOTHING_SENT), [LEFT]),
        (NOTHING_LEFT, refused(Door.NOTHING_SENT), []),
        (NOTHING_LEFT, refused(Door.BURNED), []),
        (replace(SENT, doubt=None), refused(Door.NOTHING_SENT), []),
    ],
    ids=range(18),
)
def test_an_absence_is_final_behind_a_closed_door(before: Progress, state: RefusedState, said: list[str]) -> None:
    """I6 and rule 7: what made it final could, by then, for the sends that there were."""
    assert words(before, state) == said


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (refused(Door.BURNED, "approval_revoked", checks=REVOKED), True),
        (refused(Door.BURNED, "premise_changed", checks=CONFLICTING), True),
        (refused(Door.BURNED, "approval_revoked", checks=LIVE), False),
        (refused(Door.BURNED, "approval_revoked"), False),
        (refused(Door.ANSWERED, "approval_revoked", checks=REVOKED), False),
        (refused(Door.ANSWERED, "declined:card", checks=LIVE), True),
        (refused(Door.BURNED, "not declined:card", checks=LIVE), False),
    ],
    ids=range(7),
)
def test_a_refusal_has_a_reason_that_was_read(state: RefusedState, reason: bool) -> None:  # noqa: FBT001 - the case's end
    """The provider's own no, or an approval or a premise that did not hold."""
    said = [] if reason else [f"it was refused as {state.code}, and nothing that was read says so"]
    assert words(SENT, state) == said


def test_a_person_needs_no_reading() -> None:
    """Their word is the reason, whatever code it has."""
    assert words(DOUBTFUL, refused(Door.PERSON, "not_done", by="user:17", checks=LIVE)) == []


# --- what was erased


def erased(status: Status) -> ErasedState:
    """Return the erasure of an action that ended so."""
    return ErasedState(
        later(2),
        "request",
        "user:9",
        Remains(status=status, via=None, code=None, settlement=None, target="world", intended_at=AT),
    )


def test_what_is_left_of_an_action_is_how_it_ended() -> None:
    """An erasure turns no end into another one."""
    done = after(SENT, CommittedState, committed(found=evidence()))
    assert words(done, erased(Status.COMMITTED)) == []
    assert words(done, erased(Status.REFUSED)) == ["what is left of it says REFUSED, and it was COMMITTED"]
    assert words(SENT, erased(Status.DISPATCHED)) == ["Erased can't follow in status DISPATCHED"]


@pytest.mark.parametrize("state", [None, erased(Status.COMMITTED)], ids=["withheld", "there"])
def test_nothing_follows_an_erasure(state: ErasedState | None) -> None:
    """Not even newer evidence, nor a second one; and it stays erased."""
    done = after(SENT, CommittedState, committed(found=evidence()))
    gone = after(done, ErasedState, state)
    assert (gone.status, gone.erased, done.erased) == (Status.COMMITTED, True, False)
    assert words(gone, erased(Status.COMMITTED)) == ["Erased can't follow in status ERASED"]
    assert words(gone, committed(found=evidence())) == ["Committed can't follow in status ERASED"]
    assert after(gone, CommittedState, None).erased
