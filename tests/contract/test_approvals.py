"""Approvals: caps, uses, revocation, reservations, and approvals that live elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from interlock import ExternalApproval, Refused
from interlock.domain import requests
from interlock.domain.action import SendPurpose
from interlock.domain.approvals import Approval
from interlock.errors import InvalidApproval
from interlock.infrastructure.opening import open_journal
from tests.crashing import AFTER_SEND, BEFORE_SEND, Stage, in_doubt, once, staged, to_the_end
from tests.provider_world import AMOUNT, CURRENCY, PROFILES, SendFault, Table


def _code(outcome: Any) -> str | None:
    return outcome.receipt.refusal.code if isinstance(outcome, Refused) and outcome.receipt.refusal else None


def test_the_cap_is_never_exceeded_by_what_is_reserved_and_spent(folder: Path) -> None:
    """Five actions of one amount under a cap for three: three are sent, two are refused."""
    with staged(folder, "keys", uses=5, cap_minor=3 * AMOUNT + 1) as stage:
        gate = stage.gate()
        codes = [_code(gate.fire(f"key-{n}", stage.world.transfer(), approval="case-1")) for n in range(5)]
        assert codes == [None, None, None, "approval_used_up", "approval_used_up"]
        assert [entry.amount_minor for entry in stage.world.ledger] == 3 * [AMOUNT]
        view = gate.approval("case-1")
        assert (view.remaining_minor, view.uses_left) == (1, 2)
        assert gate.verify().valid


def test_an_approval_is_single_use_unless_it_says_otherwise(folder: Path) -> None:
    """What is left of the cap is no second permission."""
    with staged(folder, "keys", cap_minor=10 * AMOUNT) as stage:
        gate = stage.gate()
        assert _code(gate.fire("first", stage.world.transfer(), approval="case-1")) is None
        assert _code(gate.fire("second", stage.world.transfer(), approval="case-1")) == "approval_used_up"
        assert gate.approval("case-1").uses_left == 0


def test_the_same_terms_return_the_same_approval_and_other_terms_are_an_error(folder: Path) -> None:
    """Whatever became of it meanwhile; the recorded terms stay."""
    with staged(folder, "keys") as stage:
        gate = stage.gate()
        terms: dict[str, Any] = {"by": "user:17", "expires_in_s": 60, "cap_minor": AMOUNT, "currency": CURRENCY}
        granted = gate.approve("again", **terms)
        stage.world.advance(30)
        assert gate.approve("again", **terms) == granted
        others: list[dict[str, Any]] = [
            {"by": "user:18"},
            {"expires_in_s": 61},
            {"cap_minor": 1},
            {"currency": "eur"},
            {"uses": 2},
        ]
        for other in others:
            with pytest.raises(InvalidApproval):
                gate.approve("again", **{**terms, **other})
        with pytest.raises(InvalidApproval):
            gate.approve("again", **terms, effect=stage.world.transfer())
        gate.revoke("again", by="user:18")
        assert gate.approve("again", **terms) == replace(granted, revoked_at=stage.world.clock.now())


def test_revoking_twice_changes_nothing(folder: Path) -> None:
    """The first one who takes it back stands in the log."""
    with staged(folder, "keys") as stage:
        gate = stage.gate()
        first = gate.revoke("case-1", by="user:18", note="a mistake")
        stage.world.advance(5)
        assert gate.revoke("case-1", by="user:19") == first


def test_a_revocation_after_the_send_does_not_unsay_what_happened(folder: Path) -> None:
    """It was authorized when it was fired, and it is reported as sent."""
    with staged(folder, "keys-lookup") as stage:
        in_doubt(stage, AFTER_SEND)
        stage.revoke()
        receipt = stage.actor().recover().receipt
        assert (receipt.status, receipt.happened, receipt.authorized_when_fired) == ("COMMITTED", "yes", True)
        view = stage.gate().approval("case-1")
        assert (view.remaining_minor, view.revoked_at) == (0, stage.world.clock.now())


def test_an_ambiguous_action_keeps_its_reservation(folder: Path) -> None:
    """The money may have moved, so nobody else may spend it under that cap."""
    with staged(folder, "nothing", uses=2) as stage:
        stage.world.send_faults = [SendFault.LOST_REQUEST]
        gate = stage.gate()
        assert gate.fire("doubtful", stage.world.transfer(), approval="case-1").receipt.status == "AMBIGUOUS"
        assert gate.approval("case-1").remaining_minor == 0
        assert _code(gate.fire("next", stage.world.transfer(), approval="case-1")) == "approval_used_up"


@pytest.mark.parametrize("fault", [SendFault.DECLINES, SendFault.DECLINES_UNSAVED])
def test_a_refused_action_gives_its_reservation_back(fault: SendFault, folder: Path) -> None:
    """It did not happen, so the approval covers another action."""
    with staged(folder, "keys") as stage:
        stage.world.send_faults = [fault]
        gate = stage.gate()
        assert _code(gate.fire("declined", stage.world.transfer(), approval="case-1")) == "declined:insufficient"
        assert gate.approval("case-1").remaining_minor == AMOUNT
        assert _code(gate.fire("next", stage.world.transfer(), approval="case-1")) is None
        assert gate.verify().valid


def test_an_action_in_flight_holds_its_reservation_against_others_and_not_against_itself(folder: Path) -> None:
    """Another action is refused; the action's own recovery goes on."""
    with staged(folder, "keys") as stage:
        in_doubt(stage)
        gate = stage.gate()
        assert _code(gate.fire("other", stage.world.transfer(), approval="case-1")) == "approval_used_up"
        assert gate.recover("refund:case-1").outcomes[0].receipt.status == "COMMITTED"


def test_an_action_without_money_needs_no_cap(folder: Path) -> None:
    """An approval without a cap covers what moves no money, as often as it says."""
    with staged(folder, "keys") as stage:
        stage.approve("letters", cap_minor=None, currency=None, uses=2)
        effect = replace(stage.world.transfer(), money=None)
        gate = stage.gate()
        codes = [_code(gate.fire(f"letter-{n}", effect, approval="letters")) for n in range(3)]
        assert codes == [None, None, "approval_used_up"]


def test_a_refusal_can_be_superseded_by_a_new_approval(folder: Path) -> None:
    """A refused action is not the end of the case, and the new action's receipt says which one it carries on."""
    with staged(folder, "keys") as stage:
        stage.revoke()
        gate = stage.gate()
        refused = gate.fire("refund:case-1", stage.world.transfer(), approval="case-1")
        assert refused.receipt.refusal is not None
        assert refused.receipt.refusal.possible
        stage.approve("case-1b")
        done = gate.fire("refund:case-1b", stage.world.transfer(), approval="case-1b", supersedes=refused.key)
        assert (done.receipt.status, done.receipt.supersedes) == ("COMMITTED", refused.key)
        assert gate.receipt(refused.key).status == "REFUSED"


# --- approvals that live elsewhere


def _table(stage: Stage, approval_id: str = "row-1", **terms: Any) -> Table:
    table = stage.sources["table"] = Table()
    table.grant(approval_id, until=stage.world.clock.now() + timedelta(hours=1), **terms)
    return table


ROW = ExternalApproval("table", "row-1")


def test_an_external_approval_is_read_and_not_held_and_the_receipt_says_so(folder: Path) -> None:
    """That is weaker, and it shows."""
    with staged(folder, "keys") as stage:
        _table(stage)
        receipt = stage.gate().fire("key", stage.world.transfer(), approval=ROW).receipt
        assert (receipt.status, receipt.approval_id, receipt.approval_held) == ("COMMITTED", "row-1", False)
        assert receipt.checks[0].held_by_journal is False
        assert "not held" in receipt.to_text()
        held = stage.gate().fire("other", stage.world.transfer(), approval="case-1").receipt
        assert (held.approval_held, held.checks[0].held_by_journal) == (True, True)


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_an_external_approval_that_no_longer_stands_refuses(how: str, folder: Path) -> None:
    """As one in the journal does."""
    with staged(folder, "keys") as stage:
        table = _table(stage)
        if how == "revoked":
            table.rows["row-1"] = replace(table.rows["row-1"], live=False)
        else:
            stage.world.advance(3600)
        assert _code(stage.gate().fire("key", stage.world.transfer(), approval=ROW)) == f"approval_{how}"
        assert not stage.world.sent


@pytest.mark.parametrize("spoiled", ["revoked", "missing", "too small"])
def test_an_external_approval_is_read_again_at_recovery(spoiled: str, folder: Path) -> None:
    """Whatever became of the row since, the action is refused behind a closed door, and nothing is sent."""
    with staged(folder, "keys-burn") as stage:
        table = _table(stage)
        in_doubt(stage, BEFORE_SEND, key="key", approval=ROW)
        row = table.rows.pop("row-1")
        if spoiled != "missing":
            table.rows["row-1"] = replace(row, live=spoiled != "revoked", cap_minor=1 if spoiled == "too small" else AMOUNT)
        outcome = stage.gate().recover("key").outcomes[0]
        assert outcome.receipt.status == "REFUSED"
        assert not stage.world.sent


def test_an_external_approval_that_cannot_be_read_at_recovery_ends_nothing(folder: Path) -> None:
    """It is neither a yes nor a no: InFlight until it can be read."""
    with staged(folder, "keys-burn") as stage:
        table = _table(stage)
        in_doubt(stage, BEFORE_SEND, key="key", approval=ROW)
        table.down = True
        gate = stage.gate()
        assert gate.recover("key").outcomes[0].receipt.status == "IN_FLIGHT"
        assert not stage.world.sent
        table.down = False
        assert gate.recover("key").outcomes[0].receipt.status == "COMMITTED"


WRONG_TERMS: dict[str, Any] = {"cap_minor": 2000.0, "by": 17, "live": 1, "expires_at": None, "currency": 840}


@pytest.mark.parametrize("name", WRONG_TERMS)
def test_external_terms_of_a_wrong_type_are_unreadable_and_never_written(name: str, folder: Path) -> None:
    """A table's driver may hand over anything; what could not be read back is not written."""

    class Sloppy(Table):
        def read(self, approval_id: str) -> Any:
            return replace(self.rows[approval_id], **{name: WRONG_TERMS[name]})

    with staged(folder, "keys-burn") as stage:
        table = _table(stage)
        in_doubt(stage, BEFORE_SEND, key="key", approval=ROW)
        sloppy = stage.sources["table"] = Sloppy()
        sloppy.rows = table.rows
        gate = stage.gate()
        assert gate.recover("key").outcomes[0].receipt.status == "IN_FLIGHT"
        assert gate.verify().valid
        gate.close()
        stage.sources["table"] = table
        assert to_the_end(stage.actor("key", ROW)).receipt.status == "COMMITTED"


def test_a_revocation_while_somebody_waits_to_try_again_stops_the_next_try(folder: Path) -> None:
    """Nothing was sent so far, and nothing will be."""
    with staged(folder, "nothing") as stage:
        stage.world.send_faults = [SendFault.RATE_LIMITED]
        actor = stage.actor()
        outcome = actor.fire(interpose=once(requests.SleepUntil, stage.revoke))
        assert _code(outcome) == "approval_revoked"
        assert stage.gate().approval("case-1").remaining_minor == AMOUNT
        assert not stage.world.ledger


@pytest.mark.parametrize("moment", [requests.NewActionId, requests.LoadApproval, requests.Append])
def test_a_revocation_after_the_approval_was_read_with_the_key_stops_the_send(moment: Any, folder: Path) -> None:
    """What was read early is caught by its version, and read again (I3)."""
    with staged(folder, "keys") as stage:
        outcome = stage.actor().fire(interpose=once(moment, stage.revoke))
        assert _code(outcome) == "approval_revoked"
        assert not stage.world.ledger


def _of_another_gate(approval: Approval, at: datetime) -> None:
    """Reserve without a look at how the approval stands, as no gate of ours does."""
    reserved: Any = Approval.Reserved
    event = reserved(
        originator_id=approval.id,
        originator_version=approval.version + 1,
        timestamp=at,
        action_id=f"{approval.version:032x}",
        amount_minor=1,
    )
    event.mutate(approval)
    approval.pending_events.append(event)


@pytest.mark.parametrize("wrong", ["revoked", "expired", "more actions"])
def test_verification_names_a_reservation_that_no_gate_makes(wrong: str, folder: Path) -> None:
    """Every hash is right, and it was reserved after the approval had ended, or once too often."""
    with staged(folder, "keys") as stage, open_journal(stage.url) as journal:
        if wrong == "revoked":
            stage.gate().revoke("case-1", by="user:2")
        approval = journal.find_approval("case-1")
        assert approval is not None
        for _ in range(2 if wrong == "more actions" else 1):
            _of_another_gate(approval, approval.expires_at if wrong == "expired" else stage.world.clock.now())
        journal.append(None, approval)
        (finding,) = stage.gate().verify().findings
        assert finding.kind == "approval"
        assert wrong in finding.words


def test_verification_names_a_send_that_overran_a_revocation(folder: Path) -> None:
    """Every hash is right, and the approval was revoked between the reading that the send goes by and the send."""
    with staged(folder, "keys") as stage, open_journal(stage.url) as journal:
        in_doubt(stage)
        stage.gate().revoke("case-1", by="user:2")
        action = journal.find_action("refund:case-1")
        assert action is not None
        action.dispatch(1, SendPurpose.EXECUTE, action.last_dispatch.checks, PROFILES["keys"], stage.world.clock.now())
        journal.append(action)
        (finding,) = stage.gate().verify().findings
        assert (finding.kind, finding.words) == (
            "approval",
            "it was sent on event 1 of its approval, which had come to event 3",
        )
