"""Erasure: what an action was about is given up; that it was, and how it ended, is not; and its key stays taken."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from interlock import Receipts
from interlock.domain import requests
from interlock.domain.requests import Request
from interlock.errors import (
    ActionErased,
    ApprovalErased,
    ApprovalNotUsable,
    InvalidInput,
    JournalError,
    NotErasable,
    UnknownAction,
    UnknownApproval,
)
from interlock.projections.verification import FindingKind
from interlock.requests import ForgetStates
from tests.crashing import BEFORE_SEND, Actor, Stage, crashes
from tests.gates import drive
from tests.journals import present
from tests.provider_world import PROFILES, SUBJECT, SendFault, World


def _fired(stage: Stage, key: str, fault: SendFault | None = None) -> Actor:
    stage.approve(f"case-{key}")
    stage.world.send_faults = [fault] if fault else []
    actor = stage.actor(key, f"case-{key}", premises=(stage.world.observe(SUBJECT),))
    actor.fire()
    return actor


@pytest.mark.parametrize(("fault", "status"), [(None, "COMMITTED"), (SendFault.DECLINES, "REFUSED")])
def test_what_is_left_of_an_erased_action(folder: Path, fault: SendFault | None, status: str) -> None:
    """How it ended and that it was erased; nothing of its key, subject, amount, approval, checks or evidence."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        _fired(stage, "anna-schmidt", fault)
        _fired(stage, "another")
        gate = stage.gate()
        before = gate.receipt("anna-schmidt")
        left = gate.erase("anna-schmidt", reason="subject_request", by="user:19")
        assert (left.status, left.happened, left.via, left.target) == (status, before.happened, before.via, "world")
        assert (left.key, left.subject, left.amount_minor, left.currency, left.approval_id) == ("", "", None, None, "")
        assert (left.evidence, left.checks, left.decision_json) == (None, (), None)
        assert left.erased_at is not None
        assert left.timeline[0].words == "subject_request (by user:19)"
        assert gate.receipt("anna-schmidt") == left
        assert "erased" in left.to_text()
        verification = gate.verify()
        assert (verification.findings, verification.redacted) == ((), len(before.timeline))
        assert gate.verify("anna-schmidt").valid
        states = [row["state"] for row in present.journals.rows(path, "stored_events") if _is_of(row, left.action_id)]
        assert [state is None for state in states] == [True] * len(before.timeline) + [False]
        assert gate.receipt("another").happened == "yes"


def _is_of(row: dict[str, Any], action_id: str) -> bool:
    return str(row["originator_id"]).replace("-", "") == action_id


def test_an_erased_action_still_holds_its_key(folder: Path) -> None:
    """Firing, proposing, recovering, resolving or reconciling it says that it was erased, and sends nothing."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        actor = _fired(stage, "anna-schmidt")
        gate = stage.gate()
        gate.erase("anna-schmidt", reason="subject_request", by="user:19")
        sent = len(stage.world.ledger)
        stage.approve("another-case")
        again = stage.actor("anna-schmidt", "another-case")
        effect = stage.world.transfer()
        tries = [
            actor.fire,
            again.fire,
            lambda: gate.propose("anna-schmidt", effect, approval="another-case"),
            lambda: gate.recover("anna-schmidt"),
            lambda: gate.reconcile("anna-schmidt"),
            lambda: gate.resolve("anna-schmidt", happened=False, by="user:1", note="x"),
            lambda: gate.action("anna-schmidt"),
        ]
        for attempt in tries:
            with pytest.raises(ActionErased) as caught:
                cast("Callable[[], object]", attempt)()
            assert caught.value.status == "COMMITTED"
        assert len(stage.world.ledger) == sent
        assert gate.recover().failed == gate.reconcile().failed == {}


def test_erasing_twice_changes_nothing(folder: Path) -> None:
    """The second time finds it erased."""
    with Stage(folder / "journal.db", World(PROFILES["keys"])) as stage:
        _fired(stage, "anna-schmidt")
        gate = stage.gate()
        first = gate.erase("anna-schmidt", reason="subject_request", by="user:19")
        assert gate.erase("anna-schmidt", reason="another", by="user:20") == first
        assert gate.verify().valid


def test_lists_and_followers_go_on(folder: Path) -> None:
    """Pages, filters and attention show the erased one without what is gone; a follower reads on; rows can be derived again."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        _fired(stage, "anna-schmidt")
        _fired(stage, "another")
        gate = stage.gate()
        gate.erase("anna-schmidt", reason="subject_request", by="user:19")
        assert {receipt.key for receipt in gate.receipts().receipts} == {"", "another"}
        assert [receipt.key for receipt in gate.receipts(approval="case-another").receipts] == ["another"]
        assert gate.receipts(approval="case-anna-schmidt").receipts == ()
        assert gate.attention() == ()
        with Receipts.open(stage.url) as reader:
            events = [event for batch in reader.follow(wait=False) for event in batch.events]
            receipts = [event.receipt() for event in events if event.topic.startswith("interlock.action")]
            assert {receipt.key for receipt in receipts if receipt is not None} == {"", "another"}
            hidden = [event for event in events if event.decode() is None]
            assert len(hidden) == 4
            rows = present.journals.rows(path, "receipts")
            reader._journal.rebuild_summaries()
            assert present.journals.rows(path, "receipts") == rows
            assert reader.verify().valid


def test_what_is_not_at_its_end_is_not_erased(folder: Path) -> None:
    """In flight, ambiguous, or pending at the provider: what it says is still needed, and nothing is written."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["nothing"])) as stage:
        _fired(stage, "doubtful", SendFault.LOST_ANSWER)
        stage.approve("flying")
        flying = stage.actor("flying", "flying")
        assert crashes(flying.fire, BEFORE_SEND)
        gate = stage.gate()
        log = present.journals.log(path)
        for key in ("doubtful", "flying"):
            with pytest.raises(NotErasable):
                gate.erase(key, reason="subject_request", by="user:19")
        with pytest.raises(UnknownAction):
            gate.erase("nobody", reason="subject_request", by="user:19")
        for bad in ({"reason": "", "by": "u"}, {"reason": "r", "by": ""}, {"reason": "two\nlines", "by": "u"}):
            with pytest.raises(InvalidInput):
                gate.erase("doubtful", **bad)
        assert present.journals.log(path) == log


def test_nothing_is_forgotten_before_the_erasure_is_durable(folder: Path) -> None:
    """Killed before it was written, nothing is gone; killed after, `verify` says so, and saying it again ends it."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        _fired(stage, "anna-schmidt")
        for kind, marked in ((requests.Append, False), (ForgetStates, True)):
            gate = stage.gate()
            part = gate._operations.erase("anna-schmidt", "subject_request", "user:19")
            with pytest.raises(_Killed):
                drive(gate, part, _killed_before(gate, kind))
            verification = stage.gate().verify()
            assert verification.redacted == 0
            assert all(row["state"] is not None for row in present.journals.rows(path, "stored_events"))
            assert {finding.kind for finding in verification.findings} == ({FindingKind.ERASURE} if marked else set())
        assert stage.gate().receipt("anna-schmidt").erased_at is not None, "it is as good as erased to everybody"
        stage.gate().erase("anna-schmidt", reason="subject_request", by="user:19")
        verification = stage.gate().verify()
        assert (verification.findings, verification.redacted) == ((), 4)


class _Killed(BaseException):
    pass


def _killed_before(gate: Any, kind: type[Request[Any]]) -> Any:
    def perform(request: Request[Any]) -> Any:
        if isinstance(request, kind):
            raise _Killed
        return gate._driver.perform(request)

    return perform


def test_the_database_lets_nothing_else_be_forgotten(folder: Path) -> None:
    """A state is set to null only where an Erased follows, and nothing else of a row is changed with it."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        _fired(stage, "anna-schmidt")
        _fired(stage, "another")
        gate = stage.gate()
        left = gate.erase("anna-schmidt", reason="subject_request", by="user:19")
        rows = present.journals.rows(path, "stored_events")
        of, before = f"originator_id = '{left.action_id}'", "originator_version < 3"
        for change in (
            "SET state = NULL",
            f"SET state = NULL WHERE NOT ({of}) AND originator_version = 1",  # other events follow, and no Erased
            f"SET state = NULL WHERE {of}",  # Erased itself
            f"SET state = NULL, topic = 'interlock.action.refused' WHERE {of} AND {before}",
            f"SET state = NULL, leaf_hash = state_digest WHERE {of} AND {before}",
            f"SET state = state_digest WHERE {of} AND {before}",
        ):
            assert present.journals.refuses(path, f"UPDATE stored_events {change}"), change
        assert present.journals.refuses(path, "DELETE FROM stored_events")
        assert present.journals.rows(path, "stored_events") == rows
        again = f"UPDATE stored_events SET state = NULL WHERE {of} AND {before}"  # noqa: S608 - a test's own
        assert not present.journals.refuses(path, again)


def test_a_state_that_is_gone_without_an_erasure(folder: Path) -> None:
    """An owner who drops the triggers and forgets a state is found out, and so is one who frees an erased key."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        _fired(stage, "anna-schmidt")
        left = stage.gate().erase("anna-schmidt", reason="subject_request", by="user:19")
        _fired(stage, "another")
        other = stage.gate().receipt("another").action_id
        where = f"originator_id = '{other}' AND originator_version = 3"
        present.journals.edit(path, f"UPDATE stored_events SET state = NULL WHERE {where}")  # noqa: S608 - a test's own
        present.journals.edit(path, f"DELETE FROM names WHERE aggregate_id = '{left.action_id}'")  # noqa: S608 - a test's own
        findings = stage.gate().verify().findings
        assert {finding.kind for finding in findings} == {FindingKind.STATE, FindingKind.NAME}
        with pytest.raises(JournalError):
            stage.gate().receipt("another")


@pytest.mark.sqlite_only
def test_the_bytes_are_gone_from_the_file(folder: Path) -> None:
    """Neither the file nor its write-ahead log holds the key any more, not even in the space that became free."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        stage.approve("c1")
        stage.actor("key-of-anna-schmidt", "c1").fire()
        assert b"key-of-anna-schmidt" in _bytes(path)
        for gate in [stage.gate()]:
            gate.erase("key-of-anna-schmidt", reason="subject_request", by="user:19")
        assert b"key-of-anna-schmidt" not in _bytes(path)


class _Forgetful(sqlite3.Connection):
    """A connection of a build of SQLite that leaves what it frees as it was, as most of them do by default."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        super().execute("PRAGMA secure_delete=OFF")


@pytest.mark.sqlite_only
def test_the_bytes_are_gone_on_any_build(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What updates and split pages left behind before the erasure is gone too, whatever SQLite was built to do."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_Forgetful))
    path, keys = folder / "journal.db", [f"key-of-anna-{number:03}" for number in range(24)]
    with Stage(path, World(PROFILES["keys"])) as stage:
        for key in keys:
            _fired(stage, key)
        for key in keys[::2]:
            stage.gate().erase(key, reason="subject_request", by="user:19")
            stage.gate().revoke(f"case-{key}", by="user:2")
            stage.gate().erase_approval(f"case-{key}", reason="subject_request", by="user:19")
        data = _bytes(path)
        assert [key for key in keys if key.encode() in data] == keys[1::2]


def _bytes(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*") if file.is_file())


def test_an_erased_approval(folder: Path) -> None:
    """Its id stays taken, and it covers nothing more; actions under it are what they were; the log verifies."""
    path = folder / "journal.db"
    with Stage(path, World(PROFILES["keys"])) as stage:
        done = _fired(stage, "done")
        stage.gate().propose("waiting", stage.world.transfer(), approval=stage.approve("case-waiting"))
        gate = stage.gate()
        gate.revoke("case-waiting", by="user:2", note="anna asked")
        for approval_id in ("case-done", "case-waiting"):
            gate.erase_approval(approval_id, reason="subject_request", by="user:19")
            gate.erase_approval(approval_id, reason="subject_request", by="user:19")
            with pytest.raises(UnknownApproval):
                gate.approval(approval_id)
            with pytest.raises(ApprovalErased):
                stage.approve(approval_id)
        verification = gate.verify()
        assert (verification.findings, verification.redacted) == ((), 5)
        assert done.fire().receipt.status == "COMMITTED", "the same as ever"
        with pytest.raises(ApprovalNotUsable):
            stage.actor("another", "case-done").fire()
        gate.recover()
        assert gate.receipt("waiting").status == "REFUSED"
        gate.erase("done", reason="subject_request", by="user:19")
        assert stage.gate().verify().valid
        hidden = [row for row in present.journals.rows(path, "stored_events") if row["state"] is None]
        assert len(hidden) == 5 + 4


def test_an_approval_that_is_not_over(folder: Path) -> None:
    """While it can be used, or is reserved for an action whose fate is not known, it is not erased."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        stage.approve("live", expires_in_s=3600)
        _fired(stage, "doubtful", SendFault.LOST_ANSWER)
        gate = stage.gate()
        gate.revoke("case-doubtful", by="user:2")
        for approval_id in ("live", "case-doubtful"):
            with pytest.raises(NotErasable):
                gate.erase_approval(approval_id, reason="subject_request", by="user:19")
        with pytest.raises(UnknownApproval):
            gate.erase_approval("nobody's", reason="subject_request", by="user:19")
        stage.world.advance(3600)
        stage.gate().erase_approval("live", reason="subject_request", by="user:19")
        assert stage.gate().verify().valid
