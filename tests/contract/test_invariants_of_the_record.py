"""The invariants I6 to I10, about what is known and what is left of it, on a real journal and judged by the ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.persistence import StoredEvent

from interlock.domain import requests
from interlock.errors import JournalUnavailable, OutcomeNotRecorded
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from tests.crashing import AFTER_SEND, BEFORE_SEND, Actor, CrashAt, Stage, When, crashes, in_doubt, once, staged, to_the_end
from tests.journals import present
from tests.provider_world import AMOUNT, DAY_S, PROFILES, SUBJECT, UNKNOWN_FAULTS, LookupFault, SendFault, World


def _rows(stage: Stage) -> list[tuple[str, int, str]]:
    return present.journals.log(stage.path)


def _full() -> None:
    raise JournalUnavailable("the disk is full")


# --- I6


@pytest.mark.parametrize("fault", UNKNOWN_FAULTS, ids=lambda fault: fault.name)
def test_i6_no_unknown_answer_is_taken_for_a_no(fault: SendFault, folder: Path) -> None:
    """With the worst profile there is, whatever is not a definite answer ends as Ambiguous, and is sent once."""
    with staged(folder, "nothing") as stage:
        stage.world.send_faults = [fault]
        outcome = stage.actor().fire()
        assert (outcome.receipt.status, outcome.receipt.happened) == ("AMBIGUOUS", "unknown")
        assert stage.gate().fire("refund:case-1", stage.world.transfer(), approval="case-1").receipt.status == "AMBIGUOUS"
        assert len(stage.world.sent) == 1


@pytest.mark.parametrize("fault", list(LookupFault))
def test_i6_a_failed_lookup_is_not_an_absence(fault: LookupFault, folder: Path) -> None:
    """Not before the horizon and not after it, not for going on and not for refusing."""
    with staged(folder, "lookup") as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(DAY_S)
        actor = stage.actor()
        for revoked in (False, True):
            if revoked:
                stage.revoke()
            stage.world.lookup_faults = [fault]
            assert getattr(actor.recover(), "reason", None) == "settling"
        assert actor.recover().receipt.via == "recovery-query"
        assert len(stage.world.sent) == 1


class MuteWorld(World):
    """A target whose author forgot what a lookup and a send have to answer."""

    says: Any = None

    def _lookup(self, *_: Any, **__: Any) -> Any:
        return self.says

    def _send(self, *arguments: Any, **named: Any) -> Any:
        super()._send(*arguments, **named)
        return self.says


@pytest.mark.parametrize("says", [None, False, True, (), "absent", NotImplemented], ids=repr)
@pytest.mark.parametrize("profile", ["nothing", "keys", "lookup", "keys-lookup", "keys-burn"])
def test_i6_what_is_no_answer_is_no_absence_and_no_answer(profile: str, says: Any, folder: Path) -> None:
    """A lookup or a send that returns nothing of ours says nothing: one effect, no refusal, and no end to be sent again."""
    world = MuteWorld(PROFILES[profile])
    world.says = says
    with Stage(folder / "journal.db", world) as stage:
        stage.approve()
        gate = stage.gate()
        statuses = set()
        for _ in range(4):
            statuses.add(gate.fire("key", world.transfer(), approval="case-1").receipt.status)
            world.advance(DAY_S / 2)
        assert statuses <= {"IN_FLIGHT", "AMBIGUOUS"}
        assert len(world.ledger) == 1
        assert len(world.sent) <= 8


@pytest.mark.parametrize("profile", ["lookup", "keys-lookup"])
def test_i6_a_send_after_one_that_was_not_sent_is_in_doubt_like_any_other(profile: str, folder: Path) -> None:
    """That nothing was sent is written down before the next try, and holds for that next try no more."""
    with staged(folder, profile) as stage:
        stage.world.send_faults = [SendFault.RATE_LIMITED]
        in_doubt(stage, CrashAt(requests.Send, When.AFTER, nth=2))
        receipt = stage.actor().recover().receipt
        assert receipt.via == "recovery-query"
        assert len(stage.world.ledger) == 1
        assert len(stage.world.sent) == 2


# --- I7


@pytest.mark.parametrize("profile", ["nothing", "nothing-known-to-end", "keys", "keys-burn"])
def test_i7_time_alone_never_permits_a_fresh_send(profile: str, folder: Path) -> None:
    """However much time passes, an action that can't be looked up is not sent under a new key."""
    with staged(folder, profile) as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(20 * DAY_S)
        assert to_the_end(stage.actor()).receipt.status == "AMBIGUOUS"
        assert len(stage.world.sent) == 1


def test_i7_a_claim_that_ran_out_is_taken_over_and_permits_no_more_than_i2(folder: Path) -> None:
    """The holder lives on: the claim changes hands, and nothing is sent afresh before the horizon."""
    with staged(folder, "lookup") as stage:
        holder = stage.actor()
        assert crashes(holder.fire, BEFORE_SEND)
        other = stage.actor()
        assert getattr(other.recover(), "reason", None) == "held"
        stage.world.advance(10)
        assert getattr(other.recover(), "reason", None) == "held"
        holder.die()
        assert getattr(other.recover(), "reason", None) == "settling"
        claim = other.action().claim
        assert claim is not None
        assert (claim.term, claim.holder) == (2, other.gate._driver.locks.holder)
        assert not stage.world.sent


# --- I8


def _deafen(journal: Journal) -> None:
    """Let the next append be written, and lose its acknowledgement."""
    recorder: Any = journal._recorder
    insert = recorder.insert_events

    def insert_events(stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        recorder.insert_events = insert
        insert(stored_events, **kwargs)
        raise recorder.errors[-1]("the acknowledgement was lost")

    recorder.insert_events = insert_events


@pytest.mark.parametrize("append", [1, 2])
def test_i8_an_append_whose_acknowledgement_was_lost_is_read_back(append: int, folder: Path) -> None:
    """The events are found to be our own, and the action goes on as if nothing had been lost: sent once, committed."""
    with staged(folder, "nothing") as stage, open_journal(stage.url) as journal:
        actor = stage.actor()
        actor.gate._driver.journal.close()
        actor.gate._driver.journal = journal
        outcome = actor.fire(interpose=once(requests.Append, lambda: _deafen(journal), nth=append))
        assert outcome.receipt.status == "COMMITTED"
        assert len(stage.world.sent) == 1
        assert [row[2] for row in _rows(stage)].count("interlock.action.dispatched") == 1


def test_i8_a_conflict_is_not_taken_for_our_own_lost_acknowledgement(folder: Path) -> None:
    """Somebody else's first commit under the same key is theirs: it is not sent on top of."""
    with staged(folder, "nothing") as stage:
        first, second = stage.actor(), stage.actor()
        outcome = first.fire(interpose=once(requests.Append, second.fire))
        assert outcome.receipt.status == "COMMITTED"
        assert len(stage.world.sent) == 1


def test_i8_a_second_commit_that_fails_says_that_it_was_sent(folder: Path) -> None:
    """The evidence is in the exception, nothing is sent again, and the next fire finds what happened."""
    with staged(folder, "keys-lookup") as stage:
        actor = stage.actor()
        with pytest.raises(OutcomeNotRecorded) as caught:
            actor.fire(interpose=once(requests.Append, _full, nth=2))
        assert caught.value.evidence.reference == stage.world.ledger[0].reference
        assert caught.value.key == actor.key
        assert actor.fire().receipt.via == "recovery-query"
        assert len(stage.world.sent) == 1


def test_i8_an_event_of_somebody_else_is_not_read_back_as_our_own(folder: Path) -> None:
    """The second commit fails, and a revocation stands where its last event would: it was sent, and is not recorded."""
    with staged(folder, "lookup") as stage, open_journal(stage.url) as journal:
        actor = stage.actor()
        actor.gate._driver.journal.close()
        actor.gate._driver.journal = journal
        recorder: Any = journal._app.recorder
        insert = recorder.insert_events

        def fails(*_: Any, **__: Any) -> None:
            recorder.insert_events = insert
            stage.revoke()
            raise recorder.errors[-1]("disk I/O error")

        with pytest.raises(OutcomeNotRecorded):
            actor.fire(interpose=once(requests.Append, lambda: setattr(recorder, "insert_events", fails), nth=2))
        assert actor.action().status == "DISPATCHED"
        assert actor.fire().receipt.via == "recovery-query"
        assert len(stage.world.sent) == 1


# --- I9


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE stored_events SET topic = 'x' WHERE position = 2",
        "DELETE FROM stored_events WHERE position = 2",
        "INSERT OR REPLACE INTO stored_events SELECT * FROM stored_events WHERE position = 2",
        "UPDATE names SET aggregate_id = 'x'",
        "DELETE FROM names",
        "INSERT OR REPLACE INTO names SELECT kind, digest, 'x' FROM names",
        "UPDATE journal SET log = 'x'",
        "DELETE FROM journal",
        "INSERT INTO journal SELECT * FROM journal",
    ],
)
def test_i9_the_database_itself_refuses_to_change_history(statement: str, folder: Path) -> None:
    """Update, delete and replace fail, whoever asks."""
    with staged(folder, "keys") as stage:
        stage.actor().fire()
        with sqlite3.connect(stage.path) as connection, pytest.raises(sqlite3.IntegrityError, match="interlock"):
            connection.execute(statement)


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (
            "UPDATE stored_events SET state = CAST(replace(CAST(state AS TEXT), 'host', 'h0st') AS BLOB) WHERE position = 3",
            "state",
        ),
        ("UPDATE stored_events SET state_digest = zeroblob(32) WHERE position = 3", "chain"),
        ("UPDATE stored_events SET leaf_hash = zeroblob(32) WHERE position = 3", "chain"),
        ("UPDATE stored_events SET topic = 'interlock.action.refused' WHERE topic = 'interlock.action.committed'", "chain"),
        ("DELETE FROM stored_events WHERE position = 3", "position"),
        ("UPDATE stored_events SET position = CASE position WHEN 3 THEN -4 ELSE -3 END WHERE position IN (3, 4)", "chain"),
        ("UPDATE stored_events SET originator_version = 9 WHERE topic = 'interlock.action.committed'", "chain"),
        ("UPDATE names SET aggregate_id = 'x' WHERE kind = 'action'", "name"),
        ("DELETE FROM names WHERE kind = 'action'", "name"),
        ("UPDATE receipts SET status = 'REFUSED'", "row"),
        ("DELETE FROM receipts", "row"),
    ],
)
def test_i9_a_change_behind_the_databases_back_is_named(statement: str, kind: str, folder: Path) -> None:
    """With the triggers dropped, verification still says what is wrong, and where."""
    with staged(folder, "keys") as stage:
        stage.actor().fire()
        gate = stage.gate()
        assert gate.verify().valid
        with sqlite3.connect(stage.path) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            assert connection.execute(statement).rowcount > 0
        found = gate.verify()
        assert not found.valid
        assert kind in {finding.kind for finding in found.findings}
        assert all(finding.place for finding in found.findings)


# --- I10


def _ends(stage: Stage) -> dict[str, Actor]:
    """Bring one action to each kind of ending."""
    actors: dict[str, Actor] = {}
    for name, fault, spoil in [
        ("committed", None, None),
        ("declined", SendFault.DECLINES, None),
        ("revoked", None, stage.revoke),
        ("changed", None, lambda: setattr(stage.world.provider, "state", "closed")),
        ("ambiguous", SendFault.LOST_ANSWER, None),
    ]:
        stage.world.provider.state = "open"
        stage.approve(name)
        actors[name] = stage.actor(name, name, premises=(stage.world.observe(SUBJECT),))
        stage.world.send_faults = [fault] if fault else []
        if spoil:
            spoil()
        actors[name].fire()
    return actors


def test_i10_every_ending_leaves_a_receipt_that_says_what_was_read_and_when(folder: Path) -> None:
    """Refusals too: the approval and each premise, with the time of the reading and what was there."""
    with staged(folder, "nothing") as stage:
        for name, actor in _ends(stage).items():
            receipt = stage.gate().receipt(actor.key)
            assert receipt.status == {"committed": "COMMITTED", "ambiguous": "AMBIGUOUS"}.get(name, "REFUSED")
            assert [check.what.split()[0] for check in receipt.checks[:2]] == ["approval", "premise"]
            assert all(check.at == stage.world.clock.now() for check in receipt.checks)
            assert receipt.checks[1].facts_json not in (None, "{}")
            assert receipt.timeline[-1].event == receipt.status.capitalize()


def test_i10_an_action_that_died_before_its_end_says_that_nothing_is_known(folder: Path) -> None:
    """In flight after Dispatched: unknown. Before it: no."""
    with staged(folder, "keys", uses=2, cap_minor=2 * AMOUNT) as stage:
        in_doubt(stage)
        assert stage.gate().receipt("refund:case-1").happened == "unknown"
        assert stage.gate().propose("later", stage.world.transfer(), approval="case-1").happened == "no"
        claimer = stage.actor("later")
        assert crashes(claimer.recover, CrashAt(requests.Append, When.AFTER))
        assert stage.gate().receipt("later").happened == "no"
