"""Each row of the recovery table, reached through a real gate on a real journal; the ledger judges what it did."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.domain import requests
from interlock.domain.recovery import TABLE, Recheck, Sight
from tests.crashing import AFTER_SEND, BEFORE_SEND, CrashAt, Death, Stage, When, crashes, disagreement, in_doubt, to_the_end
from tests.provider_world import AMOUNT, HOUR_S, PROFILES, SUBJECT, LookupFault, World

HOLDS, FAILS = Recheck.HOLDS, Recheck.FAILS
ABSENT, CANNOT_LOOK = Sight.ABSENT, Sight.CANNOT_LOOK


@dataclass(frozen=True)
class Case:
    """A situation that leads to one row, and its wanted end."""

    row: tuple[Recheck, Sight, bool]
    profile: str
    dies: Death
    waits: bool
    status: str
    via: str | None = None
    door: str | None = None
    effects: int = 1
    attempts: int = 1
    burns: bool = False

    def __str__(self) -> str:
        """Return it as a test's id."""
        recheck, sight, deduped = self.row
        words = [recheck.name, sight.name, "deduped" if deduped else "not-deduped", self.profile]
        return "-".join([*words, "done" if self.dies is AFTER_SEND else "not-done"]).lower()


REPLAYED, QUERIED = "retry-idempotent", "recovery-query"
CASES = [
    Case((HOLDS, ABSENT, True), "keys-lookup", BEFORE_SEND, waits=False, status="COMMITTED", via=REPLAYED),
    Case((HOLDS, CANNOT_LOOK, True), "keys", BEFORE_SEND, waits=False, status="COMMITTED", via=REPLAYED),
    Case((HOLDS, CANNOT_LOOK, True), "keys", AFTER_SEND, waits=False, status="COMMITTED", via=REPLAYED),
    Case((HOLDS, ABSENT, False), "lookup", BEFORE_SEND, waits=True, status="COMMITTED", via="first-send", attempts=2),
    Case((HOLDS, CANNOT_LOOK, False), "nothing", BEFORE_SEND, waits=False, status="AMBIGUOUS", effects=0),
    Case((HOLDS, CANNOT_LOOK, False), "nothing", AFTER_SEND, waits=False, status="AMBIGUOUS"),
    Case((FAILS, ABSENT, True), "keys-lookup", BEFORE_SEND, waits=True, status="REFUSED", door="horizon", effects=0),
    Case(
        (FAILS, ABSENT, True),
        "keys-lookup-burn",
        BEFORE_SEND,
        waits=False,
        status="REFUSED",
        door="burned",
        effects=0,
        burns=True,
    ),
    Case((FAILS, ABSENT, False), "lookup", BEFORE_SEND, waits=True, status="REFUSED", door="horizon", effects=0),
    Case(
        (FAILS, CANNOT_LOOK, True), "keys-burn", BEFORE_SEND, waits=False, status="REFUSED", door="burned", effects=0, burns=True
    ),
    Case((FAILS, CANNOT_LOOK, True), "keys-burn", AFTER_SEND, waits=False, status="COMMITTED", via=REPLAYED, burns=True),
    Case((FAILS, CANNOT_LOOK, True), "keys", BEFORE_SEND, waits=False, status="AMBIGUOUS", effects=0),
    Case((FAILS, CANNOT_LOOK, False), "nothing", AFTER_SEND, waits=False, status="AMBIGUOUS"),
]


def test_the_table_is_total() -> None:
    """Whatever was checked, seen and known of the key, the table has a row for it, and a case here reaches it."""
    every = set(itertools.product(Recheck, Sight, (True, False)))
    assert set(TABLE) == every
    assert {case.row for case in CASES} == every


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_row_leads_to_its_end(case: Case, folder: Path) -> None:
    """Recovery does what the row says, at once where it may, and the ledger agrees with what the receipt says of it."""
    with Stage(folder / "journal.db", World(PROFILES[case.profile])) as stage:
        stage.approve()
        in_doubt(stage, case.dies)
        if case.row[0] is FAILS:
            stage.revoke()
        actor = stage.actor()
        first = actor.recover()
        assert (first.receipt.status == "IN_FLIGHT") is case.waits
        receipt = to_the_end(actor).receipt
        assert (receipt.status, receipt.via, receipt.attempts) == (case.status, case.via, case.attempts)
        assert (receipt.refusal.door if receipt.refusal else None) == case.door
        assert receipt.refusal is None or receipt.refusal.at_recovery
        assert len(stage.world.ledger) == case.effects
        assert bool(stage.world.burns) is case.burns
        stage.world.settle()
        assert disagreement(stage.world, actor.action()) is None


@pytest.mark.parametrize("profile", ["lookup", "lookup-roll-unknown", "keys-lookup", "keys-lookup-burn"])
@pytest.mark.parametrize("spoiled", [False, True], ids=["holds", "fails"])
def test_found_ends_as_committed_whatever_else_has_changed(profile: str, spoiled: bool, folder: Path) -> None:  # noqa: FBT001 - a parameter of the test
    """An effect that the lookup finds is recorded as it is, and what the re-check read stands on the receipt."""
    with Stage(folder / "journal.db", World(PROFILES[profile])) as stage:
        stage.approve()
        in_doubt(stage, AFTER_SEND, premises=(stage.world.observe(SUBJECT),))
        if spoiled:
            stage.revoke()
            stage.world.provider.state = "closed"
        receipt = stage.actor().recover().receipt
        assert (receipt.status, receipt.via, receipt.sends) == ("COMMITTED", QUERIED, 1)
        assert receipt.checks[-2].state == ("revoked" if spoiled else "live")
        assert receipt.checks[-1].state == ("conflicting" if spoiled else "unchanged")
        assert receipt.authorized_when_fired is True
        assert receipt.assumptions_held is True


def test_a_burned_key_leads_to_a_new_one_where_nobody_can_look(folder: Path) -> None:
    """Without a lookup, burned keys are the proof that a new key may be used."""
    with Stage(folder / "journal.db", World(PROFILES["keys-burn"])) as stage:
        stage.approve()
        in_doubt(stage, BEFORE_SEND, premises=(stage.world.observe(SUBJECT),))
        stage.world.provider.state = "closed"
        second = stage.actor()
        assert crashes(second.recover, CrashAt(requests.Append, When.BEFORE, nth=2))
        second.die()
        stage.world.provider.state = "open"
        third = stage.actor()
        receipt = to_the_end(third).receipt
        assert (receipt.status, receipt.attempts) == ("COMMITTED", 2)
        assert [sent.idempotency_key[-2:] for sent in stage.world.sent] == ["-1", "-2"]
        assert len(stage.world.ledger) == 1


def test_an_earlier_key_that_was_burned_needs_no_second_burning(folder: Path) -> None:
    """A new key is used only behind a closed door, and a burn is for ever: past the first key's window it is still closed."""
    with Stage(folder / "journal.db", World(PROFILES["keys-burn"])) as stage:
        stage.approve()
        in_doubt(stage, BEFORE_SEND, premises=(stage.world.observe(SUBJECT),))
        stage.world.provider.state = "closed"
        second = stage.actor()
        assert crashes(second.recover, CrashAt(requests.Append, When.BEFORE, nth=2))
        second.die()
        stage.world.provider.state = "open"
        stage.world.advance(23.7 * HOUR_S)
        third = stage.actor()
        assert crashes(third.recover, CrashAt(requests.Send, When.BEFORE, nth=2))
        third.die()
        stage.revoke()
        stage.world.advance(HOUR_S)
        assert to_the_end(stage.actor()).receipt.status == "REFUSED"


def test_past_the_window_a_burn_proves_nothing(folder: Path) -> None:
    """When the provider may have forgotten the key, it is not burned, and without a lookup nobody can know."""
    with Stage(folder / "journal.db", World(PROFILES["keys-burn"])) as stage:
        stage.approve()
        in_doubt(stage, AFTER_SEND)
        stage.world.advance(25 * HOUR_S)
        receipt = stage.actor().recover().receipt
        assert receipt.status == "AMBIGUOUS"
        assert not stage.world.burns
        assert len(stage.world.sent) == 1


@pytest.mark.parametrize("spoiled", [False, True], ids=["holds", "fails"])
def test_a_failed_lookup_is_neither_absent_nor_cannot_look(spoiled: bool, folder: Path) -> None:  # noqa: FBT001 - as above
    """While the lookup fails the action is InFlight, whatever else is known, and nothing is sent or burned."""
    with Stage(folder / "journal.db", World(PROFILES["keys-lookup-burn"])) as stage:
        stage.approve()
        in_doubt(stage, BEFORE_SEND)
        if spoiled:
            stage.revoke()
        actor = stage.actor()
        for fault in ("FAILS", "RAISES"):
            stage.world.lookup_faults = [getattr(LookupFault, fault)]
            assert actor.recover().receipt.status == "IN_FLIGHT"
        assert (stage.world.sent, stage.world.burns) == ([], [])
        assert to_the_end(actor).receipt.status == ("REFUSED" if spoiled else "COMMITTED")


def test_an_action_that_never_reached_dispatched_is_begun_again_by_whoever_recovers(folder: Path) -> None:
    """Intended alone, and Intended and Claimed, have sent nothing: everything is checked, and it goes on or is refused."""
    with Stage(folder / "journal.db", World(PROFILES["nothing"])) as stage:
        stage.approve("go", uses=2, cap_minor=2 * AMOUNT)
        first = stage.gate()
        for key in ("goes-on", "is-refused"):
            assert first.propose(key, stage.world.transfer(), approval="go").status == "IN_FLIGHT"
        claimer = stage.actor("goes-on", "go")
        assert crashes(claimer.recover, CrashAt(requests.Append, When.AFTER))
        claimer.die()
        assert claimer.kinds()[-1] == "Append"
        assert len(stage.world.sent) == 0
        assert stage.actor("goes-on", "go").recover().receipt.status == "COMMITTED"
        stage.revoke()
        refused = stage.actor("is-refused", "go").recover().receipt
        assert refused.refusal is not None
        assert (refused.refusal.code, refused.refusal.door) == ("approval_revoked", "nothing-sent")
        assert len(stage.world.sent) == 1
