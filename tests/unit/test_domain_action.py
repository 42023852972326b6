"""The action: its events say all that was handed over, and its doors and horizons are reckoned from them."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from interlock.domain.action import MAX_KEY_LENGTH, Door, Doubt, GatedAction, SendPurpose, Status, Via, require_key
from interlock.domain.answers import Declined, KeyState
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import ActionMismatch, InvalidConfiguration, InvalidKey
from tests.scripted import AT, KEYS, checked, dispatched, effect, evidence, gate, intended, intent, later

SLOW = replace(KEYS, kernel_s=200)


@pytest.mark.parametrize("key", ["k", "k" * MAX_KEY_LENGTH, "refund:case 1"])
def test_a_key_is_taken_as_it_is(key: str) -> None:
    """One character, 200 of them, one with a space in it."""
    assert require_key(key) == key


@pytest.mark.parametrize(
    "key",
    ["", "  ", "k" * (MAX_KEY_LENGTH + 1), "a\nb", 7, None, b"k"],
    ids=["empty", "blank", "too long", "a line break", "number", "none", "bytes"],
)
def test_what_can_name_no_action_is_no_key(key: object) -> None:
    """Empty, blank, too long, not printable, no text."""
    with pytest.raises(InvalidKey, match="1 to 200 printable characters; nothing was written or sent"):
        require_key(key)  # type: ignore[arg-type]  # that is the claim


def test_an_intent_names_its_approval_as_a_reference() -> None:
    """Under which somebody else may have done the same."""
    assert intent().references == {"case-1"}


def test_another_effect_under_the_key_says_which_two() -> None:
    """I5: both fingerprints, the recorded one first."""
    action = intended()
    action.require_same_effect(intent())
    with pytest.raises(ActionMismatch) as raised:
        action.require_same_effect(replace(intent(), effect=effect(1)))
    assert (raised.value.key, raised.value.recorded_fingerprint, raised.value.given_fingerprint) == (
        "refund:1",
        effect().fingerprint,
        effect(1).fingerprint,
    )


def test_a_dispatch_says_when_it_ends_and_what_was_promised() -> None:
    """Its number, its key, its deadline, its horizon, the checks, and the profile by its digest."""
    action = dispatched(gate())
    checks = checked(action).checks
    action.dispatch(2, SendPurpose.READ_STORED, checks, KEYS, later(100))
    sent = action.last_dispatch
    assert (sent.attempt, sent.send, sent.purpose, sent.timestamp) == (2, 2, SendPurpose.READ_STORED, later(100))
    assert (sent.deadline_at, sent.horizon_at) == (later(110), later(135))
    assert sent.idempotency_key == f"il-{UUID(int=1)}-2"
    assert (sent.checks, sent.roll_forward_known, sent.profile_digest) == (checks, True, KEYS.digest())
    assert sent.originator_version == action.version == 4


def test_absence_is_final_only_where_every_failure_is_known_to_end() -> None:
    """One send whose failure may roll forward at any time is enough."""
    action = dispatched(gate())
    assert action.absence_can_be_final
    action.dispatch(1, SendPurpose.EXECUTE, checked(action).checks, replace(KEYS, roll_forward_s=None), AT)
    assert not action.last_dispatch.roll_forward_known
    assert not action.absence_can_be_final


def test_the_horizon_of_a_key_is_the_latest_of_its_sends_as_recorded_or_as_known_now() -> None:
    """Other keys do not count, and a corrected profile does."""
    action = dispatched(gate())
    for attempt, at_s, profile in ((1, 50, SLOW), (1, 60, KEYS), (2, 500, KEYS)):
        action.dispatch(attempt, SendPurpose.EXECUTE, checked(action).checks, profile, later(at_s))
    assert action.horizon_of(1, KEYS) == later(50 + 215)
    assert action.horizon_of(1, SLOW) == later(60 + 215)
    assert action.horizon_of(2, KEYS) == later(535)
    assert action.horizon_at == later(535)
    assert [action.first_dispatch_of(attempt).send for attempt in (1, 2)] == [1, 4]
    assert action.attempt == 2


def test_a_new_key_forgets_what_was_known_of_the_one_before() -> None:
    """And no dispatch leaves it as not sent."""
    action = dispatched(gate())
    failed = Doubt(key=KeyState.STORED_FAILURE, nothing_sent=True)
    action.take_claim(gate().claim(action, AT), "waiting", AT, failed)
    action.dispatch(1, SendPurpose.EXECUTE, checked(action).checks, KEYS, AT)
    assert action.doubt == Doubt(key=KeyState.STORED_FAILURE)
    action.dispatch(2, SendPurpose.EXECUTE, checked(action).checks, KEYS, AT)
    assert action.doubt == Doubt()


def test_a_claim_without_anything_learned_keeps_what_was_learned_before() -> None:
    """It says who and why, and the status of a sent action stays."""
    action = dispatched(gate())
    declined = Doubt(declined=Declined("no", "no"))
    action.take_claim(gate().claim(action, AT), "waiting", later(1), declined)
    claim = gate(holder="gate-2").claim(action, later(2))
    action.take_claim(claim, "expired", later(2))
    assert (action.claim, action.doubt, action.status) == (claim, declined, Status.DISPATCHED)
    claimed = action.history[-1]
    assert isinstance(claimed, GatedAction.Claimed)
    assert (claimed.why, claimed.timestamp, claimed.doubt) == ("expired", later(2), None)


@pytest.mark.parametrize(
    ("doubt", "kept"),
    [
        (Doubt(), False),
        (Doubt(sends=3), False),
        (Doubt(key=KeyState.IN_PROGRESS), False),
        (Doubt(nothing_sent=True), True),
        (Doubt(declined=Declined("no", "no")), True),
        (Doubt(key=KeyState.STORED_FAILURE), True),
        (Doubt(key=KeyState.MISMATCHED), True),
    ],
)
def test_what_the_next_pass_would_learn_by_sending_is_worth_keeping(doubt: Doubt, kept: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The number of sends is the pass's own."""
    assert doubt.worth_keeping is kept
    assert replace(doubt, sends=5).to_keep() == replace(doubt, sends=0)


def test_every_ending_says_all_that_it_was_given() -> None:
    """A commit, a refusal, an ambiguity: each field of them, and what is not given is empty."""
    checks = checked(intended()).checks
    action = dispatched(gate())
    action.leave_ambiguous("code", "words", later(1), evidence=evidence(), checks=checks)
    ambiguous = action.ending
    assert isinstance(ambiguous, GatedAction.Ambiguous)
    assert (ambiguous.code, ambiguous.words, ambiguous.evidence, ambiguous.checks) == ("code", "words", evidence(), checks)
    action.commit(Via.RESOLUTION, evidence(), later(2), checks=checks, by="user:1", note="note")
    committed = action.ending
    assert isinstance(committed, GatedAction.Committed)
    assert (committed.via, committed.evidence, committed.checks) == (Via.RESOLUTION, evidence(), checks)
    assert (committed.by, committed.note, committed.timestamp) == ("user:1", "note", later(2))
    action = intended()
    action.refuse("code", "words", later(3), door=Door.NOTHING_SENT, at_recovery=False)
    refused = action.ending
    assert isinstance(refused, GatedAction.Refused)
    assert (refused.possible, refused.checks, refused.by, refused.note) == ("", None, None, None)
    assert (refused.door, refused.at_recovery, refused.timestamp) == (Door.NOTHING_SENT, False, later(3))


def test_a_draft_is_one_of_which_nothing_is_durable() -> None:
    """The events after the first do not make one."""
    action = GatedAction.intend(UUID(int=1), intent(), AT)
    assert action.is_draft
    action.take_claim(gate().claim(action, AT), "first", AT)
    assert action.is_draft
    action.collect_events()
    action.dispatch(1, SendPurpose.EXECUTE, checked(action).checks, KEYS, AT)
    assert not action.is_draft


# --- the figures that horizons are made of


def test_a_horizon_is_the_sum_of_all_that_can_delay_a_landing() -> None:
    """Where a figure is not known, it is not in it."""
    profile = CapabilityProfile(send_deadline_s=1, kernel_s=20, settle_s=300, lookup_staleness_s=4000, roll_forward_s=50_000)
    assert profile.horizon(AT) == later(54_320)
    assert replace(profile, lookup_staleness_s=None, roll_forward_s=None).horizon(AT) == later(320)


def test_figures_of_nothing_are_a_profile_and_negative_ones_are_named() -> None:
    """Zero is a figure; each negative one stands in the message."""
    CapabilityProfile(send_deadline_s=0, kernel_s=0, settle_s=0, dedupe_window_s=0, dedupe_margin_s=0, roll_forward_s=0)
    with pytest.raises(InvalidConfiguration, match=r"negative: kernel_s, settle_s$"):
        CapabilityProfile(kernel_s=-1, settle_s=-0.5)
    with pytest.raises(InvalidConfiguration, match="only be burned where"):
        CapabilityProfile(burns=True)
    CapabilityProfile(burns=True, dedupe_window_s=1)
