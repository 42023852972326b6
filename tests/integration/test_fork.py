"""A gate that was opened before a fork: parent and children are holders of their own, on connections of their own."""

import os
from pathlib import Path

import pytest

from interlock import Gate
from tests.integration.processes import Line, Nursery, finish
from tests.integration.shared_ledger import ARRIVAL, WRITE, World, do_at, effects

HOURS_S = 12 * 3600.0
CHILDREN = 4


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A world whose claims run for hours: who takes over in time can only have seen the lock."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else None
    return World(tmp_path, claim_ttl_s=HOURS_S, journal_url=url)


def approve(gate: Gate, case: str) -> None:
    """Grant an approval on an open gate."""
    gate.approve(case, by="user:1", expires_in_s=3600, cap_minor=2000, currency="usd")


def work_when_told(line: Line, world: World, gate: Gate, case: str) -> tuple[str, str]:
    """Fire a case of one's own on the inherited gate; return the outcome, and which holder it was."""
    while (order := line.hear()) != "end":
        assert order == "fire"
        approve(gate, case)
        outcome = gate.fire(case, world.payout(case), approval=case)
        line.say(type(outcome).__name__)
    return case, str(gate._driver.locks.holder)


def fork_in_the_send(line: Line, world: World, place: str, stops: bool = False) -> None:  # noqa: FBT001, FBT002 - of the test
    """Open a gate and fire; in the middle of the send fork a child, and never come back."""
    myself = os.getpid()

    def fork_and_hang() -> None:
        if os.getpid() == myself:
            if stops:
                gate.stop()
            line.fork(work_when_told, world, gate, "child")
            line.say("forked")
            line.hear()

    gate = world.gate(do_at(place, fork_and_hang))
    approve(gate, "case-1")
    gate.fire("case-1", world.payout("case-1"), approval="case-1")


@pytest.mark.parametrize(("place", "stops"), [(ARRIVAL, False), (WRITE, False), (WRITE, True)])
def test_living_child_does_not_hide_its_parents_death(
    nursery: Nursery,
    world: World,
    place: str,
    stops: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Parent killed, child alive: another process takes over at once, hours before the claim runs out.

    Also where the parent's gate had been stopped, and was not closed yet.
    """
    parent = nursery.start(fork_in_the_send, world, place, stops)
    child = nursery.adopt()
    assert parent.hear() == "forked"
    with world.gate() as other:
        held = other.fire("case-1", world.payout("case-1"), approval="case-1")
        assert type(held).__name__ == "InFlight", "the parent still lives"
        parent.kill()
        # A server takes a moment to see the end of a session; a file's lock is free when its process is gone.
        patience_s = 0 if world.journal_url is None else 30
        ended = other.fire("case-1", world.payout("case-1"), approval="case-1", wait_s=patience_s)
        assert type(ended).__name__ == "Committed"
        assert len(world.effects()) == 1
        assert other.verify().valid
    child.kill()


def test_dying_child_does_not_end_its_parents_hold(nursery: Nursery, world: World) -> None:
    """The child's copies of the lock and of the connections are closed without a word: the parent's claim stands."""
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


def test_child_at_work_does_not_end_its_parents_hold(nursery: Nursery, world: World) -> None:
    """The child takes a lock of its own, and ends no other session for it: the parent, amid a send, keeps its claim."""
    parent = nursery.start(fork_in_the_send, world, WRITE)
    child = nursery.adopt()
    assert parent.hear() == "forked"
    child.tell("fire")
    assert child.hear() == "Committed"
    with world.gate() as other:
        held = other.fire("case-1", world.payout("case-1"), approval="case-1")
        assert (type(held).__name__, getattr(held, "reason", None)) == ("InFlight", "held")
    child.tell("end")
    child.result()
    parent.tell()
    parent.result()
    child_holds_what_it_committed(world, ["case-1", "child"])


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


def child_holds_what_it_committed(world: World, cases: list[str]) -> None:
    """Every case has one effect, and a receipt that another process can read."""
    paid = [line["case"] for line in effects(world.ledger)]
    with world.gate() as gate:
        found = {receipt.key: receipt.status for receipt in gate.receipts().receipts}
        checked = gate.verify()
    for case in cases:
        assert paid.count(case) == 1
        assert found.get(case) == "COMMITTED"
    assert checked.valid, checked.findings


def prefork(line: Line, world: World, closes: bool) -> str:  # noqa: FBT001 - a task's arguments come from another process
    """Open a gate and use it, as a server does while it loads the application; then fork workers."""
    gate = world.gate()
    approve(gate, "parent")
    gate.fire("parent", world.payout("parent"), approval="parent")
    for n in range(CHILDREN):
        line.fork(work_when_told, world, gate, f"child-{n}")
    line.hear()
    if closes:
        gate.close()
    line.say("ready")
    line.hear()
    gate.close()
    return str(gate._driver.locks.holder)


@pytest.mark.parametrize("closes", [False, True], ids=["parent stays open", "parent closes"])
def test_preforked_workers_fire(nursery: Nursery, world: World, closes: bool) -> None:  # noqa: FBT001
    """Four children of one gate fire at once, also after their parent has closed it; each is a holder of its own."""
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


def test_child_goes_on_after_its_parent_closed(nursery: Nursery, world: World) -> None:
    """A child that has used its gate goes on with it after the parent closed: nothing it commits is lost."""
    closes = True
    parent = nursery.start(prefork, world, closes)
    children = [nursery.adopt() for _ in range(CHILDREN)]
    for child in children:
        child.tell("fire")
        child.hear()
    parent.tell()
    assert parent.hear() == "ready"
    with world.gate():
        pass  # and a third process comes and goes, which would take the last lock for its own
    for child in children:
        child.tell("end")
        child.result()
    parent.tell()
    parent.result()
    late = nursery.run(use_after_parents_close, world)
    child_holds_what_it_committed(world, ["child-0", late])


def use_after_parents_close(line: Line, world: World) -> str:
    """Fork a child that uses the gate; close it here; let the child fire again; return the child's case."""
    gate = world.gate()
    approve(gate, "before")
    first, last = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        approve(gate, "in-child")
        os.write(first[1], b"x")
        os.read(last[0], 1)
        approve(gate, "late")
        gate.fire("late", world.payout("late"), approval="late")
        os._exit(0)
    del line
    os.read(first[0], 1)
    gate.close()
    os.write(last[1], b"x")
    os.waitpid(pid, 0)
    return "late"
