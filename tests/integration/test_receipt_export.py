"""An exported receipt is checked without the journal, and says what the journal says."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.errors import InvalidInput, JournalCorrupt
from interlock.evidence.bundles import Bundle
from interlock.evidence.findings import Completeness, FindingKind, Verdict
from interlock.evidence.records import Record
from interlock.evidence.verifying import verify_receipt
from tests.crashing import Stage
from tests.provider_world import PROFILES, SUBJECT, World
from tests.receipt_lab import KEYS, LAB, exported, now_s, one_of_each


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A journal with an action of each status."""
    with one_of_each(tmp_path_factory.mktemp("receipts") / "journal.db") as made:
        yield made


def test_a_payload_that_was_written_anew_is_refused_and_its_raw_bytes_are_accepted(stage: Stage) -> None:
    """Field case 19, stripe/stripe-node#341: a body parsed and dumped before its check is not what was signed."""
    raw = exported(stage, "committed")
    assert verify_receipt(raw.serialize(), LAB.trust).verdict is Verdict.OK
    dumped = json.dumps(json.loads(raw.envelope.payload)).encode()
    assert json.loads(dumped) == json.loads(raw.envelope.payload)
    anew = replace(raw, envelope=replace(raw.envelope, payload=dumped))
    found = verify_receipt(anew.serialize(), LAB.trust)
    assert found.verdict is Verdict.INVALID
    assert FindingKind.SIGNATURE in {finding.kind for finding in found.findings if finding.verdict is Verdict.INVALID}


@pytest.mark.parametrize("key", KEYS)
def test_it_is_checked_without_the_journal(stage: Stage, key: str) -> None:
    """Signature, chain, states, inclusion, witnesses, time and legality hold, and it says what the journal says."""
    found = verify_receipt(exported(stage, key).serialize(), LAB.trust)
    assert found.verdict is Verdict.OK, found.findings
    assert found.claim is not None
    receipt = stage.gate().receipt(key)
    told = (found.claim.status, found.claim.happened, found.claim.via, found.claim.door)
    assert told == (receipt.status, receipt.happened, receipt.via, receipt.refusal.door if receipt.refusal else None)
    assert (found.completeness, found.evidence) == (Completeness.UNKNOWN, "gate-claimed")
    assert found.about is not None
    assert (found.about.key, found.about.subject, found.about.amount_minor) == (key, SUBJECT, receipt.amount_minor)
    assert found.about.reference == (receipt.evidence.reference if receipt.status == "COMMITTED" and receipt.evidence else None)
    assert set(found.states) == {"ok"}
    assert (len(found.witnesses), found.witnesses_known) == (3, 3)
    assert {finding.kind for finding in found.findings if finding.verdict is Verdict.OK} >= {
        FindingKind.SIGNATURE,
        FindingKind.CHAIN,
        FindingKind.STATES,
        FindingKind.INCLUSION,
        FindingKind.LOG_KEY,
        FindingKind.WITNESSES,
        FindingKind.AS_OF,
        FindingKind.TIME,
        FindingKind.LEGALITY,
    }


def test_it_holds_the_events_of_the_action_and_of_its_approval(stage: Stage) -> None:
    """In their order, each with its state as it was stored."""
    records = [Record.parse(one.encode()) for one in exported(stage, "committed").records]
    assert [record.topic.rpartition(".")[2] for record in records] == [
        *("intended", "claimed", "dispatched", "committed"),
        *("granted", "reserved", "spent"),
    ]


def test_a_file_is_read_back_as_it_was(stage: Stage) -> None:
    """Written and read, nothing is different, and what is signed names neither key nor subject."""
    bundle = exported(stage, "committed")
    assert Bundle.parse(bundle.serialize()) == bundle
    signed = bundle.envelope.payload.decode()
    assert not [word for word in ("committed", "acct", "user:17") if word in signed]


@pytest.mark.parametrize(
    ("withhold", "hidden"),
    [(("intended",), 1), (("approval",), 3), (("all",), 7), (("claimed", "dispatched", "granted"), 3)],
    ids=["one", "approval", "all", "several"],
)
def test_what_is_withheld_still_stands_in_the_log(stage: Stage, withhold: tuple[str, ...], hidden: int) -> None:
    """Left-out states are named, and everything else holds."""
    found = verify_receipt(exported(stage, "committed", withhold=withhold).serialize(), LAB.trust)
    assert found.verdict is Verdict.OK, found.findings
    assert (found.states.get("withheld"), found.states.get("ok", 0)) == (hidden, 7 - hidden)
    assert (found.about is None) is bool({"intended", "all"} & set(withhold))
    assert found.claim is not None
    assert found.claim.status == "COMMITTED"


def test_nothing_goes_by_a_name_that_is_none(stage: Stage) -> None:
    """Whoever misspells what is to be withheld is told, and nothing is handed out."""
    with pytest.raises(InvalidInput, match="nothing was signed"):
        exported(stage, "committed", withhold=("intent",))


def test_without_a_checkpoint_it_is_pending(stage: Stage) -> None:
    """Signed, and not in the log yet: it can't be verified, and that is said."""
    found = verify_receipt(exported(stage, "committed", checkpoints={}).serialize(), LAB.trust)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert any(finding.words.startswith("pending: no checkpoint") for finding in found.findings)
    assert found.claim is not None
    assert found.claim.as_of is None


def test_what_came_after_the_checkpoint_is_pending(stage: Stage) -> None:
    """The events that a checkpoint covers are proven, and the others are named."""
    bundle = exported(stage, "committed", checkpoints={4: now_s(stage)})
    found = verify_receipt(bundle.serialize(), LAB.trust)
    assert [event.index for event in found.events] == [1, 2, 3, None, 0, None, None]
    assert found.verdict is Verdict.UNVERIFIABLE
    assert found.claim is not None
    assert found.claim.as_of is not None
    assert (found.claim.events, found.claim.as_of.last_n) == (4, 3)
    assert not [finding for finding in found.findings if finding.verdict is Verdict.INVALID]


def test_an_approval_says_nothing_of_other_actions(tmp_path: Path) -> None:
    """What it reserved and spent for others stands in the log, and not in this receipt."""
    with Stage(tmp_path / "journal.db", World(PROFILES["keys"])) as stage:
        stage.approve("shared", uses=2, cap_minor=100_000)
        for key in ("one", "other"):
            stage.actor(key, "shared").fire()
        bundle = exported(stage, "other")
        found = verify_receipt(bundle.serialize(), LAB.trust)
        other = str(stage.gate().action("one").id.hex)
    assert found.verdict is Verdict.OK, found.findings
    assert found.states == {"ok": 7, "withheld": 2}
    assert other not in bundle.serialize().decode()


@pytest.mark.parametrize("column", ["state", "topic", "leaf_hash", "state_digest"])
def test_what_was_edited_is_not_signed(tmp_path: Path, column: str) -> None:
    """An attestor that signs an edited journal would make it true."""
    with Stage(tmp_path / "journal.db", World(PROFILES["keys"])) as stage:
        stage.approve()
        stage.actor().fire()
        edited = {"state": b"{}", "topic": "interlock.action.refused"}.get(column, bytes(32))
        with closing(sqlite3.connect(stage.path, isolation_level=None)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            statement = f"UPDATE stored_events SET {column} = ? WHERE topic = 'interlock.action.dispatched'"  # noqa: S608 - above
            connection.execute(statement, (edited,))
        with pytest.raises(JournalCorrupt, match="nothing was signed"):
            exported(stage, "refund:case-1")


@pytest.mark.parametrize("key", ["committed", "declined"])
def test_an_erased_action_has_a_receipt(tmp_path: Path, key: str) -> None:
    """It says what became of it, and nothing of what it was about; verification says redacted, and holds."""
    with one_of_each(tmp_path / "journal.db") as stage:
        before = verify_receipt(exported(stage, key).serialize(), LAB.trust).claim
        stage.gate().erase(key, reason="asked for", by="user:9")
        bundle = exported(stage, key)
    found = verify_receipt(bundle.serialize(), LAB.trust)
    assert found.verdict is Verdict.OK, found.findings
    assert (found.states, bundle.states[:4]) == ({"redacted": 4, "ok": 1}, (None,) * 4)
    assert before is not None
    assert found.claim is not None
    assert (found.claim.status, found.claim.happened, found.claim.via) == (before.status, before.happened, before.via)


def test_its_report_is_json(stage: Stage) -> None:
    """All findings as plain values, for another program."""
    found = json.loads(json.dumps(verify_receipt(exported(stage, "declined").serialize(), LAB.trust).to_dict()))
    assert (found["verdict"], found["claim"]["status"], found["claim"]["door"]) == ("ok", "REFUSED", "answered")
    assert {finding["verdict"] for finding in found["findings"]} == {"ok", "note"}
