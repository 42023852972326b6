"""Receipts: every field, for each status; the rows that find them; pages, filters and attention."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from interlock import Receipt, Receipts
from interlock.domain import requests
from interlock.errors import JournalCorrupt
from tests.crashing import AFTER_SEND, BEFORE_SEND, Actor, CrashAt, Stage, When, crashes, in_doubt
from tests.journals import Row, present
from tests.provider_world import AMOUNT, CURRENCY, PROFILES, START, SUBJECT, SendFault, World

STATUSES = ("COMMITTED", "REFUSED", "AMBIGUOUS", "IN_FLIGHT")


def _actor(stage: Stage, key: str, fault: SendFault | None = None, **terms: Any) -> Actor:
    stage.approve(key, **terms)
    stage.world.send_faults = [fault] if fault else []
    return stage.actor(key, key, premises=(stage.world.observe(SUBJECT),))


def _one_of_each(stage: Stage) -> dict[str, Receipt]:
    """Bring one action to each status, a minute apart."""
    for key, fault in [("committed", None), ("declined", SendFault.DECLINES), ("doubtful", SendFault.LOST_ANSWER)]:
        _actor(stage, key, fault).fire()
        stage.world.advance(60)
    flying = _actor(stage, "flying")
    assert crashes(flying.fire, BEFORE_SEND)
    flying.die()
    stage.world.advance(1)
    gate = stage.gate()
    keys = {"COMMITTED": "committed", "REFUSED": "declined", "AMBIGUOUS": "doubtful", "IN_FLIGHT": "flying"}
    return {status: gate.receipt(key) for status, key in keys.items()}


@pytest.mark.parametrize("status", STATUSES)
def test_a_receipt_has_every_field(status: str, folder: Path) -> None:
    """Key, status, effect, approval, what was authorized and assumed, checks, timeline; and nothing is claimed to be verified."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        receipt = _one_of_each(stage)[status]
        assert receipt.status == status
        assert (receipt.target, receipt.subject, receipt.amount_minor, receipt.currency) == ("world", SUBJECT, AMOUNT, CURRENCY)
        assert json.loads(receipt.parameters_json) == {"account": SUBJECT, "amount_minor": AMOUNT, "currency": CURRENCY}
        assert receipt.fingerprint.startswith("sha256:")
        assert (receipt.approval_id, receipt.approval_held) == (receipt.key, True)
        assert (receipt.authorized_when_fired, receipt.assumptions_held) == (True, True)
        assert (receipt.attempts, receipt.sends) == (1, 1)
        assert [entry.event for entry in receipt.timeline][:3] == ["Intended", "Claimed", "Dispatched"]
        assert [(check.what.split()[0], check.state) for check in receipt.checks[:2]] == [
            ("approval", "live"),
            ("premise", "unchanged"),
        ]
        assert (receipt.valid, receipt.signed, receipt.signed_by) == (None, None, None)
        assert (receipt.supersedes, receipt.decision_json, receipt.resolved_by) == (None, None, None)


def test_a_receipt_says_what_happened_as_far_as_it_is_known(folder: Path) -> None:
    """Yes with the evidence, no with the reason, unknown with the reason why nobody knows."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        receipts = _one_of_each(stage)
        done, refused, doubtful, flying = (receipts[status] for status in STATUSES)
        assert (done.happened, done.via) == ("yes", "first-send")
        assert done.evidence is not None
        assert (done.evidence.reference, done.evidence.state, done.evidence.replayed) == ("tx_1", "succeeded", False)
        assert (refused.happened, refused.via, refused.evidence) == ("no", None, None)
        assert refused.refusal is not None
        assert (refused.refusal.code, refused.refusal.at_recovery, refused.refusal.door) == (
            "declined:insufficient",
            False,
            "answered",
        )
        assert refused.refusal.words
        assert (doubtful.happened, doubtful.evidence) == ("unknown", None)
        assert doubtful.ambiguity
        assert (flying.happened, flying.refusal, flying.ambiguity) == ("unknown", None, None)


def test_nothing_is_authorized_or_assumed_where_nothing_was_fired(folder: Path) -> None:
    """Both are null on a refusal before the first send."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        actor = _actor(stage, "refused")
        stage.revoke()
        receipt = actor.fire().receipt
        assert (receipt.authorized_when_fired, receipt.assumptions_held) == (None, None)
        assert (receipt.attempts, receipt.sends, receipt.happened) == (0, 0, "no")
        assert [entry.event for entry in receipt.timeline] == ["Intended", "Refused"]


def test_a_replayed_answer_and_a_recovery_stand_on_the_receipt(folder: Path) -> None:
    """Whether the provider replayed it, who took over and why, and that a refusal came at recovery."""
    with Stage(folder / "journal.db", World(PROFILES["keys-burn"])) as stage:
        stage.approve()
        in_doubt(stage, AFTER_SEND)
        done = stage.actor().recover().receipt
        assert done.evidence is not None
        assert (done.via, done.evidence.replayed, done.sends) == ("retry-idempotent", True, 2)
        assert "holder gone: term 2" in done.timeline[3].words
        stage.approve("revoked")
        in_doubt(stage, key="revoked", approval="revoked")
        stage.revoke()
        refused = stage.actor("revoked", "revoked").recover().receipt
        assert refused.refusal is not None
        assert (refused.refusal.at_recovery, refused.refusal.door) == (True, "burned")
        assert (refused.authorized_when_fired, refused.checks[-1].state) == (True, "revoked")


def test_a_compatible_change_stands_on_the_receipt(folder: Path) -> None:
    """Somebody else took something meanwhile, and there was still room: it goes on, and says so."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        actor = _actor(stage, "compatible")
        stage.world.by_hand(500)
        receipt = actor.fire().receipt
        assert (receipt.status, receipt.assumptions_held) == ("COMMITTED", True)
        assert (receipt.checks[1].state, receipt.checks[1].words) == ("compatible", "tx_1 took 500")
        assert len(stage.world.ledger) == 2


def test_a_duplicate_refuses_and_says_what_would_still_be_possible(folder: Path) -> None:
    """Somebody did the same by hand, under the same case."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        actor = _actor(stage, "duplicate")
        stage.world.by_hand(AMOUNT, case="duplicate")
        refusal = actor.fire().receipt.refusal
        assert refusal is not None
        assert refusal.code == "premise_duplicate"
        assert "by hand" in refusal.words
        assert refusal.possible
        assert len(stage.world.ledger) == 1


@pytest.mark.parametrize("status", STATUSES)
def test_a_receipt_reads_the_same_as_json_and_as_text(status: str, folder: Path) -> None:
    """JSON holds every field in plain values; the text names key, status and each event."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        receipt = _one_of_each(stage)[status]
        value = json.loads(receipt.to_json(indent=2))
        assert value == receipt.to_dict()
        assert set(value) == {field.name for field in fields(Receipt)}
        assert value["timeline"][0]["at"].startswith("2026-03-01T12:0")
        text = receipt.to_text()
        assert f"{status}  {receipt.key}" in text
        assert all(entry.event in text for entry in receipt.timeline)
        assert "not verified" in text
        assert receipt.verified(valid=True).valid is True


# --- rows


def _rows(stage: Stage) -> list[Row]:
    return present.journals.rows(stage.path, "receipts")


def test_the_rows_are_written_in_the_events_own_transaction(folder: Path) -> None:
    """Dying right after the first commit leaves the row; dying right before it leaves nothing."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        before = _actor(stage, "before")
        assert crashes(before.fire, CrashAt(requests.Append, When.BEFORE))
        assert _rows(stage) == []
        after = _actor(stage, "after")
        assert crashes(after.fire, CrashAt(requests.Append, When.AFTER))
        (row,) = _rows(stage)
        assert (row["key"], row["status"], row["version"]) == ("after", "IN_FLIGHT", 3)


def test_dropped_rows_are_derived_again_from_the_events(folder: Path) -> None:
    """The same rows, byte by byte; and a row that was falsified is found and put right."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        _one_of_each(stage)
        rows = _rows(stage)
        assert len(rows) == 4
        gate = stage.gate()
        for damage in ("DELETE FROM receipts", "UPDATE receipts SET status = 'REFUSED', amount_minor = 1"):
            present.journals.edit(stage.path, damage)
            assert not gate.verify().valid
            assert gate._driver.journal.rebuild_summaries() == 4
            assert _rows(stage) == rows
            assert gate.verify().valid


def test_a_reader_needs_no_target_and_no_claim(folder: Path) -> None:
    """What a gate wrote is read by somebody who knows no provider, while the gate is open."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        receipts = _one_of_each(stage)
        holders = present.journals.holders(stage.path)
        with Receipts.open(stage.url) as reader:
            assert reader.receipt("committed") == receipts["COMMITTED"]
            assert len(reader.receipts().receipts) == 4
            assert reader.verify().valid
            assert reader.verify("flying").valid
            assert present.journals.holders(stage.path) == holders


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_pages_hold_every_receipt_once_newest_first(size: int, folder: Path) -> None:
    """However long a page is, and none follows the last."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        _one_of_each(stage)
        gate, keys, after = stage.gate(), [], None
        while True:
            page = gate.receipts(limit=size, after=after)
            assert 0 < len(page.receipts) <= size
            keys += [receipt.key for receipt in page.receipts]
            after = page.next_page
            if after is None:
                break
        assert keys == ["flying", "doubtful", "declined", "committed"]


@pytest.mark.parametrize("zone", [timezone.utc, timezone(timedelta(hours=9)), timezone(timedelta(hours=-8))])  # noqa: UP017 - one of three zones
def test_receipts_are_found_by_what_a_person_asks_for(zone: timezone, folder: Path) -> None:
    """Status, approval, target, amount, and time in whatever zone it is given."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        _one_of_each(stage)
        gate = stage.gate()

        def keys(**conditions: Any) -> list[str]:
            return [receipt.key for receipt in gate.receipts(**conditions).receipts]

        assert [keys(status=status) for status in STATUSES] == [["committed"], ["declined"], ["doubtful"], ["flying"]]
        assert keys(approval="doubtful") == ["doubtful"]
        assert keys(target="nowhere") == []
        assert len(keys(target="world", min_amount_minor=AMOUNT, max_amount_minor=AMOUNT)) == 4
        assert keys(min_amount_minor=AMOUNT + 1) == keys(max_amount_minor=AMOUNT - 1) == []
        minute = (START + timedelta(minutes=1)).astimezone(zone)
        assert keys(since=minute) == ["flying", "doubtful", "declined"]
        assert keys(until=minute) == ["committed"]
        assert keys(since=minute, until=minute + timedelta(seconds=1)) == ["declined"]


def test_attention_lists_what_a_person_has_to_look_at(folder: Path) -> None:
    """Ambiguous, refused with a way forward, not final at the provider, and in flight with nobody at work on it."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        _one_of_each(stage)
        gate = stage.gate()
        assert {receipt.key for receipt in gate.attention()} == {"declined", "doubtful"}
        stage.world.advance(41)
        assert {receipt.key for receipt in gate.attention()} == {"declined", "doubtful", "flying"}
        gate.resolve("doubtful", happened=True, by="user:1", note="seen")
        gate.recover()
        assert {receipt.key for receipt in gate.attention()} == {"declined", "flying"}
        assert gate.receipt("flying").status == "AMBIGUOUS"


def test_recover_reports_what_it_leaves_alone(folder: Path) -> None:
    """An action of a target that is not registered here is named, and left for somebody who knows it."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        stage.approve()
        in_doubt(stage)
        report = stage.gate(targets=[World(PROFILES["keys"], "another")]).recover()
        assert not report.outcomes
        assert list(report.skipped) == ["refund:case-1"]
        assert stage.gate().recover().outcomes[0].receipt.status == "COMMITTED"


def test_one_action_that_cannot_be_read_does_not_keep_the_others_waiting(folder: Path) -> None:
    """It is reported with its error, and every other one is recovered, older or newer."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        for key in ("older", "spoiled", "newer"):
            stage.approve(key)
            in_doubt(stage, key=key, approval=key)
            stage.world.advance(1)
        spoiled = stage.actor("spoiled").action().id.hex
        spoil = f"UPDATE stored_events SET state = '{{}}' WHERE originator_id = '{spoiled}'"  # noqa: S608 - our own id
        assert present.journals.edit(stage.path, spoil) > 0
        gate = stage.gate()
        report = gate.recover()
        assert {outcome.key for outcome in report.outcomes} == {"older", "newer"}
        assert len(report.failed) == 1
        assert {gate.receipt(key).status for key in ("older", "newer")} == {"COMMITTED"}


@pytest.mark.parametrize("removed", ["originator_version = 1", "originator_version = 2", "originator_version > 0"])
def test_an_action_whose_events_are_gone_is_an_error_of_the_journal(removed: str, folder: Path) -> None:
    """It is never fired again under its key, nor for ever in vain, and no page of receipts fails because of it."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        for key in ("spoiled", "other"):
            stage.approve(key)
            assert stage.actor(key, approval=key).fire().receipt.status == "COMMITTED"
        spoiled = stage.actor("spoiled").action().id.hex
        remove = f"DELETE FROM stored_events WHERE originator_id = '{spoiled}' AND {removed}"  # noqa: S608 - our own id
        assert present.journals.edit(stage.path, remove) > 0
        gate = stage.gate()
        with pytest.raises(JournalCorrupt, match="interlock verify"):
            gate.fire("spoiled", stage.world.transfer(), approval="other")
        assert len(stage.world.ledger) == 2
        assert {(receipt.key, receipt.valid) for receipt in gate.receipts().receipts} == {("other", None), ("spoiled", False)}
