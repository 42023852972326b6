"""The invariants I1 to I5, about what may be sent, each shown on a real journal and judged by the provider's ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from interlock import Refused
from interlock.domain import requests
from interlock.domain.requests import Request
from interlock.errors import ActionMismatch, JournalUnavailable, PremiseUnreadable
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.sqlite.journal import SQLiteJournal
from tests.crashing import AFTER_SEND, BEFORE_SEND, Stage, crashes, in_doubt, once, staged, to_the_end
from tests.journals import present
from tests.provider_world import AMOUNT, DAY_S, HOUR_S, PROFILES, SUBJECT, UNKNOWN_FAULTS, ObserveFault, SendFault


def _rows(stage: Stage) -> list[tuple[str, int, str]]:
    return present.journals.log(stage.path)


# --- I1


@pytest.mark.parametrize("fault", [None, *UNKNOWN_FAULTS, SendFault.RATE_LIMITED], ids=lambda f: f.name if f else "none")
@pytest.mark.parametrize("profile", PROFILES)
def test_i1_nothing_is_sent_before_a_dispatched_for_that_very_send_is_durable(
    profile: str, fault: SendFault | None, folder: Path
) -> None:
    """At each write to the provider, another connection reads a Dispatched of its own number and key from the journal."""
    with staged(folder, profile) as stage, open_journal(stage.url) as witness:
        stage.world.send_faults = [fault, fault]
        actor, sends = stage.actor(), 0

        def durable(request: Request[Any]) -> None:
            nonlocal sends
            if isinstance(request, requests.Send):
                sends += 1
                action = witness.find_action(actor.key)
                assert action is not None
                last = action.last_dispatch
                assert last is action.history[-1]
                assert (last.send, last.idempotency_key) == (sends, request.idempotency_key)

        actor.fire(interpose=durable)
        assert sends >= 1


def test_i1_what_could_not_be_dispatched_is_not_sent(folder: Path) -> None:
    """A journal that fails at the first commit sends nothing, and the key is not used up."""
    with staged(folder, "keys") as stage:
        actor = stage.actor()
        with pytest.raises(JournalUnavailable):
            actor.fire(interpose=once(requests.Append, _full))
        assert not stage.world.sent
        assert not actor.exists()
        assert actor.fire().receipt.status == "COMMITTED"


def _full() -> None:
    raise JournalUnavailable("the disk is full")


@pytest.mark.sqlite_only
def test_i1_the_journal_commits_to_the_disk(folder: Path) -> None:
    """Every connection waits for the disk: a commit that a power cut can undo would let a second send through."""
    with SQLiteJournal(f"sqlite:///{folder}/journal.db") as journal, cast("Any", journal._recorder).datastore.reading() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone()[0] == 2


# --- I2


@pytest.mark.parametrize("profile", PROFILES)
def test_i2_firing_again_and_again_has_one_effect(profile: str, folder: Path) -> None:
    """The same key is the same action, for ever, whoever fires it."""
    with staged(folder, profile) as stage:
        outcomes = [to_the_end(stage.actor()) for _ in range(3)]
        stage.world.advance(60 * DAY_S)
        outcomes.append(to_the_end(stage.actor()))
        assert {outcome.receipt.status for outcome in outcomes} == {"COMMITTED"}
        assert len(stage.world.ledger) == len(stage.world.sent) == 1


@pytest.mark.parametrize("profile", ["keys", "keys-lookup", "keys-burn", "keys-lookup-burn-roll-unknown"])
def test_i2_a_key_is_not_sent_again_once_its_window_is_over(profile: str, folder: Path) -> None:
    """Past the window the provider may have forgotten the key, so it would not dedupe a second send."""
    with staged(folder, profile) as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(DAY_S - stage.world.profile.dedupe_margin_s)
        to_the_end(stage.actor())
        assert [sent.idempotency_key[-2:] for sent in stage.world.sent] == ["-1"]
        assert len(stage.world.ledger) == 1


def test_i2_the_window_is_judged_again_right_before_the_write(folder: Path) -> None:
    """A recoverer that was stopped between its decision and its write does not use a key that ran out meanwhile."""
    with staged(folder, "keys") as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(DAY_S - stage.world.profile.dedupe_margin_s - 1)
        actor = stage.actor()
        outcome = actor.recover(interpose=once(requests.StillAt, lambda: stage.world.advance(2)))
        assert outcome.receipt.status == "IN_FLIGHT"
        assert len(stage.world.sent) == 1
        assert to_the_end(actor).receipt.status == "AMBIGUOUS"


def test_i2_a_key_under_which_the_provider_stored_a_failure_counts_as_used(folder: Path) -> None:
    """A stored failure would only be replayed: a new key is used, and not before the horizon."""
    with staged(folder, "keys-lookup") as stage:
        stage.world.send_faults = [SendFault.FAILS]
        actor = stage.actor()
        first = actor.fire()
        assert first.receipt.status == "IN_FLIGHT"
        assert to_the_end(actor).receipt.attempts == 2
        assert len(stage.world.ledger) == 1


# --- I3


def test_i3_the_reservation_stands_in_the_same_transaction_as_dispatched(folder: Path) -> None:
    """There is no moment at which one is durable without the other."""
    with staged(folder, "keys") as stage, open_journal(stage.url) as witness:
        actor = stage.actor()
        seen = []

        def reserved(request: Request[Any]) -> None:
            action, approval = witness.find_action(actor.key), witness.find_approval("case-1")
            assert approval is not None
            holds = action.id.hex in (*approval.reserved, *approval.spent) if action else False
            seen.append((bool(action and action.dispatches), holds))
            del request

        actor.fire(interpose=reserved)
        assert set(seen) == {(False, False), (True, True)}


def test_i3_a_revocation_is_strictly_before_or_strictly_after_the_send(folder: Path) -> None:
    """Revoked at any request of fire: refused with nothing sent up to the first commit, committed from there on."""
    with staged(folder, "keys", uses=1) as stage:
        stage.approve("whole")
        whole = stage.actor("whole", "whole")
        whole.fire()
        commit = whole.kinds().index("Append")
        for index in range(len(whole.trace)):
            stage.approve(f"case-{index}")
            actor = stage.actor(f"revoked-at-{index}", f"case-{index}")
            outcome = actor.fire(interpose=_at(index, stage.revoke))
            wanted = ("REFUSED", 0) if index <= commit else ("COMMITTED", 1)
            assert (outcome.receipt.status, len(stage.world.sends_of(actor.action().id))) == wanted, index


def _at(index: int, do: Any) -> Any:
    count = -1

    def interpose(request: Request[Any]) -> None:
        nonlocal count
        del request
        count += 1
        if count == index:
            do()

    return interpose


def test_i3_two_actions_at_once_never_exceed_the_cap(folder: Path) -> None:
    """Another action takes the cap at any request of the first: exactly one of them is sent."""
    with staged(folder, "keys") as stage:
        stage.approve("whole")
        whole = stage.actor("whole", "whole")
        whole.fire()
        for index in range(whole.kinds().index("Append") + 1):
            stage.approve(f"approval-{index}", uses=2)
            first = stage.actor(f"first-{index}", f"approval-{index}")
            second = stage.actor(f"second-{index}", f"approval-{index}")
            outcome = first.fire(interpose=_at(index, second.fire))
            assert isinstance(outcome, Refused)
            assert outcome.receipt.refusal is not None
            assert outcome.receipt.refusal.code == "approval_used_up"
            assert second.action().status == "COMMITTED"
            assert not stage.world.sends_of(first.action().id)


def test_i3_an_approval_that_expired_after_it_was_reserved_fails_the_recheck(folder: Path) -> None:
    """The action's own reservation does not count against it, but time does."""
    with staged(folder, "keys-burn", expires_in_s=100) as stage:
        in_doubt(stage)
        stage.world.advance(50)
        second = stage.actor()
        assert crashes(second.recover, BEFORE_SEND)
        second.die()
        stage.world.advance(50)
        receipt = stage.actor().recover().receipt
        assert receipt.refusal is not None
        assert receipt.refusal.code == "approval_expired"
        assert not stage.world.ledger


def test_i3_nothing_is_sent_under_an_approval_that_expired_while_its_sender_was_paused(folder: Path) -> None:
    """A pause before any request of fire, past the expiry: not sent up to the send itself, and committed after it."""
    with staged(folder, "keys") as stage:
        stage.approve("whole")
        whole = stage.actor("whole", "whole")
        whole.fire()
        send = whole.kinds().index("Send")
        for index in range(len(whole.trace)):
            stage.approve(f"expiring-{index}", expires_in_s=100)
            actor = stage.actor(f"paused-at-{index}", f"expiring-{index}")
            actor.fire(interpose=_at(index, lambda: stage.world.advance(100)))
            wanted = ("REFUSED", 0) if index <= send else ("COMMITTED", 1)
            assert (to_the_end(actor).receipt.status, len(stage.world.sends_of(actor.action().id))) == wanted, index


# --- I4


def test_i4_premises_and_approval_are_read_before_every_send(folder: Path) -> None:
    """First send, tries of what was not sent, resends and new keys: each has its own readings, newer than the last send."""
    with staged(folder, "keys-lookup") as stage:
        premise = stage.world.observe(SUBJECT)
        stage.world.send_faults = [SendFault.RATE_LIMITED, SendFault.FAILS]
        actor = stage.actor(premises=(premise,))
        kinds: list[str] = []
        outcome = actor.fire()
        kinds += actor.kinds()
        while outcome.receipt.status == "IN_FLIGHT":
            stage.world.advance(30)
            outcome = actor.fire()
            kinds += actor.kinds()
        assert kinds.count("Send") == 4
        for send in (index for index, kind in enumerate(kinds) if kind == "Send"):
            since = kinds[:send][::-1]
            earlier = since.index("Send") if "Send" in since else len(since)
            assert "ReadPremises" in since[:earlier]
            assert "LoadApproval" in since[:earlier]


@pytest.mark.parametrize("fault", list(ObserveFault))
@pytest.mark.parametrize("profile", PROFILES)
def test_i4_a_failed_or_empty_read_at_recovery_sends_and_ends_nothing(profile: str, fault: ObserveFault, folder: Path) -> None:
    """What can't be read is neither unchanged nor changed: InFlight, until it can be."""
    with staged(folder, profile) as stage:
        premise = stage.world.observe(SUBJECT)
        in_doubt(stage, premises=(premise,))
        stage.world.advance(DAY_S * 2)
        stage.world.observe_faults = [fault]
        actor = stage.actor(premises=(premise,))
        assert actor.recover().receipt.status == "IN_FLIGHT"
        assert not stage.world.sent


def test_i4_an_empty_read_is_not_unchanged_for_any_policy(folder: Path) -> None:
    """Whatever the policy would make of it: nothing read is nothing known."""
    with staged(folder, "keys") as stage:
        premise = replace(stage.world.observe(SUBJECT), policy="strict")
        stage.world.observe_faults = [ObserveFault.EMPTY]
        gate = stage.gate()
        with pytest.raises(PremiseUnreadable):
            gate.fire("key", stage.world.transfer(), approval="case-1", premises=[premise])
        assert not stage.world.sent


def test_i4_a_premise_that_changes_while_a_send_is_retried_stops_it(folder: Path) -> None:
    """A request that was not sent is not sent later on facts that no longer hold."""
    with staged(folder, "keys") as stage:
        stage.world.send_faults = [SendFault.RATE_LIMITED]
        actor = stage.actor(premises=(stage.world.observe(SUBJECT),))
        outcome = actor.fire(interpose=once(requests.SleepUntil, lambda: setattr(stage.world.provider, "state", "closed")))
        assert outcome.receipt.refusal is not None
        assert (outcome.receipt.refusal.code, outcome.receipt.refusal.door) == ("premise_conflicting", "nothing-sent")
        assert not stage.world.ledger


def test_i4_premises_are_read_again_behind_the_closed_door(folder: Path) -> None:
    """What changes while the door is being closed keeps a new key from being used."""
    with staged(folder, "lookup") as stage:
        premise = stage.world.observe(SUBJECT)
        in_doubt(stage, premises=(premise,))
        stage.world.advance(HOUR_S)
        actor = stage.actor(premises=(premise,))
        closes = once(requests.LookUp, lambda: setattr(stage.world.provider, "state", "closed"), nth=2)
        receipt = actor.recover(interpose=closes).receipt
        assert receipt.refusal is not None
        assert (receipt.refusal.code, receipt.refusal.door) == ("premise_conflicting", "horizon")
        assert not stage.world.sent


# --- I5


def test_i5_another_effect_under_a_used_key_is_an_error_and_changes_nothing(folder: Path) -> None:
    """Whether the action has ended, is in flight, or is being fired at this moment."""
    with staged(folder, "keys") as stage:
        actor = stage.actor()
        assert crashes(actor.fire, BEFORE_SEND)
        actor.die()
        gate = stage.gate()
        for _ in range(2):
            before = _rows(stage)
            with pytest.raises(ActionMismatch):
                gate.fire(actor.key, stage.world.transfer(AMOUNT - 1), approval="case-1")
            with pytest.raises(ActionMismatch):
                gate.propose(actor.key, stage.world.transfer(AMOUNT - 1), approval="case-1")
            assert _rows(stage) == before
            assert gate.fire(actor.key, stage.world.transfer(), approval="case-1").receipt.status == "COMMITTED"
        assert [entry.amount_minor for entry in stage.world.ledger] == [AMOUNT]


def test_i5_two_effects_at_once_under_one_key_are_one_action(folder: Path) -> None:
    """Whoever writes first fixes the effect; the other one hears that it is another."""
    with staged(folder, "keys") as stage:
        first, second = stage.actor(), stage.actor()

        def other() -> None:
            second.gate.fire(second.key, stage.world.transfer(AMOUNT - 1), approval="case-1")

        with pytest.raises(ActionMismatch):
            first.fire(interpose=once(requests.Append, other))
        assert [entry.amount_minor for entry in stage.world.ledger] == [AMOUNT - 1]


def test_i5_recovery_sends_the_recorded_effect(folder: Path) -> None:
    """It is rebuilt from the journal alone, by a process that was never told of it."""
    with staged(folder, "keys") as stage:
        dead = in_doubt(stage)
        assert stage.gate().recover().outcomes[0].receipt.status == "COMMITTED"
        assert stage.world.sent[0].parameters == stage.world.transfer().parameters
        assert stage.world.ledger[0].action_id == stage.actor(dead.key).action().id
