"""A gate on PostgreSQL opened before a fork, as a preforking server does; parent and children are holders of their own."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness.postgres.server import PostgresServer
from tests.integration.processes import ARRIVAL, ROOT, WRITE, Line, Nursery, World, finish
from tests.integration.test_fork import CHILDREN, HOURS_S, approve, child_holds_what_it_committed, fork_in_the_send, prefork


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


@pytest.mark.parametrize("place", [ARRIVAL, WRITE])
def test_living_child_does_not_hide_its_parents_death(nursery: Nursery, world: World, place: str) -> None:
    """Parent killed, child alive: the server ends the parent's session at once, and another process takes over."""
    parent = nursery.start(fork_in_the_send, world, place)
    child = nursery.adopt()
    assert parent.hear() == "forked"
    with world.gate() as other:
        held = other.fire("case-1", world.payout("case-1"), approval="case-1")
        assert type(held).__name__ == "InFlight", "the parent still lives"
        parent.kill()
        ended = other.fire("case-1", world.payout("case-1"), approval="case-1", wait_s=30)
        assert type(ended).__name__ == "Committed"
        assert len(world.effects()) == 1
        assert other.verify().valid
    child.kill()


def test_dying_child_does_not_end_its_parents_session(nursery: Nursery, world: World) -> None:
    """The child's copies of the parent's connections are closed without a word: the parent's claim stands."""
    parent = nursery.start(fork_in_the_send, world, WRITE)
    child = nursery.adopt()
    assert parent.hear() == "forked"
    child.kill()
    with world.gate() as other:
        held = other.fire("case-1", world.payout("case-1"), approval="case-1")
        assert (type(held).__name__, getattr(held, "reason", None)) == ("InFlight", "held")
        parent.tell()
        parent.result()
        assert type(other.fire("case-1", world.payout("case-1"), approval="case-1")).__name__ == "Committed"
    assert len(world.effects()) == 1


def test_orphan_can_fire(nursery: Nursery, world: World) -> None:
    """The child of a parent that was killed is a holder of its own: what it commits is in the journal for everybody."""
    parent = nursery.start(fork_in_the_send, world, WRITE)
    child = nursery.adopt()
    assert parent.hear() == "forked"
    parent.kill()
    assert nursery.run(finish, world) == "Committed"
    child.tell("fire")
    assert child.hear() == "Committed"
    child.tell("end")
    case, _ = child.result()
    child_holds_what_it_committed(world, [case])


@pytest.mark.parametrize("closes", [False, True], ids=["parent stays open", "parent closes"])
def test_preforked_workers_fire(nursery: Nursery, world: World, closes: bool) -> None:  # noqa: FBT001
    """Four children of one gate fire at once, and again after their parent has closed it; each is a holder of its own."""
    parent = nursery.start(prefork, world, closes)
    children = [nursery.adopt() for _ in range(CHILDREN)]
    for child in children:
        child.tell("fire")
    assert [child.hear() for child in children] == ["Committed"] * CHILDREN
    parent.tell()
    assert parent.hear() == "ready"
    for child in children:
        child.tell("end")
    said = [child.result() for child in children]
    parent.tell()
    holders = {holder for _, holder in said} | {parent.result()}
    assert len(holders) == CHILDREN + 1
    child_holds_what_it_committed(world, ["parent", *(case for case, _ in said)])


SERVER = """
import os, sys
from pathlib import Path
from tests.integration.processes import World
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
