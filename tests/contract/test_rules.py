"""The seven rules of recovery; each test goes red when its rule is broken."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from interlock.domain import requests
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import NotResolvable
from tests.crashing import (
    AFTER_SEND,
    BEFORE_SEND,
    CLAIM_OVER_S,
    LATE_SEND,
    Actor,
    CrashAt,
    Stage,
    When,
    assert_agreement,
    crashes,
    in_doubt,
    once,
    staged,
    to_the_end,
)
from tests.provider_world import DAY_S, HOUR_S, START, SUBJECT, SendFault

# --- rule 1: every send is dispatched


def test_rule_1_a_resend_is_dispatched_with_a_deadline_and_a_horizon_of_its_own(folder: Path) -> None:
    """A send again under the same key has its own durable event before it, reckoned from its own time."""
    with staged(folder, "keys") as stage:
        in_doubt(stage)
        stage.world.advance(60)
        actor = stage.actor()
        actor.recover()
        first, second = actor.action().dispatches
        assert (first.attempt, second.attempt, second.send) == (1, 1, 2)
        assert first.idempotency_key == second.idempotency_key
        assert second.deadline_at == START + timedelta(seconds=60 + stage.world.profile.send_deadline_s)
        assert second.horizon_at - first.horizon_at == timedelta(seconds=60)


def test_rule_1_the_next_recoverer_reckons_with_the_horizon_of_the_last_send(folder: Path) -> None:
    """A resend that is still on its way past the first send's horizon is not missed."""
    with staged(folder, "keys-lookup") as stage:
        in_doubt(stage)
        stage.world.advance(15)
        second = stage.actor()
        assert crashes(second.recover, LATE_SEND)
        second.die()
        stage.revoke()
        stage.world.advance(10)
        third = stage.actor()
        assert stage.world.clock.now() > third.action().dispatches[0].horizon_at
        assert third.recover().receipt.status == "IN_FLIGHT"
        assert to_the_end(third).receipt.via == "recovery-query"
        assert_agreement(stage, third)


@pytest.mark.parametrize("profile", ["keys-lookup-burn", "keys-burn"])
def test_rule_1_a_revocation_before_a_resend_is_durable_is_before_the_resend(profile: str, folder: Path) -> None:
    """The approval is asserted in the transaction of the resend: a revocation between check and append stops it."""
    with staged(folder, profile) as stage:
        in_doubt(stage)
        actor = stage.actor()
        outcome = actor.recover(interpose=once(requests.Append, stage.revoke, nth=2))
        assert outcome.receipt.refusal is not None
        assert outcome.receipt.refusal.code == "approval_revoked"
        assert not stage.world.sent
        assert_agreement(stage, actor)


def test_rule_1_a_revocation_before_a_new_key_is_durable_is_before_the_new_key(folder: Path) -> None:
    """The same holds for a new dispatch behind a closed door."""
    with staged(folder, "lookup") as stage:
        in_doubt(stage)
        stage.world.advance(HOUR_S)
        actor = stage.actor()
        outcome = actor.recover(interpose=once(requests.Append, stage.revoke, nth=2))
        assert outcome.receipt.status == "REFUSED"
        assert not stage.world.sent
        assert_agreement(stage, actor)


# --- rule 2: the door is closed first, for every key, and the lookup that counts comes afterwards


def test_rule_2_what_lands_between_the_lookup_and_the_burn_is_found(folder: Path) -> None:
    """The key that the late original used up before the burn came is no closed door, and the effect is found."""
    with staged(folder, "keys-lookup-burn") as stage:
        in_doubt(stage, LATE_SEND)
        stage.revoke()
        actor = stage.actor()
        outcome = actor.recover(interpose=once(requests.Burn, lambda: stage.world.advance(30)))
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "recovery-query")
        assert_agreement(stage, actor)


@pytest.mark.parametrize("revoked", [False, True], ids=["would go on", "would refuse"])
def test_rule_2_what_lands_between_the_lookup_and_the_horizon_is_found(revoked: bool, folder: Path) -> None:  # noqa: FBT001 - a parameter of the test
    """An absence that was read before the horizon counts for nothing after it, however little time lies between."""
    with staged(folder, "lookup") as stage:
        in_doubt(stage, LATE_SEND)
        if revoked:
            stage.revoke()
        actor = stage.actor()
        after_lookup = once(requests.ReadPremises, lambda: stage.world.advance(HOUR_S))
        outcome = actor.recover(interpose=after_lookup)
        assert actor.kinds().index("LookUp") < actor.kinds().index("ReadPremises")
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "recovery-query")
        assert_agreement(stage, actor)


def test_rule_2_the_door_is_closed_for_the_key_of_every_attempt(folder: Path) -> None:
    """A refusal behind a second attempt burns the first attempt's key again, too."""
    with staged(folder, "keys-burn") as stage:
        third = _second_attempt_in_doubt(stage)
        stage.revoke()
        del stage.world.burns[:]
        actor = stage.actor()
        assert to_the_end(actor).receipt.status == "REFUSED"
        assert [key[-2:] for key in stage.world.burns] == ["-1", "-2"]
        assert third.action().attempt == 2
        assert_agreement(stage, actor)


def _second_attempt_in_doubt(stage: Stage) -> Actor:
    """Bring an action to its second key: the first was burned by somebody who died before refusing."""
    in_doubt(stage, premises=(stage.world.observe(SUBJECT),))
    stage.world.provider.state = "closed"
    second = stage.actor()
    assert crashes(second.recover, CrashAt(requests.Append, When.BEFORE, nth=2))
    second.die()
    stage.world.provider.state = "open"
    third = stage.actor()
    assert crashes(third.recover, CrashAt(requests.Send, When.BEFORE, nth=2))
    third.die()
    return stage.actor()


# --- rule 3: the horizon


def test_rule_3_the_horizon_is_made_of_everything_that_can_delay_a_landing() -> None:
    """Deadline, kernel, settling, staleness and roll-forward all count; an unknown figure is a flag and not a zero."""
    profile = CapabilityProfile(send_deadline_s=1, kernel_s=2, settle_s=4, lookup_staleness_s=8, roll_forward_s=16)
    assert profile.horizon(START) == START + timedelta(seconds=2 + 4 + 8 + 16)
    assert not profile.may_roll_forward_unbounded
    assert replace(profile, roll_forward_s=None).may_roll_forward_unbounded


@pytest.mark.parametrize("profile", ["lookup", "lookup-stale-roll-known", "keys-lookup", "keys-lookup-stale-roll-known"])
@pytest.mark.parametrize("revoked", [False, True], ids=["would go on", "would refuse"])
def test_rule_3_nothing_is_final_before_the_horizon_although_the_holder_is_dead(
    profile: str,
    revoked: bool,  # noqa: FBT001 - a parameter of the test
    folder: Path,
) -> None:
    """A dead sender's kernel goes on delivering: the horizon counts from the deadline, and never from the death."""
    with staged(folder, profile) as stage:
        in_doubt(stage, LATE_SEND)
        stage.world.forget_keys()
        if revoked:
            stage.revoke()
        actor = stage.actor()
        horizon_at = actor.action().horizon_at
        outcome = actor.recover()
        while stage.world.clock.now() < horizon_at and outcome.receipt.status == "IN_FLIGHT":
            assert revoked or not stage.world.profile.dedupes or stage.world.sent
            stage.world.advance(1)
            outcome = actor.recover()
        to_the_end(actor)
        assert_agreement(stage, actor)


@pytest.mark.parametrize("fault", [SendFault.FAILS_AND_ROLLS_FORWARD, SendFault.FAILS_WITH_EFFECT])
@pytest.mark.parametrize("profile", ["lookup-stale-roll-known", "keys-lookup-stale-roll-known"])
def test_rule_3_a_failure_that_nobody_saw_may_still_roll_forward(profile: str, fault: SendFault, folder: Path) -> None:
    """Roll-forward time and staleness are part of every horizon, since the sender may have died with the failure."""
    with staged(folder, profile) as stage:
        stage.world.send_faults = [fault]
        in_doubt(stage, AFTER_SEND)
        stage.revoke()
        actor = stage.actor()
        assert to_the_end(actor).receipt.status == "COMMITTED"
        assert_agreement(stage, actor)


def test_rule_3_a_profile_that_was_corrected_meanwhile_moves_the_horizon(folder: Path) -> None:
    """What was learned of the provider since the send counts: a longer roll-forward time is waited for."""
    with staged(folder, "lookup") as stage:
        stage.world.provider.profile = replace(stage.world.profile, roll_forward_s=600.0)
        stage.world.send_faults = [SendFault.FAILS_AND_ROLLS_FORWARD]
        in_doubt(stage, AFTER_SEND)
        stage.world.profile = replace(stage.world.profile, roll_forward_s=900.0)
        stage.world.advance(60)
        actor = stage.actor()
        assert actor.recover().receipt.status == "IN_FLIGHT"
        assert to_the_end(actor).receipt.status == "COMMITTED"
        assert_agreement(stage, actor)


# --- rule 4: a no to a resend is not a no to the action


def test_rule_4_a_definite_no_to_a_resend_closes_the_door_and_looks(folder: Path) -> None:
    """The first send may be what made it impossible: it is found, and not refused."""
    with staged(folder, "keys-lookup-stale-roll-known") as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.forget_keys()
        stage.world.send_faults = [SendFault.DECLINES_UNSAVED]
        actor = stage.actor()
        outcome = actor.recover()
        assert len(stage.world.sent) == 2
        assert outcome.receipt.status in ("IN_FLIGHT", "COMMITTED")
        assert to_the_end(actor).receipt.status == "COMMITTED"
        assert_agreement(stage, actor)


def test_rule_4_where_nothing_is_found_behind_the_door_the_no_stands(folder: Path) -> None:
    """A no to a resend, and nothing there after the horizon: refused with the provider's code, and nothing more is sent."""
    with staged(folder, "keys-lookup") as stage:
        in_doubt(stage)
        stage.world.send_faults = [SendFault.DECLINES_UNSAVED]
        actor = stage.actor()
        receipt = to_the_end(actor).receipt
        assert receipt.refusal is not None
        assert (receipt.refusal.code, receipt.refusal.door) == ("declined:insufficient", "horizon")
        assert len(stage.world.sent) == 1
        assert_agreement(stage, actor)


def test_rule_4_a_no_that_was_stored_for_the_first_send_answers_every_send(folder: Path) -> None:
    """A replayed no is the answer to the very request in doubt, so it is final at once."""
    with staged(folder, "keys") as stage:
        stage.world.send_faults = [SendFault.LOST_DECLINE]
        in_doubt(stage, AFTER_SEND)
        actor = stage.actor()
        receipt = actor.recover().receipt
        assert receipt.refusal is not None
        assert receipt.refusal.door == "answered"
        assert_agreement(stage, actor)


# --- rule 5: every ending is appended at the version that was read


def test_rule_5_a_refusal_that_comes_late_is_not_forced(folder: Path) -> None:
    """A sender with a definite no wakes up after somebody else's resend succeeded: it reports what the journal has."""
    with staged(folder, "keys") as stage:
        stage.world.send_faults = [SendFault.DECLINES_UNSAVED]
        slow = stage.actor()
        outcome = slow.fire(interpose=once(requests.Append, lambda: _taken_over(stage, "COMMITTED"), nth=2))
        assert outcome.receipt.status == "COMMITTED"
        assert_agreement(stage, slow)


def test_rule_5_an_ambiguity_that_comes_late_is_not_forced(folder: Path) -> None:
    """The same for Ambiguous: a person resolved it meanwhile, and that stands."""
    with staged(folder, "nothing-known-to-end") as stage:
        stage.world.send_faults = [SendFault.LOST_ANSWER]
        slow = stage.actor()

        def resolved() -> None:
            _taken_over(stage, "AMBIGUOUS")
            stage.gate().resolve(slow.key, happened=True, by="user:1", note="seen")

        outcome = slow.fire(interpose=once(requests.Append, resolved, nth=2))
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "resolution")
        assert_agreement(stage, slow)


def _taken_over(stage: Stage, status: str) -> None:
    """Let the claim run out, and another gate end the action."""
    stage.world.advance(CLAIM_OVER_S)
    assert to_the_end(stage.actor()).receipt.status == status


# --- rule 6: a definite Done is recorded by whoever has it


def test_rule_6_a_done_is_recorded_on_an_action_that_somebody_else_left_ambiguous(folder: Path) -> None:
    """The slow sender's answer is worth more than the recoverer's doubt."""
    with staged(folder, "nothing") as stage:
        slow = stage.actor()
        outcome = slow.fire(interpose=once(requests.Append, lambda: _taken_over(stage, "AMBIGUOUS"), nth=2))
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "first-send")
        assert stage.gate().approval("case-1").remaining_minor == 0
        assert_agreement(stage, slow)


def test_rule_6_a_done_is_recorded_although_somebody_else_holds_a_newer_term(folder: Path) -> None:
    """A takeover that has come no further does not keep the answer out."""
    with staged(folder, "lookup") as stage:
        slow = stage.actor()

        def taken_over() -> None:
            stage.world.advance(CLAIM_OVER_S)
            other = stage.actor()
            assert crashes(other.recover, CrashAt(requests.Append, When.AFTER))
            assert other.action().claim is not None

        outcome = slow.fire(interpose=once(requests.Append, taken_over, nth=2))
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "first-send")
        assert [entry.event for entry in outcome.receipt.timeline][-2:] == ["Claimed", "Committed"]
        assert_agreement(stage, slow)


# --- rule 7: a person's "it did not happen" only behind a closed door


def test_rule_7_a_person_cannot_say_that_it_did_not_happen_while_it_can_still_land(folder: Path) -> None:
    """Before the horizon nothing is written; past it, and with nothing in the world, the person's word is taken."""
    with staged(folder, "nothing-known-to-end") as stage:
        in_doubt(stage, LATE_SEND)
        actor = stage.actor()
        assert actor.recover().receipt.status == "AMBIGUOUS"
        before = actor.action().version
        with pytest.raises(NotResolvable, match="may still land"):
            actor.gate.resolve(actor.key, happened=False, by="user:1", note="nothing there")
        assert actor.action().version == before
        assert_agreement(stage, actor)


def test_rule_7_an_unknown_roll_forward_keeps_the_door_open_for_a_person(folder: Path) -> None:
    """Where a stored failure may roll forward at any time, only the person's own risk closes the door."""
    with staged(folder, "nothing") as stage:
        stage.world.send_faults = [SendFault.LOST_REQUEST]
        actor = stage.actor()
        assert actor.fire().receipt.status == "AMBIGUOUS"
        stage.world.advance(DAY_S)
        with pytest.raises(NotResolvable, match="despite_roll_forward"):
            actor.gate.resolve(actor.key, happened=False, by="user:1", note="asked them")
        outcome = actor.gate.resolve(actor.key, happened=False, by="user:1", note="asked them", despite_roll_forward=True)
        assert outcome.receipt.refusal is not None
        assert outcome.receipt.refusal.door == "person"


def test_rule_7_a_person_is_told_when_the_provider_has_it_after_all(folder: Path) -> None:
    """Behind the closed door the provider is asked once more; what it has is recorded, whatever the person says."""
    with staged(folder, "lookup-roll-unknown") as stage:
        stage.world.send_faults = [SendFault.FAILS_AND_ROLLS_FORWARD]
        actor = stage.actor()
        assert to_the_end(actor).receipt.status == "AMBIGUOUS"
        stage.world.settle()
        outcome = actor.gate.resolve(actor.key, happened=False, by="user:1", note="no", despite_roll_forward=True)
        assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "recovery-query")
        assert_agreement(stage, actor)


def test_rule_7_the_recorded_horizon_counts_from_the_deadline(folder: Path) -> None:
    """A person's no a second before the late landing is not taken, and the landing is what happened."""
    with staged(folder, "nothing-known-to-end") as stage:
        in_doubt(stage, LATE_SEND)
        actor = stage.actor()
        assert actor.recover().receipt.status == "AMBIGUOUS"
        profile = stage.world.profile
        stage.world.advance(profile.send_deadline_s + profile.kernel_s + profile.settle_s - 2)
        with pytest.raises(NotResolvable, match="may still land"):
            actor.gate.resolve(actor.key, happened=False, by="user:1", note="nothing there")


def test_rule_7_the_send_that_can_land_last_keeps_a_person_waiting(folder: Path) -> None:
    """The last send was made on shorter figures: an earlier one can still land after it, so that one's horizon is waited for."""
    with staged(folder, "keys") as stage:
        shorter = stage.world.profile
        stage.world.profile = replace(shorter, settle_s=3 * DAY_S)
        in_doubt(stage)
        stage.world.profile = shorter
        again = stage.actor()
        assert crashes(again.recover, BEFORE_SEND)
        again.die()
        stage.world.advance(DAY_S)
        actor = stage.actor()
        assert actor.recover().receipt.status == "AMBIGUOUS"
        first, second = actor.action().dispatches
        assert second.horizon_at < stage.world.clock.now() < first.horizon_at
        with pytest.raises(NotResolvable, match="may still land"):
            actor.gate.resolve(actor.key, happened=False, by="user:1", note="nothing there")
        stage.world.advance(3 * DAY_S)
        assert actor.gate.resolve(actor.key, happened=False, by="user:1", note="nothing there").receipt.status == "REFUSED"
        assert_agreement(stage, actor)
