"""Nothing is sent before its announcement stands under a checkpoint, and under witnesses where the policy asks for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from interlock import Ambiguous, Committed, Effect, Gate, InFlight
from interlock.domain import requests
from interlock.errors import GateClosed, InvalidConfiguration
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import verify_inclusion
from interlock.evidence.tlog_proofs import TlogProof
from interlock.log import LogConfig
from interlock.operations import Proposal
from tests.gates import drive, open_gate, present
from tests.integration.postgres_stage import Background, Provider
from tests.journals import PostgresJournals, SQLiteJournals
from tests.log_stage import Stage, Witnesses, wait_until
from tests.provider_world import AMOUNT

BEFORE: Final = "before_dispatch"

only_once = pytest.mark.parametrize("stage", ["sqlite"], indirect=True)
"""For what waits until a send's time is over, and does not depend on the journal or the gate."""


@pytest.fixture(params=["sqlite", "sqlite-async", "postgres"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """Both kinds of journal, and both gates."""
    kind, _, gate = request.param.partition("-")
    journals = PostgresJournals(request.getfixturevalue("log_database")) if kind == "postgres" else SQLiteJournals()
    made = Stage(journals, tmp_path)
    with present.use(gate or "sync"):
        yield made
    made.close()
    if isinstance(journals, PostgresJournals):
        journals.drop()


@pytest.fixture
def witnesses(stage: Stage) -> Iterator[Witnesses]:
    """A witness that the policy asks for."""
    made = Witnesses(stage)
    yield made
    made.stop()


def dispatched_index(stage: Stage) -> int:
    """Return the index of an action's last Dispatched."""
    topics = [topic for _, _, topic in stage.journals.log(stage.path)]
    return len(topics) - 1 - topics[::-1].index("interlock.action.dispatched")


def test_the_announcement_is_proven_before_the_send(stage: Stage) -> None:
    """When the provider hears of it, its Dispatched is in a signed tree already."""
    proofs: list[tuple[int, TlogProof, bytes]] = []

    def look() -> None:
        index = dispatched_index(stage)
        tree = stage.service().tree
        proofs.append((index, tree.inclusion(index), tree.leaf_hashes(index, 1)[0]))

    stage.before_send = look
    with stage.gate(stage.config(anchor=BEFORE)) as gate:
        assert isinstance(stage.fire(gate, "a"), Committed)
    ((index, proof, leaf),) = proofs
    checkpoint = Checkpoint.parse(proof.checkpoint.partition("\n\n")[0] + "\n")
    verify_inclusion(index, checkpoint.size, leaf, proof.hashes, checkpoint.root)


def test_nothing_is_sent_while_the_witness_is_down(stage: Stage, witnesses: Witnesses) -> None:
    """Without the witness nothing reaches the provider, however often it is tried; when it is back, it is sent, once."""
    config = stage.config(anchor=BEFORE, policy_file=witnesses.policy, anchor_wait_s=0.2, witness_timeout_s=1)
    witnesses.stop()
    with stage.gate(config) as gate:
        fired = Background(lambda: stage.fire(gate, "a"))
        wait_until(lambda: len([topic for *_, topic in stage.journals.log(stage.path) if topic.endswith("dispatched")]) > 1)
        assert stage.ledger == []
        witnesses.start()
        assert isinstance(fired.result(), Committed)
        assert stage.ledger == ["a"]
        wait_until(lambda: "w.example" in (gate.receipt("pay:a").signed_by or ""))
        assert gate.verify().valid


@only_once
def test_what_is_not_anchored_in_time_is_in_flight(stage: Stage, witnesses: Witnesses) -> None:
    """Where the witness stays away, the caller is told that nothing was sent, and firing again goes on with it."""
    config = stage.config(anchor=BEFORE, policy_file=witnesses.policy, anchor_wait_s=0.2, witness_timeout_s=1)
    witnesses.stop()
    stage.send_deadline_s = 5.5
    with stage.gate(config) as gate:
        outcome = stage.fire(gate, "a")
        assert isinstance(outcome, InFlight)
        assert outcome.reason == "not_sent"
        assert stage.ledger == []
        witnesses.start()
        wait_until(lambda: isinstance(stage.fire(gate, "a"), Committed))
        assert stage.ledger == ["a"]


def test_a_transaction_that_holds_the_log_back_holds_the_send_back(log_database: str, tmp_path: Path) -> None:
    """On PostgreSQL an event can't be signed while an older transaction may still write: nothing is sent until it has ended."""
    journals = PostgresJournals(log_database)
    stage = Stage(journals, tmp_path)
    with stage.gate(stage.config(anchor=BEFORE, anchor_wait_s=0.2)) as gate, psycopg.connect(log_database) as older:
        older.execute("SELECT pg_current_xact_id()")
        fired = Background(lambda: stage.fire(gate, "a"))
        wait_until(lambda: len([topic for *_, topic in stage.journals.log(stage.path) if topic.endswith("dispatched")]) > 1)
        assert stage.ledger == []
        older.rollback()
        assert isinstance(fired.result(), Committed)
        assert stage.ledger == ["a"]
    journals.drop()


def test_the_witness_has_cosigned_before_the_send(stage: Stage, witnesses: Witnesses) -> None:
    """With a quorum, a checkpoint that only the log has signed is not enough."""
    seen: list[int] = []
    stage.before_send = lambda: seen.extend(stage.service().tree.store.cosigned_sizes(stage.origin))
    with stage.gate(stage.config(anchor=BEFORE, policy_file=witnesses.policy)) as gate:
        assert isinstance(stage.fire(gate, "a"), Committed)
    assert seen[0] > dispatched_index(stage)


def test_a_gate_without_a_key_waits_for_the_one_that_signs(stage: Stage) -> None:
    """Who signs may be another process: a gate with nothing but the policy waits for its checkpoints."""
    policy = stage.folder / "policy"
    policy.write_text(f"log {stage.key.public}\nquorum none\n", encoding="utf-8")
    service = stage.service(stage.config(every_s=0.1))
    with stage.gate(LogConfig(policy_file=policy, anchor=BEFORE, anchor_wait_s=20)) as gate:
        service.start()
        assert isinstance(stage.fire(gate, "a"), Committed)
    service.stop()
    assert stage.ledger == ["a"]


def die_at_the_anchor(gate: Gate, effect: Effect[Any]) -> None:
    """Fire, and die between Dispatched and its checkpoint."""

    def die(request: requests.Request[Any]) -> Any:
        if isinstance(request, requests.Anchor):
            raise KeyboardInterrupt
        return gate._driver.perform(request)

    approval = gate.approve("case-a", cap_minor=AMOUNT, currency="usd", by="user:1", expires_in_s=3600)
    with pytest.raises(KeyboardInterrupt):
        drive(gate, gate._operations.fire(Proposal("pay:a", effect, approval), 0.0), die)
    assert gate.receipt("pay:a").sends == 1


def test_a_death_while_it_waits_sends_once_after_recovery(stage: Stage) -> None:
    """What dies between Dispatched and its checkpoint has sent nothing; recovery looks, anchors, and sends it once."""
    world = Provider("keys-lookup")
    for part in ("die", "recover"):
        with open_gate(stage.url, targets=[world], log=stage.config(anchor=BEFORE)) as gate:
            if part == "die":
                die_at_the_anchor(gate, world.transfer())
                assert world.ledger == []
            else:
                (outcome,) = gate.recover().outcomes
                assert isinstance(outcome, Committed)
    assert len(world.ledger) == 1


def test_a_death_while_it_waits_is_in_doubt_where_nobody_can_look(stage: Stage) -> None:
    """A target without keys and lookup can't tell that nothing was sent: it is Ambiguous, and nothing is sent for it."""
    with stage.gate(stage.config(anchor=BEFORE)) as gate:
        die_at_the_anchor(gate, stage.effect("a"))
    with stage.gate(stage.config(anchor=BEFORE)) as gate:
        (outcome,) = gate.recover().outcomes
        assert isinstance(outcome, Ambiguous)
    assert stage.ledger == []


@only_once
def test_a_journal_that_was_set_back_sends_nothing(stage: Stage) -> None:
    """Where the log refuses to sign, an anchored gate sends nothing, and says why."""
    with stage.gate(stage.config()) as gate:
        stage.fire(gate, "a")
    stage.mark.write_text(
        stage.mark.read_text(encoding="utf-8").replace(f"{stage.origin}\n", f"{stage.origin}\n9"), encoding="utf-8"
    )
    stage.send_deadline_s = 5.5
    with stage.gate(stage.config(anchor=BEFORE, anchor_wait_s=0.2)) as gate:
        outcome = stage.fire(gate, "b")
        assert isinstance(outcome, InFlight)
        assert "log new-epoch --after-restore" in outcome.words
        assert stage.ledger == ["a"]


def test_closing_the_gate_ends_the_wait(stage: Stage) -> None:
    """Whoever waits for a checkpoint when the gate is closed is told so, and nothing was sent."""
    policy = stage.folder / "policy"
    policy.write_text(f"log {stage.key.public}\nquorum none\n", encoding="utf-8")
    gate = stage.gate(LogConfig(policy_file=policy, anchor=BEFORE, anchor_wait_s=20))
    raised: list[BaseException] = []

    def fire() -> None:
        try:
            stage.fire(gate, "a")
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            raised.append(error)

    thread = threading.Thread(target=fire)
    thread.start()
    wait_until(lambda: any(topic.endswith("dispatched") for *_, topic in stage.journals.log(stage.path)))
    gate.close()
    thread.join()
    assert isinstance(raised[0], GateClosed)
    assert stage.ledger == []


def test_closing_the_gate_leaves_no_doubt(stage: Stage) -> None:
    """That nothing was sent is written down when the wait ends with the gate: a target that can't be asked sends it later."""
    policy = stage.folder / "policy"
    policy.write_text(f"log {stage.key.public}\nquorum none\n", encoding="utf-8")
    gate = stage.gate(LogConfig(policy_file=policy, anchor=BEFORE, anchor_wait_s=20))
    fired = Background(lambda: stage.fire(gate, "a"))
    wait_until(lambda: any(topic.endswith("dispatched") for *_, topic in stage.journals.log(stage.path)))
    gate.close()
    with pytest.raises(GateClosed):
        fired.result()
    with stage.gate(stage.config(anchor=BEFORE)) as again:
        (outcome,) = again.recover().outcomes
    assert isinstance(outcome, Committed)
    assert stage.ledger == ["a"]


def test_a_wait_that_leaves_no_time_to_send_is_refused(stage: Stage) -> None:
    """A wait that would use the send's time up is refused when the gate is opened."""
    with pytest.raises(InvalidConfiguration, match="anchor_wait_s"):
        stage.gate(stage.config(anchor=BEFORE, anchor_wait_s=26))


def test_many_sends_share_a_checkpoint(stage: Stage) -> None:
    """Threads that wait at once are covered by fewer checkpoints than there are sends."""
    with stage.gate(stage.config(anchor=BEFORE)) as gate:
        threads = [threading.Thread(target=stage.fire, args=(gate, str(name))) for name in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(stage.ledger) == sorted(str(name) for name in range(12))


def test_without_an_anchor_no_request_is_made(stage: Stage) -> None:
    """Without an anchor the protocol asks for nothing more than before."""
    asked: list[str] = []
    with stage.gate(stage.config()) as gate:
        approval = gate.approve("case-a", cap_minor=100, currency="usd", by="user:1", expires_in_s=3600)
        part = gate._operations.fire(Proposal("pay:a", stage.effect("a"), approval), 0.0)

        def note(request: requests.Request[Any]) -> Any:
            asked.append(type(request).__name__)
            return gate._driver.perform(request)

        drive(gate, part, note)
    assert "Anchor" not in asked
    assert "Send" in asked
