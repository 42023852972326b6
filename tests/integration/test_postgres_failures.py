"""Acknowledgements that are lost between gate and PostgreSQL: what was written is read back, and nothing is sent twice (I8)."""

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from harness.postgres.server import PostgresServer
from harness.postgres.wire import Moment, Traps
from harness.proxy import CutAtByte, Direction, Proxy
from interlock import Committed
from interlock.errors import JournalUnavailable, OutcomeNotRecorded, UnknownApproval
from tests.crashing import Actor
from tests.integration.postgres_stage import (
    APPEND,
    Background,
    Stage,
    approval_uuid,
    approve,
    require_standby,
    see_end,
    stage_on,
    waiting_pid,
)
from tests.servers import start_server

FIRST, SECOND = 1, 2
LOST = (Moment.MID_REPLY, Moment.REPLY)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own."""
    with start_server() as started:
        yield started


@pytest.fixture
def stage(server: PostgresServer) -> Iterator[Stage]:
    """A journal of its own for each test."""
    with stage_on(server) as one:
        yield one


def require_one_effect(stage: Stage, actor: Actor) -> None:
    """The provider did it once, was asked once, and the journal says the same."""
    action_id = actor.action().id
    assert len(stage.world.effects_of(action_id)) == len(stage.world.sends_of(action_id)) == 1
    assert actor.gate.receipt(actor.key).status == "COMMITTED"
    assert actor.gate.approval(str(actor.approval)).remaining_minor == 0


def test_first_commit_that_never_arrived_sends_nothing(stage: Stage) -> None:
    """The connection is cut before the first commit gets to the server: an error, nothing sent, and the key is not used up."""
    actor = stage.actor(stage.gate())
    sprung = stage.traps.set(APPEND, Moment.REQUEST)
    with pytest.raises(JournalUnavailable, match="nothing was written"):
        actor.fire()
    assert sprung.is_set()
    assert stage.world.sent == []
    assert not actor.exists()
    assert isinstance(actor.fire(), Committed)
    require_one_effect(stage, actor)


@pytest.mark.parametrize("commit", [FIRST, SECOND])
@pytest.mark.parametrize("moment", LOST)
def test_commit_whose_acknowledgement_is_lost_is_read_back(stage: Stage, commit: int, moment: Moment) -> None:
    """The connection is cut after the server has committed: that is read back, and the action goes on as if nothing had been."""
    actor = stage.actor(stage.gate())
    sprung = stage.traps.set(APPEND, moment, nth=commit)
    assert isinstance(actor.fire(), Committed)
    assert sprung.is_set()
    require_one_effect(stage, actor)


def test_second_commit_that_never_arrived_is_said_loudly(stage: Stage) -> None:
    """The connection is cut before the second commit gets to the server: OutcomeNotRecorded; firing again sends nothing more."""
    actor = stage.actor(stage.gate())
    sprung = stage.traps.set(APPEND, Moment.REQUEST, nth=SECOND)
    with pytest.raises(OutcomeNotRecorded) as caught:
        actor.fire()
    assert sprung.is_set()
    assert caught.value.evidence.reference == stage.effects(actor)[0].reference
    assert actor.gate.receipt(actor.key).status == "IN_FLIGHT"
    assert isinstance(actor.fire(), Committed)
    require_one_effect(stage, actor)


@pytest.mark.parametrize("moment", Moment)
def test_lost_acknowledgement_of_a_person(stage: Stage, moment: Moment) -> None:
    """An approval whose acknowledgement is lost is granted, and one that is taken back is; what never arrived did not happen."""
    gate = stage.gate()
    approve(gate, "before")
    for word in (lambda: approve(gate, "after"), lambda: gate.revoke("before", by="user:2")):
        sprung = stage.traps.set(APPEND, moment)
        if moment is Moment.REQUEST:
            with pytest.raises(JournalUnavailable, match="nothing was written"):
                word()
        else:
            word()
        assert sprung.is_set()
    arrived = moment is not Moment.REQUEST
    assert (gate.approval("before").revoked_at is not None) == arrived
    if not arrived:
        with pytest.raises(UnknownApproval):
            gate.approval("after")


# --- the old session is still at it when the connection is lost


@pytest.mark.parametrize("role", ["none", "keeper"])
def test_session_that_waits_is_ended_before_it_is_read_back(stage: Stage, role: str) -> None:
    """The connection is lost while the commit waits for another writer of the approval: nothing is written, not even later.

    The role that a login's sessions change to may neither see nor end the sessions of that login.
    """
    if role != "none":
        stage.sql(f"CREATE ROLE {role}")
        stage.sql(f"GRANT CREATE ON DATABASE postgres TO {role}")
    gate = stage.gate(stage.url(options=f"-crole={role}"))
    actor = stage.actor(gate)
    with stage.session() as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(approval_uuid(gate, "case-1")),))
        fire = Background(actor.fire)
        backend = waiting_pid(stage, fire, "advisory")
        stage.proxy.cut_all()
        with pytest.raises(JournalUnavailable, match="nothing was written"):
            fire.result()
    see_end(stage, backend)
    assert not actor.exists(), "the lost session went on when the lock was free"
    assert stage.world.sent == []
    assert isinstance(actor.fire(), Committed)
    require_one_effect(stage, actor)


def test_commit_that_comes_late_is_read_back(stage: Stage) -> None:
    """The connection is lost in the middle of the commit, which becomes visible afterwards: it is waited for, and counts.

    It also waits for the standby that the lost session waited for: what is not there yet could be lost, and nothing is sent.
    """
    actor = stage.actor(stage.gate())
    with standby_missing(stage):
        fire = Background(actor.fire)
        waiting_pid(stage, fire, "SyncRep")
        assert not actor.exists(), "it is visible already, so it does not come late"
        stage.proxy.cut_all()
        waiting_pid(stage, fire, "SyncRep", "pg_logical_emit_message")
        assert actor.exists()
        assert stage.world.sent == []
    assert isinstance(fire.result(), Committed)
    require_one_effect(stage, actor)


def test_session_that_does_not_end_leaves_it_unknown(stage: Stage) -> None:
    """The lost session is stopped, and can't end: the error says that it is not known, and nothing is sent."""
    gate = stage.gate()
    actor = stage.actor(gate)
    with stage.session() as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(approval_uuid(gate, "case-1")),))
        fire = Background(actor.fire)
        backend = waiting_pid(stage, fire, "advisory")
        os.kill(backend, signal.SIGSTOP)
        stage.proxy.cut_all()
        with pytest.raises(JournalUnavailable, match="is not known"):
            fire.result()
    os.kill(backend, signal.SIGCONT)
    assert stage.world.sent == []
    assert isinstance(actor.fire(), Committed)
    require_one_effect(stage, actor)


@contextmanager
def standby_missing(stage: Stage) -> Iterator[None]:
    """Let every commit wait for a standby that is not there, until the end."""
    waiting = require_standby(stage, "nobody")
    try:
        yield
    finally:
        stage.sql("ALTER SYSTEM RESET synchronous_standby_names")
        stage.sql("SELECT pg_reload_conf()")
        waiting.result()


# --- the connection is cut at any byte


BYTES_SAMPLED = [pytest.param(10), pytest.param(200, marks=pytest.mark.long)]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("samples", BYTES_SAMPLED)
def test_cut_at_any_byte(server: PostgresServer, direction: Direction, samples: int) -> None:
    """Wherever in the bytes of a fire the connection is cut, the action ends when it is fired again, and was sent once."""
    cutter = CutAtByte()
    with Proxy(server.socket_path, lambda: cutter) as proxy:
        stage = Stage(server, proxy, Traps())
        gate = stage.gate()
        stage.actor(gate, "warm").fire()
        before = forwarded(proxy, direction)
        stage.actor(gate, "count").fire()
        total = forwarded(proxy, direction) - before
        for offset in sorted(random.Random(samples).sample(range(total), samples)):
            actor = stage.actor(gate, f"cut-{offset}")
            cutter.arm(direction, offset)
            try:
                outcome = actor.fire()
            except (JournalUnavailable, OutcomeNotRecorded):
                outcome = actor.fire()
            cutter.disarm()
            assert isinstance(outcome, Committed), offset
            require_one_effect(stage, actor)
        stage.close()


def test_making_of_a_journal_is_cut_off(server: PostgresServer) -> None:
    """Wherever in its making the connection is cut, a new journal is whole or is not there, and the next open makes it."""
    cutter = CutAtByte()
    with Proxy(server.socket_path, lambda: cutter) as proxy:
        for offset in random.Random(1).sample(range(100, 15_000), 8):
            stage = Stage(server, proxy, Traps())
            cutter.arm(Direction.TO_SERVER, offset)
            with suppress(JournalUnavailable):
                stage.gate()
            cutter.disarm()
            actor = stage.actor(stage.gate())
            assert isinstance(actor.fire(), Committed), offset
            require_one_effect(stage, actor)
            stage.close()


def forwarded(proxy: Proxy, direction: Direction) -> int:
    """Return how many bytes the open connections have seen in one direction."""
    return sum(link.forwarded[direction] for link in proxy.links)
