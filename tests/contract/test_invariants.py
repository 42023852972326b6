"""The invariants I1 to I10, each shown on a real journal and judged by the provider's ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from eventsourcing.persistence import StoredEvent

from interlock import Refused
from interlock.domain import requests
from interlock.domain.requests import Request
from interlock.errors import ActionMismatch, JournalUnavailable, OutcomeNotRecorded, PremiseUnreadable
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.sqlite.journal import SQLiteJournal
from tests.journals import present
from tests.provider_world import (
    AFTER_SEND,
    AMOUNT,
    BEFORE_SEND,
    DAY_S,
    HOUR_S,
    PROFILES,
    SUBJECT,
    Actor,
    CrashAt,
    LookupFault,
    ObserveFault,
    SendFault,
    Stage,
    When,
    World,
    crashes,
    in_doubt,
    once,
    to_the_end,
)

UNKNOWN_FAULTS = [
    SendFault.LOST_REQUEST,
    SendFault.LOST_ANSWER,
    SendFault.LATE,
    SendFault.HANGS,
    SendFault.FAILS,
    SendFault.FAILS_WITH_EFFECT,
    SendFault.RAISES,
    SendFault.RAISES_WITH_EFFECT,
    SendFault.LOST_DECLINE,
]


def _stage(folder: Path, profile: str, **terms: Any) -> Stage:
    stage = Stage(folder / "journal.db", World(PROFILES[profile]))
    stage.approve(**terms)
    return stage


def _rows(stage: Stage) -> list[tuple[str, int, str]]:
    return present.journals.log(stage.path)


# --- I1


@pytest.mark.parametrize("fault", [None, *UNKNOWN_FAULTS, SendFault.RATE_LIMITED], ids=lambda f: f.name if f else "none")
@pytest.mark.parametrize("profile", PROFILES)
def test_i1_nothing_is_sent_before_a_dispatched_for_that_very_send_is_durable(
    profile: str, fault: SendFault | None, folder: Path
) -> None:
    """At each write to the provider, another connection reads a Dispatched of its own number and key from the journal."""
    with _stage(folder, profile) as stage, open_journal(stage.url) as witness:
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
    with _stage(folder, "keys") as stage:
        actor = stage.actor()
        with pytest.raises(JournalUnavailable):
            actor.fire(interpose=once(requests.Append, _full))
        assert not stage.world.sent
        assert not actor.exists()
        assert actor.fire().receipt.status == "COMMITTED"


def _full() -> None:
    raise JournalUnavailable("the disk is full")


# --- I2


@pytest.mark.parametrize("profile", PROFILES)
def test_i2_firing_again_and_again_has_one_effect(profile: str, folder: Path) -> None:
    """The same key is the same action, for ever, whoever fires it."""
    with _stage(folder, profile) as stage:
        outcomes = [to_the_end(stage.actor()) for _ in range(3)]
        stage.world.advance(60 * DAY_S)
        outcomes.append(to_the_end(stage.actor()))
        assert {outcome.receipt.status for outcome in outcomes} == {"COMMITTED"}
        assert len(stage.world.ledger) == len(stage.world.sent) == 1


@pytest.mark.parametrize("profile", ["keys", "keys-lookup", "keys-burn", "keys-lookup-burn-roll-unknown"])
def test_i2_a_key_is_not_sent_again_once_its_window_is_over(profile: str, folder: Path) -> None:
    """Past the window the provider may have forgotten the key, so it would not dedupe a second send."""
    with _stage(folder, profile) as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(DAY_S - stage.world.profile.dedupe_margin_s)
        to_the_end(stage.actor())
        assert [sent.idempotency_key[-2:] for sent in stage.world.sent] == ["-1"]
        assert len(stage.world.ledger) == 1


def test_i2_the_window_is_judged_again_right_before_the_write(folder: Path) -> None:
    """A recoverer that was stopped between its decision and its write does not use a key that ran out meanwhile."""
    with _stage(folder, "keys") as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(DAY_S - stage.world.profile.dedupe_margin_s - 1)
        actor = stage.actor()
        outcome = actor.recover(interpose=once(requests.StillAt, lambda: stage.world.advance(2)))
        assert outcome.receipt.status == "IN_FLIGHT"
        assert len(stage.world.sent) == 1
        assert to_the_end(actor).receipt.status == "AMBIGUOUS"


def test_i2_a_key_under_which_the_provider_stored_a_failure_counts_as_used(folder: Path) -> None:
    """A stored failure would only be replayed: a new key is used, and not before the horizon."""
    with _stage(folder, "keys-lookup") as stage:
        stage.world.send_faults = [SendFault.FAILS]
        actor = stage.actor()
        first = actor.fire()
        assert first.receipt.status == "IN_FLIGHT"
        assert to_the_end(actor).receipt.attempts == 2
        assert len(stage.world.ledger) == 1


# --- I3


def test_i3_the_reservation_stands_in_the_same_transaction_as_dispatched(folder: Path) -> None:
    """There is no moment at which one is durable without the other."""
    with _stage(folder, "keys") as stage, open_journal(stage.url) as witness:
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
    with _stage(folder, "keys", uses=1) as stage:
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
    with _stage(folder, "keys") as stage:
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
    with _stage(folder, "keys-burn", expires_in_s=100) as stage:
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


# --- I4


def test_i4_premises_and_approval_are_read_before_every_send(folder: Path) -> None:
    """First send, tries of what was not sent, resends and new keys: each has its own readings, newer than the last send."""
    with _stage(folder, "keys-lookup") as stage:
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
    with _stage(folder, profile) as stage:
        premise = stage.world.observe(SUBJECT)
        in_doubt(stage, premises=(premise,))
        stage.world.advance(DAY_S * 2)
        stage.world.observe_faults = [fault]
        actor = stage.actor(premises=(premise,))
        assert actor.recover().receipt.status == "IN_FLIGHT"
        assert not stage.world.sent


@pytest.mark.parametrize("decided", ["{}", None], ids=["decided on nothing", "decided on facts"])
def test_i4_an_empty_read_is_not_unchanged_for_any_policy(decided: str | None, folder: Path) -> None:
    """Whatever the policy would make of it: nothing read is nothing known."""
    with _stage(folder, "keys") as stage:
        premise = replace(stage.world.observe(SUBJECT), policy="strict")
        premise = replace(premise, facts_json=decided or premise.facts_json)
        stage.world.observe_faults = [ObserveFault.EMPTY]
        gate = stage.gate()
        with pytest.raises(PremiseUnreadable):
            gate.fire("key", stage.world.transfer(), approval="case-1", premises=[premise])
        assert not stage.world.sent


def test_i4_a_premise_that_changes_while_a_send_is_retried_stops_it(folder: Path) -> None:
    """A request that was not sent is not sent later on facts that no longer hold."""
    with _stage(folder, "keys") as stage:
        stage.world.send_faults = [SendFault.RATE_LIMITED]
        actor = stage.actor(premises=(stage.world.observe(SUBJECT),))
        outcome = actor.fire(interpose=once(requests.SleepUntil, lambda: setattr(stage.world, "state", "closed")))
        assert outcome.receipt.refusal is not None
        assert (outcome.receipt.refusal.code, outcome.receipt.refusal.door) == ("premise_conflicting", "nothing-sent")
        assert not stage.world.ledger


# --- I5


def test_i5_another_effect_under_a_used_key_is_an_error_and_changes_nothing(folder: Path) -> None:
    """Whether the action has ended, is in flight, or is being fired at this moment."""
    with _stage(folder, "keys") as stage:
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
    with _stage(folder, "keys") as stage:
        first, second = stage.actor(), stage.actor()

        def other() -> None:
            second.gate.fire(second.key, stage.world.transfer(AMOUNT - 1), approval="case-1")

        with pytest.raises(ActionMismatch):
            first.fire(interpose=once(requests.Append, other))
        assert [entry.amount_minor for entry in stage.world.ledger] == [AMOUNT - 1]


def test_i5_recovery_sends_the_recorded_effect(folder: Path) -> None:
    """It is rebuilt from the journal alone, by a process that was never told of it."""
    with _stage(folder, "keys") as stage:
        dead = in_doubt(stage)
        assert stage.gate().recover().outcomes[0].receipt.status == "COMMITTED"
        assert stage.world.sent[0].parameters == stage.world.transfer().parameters
        assert stage.world.ledger[0].action_id == stage.actor(dead.key).action().id.hex


# --- I6


@pytest.mark.parametrize("fault", UNKNOWN_FAULTS, ids=lambda fault: fault.name)
def test_i6_no_unknown_answer_is_taken_for_a_no(fault: SendFault, folder: Path) -> None:
    """With the worst profile there is, whatever is not a definite answer ends as Ambiguous, and is sent once."""
    with _stage(folder, "nothing") as stage:
        stage.world.send_faults = [fault]
        outcome = stage.actor().fire()
        assert (outcome.receipt.status, outcome.receipt.happened) == ("AMBIGUOUS", "unknown")
        assert stage.gate().fire("refund:case-1", stage.world.transfer(), approval="case-1").receipt.status == "AMBIGUOUS"
        assert len(stage.world.sent) == 1


@pytest.mark.parametrize("fault", list(LookupFault))
def test_i6_a_failed_lookup_is_not_an_absence(fault: LookupFault, folder: Path) -> None:
    """Not before the horizon and not after it, not for going on and not for refusing."""
    with _stage(folder, "lookup") as stage:
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


# --- I7


@pytest.mark.parametrize("profile", ["nothing", "nothing-known-to-end", "keys", "keys-burn"])
def test_i7_time_alone_never_permits_a_fresh_send(profile: str, folder: Path) -> None:
    """However much time passes, an action that can't be looked up is not sent under a new key."""
    with _stage(folder, profile) as stage:
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(20 * DAY_S)
        assert to_the_end(stage.actor()).receipt.status == "AMBIGUOUS"
        assert len(stage.world.sent) == 1


def test_i7_a_claim_that_ran_out_is_taken_over_and_permits_no_more_than_i2(folder: Path) -> None:
    """The holder lives on: the claim changes hands, and nothing is sent afresh before the horizon."""
    with _stage(folder, "lookup") as stage:
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
    with _stage(folder, "nothing") as stage, open_journal(stage.url) as journal:
        actor = stage.actor()
        actor.gate._driver.journal.close()
        actor.gate._driver.journal = journal
        outcome = actor.fire(interpose=once(requests.Append, lambda: _deafen(journal), nth=append))
        assert outcome.receipt.status == "COMMITTED"
        assert len(stage.world.sent) == 1
        assert [row[2] for row in _rows(stage)].count("interlock.action.dispatched") == 1


def test_i8_a_conflict_is_not_taken_for_our_own_lost_acknowledgement(folder: Path) -> None:
    """Somebody else's first commit under the same key is theirs: it is not sent on top of."""
    with _stage(folder, "nothing") as stage:
        first, second = stage.actor(), stage.actor()
        outcome = first.fire(interpose=once(requests.Append, second.fire))
        assert outcome.receipt.status == "COMMITTED"
        assert len(stage.world.sent) == 1


def test_i8_a_second_commit_that_fails_says_that_it_was_sent(folder: Path) -> None:
    """The evidence is in the exception, nothing is sent again, and the next fire finds what happened."""
    with _stage(folder, "keys-lookup") as stage:
        actor = stage.actor()
        with pytest.raises(OutcomeNotRecorded) as caught:
            actor.fire(interpose=once(requests.Append, _full, nth=2))
        assert caught.value.evidence.reference == stage.world.ledger[0].reference
        assert caught.value.key == actor.key
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
    with _stage(folder, "keys") as stage:
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
    with _stage(folder, "keys") as stage:
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
        ("changed", None, lambda: setattr(stage.world, "state", "closed")),
        ("ambiguous", SendFault.LOST_ANSWER, None),
    ]:
        stage.world.state = "open"
        stage.approve(name)
        actors[name] = stage.actor(name, name, premises=(stage.world.observe(SUBJECT),))
        stage.world.send_faults = [fault] if fault else []
        if spoil:
            spoil()
        actors[name].fire()
    return actors


def test_i10_every_ending_leaves_a_receipt_that_says_what_was_read_and_when(folder: Path) -> None:
    """Refusals too: the approval and each premise, with the time of the reading and what was there."""
    with _stage(folder, "nothing") as stage:
        for name, actor in _ends(stage).items():
            receipt = stage.gate().receipt(actor.key)
            assert receipt.status == {"committed": "COMMITTED", "ambiguous": "AMBIGUOUS"}.get(name, "REFUSED")
            assert [check.what.split()[0] for check in receipt.checks[:2]] == ["approval", "premise"]
            assert all(check.at == stage.world.clock.now() for check in receipt.checks)
            assert receipt.checks[1].facts_json not in (None, "{}")
            assert receipt.timeline[-1].event == receipt.status.capitalize()


def test_i10_an_action_that_died_before_its_end_says_that_nothing_is_known(folder: Path) -> None:
    """In flight after Dispatched: unknown. Before it: no."""
    with _stage(folder, "keys", uses=2, cap_minor=2 * AMOUNT) as stage:
        in_doubt(stage)
        assert stage.gate().receipt("refund:case-1").happened == "unknown"
        assert stage.gate().propose("later", stage.world.transfer(), approval="case-1").happened == "no"
        claimer = stage.actor("later")
        assert crashes(claimer.recover, CrashAt(requests.Append, When.AFTER))
        assert stage.gate().receipt("later").happened == "no"


@pytest.mark.sqlite_only
def test_i1_the_journal_commits_to_the_disk(folder: Path) -> None:
    """Every connection waits for the disk: a commit that a power cut can undo would let a second send through."""
    with SQLiteJournal(f"sqlite:///{folder}/journal.db") as journal, cast("Any", journal._recorder).datastore.reading() as cursor:
        assert cursor.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_i3_nothing_is_sent_under_an_approval_that_expired_while_its_sender_was_paused(folder: Path) -> None:
    """A pause before any request of fire, past the expiry: not sent up to the send itself, and committed after it."""
    with _stage(folder, "keys") as stage:
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


def test_i4_premises_are_read_again_behind_the_closed_door(folder: Path) -> None:
    """What changes while the door is being closed keeps a new key from being used."""
    with _stage(folder, "lookup") as stage:
        premise = stage.world.observe(SUBJECT)
        in_doubt(stage, premises=(premise,))
        stage.world.advance(HOUR_S)
        actor = stage.actor(premises=(premise,))
        closes = once(requests.LookUp, lambda: setattr(stage.world, "state", "closed"), nth=2)
        receipt = actor.recover(interpose=closes).receipt
        assert receipt.refusal is not None
        assert (receipt.refusal.code, receipt.refusal.door) == ("premise_conflicting", "horizon")
        assert not stage.world.sent


def test_i8_an_event_of_somebody_else_is_not_read_back_as_our_own(folder: Path) -> None:
    """The second commit fails, and a revocation stands where its last event would: it was sent, and is not recorded."""
    with _stage(folder, "lookup") as stage, open_journal(stage.url) as journal:
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


@pytest.mark.parametrize("profile", ["lookup", "keys-lookup"])
def test_i6_a_send_after_one_that_was_not_sent_is_in_doubt_like_any_other(profile: str, folder: Path) -> None:
    """That nothing was sent is written down before the next try, and holds for that next try no more."""
    with _stage(folder, profile) as stage:
        stage.world.send_faults = [SendFault.RATE_LIMITED]
        in_doubt(stage, CrashAt(requests.Send, When.AFTER, nth=2))
        receipt = stage.actor().recover().receipt
        assert receipt.via == "recovery-query"
        assert len(stage.world.ledger) == 1
        assert len(stage.world.sent) == 2
