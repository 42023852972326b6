"""Claims on PostgreSQL: a gate's lock lives in a session of its own, is taken again when that is lost, and falls with it."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from harness.postgres.binaries import server_account
from harness.postgres.pooler import Pooler, Pooling
from harness.postgres.server import PostgresServer
from harness.proxy import LOOPBACK, Proxy
from interlock import Committed, Gate, InFlight
from interlock.domain.requests import Send, StillAt
from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.infrastructure.postgres.connections import Connection, is_usable
from interlock.infrastructure.postgres.locks import SessionLocks
from tests.crashing import Actor
from tests.crashing import once as right_before
from tests.integration.postgres_stage import (
    Background,
    Stage,
    approval_uuid,
    see_end,
    stage_on,
    wait_until,
    waiting_pid,
)
from tests.integration.processes import Line, Nursery, finish, fire
from tests.integration.shared_ledger import EXECUTED, WRITE, World, do_at
from tests.servers import start_server

HOURS_S = 12 * 3600.0


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


def require_once(stage: Stage, actor: Actor, sends: int = 1) -> None:
    """The provider did it once, by its own ledger, and was asked as often as it had to be."""
    action_id = actor.action().id
    assert len(stage.world.effects_of(action_id)) == 1
    assert len(stage.world.sends_of(action_id)) == sends
    assert actor.gate.receipt(actor.key).status == "COMMITTED"


# --- proxies that pool


Pool = Callable[[PostgresServer, Pooling], AbstractContextManager[int]]


@contextmanager
def stand_in(server: PostgresServer, pooling: Pooling) -> Iterator[int]:
    """Run the harness's pooler; return its port."""
    with Pooler(server.socket_path, pooling) as pooler:
        yield pooler.port


@contextmanager
def pgbouncer(server: PostgresServer, pooling: Pooling) -> Iterator[int]:
    """Run PgBouncer; return its port."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed here; the stand-in stands in for it")
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = probe.getsockname()[1]
    settings = server.socket_folder / f"pgbouncer-{port}.ini"
    settings.write_text(
        f"[databases]\n* = host={server.socket_folder} port={server.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr={LOOPBACK}\nlisten_port={port}\nunix_socket_dir=\nauth_type=any\npool_mode={pooling}\n"
    )
    # It refuses to run as root, as the server does.
    account = None if server_account().is_own else server_account()
    process = subprocess.Popen(
        [program, "-q", str(settings)],
        stderr=subprocess.DEVNULL,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    try:
        wait_until(lambda: answers(port))
        yield port
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    """Whether somebody listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


POOLS = [pytest.param(stand_in, id="stand-in"), pytest.param(pgbouncer, id="PgBouncer")]


@pytest.mark.parametrize("pool", POOLS)
def test_transaction_pooling_is_refused(stage: Stage, pool: Pool) -> None:
    """Field case 14, goauthentik/authentik#23876: the lock's session is given away; the gate is refused, and told what to do."""
    with pool(stage.server, Pooling.TRANSACTION) as port:
        url = stage.server.url(port=port, schema=stage.schema)
        with pytest.raises(InvalidConfiguration, match="pool_mode=session"):
            stage.gate(url)
        with psycopg.connect(stage.server.url(port=port)) as somebody:
            path = somebody.execute("SHOW search_path").fetchone()
            assert path is not None
            assert stage.schema not in path[0], "the next client of the pool would work in the journal's schema"


@pytest.mark.parametrize("pool", POOLS)
def test_transaction_pooling_is_refused_while_others_work(stage: Stage, pool: Pool) -> None:
    """Also where other clients of the pool take the sessions in between."""
    with pool(stage.server, Pooling.TRANSACTION) as port, busy_clients(stage.server.url(port=port)):
        for _ in range(5):
            with pytest.raises(InvalidConfiguration, match="pool_mode=session"):
                stage.gate(stage.server.url(port=port, schema=stage.schema))


@contextmanager
def busy_clients(url: str) -> Iterator[None]:
    """Keep some clients at work, until the end."""
    over: list[bool] = []

    def work() -> None:
        with psycopg.connect(url, autocommit=True, prepare_threshold=None) as client:
            while not over:
                client.execute("SELECT 1")

    workers = [Background(work) for _ in range(3)]
    try:
        yield
    finally:
        over.append(True)
        for worker in workers:
            worker.result()


@pytest.mark.parametrize("pool", POOLS)
def test_session_pooling_is_accepted(stage: Stage, pool: Pool) -> None:
    """A proxy that pools sessions keeps the lock: a gate works through it, is seen to live, and to be gone when it is closed."""
    with pool(stage.server, Pooling.SESSION) as port:
        actor = stage.actor(stage.gate(stage.server.url(port=port, schema=stage.schema)))
        assert isinstance(actor.fire(), Committed)
        require_once(stage, actor)
        other = stage.gate(stage.direct_url())
        handle = actor.gate._driver.locks.handle
        assert handle is not None
        assert other._driver.locks.probe(handle) == "alive"
        actor.gate.close()
        wait_until(lambda: other._driver.locks.probe(handle) == "gone")


@pytest.mark.parametrize("pool", POOLS)
def test_lost_session_behind_a_pool_is_ended(stage: Stage, pool: Pool) -> None:
    """A pool invents the process id that a client is told: the session behind it is ended all the same, and can't commit late."""
    with (
        pool(stage.server, Pooling.SESSION) as port,
        Proxy((LOOPBACK, port)) as proxy,
        stage.session() as other,
    ):
        gate = stage.gate(stage.server.url(port=proxy.port, schema=stage.schema))
        actor = stage.actor(gate)
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(approval_uuid(gate, "case-1")),))
        fire = Background(actor.fire)
        backend = waiting_pid(stage, fire, "advisory")
        proxy.cut_all()
        with pytest.raises(JournalUnavailable, match="nothing was written"):
            fire.result()
        other.execute("COMMIT")
        see_end(stage, backend)
        assert not actor.exists(), "the lost session went on when the lock was free"
        assert isinstance(actor.fire(), Committed)
        require_once(stage, actor)


# --- the session that holds the lock is lost


def lock_connection(gate: Gate) -> Connection:
    """Return the connection that holds a gate's lock."""
    locks = gate._driver.locks
    assert isinstance(locks, SessionLocks)
    assert locks._connection is not None
    return locks._connection


def lock_session(gate: Gate) -> int:
    """Return the process that serves a gate's lock."""
    return lock_connection(gate).session[0]


def end_lock(stage: Stage, gate: Gate) -> None:
    """End the session that holds a gate's lock."""
    assert stage.sql("SELECT pg_terminate_backend(%s, 10000)", lock_session(gate)) == [(True,)]


@pytest.mark.parametrize("moment", [StillAt, Send])
def test_lock_that_is_lost_is_taken_again(stage: Stage, moment: type[StillAt | Send]) -> None:
    """The lock's session is ended while a send is prepared: it is taken again first, by the same holder, and sent once."""
    actor = stage.actor(stage.gate())
    holder = actor.gate._driver.locks.holder
    assert isinstance(actor.fire(interpose=right_before(moment, lambda: end_lock(stage, actor.gate))), Committed)
    require_once(stage, actor)
    actor.gate._driver.locks.ensure()
    assert actor.gate._driver.locks.holder == holder


def test_nothing_is_sent_without_the_lock(stage: Stage) -> None:
    """The network is gone while a send is prepared: no send, until the lock is back."""
    actor = stage.actor(stage.gate())

    def go_down() -> None:
        stage.proxy.refuse()
        wait_until(lambda: not is_usable(lock_connection(actor.gate)))

    with pytest.raises(JournalUnavailable, match="nothing is sent until it is back"):
        actor.fire(interpose=right_before(StillAt, go_down))
    assert stage.world.sent == []
    stage.proxy.heal()
    assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


def test_lock_is_taken_from_the_session_that_was_lost(stage: Stage) -> None:
    """The gate is cut off, and something in between keeps its old session alive: the gate ends that, and goes on."""
    actor = stage.actor(stage.gate())
    before = lock_session(actor.gate)

    def desert() -> None:
        for link in stage.proxy.links:
            link.desert()
        wait_until(lambda: not is_usable(lock_connection(actor.gate)))
        assert stage.sql("SELECT pid FROM pg_stat_activity WHERE pid = %s", before) != []

    assert isinstance(actor.fire(interpose=right_before(StillAt, desert)), Committed)
    require_once(stage, actor)
    assert stage.sql("SELECT pid FROM pg_stat_activity WHERE pid = %s", before) == []


def test_who_took_over_meanwhile_wins(stage: Stage) -> None:
    """The lock is lost while a send is prepared, and another gate takes over: the first one's send does not happen."""
    first, other = stage.actor(stage.gate()), stage.gate()

    def take_over() -> None:
        end_lock(stage, first.gate)
        assert isinstance(Actor(other, stage.world, first.key, first.approval).fire(), Committed)

    assert isinstance(first.fire(interpose=right_before(StillAt, take_over)), Committed)
    require_once(stage, first)


def test_zombie_is_deduplicated(stage: Stage) -> None:
    """The lock is lost after the last check, and another gate takes over: both send under one key, and it is done once."""
    first, other = stage.actor(stage.gate()), stage.gate()

    def take_over() -> None:
        end_lock(stage, first.gate)
        assert isinstance(Actor(other, stage.world, first.key, first.approval).fire(), Committed)

    assert isinstance(first.fire(interpose=right_before(Send, take_over)), Committed)
    require_once(stage, first, sends=2)


# --- the holder is gone


@dataclass(frozen=True)
class PostgresWorld(World):
    """A world of processes whose journal is in PostgreSQL."""

    journal_url: str = ""

    @property
    def url(self) -> str:
        """The journal's URL."""
        return self.journal_url


@pytest.fixture
def world(stage: Stage, tmp_path: Path) -> World:
    """A world whose claims run for hours: who takes over in time can only have seen the lock."""
    return PostgresWorld(tmp_path, claim_ttl_s=HOURS_S, journal_url=stage.direct_url())


@pytest.mark.parametrize("place", [WRITE, EXECUTED])
def test_killed_holder_is_taken_over(nursery: Nursery, world: World, place: str) -> None:
    """A process is killed in the middle of its send: another one ends the action, hours before the claim runs out, once."""
    world.approve()
    worker = nursery.start(fire, world, "case-1", "case-1", place)
    assert worker.hear() == "ready"
    worker.tell()
    worker.ended()
    assert nursery.run(finish, world) == "Committed"
    assert len(world.effects()) == 1


def test_living_holder_is_not_taken_over(nursery: Nursery, world: World) -> None:
    """A process that is stopped in the middle of its send keeps its lock: others hear that it is held, until it is killed."""
    world.approve()
    worker = nursery.start(fire_and_stop, world)
    assert worker.stopped()
    with world.gate() as other:
        outcome = other.fire("case-1", world.payout(), approval="case-1")
        assert isinstance(outcome, InFlight)
        assert outcome.reason == "held"
        assert world.effects() == []
        worker.kill()
        assert isinstance(other.fire("case-1", world.payout(), approval="case-1", wait_s=60), Committed)
    assert len(world.effects()) == 1


def fire_and_stop(line: Line, world: World) -> None:
    """Fire, and be stopped right before the write."""
    del line
    with world.gate(do_at(WRITE, lambda: os.kill(os.getpid(), signal.SIGSTOP))) as gate:
        gate.fire("case-1", world.payout(), approval="case-1")


def test_forked_child_does_not_hide_its_parents_death(nursery: Nursery, world: World) -> None:
    """A child that was forked after the gate was opened lives on when its parent is killed: the parent is seen to be gone."""
    world.approve()
    parent = nursery.start(fork_in_the_send, world)
    child = nursery.adopt()
    assert parent.hear() == "forked"
    with world.gate() as other:
        assert isinstance(other.fire("case-1", world.payout(), approval="case-1"), InFlight)
        parent.kill()
        outcome = other.fire("case-1", world.payout(), approval="case-1", wait_s=60)
        assert isinstance(outcome, Committed)
        child.tell()
        assert child.result() == "Committed"
        assert {line["case"] for line in world.effects()} == {"case-1", "case-2"}
        assert len(world.effects()) == 2


def fork_in_the_send(line: Line, world: World) -> None:
    """Open a gate and fire; in the middle of the send fork a child, and never come back."""
    myself = os.getpid()

    def fork_and_hang() -> None:
        if os.getpid() == myself:
            line.fork(fire_as_child, world, gate)
            line.say("forked")
            line.hear()

    gate = world.gate(do_at(WRITE, fork_and_hang))
    gate.fire("case-1", world.payout(), approval="case-1")


def fire_as_child(line: Line, world: World, gate: Gate) -> str:
    """Fire a case of one's own on the inherited gate, when told to."""
    line.hear()
    approve_payout(gate, "case-2")
    return type(gate.fire("case-2", world.payout("case-2"), approval="case-2")).__name__


def approve_payout(gate: Gate, case: str) -> None:
    """Grant an approval on an open gate."""
    gate.approve(case, by="user:1", expires_in_s=3600, cap_minor=2000, currency="usd")
