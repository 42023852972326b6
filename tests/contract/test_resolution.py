"""What a person decides about an Ambiguous action, and what reconcile finds out later."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from interlock import GateConfig
from interlock.errors import InvalidInput, NotResolvable
from interlock.testing.world import GateClock
from tests.crashing import AFTER_SEND, BEFORE_SEND, Actor, Stage, crashes, disagreement, in_doubt, to_the_end
from tests.provider_world import AMOUNT, DAY_S, PROFILES, LookupFault, SendFault, World


def _ambiguous(folder: Path, fault: SendFault, profile: str = "nothing-known-to-end") -> tuple[Stage, Actor]:
    stage = Stage(folder / "journal.db", World(PROFILES[profile]))
    stage.approve(uses=2)
    stage.world.send_faults = [fault]
    actor = stage.actor()
    assert to_the_end(actor).receipt.status == "AMBIGUOUS"
    return stage, actor


def test_a_person_says_that_it_happened(folder: Path) -> None:
    """Committed via resolution, with the person's id and note; the reservation is spent, and nothing is sent."""
    stage, actor = _ambiguous(folder, SendFault.LOST_ANSWER)
    with stage:
        receipt = actor.gate.resolve(actor.key, happened=True, by="user:17", note="it is on the statement").receipt
        assert (receipt.status, receipt.via, receipt.happened) == ("COMMITTED", "resolution", "yes")
        assert (receipt.resolved_by, receipt.resolution_note) == ("user:17", "it is on the statement")
        assert receipt.evidence is None
        approval = actor.gate._driver.journal.find_approval("case-1")
        assert approval is not None
        assert (approval.reserved, list(approval.spent.values())) == ({}, [AMOUNT])
        assert len(stage.world.sent) == 1
        assert actor.gate.verify().valid


def test_a_person_says_that_it_did_not_happen(folder: Path) -> None:
    """Refused behind the person's own door; the reservation is released, and another action may use it."""
    stage, actor = _ambiguous(folder, SendFault.LOST_REQUEST)
    with stage:
        stage.world.advance(60)
        receipt = actor.gate.resolve(actor.key, happened=False, by="user:17", note="asked the bank").receipt
        assert receipt.refusal is not None
        assert (receipt.status, receipt.happened, receipt.refusal.door) == ("REFUSED", "no", "person")
        assert (receipt.resolved_by, receipt.resolution_note) == ("user:17", "asked the bank")
        assert actor.gate.approval("case-1").remaining_minor == AMOUNT
        assert actor.gate.fire("next", stage.world.transfer(), approval="case-1").receipt.status == "COMMITTED"
        assert actor.gate.fire(actor.key, stage.world.transfer(), approval="case-1").receipt.status == "REFUSED"
        assert actor.gate.verify().valid
        assert len(stage.world.ledger) == 1


class SetBackOnceRead(GateClock):
    """A clock that is set back by a day as soon as somebody has read it."""

    def now(self) -> datetime:
        """Return the time."""
        at = super().now()
        self.set_back_s = DAY_S
        return at


def test_a_persons_no_is_no_earlier_than_the_horizon_although_the_clock_was_set_back(folder: Path) -> None:
    """The horizon was past when it was taken, and a record that says less would be taken for one that came too early."""
    stage, actor = _ambiguous(folder, SendFault.LOST_REQUEST)
    with stage:
        stage.world.advance(60)
        gate = stage.gate(clock=SetBackOnceRead(stage.world.clock))
        assert gate.resolve(actor.key, happened=False, by="user:17", note="asked the bank").receipt.status == "REFUSED"
        assert gate.verify().valid


@pytest.mark.parametrize("happened", [True, False])
def test_only_an_ambiguous_action_can_be_resolved(happened: bool, folder: Path) -> None:  # noqa: FBT001 - a parameter of the test
    """Not one in flight, not one that was committed, refused, or resolved before; and nothing is written."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        stage.approve()
        in_doubt(stage, key="in-flight")
        for key, fault in [("committed", None), ("refused", SendFault.DECLINES)]:
            stage.approve(key)
            stage.world.send_faults = [fault]
            stage.actor(key, key).fire()
        gate = stage.gate()
        events = gate.verify().events
        for key in ("in-flight", "committed", "refused"):
            with pytest.raises(NotResolvable, match="not AMBIGUOUS"):
                gate.resolve(key, happened=happened, by="user:17", note="")
        assert gate.verify().events == events


@pytest.mark.parametrize(("by", "note"), [("", "x"), ("a\nb", "x"), (17, "x"), ("user:17", None), ("user:17", "\ud800")])
def test_a_resolution_names_its_person_and_says_why(by: Any, note: Any, folder: Path) -> None:
    """Malformed, nothing is written."""
    stage, actor = _ambiguous(folder, SendFault.LOST_ANSWER)
    with stage:
        with pytest.raises(InvalidInput):
            actor.gate.resolve(actor.key, happened=True, by=by, note=note)
        assert actor.action().status == "AMBIGUOUS"


@pytest.mark.parametrize("fault", list(LookupFault))
def test_a_provider_that_cannot_be_asked_keeps_a_person_from_saying_no(fault: LookupFault, folder: Path) -> None:
    """A failed read is not an absence, whoever says so."""
    stage, actor = _ambiguous(folder, SendFault.LOST_REQUEST, "lookup-roll-unknown")
    with stage:
        stage.world.advance(3600)
        stage.world.lookup_faults = [fault]
        with pytest.raises(NotResolvable):
            actor.gate.resolve(actor.key, happened=False, by="user:17", note="", despite_roll_forward=True)
        assert actor.action().status == "AMBIGUOUS"
        outcome = actor.gate.resolve(actor.key, happened=False, by="user:17", note="", despite_roll_forward=True)
        assert outcome.receipt.status == "REFUSED"


def test_evidence_that_disagrees_is_kept_and_keeps_a_person_from_saying_no(folder: Path) -> None:
    """Something with this action's mark is at the provider: until it is undone there, "it did not happen" is not taken."""
    stage, actor = _ambiguous(folder, SendFault.DISAGREES, "keys-lookup")
    with stage:
        receipt = actor.gate.receipt(actor.key)
        assert receipt.evidence is not None
        assert receipt.evidence.disagreements == (f"amount is {AMOUNT - 1}",)
        stage.world.advance(3600)
        with pytest.raises(NotResolvable):
            actor.gate.resolve(actor.key, happened=False, by="user:17", note="wrong amount")
        assert actor.gate.reconcile(actor.key).outcomes[0].receipt.status == "AMBIGUOUS"
        assert actor.gate.verify().valid
        stage.world.becomes("failed")
        done = actor.gate.resolve(actor.key, happened=False, by="user:17", note="cancelled it")
        assert done.receipt.status == "REFUSED"
        assert actor.gate.verify().valid


def test_reconcile_finds_later_what_nobody_could_know(folder: Path) -> None:
    """A failure that rolled forward after all ends as Committed, with its reservation spent."""
    stage, actor = _ambiguous(folder, SendFault.FAILS_AND_ROLLS_FORWARD, "keys-lookup-roll-unknown")
    with stage:
        assert actor.gate.reconcile().outcomes[0].receipt.status == "AMBIGUOUS"
        stage.world.settle()
        (outcome,) = actor.gate.reconcile().outcomes
        assert (outcome.receipt.status, outcome.receipt.via, outcome.receipt.happened) == ("COMMITTED", "recovery-query", "yes")
        assert actor.gate.approval("case-1").remaining_minor == 0
        assert not actor.gate.reconcile().outcomes
        assert disagreement(stage.world, actor.action()) is None
        assert actor.gate.verify().valid


@pytest.mark.parametrize("fault", list(LookupFault))
def test_reconcile_changes_nothing_when_it_cannot_look(fault: LookupFault, folder: Path) -> None:
    """Absence and failure prove nothing about an action that has ended."""
    stage, actor = _ambiguous(folder, SendFault.FAILS_AND_ROLLS_FORWARD, "keys-lookup-roll-unknown")
    with stage:
        stage.world.settle()
        stage.world.lookup_faults = [fault]
        version = actor.action().version
        assert actor.gate.reconcile().outcomes[0].receipt.status == "AMBIGUOUS"
        assert actor.action().version == version


def test_a_commit_that_failed_later_at_the_provider_is_reported_as_not_happened(folder: Path) -> None:
    """Pending is unknown and wants attention; once the provider has it as failed, reconcile says no; both readings stay."""
    with Stage(folder / "journal.db", World(PROFILES["keys-lookup"])) as stage:
        stage.approve()
        actor = in_doubt(stage, AFTER_SEND)
        stage.world.becomes("pending")
        gate = stage.gate()
        pending = gate.recover(actor.key).outcomes[0].receipt
        assert (pending.status, pending.happened) == ("COMMITTED", "unknown")
        assert [receipt.key for receipt in gate.attention()] == [actor.key]
        stage.world.becomes("failed")
        (outcome,) = gate.reconcile().outcomes
        assert outcome.receipt.evidence is not None
        assert (outcome.receipt.happened, outcome.receipt.evidence.state) == ("no", "failed")
        assert [entry.event for entry in outcome.receipt.timeline].count("Committed") == 2
        assert gate.verify().valid


def test_reconcile_keeps_how_a_commit_was_established(folder: Path) -> None:
    """Newer evidence does not make a first send, or a person's word, into a query."""
    stage, actor = _ambiguous(folder, SendFault.LOST_ANSWER, "nothing-known-to-end")
    with stage:
        actor.gate.resolve(actor.key, happened=True, by="user:17", note="seen")
        stage.world.profile = PROFILES["keys-lookup"]
        receipt = actor.gate.reconcile(actor.key).outcomes[0].receipt
        assert (receipt.via, receipt.resolved_by, receipt.resolution_note) == ("resolution", "user:17", "seen")


@pytest.mark.parametrize("profile", ["keys", "keys-lookup"])
def test_reconcile_of_an_action_in_flight_comes_to_an_answer(profile: str, folder: Path) -> None:
    """An action that has not ended is recovered, or reported as in flight."""
    with Stage(folder / "journal.db", World(PROFILES[profile])) as stage:
        stage.approve()
        actor = stage.actor()
        assert crashes(actor.fire, BEFORE_SEND)
        gate = stage.gate()
        assert gate.reconcile(actor.key).outcomes[0].receipt.status == "IN_FLIGHT"
        actor.die()
        assert gate.reconcile(actor.key).outcomes[0].receipt.status == "COMMITTED"


def test_newer_refusals_do_not_hide_an_older_ambiguity_from_reconcile(folder: Path) -> None:
    """A pass looks at every uncertain ending, however many others want attention."""
    stage, actor = _ambiguous(folder, SendFault.FAILS_AND_ROLLS_FORWARD, "keys-lookup-roll-unknown")
    with stage:
        stage.world.settle()
        stage.config = GateConfig(recover_batch=1)
        for number in range(3):
            stage.approve(f"revoked-{number}")
            stage.revoke()
            stage.world.advance(1)
            stage.actor(f"newer-{number}", f"revoked-{number}").fire()
        stage.gate().reconcile()
        assert actor.action().status == "COMMITTED"
