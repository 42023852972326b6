"""The two ways of closing the door, and senders that wake up behind it; each test goes red when its rule is broken."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from interlock import Done, Evidence, Money, Outcome, Settlement
from interlock.domain import requests
from interlock.functions import target
from interlock.infrastructure.clock import Clock
from interlock.testing.world import GateClock
from tests.crashing import (
    AFTER_SEND,
    BEFORE_SEND,
    CLAIM_OVER_S,
    LATE_SEND,
    Actor,
    Stage,
    assert_agreement,
    crashes,
    in_doubt,
    once,
    staged,
    to_the_end,
)
from tests.gates import open_gate
from tests.provider_world import AMOUNT, CURRENCY, DAY_S, START, SUBJECT, BurnFault, SendFault, Transfer

STOPPED_S = 0.05


@pytest.mark.parametrize("profile", ["keys-burn", "keys-lookup-burn", "keys-lookup-burn-roll-unknown"])
def test_behind_a_burned_key_nothing_lands_late_or_from_a_zombie(profile: str, folder: Path) -> None:
    """A late original, and a sender that wakes up right before its write, both find the key used up."""
    with staged(folder, profile) as stage:
        zombie = stage.actor()

        def recovered() -> None:
            stage.world.advance(CLAIM_OVER_S)
            stage.revoke()
            assert to_the_end(stage.actor()).receipt.status == "REFUSED"
            stage.world.clock.at = START

        outcome = zombie.fire(interpose=once(requests.Send, recovered))
        assert [kind for kind in zombie.kinds() if kind == "Send"] == ["Send"]
        assert outcome.receipt.status == "REFUSED"
        assert not stage.world.ledger
        in_doubt(stage, LATE_SEND, key="second", approval=stage.approve("second").id)
        stage.revoke()
        assert to_the_end(stage.actor("second", "second")).receipt.status == "REFUSED"
        assert_agreement(stage, zombie)


def test_a_refusal_names_the_door_of_the_key_that_was_used_last(folder: Path) -> None:
    """The first key can't be burned any more, and the second one is: nothing is waited for, and the record says so lawfully."""
    with staged(folder, "keys-lookup-burn") as stage:
        in_doubt(stage, premises=(stage.world.observe(SUBJECT),))
        stage.world.advance(2 * DAY_S)
        second = stage.actor()
        assert crashes(second.recover, BEFORE_SEND)
        second.die()
        stage.world.by_hand(AMOUNT, case="case-1")
        actor = stage.actor()
        refusal = actor.recover().receipt.refusal
        assert refusal is not None
        assert refusal.door == "burned"
        assert [dispatch.attempt for dispatch in actor.action().dispatches] == [1, 2]
        assert_agreement(stage, actor)


@pytest.mark.parametrize("pause", [requests.StillAt, requests.Send], ids=["before its check", "after its check"])
def test_a_zombie_past_its_deadline_sends_nothing_even_without_burning(
    pause: type[requests.Request[object]], folder: Path
) -> None:
    """A sender that wakes up checks its term and its deadline before the write."""
    with staged(folder, "lookup") as stage:
        zombie = stage.actor()

        def recovered() -> None:
            stage.revoke()
            assert to_the_end(_after(stage, CLAIM_OVER_S)).receipt.status == "REFUSED"

        outcome = zombie.fire(interpose=once(pause, recovered))
        assert outcome.receipt.status == "REFUSED"
        assert not stage.world.sent
        assert_agreement(stage, zombie)


def test_a_sender_that_lost_its_claim_sends_nothing_although_it_has_time_left(folder: Path) -> None:
    """Its lock was lost while it lived, and somebody took over: it sees the other term right before the write."""
    with staged(folder, "lookup") as stage:
        zombie = stage.actor()

        def taken_over() -> None:
            zombie.gate._driver.locks.lose()
            assert _reason(stage.actor().recover()) == "settling"

        outcome = zombie.fire(interpose=once(requests.StillAt, taken_over))
        assert _reason(outcome) == "held"
        assert "Send" not in zombie.kinds()
        assert not stage.world.sent


def test_a_sender_whose_deadline_is_over_does_not_even_ask_the_target(folder: Path) -> None:
    """Nobody took over; it is not sent, and the next fire sends it with a deadline of its own."""
    with staged(folder, "nothing") as stage:
        actor = stage.actor()
        outcome = actor.fire(interpose=once(requests.StillAt, lambda: stage.world.advance(10)))
        assert _reason(outcome) == "not_sent"
        assert "Send" not in actor.kinds()
        assert actor.fire().receipt.via == "first-send"
        assert len(stage.world.sent) == 1


class Stopping:
    """A clock whose reader is stopped for a moment each time, right after the time was read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """Return the time, late."""
        at = self._clock.now()
        time.sleep(STOPPED_S)
        return at


class Behind:
    """A clock that may be behind the journal's."""

    behind_s = 3.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now()


@pytest.mark.parametrize(("clock", "lost_s"), [(Stopping, STOPPED_S), (Behind, Behind.behind_s)])
def test_what_a_sender_does_not_know_of_the_time_is_taken_off_its_deadline(
    clock: Callable[[Clock], Clock], lost_s: float, folder: Path
) -> None:
    """A pause after the journal's clock was read, or a clock that may be behind, shortens the send and never stretches it."""
    left_s: list[float] = []

    @target("pay", effect=Transfer, send_deadline_s=10)
    def pay(effect: Transfer, /, *, idempotency_key: str, deadline_s: float) -> Done:
        del effect, idempotency_key
        left_s.append(deadline_s)
        return Done(Evidence(reference="tx_1", state="done", settlement=Settlement.FINAL, json="{}"))

    effect = pay.effect(Transfer("account", AMOUNT, CURRENCY), subject="account", money=Money(AMOUNT, CURRENCY))
    with (
        staged(folder, "nothing") as stage,
        open_gate(stage.url, targets=[pay], clock=clock(stage.world.clock)) as gate,
    ):
        assert gate.fire("key", effect, approval="case-1").receipt.status == "COMMITTED"
    assert left_s[0] <= 10 - lost_s


@pytest.mark.parametrize("pause", [requests.StillAt, requests.Now, requests.Send], ids=["before", "in the middle of", "after"])
def test_a_clock_that_was_set_back_lets_no_zombie_send_after_all(pause: type[requests.Request[object]], folder: Path) -> None:
    """Stopped before, in the middle of or after its last check, it wakes up past its horizon, and the journal's clock says less.

    Its deadline is counted from its Dispatched on a clock that no one sets, too.
    """
    with staged(folder, "lookup") as stage:
        clock = GateClock(stage.world.clock)
        zombie = Actor(stage.gate(clock=clock), stage.world, "refund:case-1", "case-1")
        dispatched = Event()

        def sent_by_another() -> None:
            other = Actor(stage.gate(clock=clock), stage.world, "refund:case-1", "case-1")
            stage.world.advance(CLAIM_OVER_S)
            assert to_the_end(other).receipt.status == "COMMITTED"
            clock.set_back_s = CLAIM_OVER_S + 1

        def pause_once(request: requests.Request[object]) -> None:
            if isinstance(request, requests.StillAt):
                dispatched.set()
            if isinstance(request, pause) and dispatched.is_set() and not stage.world.sent:
                sent_by_another()

        assert zombie.fire(interpose=pause_once).receipt.status == "COMMITTED"
        assert len(stage.world.sent) == 1
        assert_agreement(stage, zombie)


def test_a_refusal_behind_a_horizon_is_no_earlier_than_that_although_the_clock_was_set_back(folder: Path) -> None:
    """The horizon was seen to be past: a record that says less would be taken for one of a refusal that came too early."""
    with staged(folder, "lookup") as stage:
        clock = GateClock(stage.world.clock)
        in_doubt(stage)
        stage.revoke()
        stage.world.advance(DAY_S)
        actor = Actor(stage.gate(clock=clock), stage.world, "refund:case-1", "case-1")
        looks = count(1)

        def set_back(request: requests.Request[object]) -> None:
            if isinstance(request, requests.LookUp) and next(looks) == 2:
                clock.set_back_s = DAY_S

        refusal = actor.recover(interpose=set_back).receipt.refusal
        assert refusal is not None
        assert refusal.door == "horizon"
        assert actor.gate.verify().valid
        assert_agreement(stage, actor)


def _after(stage: Stage, seconds: float) -> Actor:
    stage.world.advance(seconds)
    return stage.actor()


def test_a_burned_key_is_judged_again_when_the_burn_is_answered(folder: Path) -> None:
    """A burn that is answered past the key's window proves nothing: the provider may have forgotten the original."""
    with staged(folder, "keys-burn") as stage:
        in_doubt(stage, AFTER_SEND)
        stage.revoke()
        stage.world.advance(DAY_S - stage.world.profile.dedupe_margin_s - 1)
        actor = stage.actor()

        def forgotten() -> None:
            stage.world.forget_keys()
            stage.world.advance(2)

        receipt = actor.recover(interpose=once(requests.Burn, forgotten)).receipt
        assert len(stage.world.burns) == 1
        assert receipt.status == "AMBIGUOUS"
        assert_agreement(stage, actor)


@pytest.mark.parametrize("fault", list(BurnFault))
def test_a_burn_without_an_answer_closes_nothing(fault: BurnFault, folder: Path) -> None:
    """It is asked again, and until then the action is InFlight."""
    with staged(folder, "keys-lookup-burn") as stage:
        in_doubt(stage)
        stage.revoke()
        stage.world.burn_faults = [fault]
        actor = stage.actor()
        assert _reason(actor.recover()) == "settling"
        assert to_the_end(actor).receipt.status == "REFUSED"
        assert_agreement(stage, actor)


def test_a_request_in_progress_is_waited_for(folder: Path) -> None:
    """While the provider works on the original, the door is open, and what it did is found."""
    with staged(folder, "keys-burn") as stage:
        stage.world.send_faults = [SendFault.HANGS]
        in_doubt(stage, AFTER_SEND)
        stage.revoke()
        actor = stage.actor()
        assert _reason(actor.recover()) == "provider_busy"
        assert to_the_end(actor).receipt.status == "COMMITTED"
        assert_agreement(stage, actor)


def _reason(outcome: Outcome) -> str | None:
    reason = getattr(outcome, "reason", None)
    return str(reason) if reason is not None else None
