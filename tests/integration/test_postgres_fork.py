"""What a fork leaves in the server: no session, and a lock that is taken later; the rest is in `test_fork`."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.postgres.server import PostgresServer
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
