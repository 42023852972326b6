"""What a fork leaves in the server: no session, and a lock that is taken later; the rest is in `test_fork`."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.postgres.server import PostgresServer
from harness.proxy import Direction, Link, Proxy, Tap
from interlock.infrastructure.postgres.locks import SessionLocks
from tests.integration.postgres_stage import wait_until
from tests.integration.processes import ROOT, Line, Nursery
from tests.integration.shared_ledger import World
from tests.integration.test_fork import HOURS_S, approve, child_holds_what_it_committed


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where the processes come from."""
    with Nursery() as one:
        yield one


@pytest.fixture
def world(postgres_url: str, tmp_path: Path) -> World:
    """A world whose claims run for hours: who takes over in time can only have seen the lock."""
    return World(tmp_path, claim_ttl_s=HOURS_S, journal_url=postgres_url)


def sessions(url: str) -> int:
    """Return how many sessions of gates the server has."""
    with psycopg.connect(url, application_name="the test") as connection:
        counted = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'interlock'"
        ).fetchone()
        assert counted is not None
        return int(counted[0])


SERVER = """
import os, sys
from pathlib import Path
from tests.integration.shared_ledger import World
from tests.integration.test_fork import approve

world = World(Path(sys.argv[1]), journal_url=sys.argv[2])
gate = world.gate()
approve(gate, "parent")
gate.fire("parent", world.payout("parent"), approval="parent")

def work(case):
    approve(gate, case)
    outcome = gate.fire(case, world.payout(case), approval=case)
    assert type(outcome).__name__ == "Committed", outcome

pids = []
for number in range(3):
    pid = os.fork()
    if pid == 0:
        work(f"child-{number}")
        gate.close()
        sys.exit(0)
    pids.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
work("afterwards")
gate.close()
"""


def test_nobody_leaves_a_warning_or_a_session(world: World) -> None:
    """A preforking server whose workers close their gates and end as Python programs do: silence, and an empty server."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", SERVER, str(world.folder), world.url]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    child_holds_what_it_committed(world, ["parent", "child-0", "child-1", "child-2", "afterwards"])
    assert sessions(world.url) == 0


class HoldsTheNext:
    """Holds the next new link of a proxy, from a client's n-th message on."""

    def __init__(self) -> None:
        self._at: int | None = None
        self.held = threading.Event()

    def arm(self, at: int) -> None:
        """Hold the next one from its at-th message on, counted from 1."""
        self._at = at

    def tap(self) -> Tap:
        """Return what watches a new link."""
        at, self._at = self._at, None
        count = itertools.count(1)

        def watch(link: Link, direction: Direction, data: bytes) -> bytes:
            if direction is Direction.TO_SERVER and next(count) == at:
                link.hold()
                self.held.set()
            return data

        return watch


def fork_while_connecting(line: Line, world: World) -> None:
    """Lose the lock's session, take the lock again on a thread, and fork a child when told: in the middle of that."""
    gate = world.gate()
    locks = gate._driver.locks
    assert isinstance(locks, SessionLocks)
    line.say(locks.handle)
    line.hear()
    locks.lose()
    taking = threading.Thread(target=locks.ensure)
    taking.start()
    line.hear()
    line.fork(live_on)
    line.say("forked")
    taking.join()
    line.say("taken")
    line.hear()


def live_on(line: Line) -> None:
    """Do nothing, with all that was inherited."""
    line.hear()


@pytest.mark.parametrize("message", [1, 3], ids=["connecting", "setting up"])
def test_a_child_that_is_forked_while_its_parent_connects_does_not_hide_its_death(
    nursery: Nursery, postgres: PostgresServer, tmp_path: Path, message: int
) -> None:
    """The lock's connection is being made on another thread: the child gets a copy of its socket, which nobody there knows of."""
    holder = HoldsTheNext()
    schema = f"forking_{message}"
    with (
        Proxy(postgres.socket_path, holder.tap) as proxy,
        World(tmp_path, journal_url=postgres.url(schema=schema)).gate() as other,
    ):
        world = World(tmp_path, claim_ttl_s=HOURS_S, journal_url=postgres.url(port=proxy.port, schema=schema))
        parent = nursery.start(fork_while_connecting, world)
        handle = parent.hear()
        holder.arm(message)
        parent.tell()
        holder.held.wait()
        parent.tell()
        child = nursery.adopt()
        assert parent.hear() == "forked"
        proxy.heal()
        assert parent.hear() == "taken"
        parent.kill()
        wait_until(lambda: other._driver.locks.probe(handle) == "gone")
        child.tell()
        child.result()


def fork_while_it_is_down(line: Line, world: World) -> None:
    """Fork a child when told; the child fires when told."""
    gate = world.gate()
    approve(gate, "parent")
    line.say("open")
    line.hear()
    line.fork(fire_on, world, gate)
    line.say("forked")
    line.hear()


def fire_on(line: Line, world: World, gate: object) -> str:
    """Fire on the inherited gate, first while its database is down, then when it is back."""
    from interlock import Gate
    from interlock.errors import JournalUnavailable

    assert isinstance(gate, Gate)
    try:
        gate.fire("parent", world.payout("parent"), approval="parent")
    except JournalUnavailable:
        line.say("unavailable")
    line.hear()
    outcome = gate.fire("parent", world.payout("parent"), approval="parent")
    claim = gate.action("parent").claim
    assert claim is not None
    assert claim.holder == gate._driver.locks.holder
    assert claim.lock == gate._driver.locks.handle is not None
    return type(outcome).__name__


def test_a_child_that_is_forked_while_the_database_is_down_gets_its_lock_later(nursery: Nursery, tmp_path: Path) -> None:
    """Until the database is back nothing is sent; then the child is a holder like any other."""
    with PostgresServer.start(in_memory=True) as server:
        world = World(tmp_path, journal_url=server.url())
        parent = nursery.start(fork_while_it_is_down, world)
        assert parent.hear() == "open"
        server.stop()
        parent.tell()
        child = nursery.adopt()
        assert parent.hear() == "forked"
        assert child.hear() == "unavailable"
        assert not world.effects()
        server.restart()
        child.tell()
        assert child.result() == "Committed"
        parent.kill()
    assert len(world.effects()) == 1
