"""Failover: a standby takes over from a primary that was killed. What both have counts; what only the dead one had is lost."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.postgres.databases import postgres_url
from harness.postgres.server import PostgresServer
from harness.postgres.wire import Moment
from harness.proxy import Link
from interlock import Committed, Receipts, Refused
from interlock.errors import JournalCorrupt, JournalUnavailable, OutcomeNotRecorded
from tests.crashing import Actor
from tests.integration.postgres_stage import APPEND, Background, Stage, once, require_standby, stage_on, wait_until, waiting_pid
from tests.provider_world import SUBJECT
from tests.servers import start_server


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A journal on a primary of its own."""
    with start_server() as started, stage_on(started) as one:
        yield one


@pytest.fixture
def standby(stage: Stage) -> Iterator[PostgresServer]:
    """A standby that follows it."""
    stage.gate(stage.direct_url()).close()  # the journal is there before the copy is made
    with stage.server.standby() as copy:
        yield copy


def both(stage: Stage, standby: PostgresServer, **options: str) -> str:
    """Return the URL that names both servers."""
    hosts = {"host": f"{stage.server.socket_folder},{standby.socket_folder}", "port": f"{stage.server.port},{standby.port}"}
    return postgres_url("postgres@", stage.database, {**hosts, "schema": stage.schema, **options})


def fail_over(stage: Stage, standby: PostgresServer) -> None:
    """Kill the primary when the standby has everything, and promote that."""
    settle(stage, standby)
    stage.server.kill()
    standby.promote()


def fail_over_late(stage: Stage, standby: PostgresServer) -> None:
    """Kill the primary, and promote a standby that was away for a while: what was committed meanwhile is lost."""
    stage.server.kill()
    standby.restart()
    standby.promote()


def require_once(stage: Stage, actor: Actor) -> None:
    """The provider did it once, by its own ledger, and the journal says so."""
    assert len(stage.effects(actor)) == len(stage.world.ledger) == 1
    assert actor.gate.receipt(actor.key).status == "COMMITTED"


def test_gate_is_not_opened_on_a_standby(stage: Stage, standby: PostgresServer) -> None:
    """A gate on a standby would hold a lock that nobody sees: the error says what to do. Receipts can be read there."""
    actor = stage.actor(stage.gate())
    actor.fire()
    url = standby.url(schema=stage.schema)
    with pytest.raises(JournalUnavailable, match="standby"):
        stage.gate(url)
    with pytest.raises(JournalUnavailable, match="read-only"):
        stage.gate(standby.url(schema="not_there"))
    with Receipts.open(url) as receipts:
        wait_until(lambda: [receipt.status for receipt in receipts.receipts().receipts] == ["COMMITTED"])
    standby.promote()
    assert isinstance(Actor(stage.gate(url), stage.world, actor.key, actor.approval).fire(), Committed)
    require_once(stage, actor)


@pytest.mark.long
def test_gate_goes_on_after_a_failover(stage: Stage, standby: PostgresServer) -> None:
    """A gate whose URL names both servers finds the new primary by itself, and is the same holder there."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    fail_over(stage, standby)
    assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


@pytest.mark.parametrize("moment", [pytest.param("before_send", marks=pytest.mark.long), "after_send"])
def test_failover_in_the_middle_of_a_send(stage: Stage, standby: PostgresServer, moment: str) -> None:
    """The primary is lost while the provider is at work: what was dispatched is known on the new one, and recorded there."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    setattr(stage.world, moment, once(lambda: fail_over(stage, standby)))
    assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


def test_second_host_is_no_place_for_reads(stage: Stage, standby: PostgresServer) -> None:
    """While the primary is away, a gate does not go by what the standby knew: it says that the journal is down."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    stage.server.kill()
    with pytest.raises(JournalUnavailable):
        actor.fire()
    with pytest.raises(JournalUnavailable):
        actor.gate.receipts()
    stage.server.restart()
    assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


def test_standby_that_is_behind_has_not_the_last_word(stage: Stage, standby: PostgresServer) -> None:
    """The answer to a commit is lost, and the journal's address leads to a standby that has not heard of it: that is not a no."""
    actor = stage.actor(stage.gate())
    settle(stage, standby)
    stage.sql_on(standby, "SELECT pg_wal_replay_pause()")

    def move(link: Link) -> None:
        stage.proxy.upstream = standby.socket_path
        link.cut()

    sprung = stage.traps.set(APPEND, Moment.REPLY, move)
    with pytest.raises(JournalUnavailable, match="not known"):
        actor.gate.propose(actor.key, stage.world.transfer(), approval=str(actor.approval))
    assert sprung.is_set()
    assert actor.exists() is False, "the standby does not know it yet"
    stage.sql_on(standby, "SELECT pg_wal_replay_resume()")
    wait_until(actor.exists)


# --- what asynchronous replication loses


def test_lost_dispatch_is_said_loudly(stage: Stage, standby: PostgresServer) -> None:
    """The commit before the send is lost with the primary: the sender has the provider's answer, and says OutcomeNotRecorded."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    standby.stop()
    stage.world.after_send = once(lambda: fail_over_late(stage, standby))
    with pytest.raises(OutcomeNotRecorded) as caught:
        actor.fire()
    assert caught.value.evidence.reference == stage.world.ledger[0].reference


def test_lost_dispatch_makes_two(stage: Stage, standby: PostgresServer) -> None:
    """The gate that lost it notices; nobody else knows of it, and no premise was given: a second effect (I1 is broken)."""
    gate = stage.gate(both(stage, standby))
    actor = stage.actor(gate)
    settle(stage, standby)
    standby.stop()
    assert isinstance(actor.fire(), Committed)
    fail_over_late(stage, standby)
    with pytest.raises(JournalCorrupt, match="a failover lost its end"):
        actor.fire()
    assert len(stage.world.ledger) == 1
    actor.gate = stage.gate(both(stage, standby))
    assert isinstance(actor.fire(), Committed)
    assert len(stage.world.ledger) == 2, "if one landed, docs/residual-risk.md claims too little"


def test_premise_sees_what_the_journal_lost(stage: Stage, standby: PostgresServer) -> None:
    """With a premise that the effect shows up in, the second send is refused: the provider knows what the journal does not."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    actor.premises = (replace(stage.world.observe(SUBJECT), policy="strict"),)
    settle(stage, standby)
    standby.stop()
    assert isinstance(actor.fire(), Committed)
    fail_over_late(stage, standby)
    assert isinstance(actor.fire(), Refused)
    assert len(stage.world.ledger) == 1


@pytest.mark.long
def test_lost_dispatch_of_a_known_action_shows(stage: Stage, standby: PostgresServer) -> None:
    """The action is older, and only its dispatch is lost: the answer is recorded, and `verify` shows that a send is missing."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    actor.gate.propose(actor.key, stage.world.transfer(), approval=str(actor.approval))
    settle(stage, standby)
    standby.stop()
    stage.world.after_send = once(lambda: fail_over_late(stage, standby))
    assert isinstance(actor.recover(), Committed)
    require_once(stage, actor)
    assert [finding.words for finding in actor.gate.verify().findings] == ["Committed can't follow in status INTENDED"]


# --- what synchronous replication keeps


def test_nothing_is_sent_before_the_standby_has_it(stage: Stage, standby: PostgresServer) -> None:
    """With a synchronous standby the first commit waits for it, and nothing is sent: the failover loses nothing that mattered."""
    actor = stage.actor(stage.gate(both(stage, standby)))
    settle(stage, standby)
    standby.stop()
    require_standby(stage, "*")
    fire = Background(actor.fire)
    waiting_pid(stage, fire, "SyncRep")
    assert stage.world.sent == []
    fail_over_late(stage, standby)
    with pytest.raises(JournalUnavailable):
        fire.result()
    assert stage.world.sent == []
    assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


def settle(stage: Stage, standby: PostgresServer) -> None:
    """Wait until the standby has what was committed so far."""
    at = stage.sql("SELECT pg_current_wal_flush_lsn()::text")[0][0]
    copy = Stage(standby, stage.proxy, stage.traps, schema=stage.schema)
    wait_until(lambda: copy.sql("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", at)[0][0])
