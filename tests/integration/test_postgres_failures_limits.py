"""PostgreSQL turns a gate down: no connection left, a deadlock, a time-out, a full disk. Nothing is sent twice."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from harness.postgres.server import PostgresServer
from interlock import Committed
from interlock.domain.records import name_digest
from interlock.domain.requests import StillAt
from interlock.errors import JournalUnavailable, OutcomeNotRecorded
from tests.crashing import Actor
from tests.crashing import once as right_before
from tests.integration.postgres_stage import (
    Background,
    Stage,
    approval_uuid,
    once,
    stage_on,
    wait_until,
    waiting_pid,
)
from tests.servers import start_server

CONNECTIONS = 8
NEXT_EVENT = "INSERT INTO stored_events VALUES (%s, 2, 'a.topic', '', '', '', 0)"
"""The approval's next event, as somebody else writes it."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server with few connections, that looks for deadlocks at once."""
    settings = {"max_connections": str(CONNECTIONS), "superuser_reserved_connections": "0", "deadlock_timeout": "50ms"}
    with start_server(settings=settings) as started:
        yield started


@pytest.fixture
def stage(server: PostgresServer) -> Iterator[Stage]:
    """A journal of its own for each test."""
    with stage_on(server) as one:
        yield one


@pytest.fixture
def actor(stage: Stage) -> Actor:
    """Who fires."""
    return stage.actor(stage.gate())


def require_once(stage: Stage, actor: Actor) -> None:
    """Fire again: it ends as committed, with one effect in the provider's ledger, of one send."""
    assert isinstance(actor.fire(), Committed)
    action_id = actor.action().id
    assert len(stage.world.effects_of(action_id)) == len(stage.world.sends_of(action_id)) == 1


# --- connections


@contextmanager
def no_connection_left(stage: Stage, *, gate_keeps_its_own: bool = True) -> Iterator[None]:
    """Take every connection that the server has left; the gate's own idle ones are ended before, unless it keeps them."""
    with ExitStack() as taken:
        first = taken.enter_context(stage.session())
        if not gate_keeps_its_own:
            first.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'interlock'")
        with suppress(psycopg.OperationalError):
            while True:
                taken.enter_context(stage.session())
        yield


def test_out_of_connections_before_anything_is_written(stage: Stage, actor: Actor) -> None:
    """A gate whose connections are gone, on a server that has none left, sends nothing and says why."""
    with no_connection_left(stage, gate_keeps_its_own=False), pytest.raises(JournalUnavailable, match="too many clients"):
        actor.fire()
    assert stage.world.sent == []
    assert not actor.exists()
    require_once(stage, actor)


def test_out_of_connections_harms_no_gate_that_has_its_own(stage: Stage, actor: Actor) -> None:
    """A gate that is open and warm goes on while nobody else gets a connection."""
    with no_connection_left(stage):
        assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


def test_out_of_connections_right_before_the_send(stage: Stage, actor: Actor) -> None:
    """A gate that lost its lock and can't take it again sends nothing, although its dispatch is durable."""
    with ExitStack() as stack:
        lose = right_before(StillAt, lambda: stack.enter_context(no_connection_left(stage, gate_keeps_its_own=False)))
        with pytest.raises(JournalUnavailable, match="nothing is sent until it is back"):
            actor.fire(interpose=lose)
        assert stage.world.sent == []
    require_once(stage, actor)


def test_out_of_connections_after_the_send(stage: Stage, actor: Actor) -> None:
    """The provider has answered, and no connection is left to write it down: OutcomeNotRecorded; later it is found, not sent."""
    with ExitStack() as stack:
        stage.world.after_send = once(lambda: stack.enter_context(no_connection_left(stage, gate_keeps_its_own=False)))
        with pytest.raises(OutcomeNotRecorded) as caught:
            actor.fire()
    assert caught.value.evidence.reference == stage.world.ledger[0].reference
    require_once(stage, actor)


# --- what the server itself breaks off


def test_deadlock_is_a_conflict_like_any_other(stage: Stage, actor: Actor) -> None:
    """The first commit is broken off by a deadlock with somebody else's locks: the gate thinks again, and sends once."""
    approval = approval_uuid(actor.gate, "case-1")
    with stage.session() as names, stage.session() as events:
        names.execute("BEGIN")
        names.execute("INSERT INTO names VALUES ('action', %s, %s)", (name_of(actor), uuid4()))
        events.execute("SET deadlock_timeout = '1h'; BEGIN")
        events.execute(NEXT_EVENT, (approval,))
        fire = Background(actor.fire)
        waiting_pid(stage, fire, "transactionid")  # it stands first in the approval's line, and waits for the name
        crossing = Background(lambda: events.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(approval),)))
        wait_until(lambda: len(stage.sql("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")) == 1)
        names.execute("ROLLBACK")
        crossing.result()
        events.execute("ROLLBACK")
        assert isinstance(fire.result(), Committed)
    assert "ERROR:  deadlock detected" in stage.server.log()
    require_once(stage, actor)


def name_of(actor: Actor) -> bytes:
    """Return what stands for the key of an actor's action in the table of names."""
    return name_digest(actor.gate._driver.journal.log_id, "action", actor.key)


@pytest.mark.parametrize("limit", ["statement_timeout", "lock_timeout"])
@pytest.mark.parametrize("before", ["the send", "the end"])
def test_statement_that_takes_too_long_is_not_a_commit(stage: Stage, limit: str, before: str) -> None:
    """A commit that the server breaks off wrote nothing: before the send nothing is sent, after it OutcomeNotRecorded."""
    actor = stage.actor(stage.gate(stage.url(options=f"-c {limit}=100ms")))
    answered = before == "the end"
    with stage.session() as other:
        other.execute("BEGIN")

        def block() -> None:
            other.execute("LOCK TABLE stored_events IN EXCLUSIVE MODE")

        if answered:
            stage.world.after_send = once(block)
        else:
            block()
        with pytest.raises(OutcomeNotRecorded if answered else JournalUnavailable, match="timeout"):
            actor.fire()
        assert len(stage.world.sent) == answered
        other.execute("ROLLBACK")
    require_once(stage, actor)


def test_idle_gate_keeps_its_lock(stage: Stage) -> None:
    """A time-out for idle sessions, which a role or a database may have, does not end a gate that has nothing to do."""
    with stage.session() as other:
        stage.gate(stage.url(options="-c idle_session_timeout=50"))
        before = gate_sessions(stage)
        other.execute("SELECT pg_sleep(0.3)")
        assert gate_sessions(stage) == before != []


def test_connections_that_were_ended_while_idle_are_replaced(stage: Stage, actor: Actor) -> None:
    """An administrator ends every session of a gate that has nothing to do: the next fire does not notice."""
    end_sessions(stage)
    assert isinstance(actor.fire(), Committed)
    require_once(stage, actor)


@pytest.mark.parametrize("before", ["the send", "the end"])
def test_server_that_only_reads(stage: Stage, actor: Actor, before: str) -> None:
    """A server is made read-only, as some are when their disk fills up: nothing is sent, or what was sent is said loudly."""
    with ExitStack() as stack:
        if before == "the send":
            stack.enter_context(read_only(stage))
        else:
            stage.world.after_send = once(lambda: stack.enter_context(read_only(stage)))
        with pytest.raises(JournalUnavailable if before == "the send" else OutcomeNotRecorded, match="read-only"):
            actor.fire()
        assert len(stage.world.sent) == (before == "the end")
    require_once(stage, actor)


@contextmanager
def read_only(stage: Stage) -> Iterator[None]:
    """Let every new session only read, and end the gate's old ones."""
    stage.sql("ALTER SYSTEM SET default_transaction_read_only = on")
    reload(stage, "on")
    end_sessions(stage)
    try:
        yield
    finally:
        stage.sql("ALTER SYSTEM RESET default_transaction_read_only")
        reload(stage, "off")
        end_sessions(stage)


def reload(stage: Stage, expected: str) -> None:
    """Let the server read its settings again, and wait until it has."""
    stage.sql("SELECT pg_reload_conf()")
    wait_until(lambda: stage.sql("SHOW default_transaction_read_only") == [(expected,)])


def gate_sessions(stage: Stage) -> list[int]:
    """Return the processes that serve gates."""
    return sorted(pid for (pid,) in stage.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'interlock'"))


def end_sessions(stage: Stage) -> None:
    """End every session of a gate, and see its end."""
    stage.sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'interlock'")
    assert gate_sessions(stage) == []


# --- a disk that is full


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own, with little room."""
    folder = Path(tempfile.mkdtemp(prefix="disk-"))  # the server's user can't enter pytest's own
    folder.chmod(0o755)
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m,mode=1777", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if mount.returncode != 0:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here, so no disk can be filled: {mount.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


def stuff(stage: Stage) -> None:
    """Use up the room that the log's pages still have: on a full disk, a commit that needs none goes through."""
    with stage.session() as session:
        for _ in range(300):
            with suppress(psycopg.errors.DiskFull):
                session.execute(
                    "INSERT INTO stored_events (originator_id, originator_version, topic, state_digest, leaf_hash, commit_order)"
                    " VALUES (gen_random_uuid(), 1, '', '', '', -1)"
                )


def disk_of(stage: Stage) -> Path:
    """Return the disk that a server's data are on."""
    return stage.server.data_folder.parent


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Fill the disk, to the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@pytest.fixture
def cramped(small_disk: Path) -> Iterator[Stage]:
    """A journal on a disk that can be filled."""
    with PostgresServer.start(folder=small_disk) as server, stage_on(server) as stage:
        yield stage


def test_full_disk_before_the_send(cramped: Stage) -> None:
    """The disk is full before the first commit: an error that says so, and nothing is sent; with room again it goes on."""
    actor = cramped.actor(cramped.gate())
    with full(disk_of(cramped)):
        stuff(cramped)
        with pytest.raises(JournalUnavailable, match="No space left on device"):
            actor.fire()
    assert cramped.world.sent == []
    require_once(cramped, actor)


def test_full_disk_after_the_send(cramped: Stage) -> None:
    """The disk is full when the provider has answered: OutcomeNotRecorded; with room again it is found, and not sent again."""
    actor = cramped.actor(cramped.gate())
    with ExitStack() as stack:

        def fill() -> None:
            stack.enter_context(full(disk_of(cramped)))
            stuff(cramped)

        cramped.world.after_send = once(fill)
        with pytest.raises(OutcomeNotRecorded, match="No space left on device"):
            actor.fire()
    assert len(cramped.world.ledger) == 1
    require_once(cramped, actor)
