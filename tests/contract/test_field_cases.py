"""What went wrong for others who did this job, as they reported it in public, tried on the gate."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from interlock import Money
from interlock.domain import requests
from interlock.domain.requests import Liveness
from interlock.errors import InvalidEffect
from tests.crashing import AFTER_SEND, BEFORE_SEND, Actor, crashes, disagreement, in_doubt, once, staged, to_the_end
from tests.provider_world import AMOUNT, PROFILES, LookupFault, SendFault, World


def test_a_retry_after_a_dropped_answer_uses_the_same_key(folder: Path) -> None:
    """Field case 1, medusajs/medusa#16681: the local record was deleted on an error, so the retry had a new id and key."""
    with staged(folder, "keys") as stage:
        stage.world.send_faults = [SendFault.RAISES_WITH_EFFECT]
        assert to_the_end(stage.actor()).receipt.status == "COMMITTED"
        assert len({sent.idempotency_key for sent in stage.world.sent}) == 1
        assert len(stage.world.sent) == 2
        assert len(stage.world.ledger) == 1


def test_a_repeated_request_is_one_effect_and_a_legitimate_twin_is_another(folder: Path) -> None:
    """Field case 2, saleor/apps#2446: a repeated webhook refunded again; a key of payment and amount blocks a real twin."""
    with staged(folder, "keys") as stage:
        stage.approve("case-2")
        for approval in ("case-1", "case-1", "case-2", "case-2"):
            stage.actor(f"refund:{approval}", approval).fire()
        assert [entry.amount_minor for entry in stage.world.ledger] == [AMOUNT, AMOUNT]
        assert len({sent.idempotency_key for sent in stage.world.sent}) == 2


def test_every_send_carries_the_journaled_key(folder: Path) -> None:
    """Field case 3, stripe/stripe-php#637: a retry inside the SDK replaced the caller's key."""
    with staged(folder, "keys-lookup") as stage:
        stage.world.send_faults = [SendFault.RATE_LIMITED, SendFault.FAILS]
        actor = stage.actor()
        to_the_end(actor)
        announced = [dispatch.idempotency_key for dispatch in actor.action().dispatches]
        sent = [sent.idempotency_key for sent in stage.world.sent]
        assert sent == announced
        assert len(sent) == 4


def test_a_request_in_progress_is_in_flight_and_then_committed(folder: Path) -> None:
    """Field case 4, stripe/stripe-ruby#431: the retry after a time-out got a 409, which was reported as a failure."""
    with staged(folder, "keys") as stage:
        stage.world.send_faults = [SendFault.HANGS]
        actor = stage.actor()
        outcome = actor.fire()
        assert getattr(outcome, "reason", None) == "provider_busy"
        assert to_the_end(actor).receipt.status == "COMMITTED"
        assert len(stage.world.ledger) == 1


def test_two_targets_of_one_business_id_get_keys_of_their_own(folder: Path) -> None:
    """Field case 5, odoo/odoo#101243: one key on two endpoints was rejected by the provider."""
    with staged(folder, "keys", uses=2, cap_minor=2 * AMOUNT) as stage:
        charges = World(PROFILES["keys"], "charges")
        gate = stage.gate(targets=[stage.world, charges])
        gate.fire("order-7:refund", stage.world.transfer(), approval="case-1")
        gate.fire("order-7:charge", charges.transfer(), approval="case-1")
        assert stage.world.sent[0].idempotency_key != charges.sent[0].idempotency_key
        assert "order-7" not in stage.world.sent[0].idempotency_key + charges.sent[0].idempotency_key


def test_what_failed_after_its_commit_is_not_shown_as_done(folder: Path) -> None:
    """Field case 6, woocommerce/woocommerce-gateway-stripe#4405: shown as refunded though it failed later."""
    with staged(folder, "keys-lookup") as stage:
        gate = stage.gate()
        assert gate.fire("key", stage.world.transfer(), approval="case-1").receipt.happened == "yes"
        stage.world.becomes("failed")
        assert gate.reconcile("key").outcomes[0].receipt.happened == "no"
        assert [receipt.key for receipt in gate.attention()] == ["key"]


@pytest.mark.parametrize("amount", [9899, 5800])
def test_an_amount_reaches_the_provider_as_the_integer_that_was_approved(amount: int, folder: Path) -> None:
    """Field cases 7 and 8, woocommerce/woocommerce-gateway-stripe#435 and antiwork/gumroad#3749: yen times and by a hundred."""
    float_amount: Any = float(amount)
    with pytest.raises(InvalidEffect):
        Money(float_amount, "jpy")
    with staged(folder, "keys", currency="jpy", cap_minor=amount) as stage:
        stage.gate().fire("key", stage.world.transfer(amount, "jpy"), approval="case-1")
        assert [(sent.parameters.amount_minor, sent.parameters.currency) for sent in stage.world.sent] == [(amount, "jpy")]
        assert [entry.amount_minor for entry in stage.world.ledger] == [amount]


@pytest.mark.parametrize("profile", ["nothing", "keys", "lookup"])
def test_a_task_that_is_delivered_twice_is_sent_once(profile: str, folder: Path) -> None:
    """Field case 9, celery/celery#5935: a broker redelivered a long task, and two copies ran at once."""
    with staged(folder, profile) as stage:
        slow, copy = stage.actor(), stage.actor()
        seen: list[Any] = []
        outcome = slow.fire(interpose=once(requests.Send, lambda: seen.append(copy.fire())))
        assert seen[0].reason == "held"
        assert outcome.receipt.status == "COMMITTED"
        assert len(stage.world.sent) == 1


def test_a_step_that_is_retried_after_its_write_does_not_write_again(folder: Path) -> None:
    """Field case 10, dbos-inc/dbos-transact-py#770: a retried step silently repeated its write."""
    with staged(folder, "lookup") as stage:
        in_doubt(stage, AFTER_SEND)
        assert [to_the_end(stage.actor()).receipt.via for _ in range(2)] == ["recovery-query"] * 2
        assert len(stage.world.sent) == 1


def test_twenty_simultaneous_begins_have_one_winner(folder: Path) -> None:
    """Field case 11, dbos-inc/dbos-transact-java#226: the same workflow id started twice ran its steps concurrently."""
    with staged(folder, "nothing") as stage:
        actors, barrier, statuses = [stage.actor() for _ in range(20)], threading.Barrier(20), []

        def begin(actor: Actor) -> None:
            barrier.wait()
            statuses.append(actor.fire().receipt.status)

        threads = [threading.Thread(target=begin, args=(actor,)) for actor in actors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(stage.world.sent) == len(stage.world.ledger) == 1
        assert "COMMITTED" in statuses
        assert set(statuses) <= {"COMMITTED", "IN_FLIGHT"}
        assert stage.gate().verify().valid


@pytest.mark.parametrize("profile", ["keys", "lookup", "keys-lookup", "keys-burn"])
def test_a_death_between_the_answer_and_its_record_is_found_out(profile: str, folder: Path) -> None:
    """Field case 12, restatedev/sdk-java#156: a closure ran again until its result was journaled."""
    with staged(folder, profile) as stage:
        in_doubt(stage, AFTER_SEND)
        receipt = to_the_end(stage.actor()).receipt
        assert receipt.via == ("recovery-query" if stage.world.profile.looks_up else "retry-idempotent")
        assert len(stage.world.ledger) == 1


def test_a_holder_whose_claim_ran_out_does_not_free_the_next_ones(folder: Path) -> None:
    """Field case 13, laravel/framework#26213: the release of an expired holder freed the next holder's lock."""
    with staged(folder, "lookup") as stage:
        late, next_one, third = stage.actor(), stage.actor(), stage.actor()
        assert crashes(late.fire, BEFORE_SEND)
        stage.world.advance(41)
        stage.world.lookup_faults = [LookupFault.FAILS]
        assert getattr(next_one.recover(), "reason", None) == "settling"
        claim = next_one.action().claim
        assert claim is not None
        assert claim.holder == next_one.gate._driver.locks.holder
        late.gate.close()
        assert getattr(third.recover(), "reason", None) == "held"
        assert third.action().claim == claim


def test_a_reader_that_goes_on_to_write_never_finds_the_database_locked(folder: Path) -> None:
    """Field case 15, jswest/bartleby#562: a transaction that read before it wrote was BUSY at once, despite its time-out."""
    with staged(folder, "keys", uses=40, cap_minor=40 * AMOUNT) as stage:
        errors: list[BaseException] = []

        def fire(actor: Actor, number: int) -> None:
            try:
                for turn in range(5):
                    actor.key = f"key-{number}-{turn}"
                    actor.fire()
            except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to see it
                errors.append(error)

        threads = [threading.Thread(target=fire, args=(stage.actor(), number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert len(stage.world.ledger) == 40
        assert stage.gate().approval("case-1").remaining_minor == 0
        assert stage.gate().verify().valid


def test_a_dead_owner_is_gone_although_its_pid_and_host_live(folder: Path) -> None:
    """Field case 16, getpaseo/paseo#5128: a reused pid made a dead owner look alive."""
    with staged(folder, "keys") as stage:
        dead = in_doubt(stage)
        claim = stage.actor().action().claim
        assert claim is not None
        alive = stage.gate()
        assert alive._driver.locks.probe(str(claim.lock)) is Liveness.GONE
        sender = alive._operations.sender(stage.world.capabilities)
        assert (sender.pid, sender.host) == (claim.pid, claim.host)
        assert alive.recover(dead.key).outcomes[0].receipt.status == "COMMITTED"


def test_a_message_whose_last_reply_was_lost_is_not_sent_again(folder: Path) -> None:
    """Field case 20, pimalaya/core#46: a mail was sent again after the server's final reply was lost."""
    with staged(folder, "nothing") as stage:
        stage.world.send_faults = [SendFault.LOST_ANSWER]
        actor = stage.actor()
        assert actor.fire().receipt.status == "AMBIGUOUS"
        stage.world.settle()
        assert to_the_end(stage.actor()).receipt.status == "AMBIGUOUS"
        assert len(stage.world.sent) == 1
        assert disagreement(stage.world, actor.action()) is None


def test_a_dropped_tail_is_never_called_complete(folder: Path) -> None:
    """Field case 18, flare19/payment-reconciliation-agent-platform#18: a log whose tail was dropped verified as valid."""
    with staged(folder, "keys") as stage:
        stage.actor().fire()
        assert stage.gate().verify().completeness == "unknown"
