"""Many processes on one PostgreSQL journal: one key, one approval, and holders that die."""

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.domain.requests import Liveness
from interlock.infrastructure.postgres.journal import PostgresJournal
from tests.integration.processes import Line, Nursery, held, kill_myself, pass_barrier
from tests.integration.shared_ledger import AMOUNT_MINOR, ARRIVAL, EXECUTED, WRITE, Hook, Kind, World, do_at, nowhere

MANY = 8
HOURS_S = 12 * 3600.0


@pytest.fixture
def world(postgres_url: str, tmp_path: Path) -> World:
    """A world whose claims run for hours: who takes over in time can only have seen the lock."""
    return World(tmp_path, claim_ttl_s=HOURS_S, journal_url=postgres_url)


def fire_together(line: Line, world: World, barrier: Path, key: str, at: Hook = nowhere) -> tuple[str, str]:
    """Fire at once with the others, until there is an end."""
    with world.gate(at) as gate:
        line.say("ready")
        pass_barrier(barrier)
        outcome = gate.fire(key, world.payout(key), approval="shared", wait_s=30)
        return type(outcome).__name__, str(outcome.receipt.to_dict().get("refusal"))


def fire_slowly(line: Line, world: World, barrier: Path, key: str) -> tuple[str, str]:
    """Fire at once with the others; who sends says so, and waits in the middle of the send."""
    del barrier

    def say_and_wait() -> None:
        line.say("sending")
        line.hear()

    with world.gate(do_at(WRITE, say_and_wait)) as gate:
        outcome = gate.fire(key, world.payout(key), approval="shared")
        return type(outcome).__name__, str(getattr(outcome, "reason", None))


def all_at_once(nursery: Nursery, world: World, keys: list[str]) -> list[tuple[str, str]]:
    """Let one process for each key fire at the same moment; return what they were told."""
    barrier = world.folder / "barrier"
    with held(barrier):
        workers = [nursery.start(fire_together, world, barrier, key) for key in keys]
        assert [worker.hear() for worker in workers] == ["ready"] * len(keys)
    return [worker.result() for worker in workers]


@pytest.mark.parametrize("uses", [1, MANY])
def test_same_key_is_sent_once(nursery: Nursery, world: World, uses: int) -> None:
    """Of 8 processes that fire one key at once one sends, and all come to hear of its end."""
    world.approve("shared", uses=uses, cap_minor=uses * AMOUNT_MINOR)
    told = all_at_once(nursery, world, ["one"] * MANY)
    assert Counter(name for name, _ in told) == {"Committed": MANY}
    assert len(world.effects()) == 1
    with world.gate() as gate:
        assert gate.verify().valid
        assert [receipt.status for receipt in gate.receipts().receipts] == ["COMMITTED"]


def test_cap_holds_across_processes(nursery: Nursery, world: World) -> None:
    """Of 8 processes under one approval whose cap covers 3, exactly 3 send (I3); the others are refused with a receipt."""
    world.approve("shared", uses=MANY, cap_minor=3 * AMOUNT_MINOR)
    told = all_at_once(nursery, world, [f"key-{n}" for n in range(MANY)])
    assert Counter(name for name, _ in told) == {"Committed": 3, "Refused": MANY - 3}
    assert all("approval_used_up" in why for name, why in told if name == "Refused")
    assert len({line["action"] for line in world.effects()}) == len(world.effects()) == 3
    with world.gate() as gate:
        assert gate.approval("shared").remaining_minor == 0
        assert gate._driver.journal.sequence() == 1 + 3 * 6 + (MANY - 3) * 2
        assert gate.verify().valid


def test_different_approvals_do_not_wait_for_each_other(nursery: Nursery, world: World) -> None:
    """While one process sits in the middle of its send, others commit under approvals of their own."""
    world.approve("shared")
    slow = nursery.start(fire_slowly, world, world.folder / "barrier", "slow")
    assert slow.hear() == "sending"
    for n in range(2):
        world.approve(f"case-{n}")
        assert nursery.run(fire_alone, world, f"case-{n}") == "Committed"
    slow.tell()
    assert slow.result()[0] == "Committed"
    assert len(world.effects()) == 3


def fire_alone(line: Line, world: World, case: str) -> str:
    """Fire a case under its own approval."""
    del line
    with world.gate() as gate:
        return type(gate.fire(case, world.payout(case), approval=case)).__name__


def fire_and_die(line: Line, world: World, place: str, case: str) -> None:
    """Fire a case, and die at a place of its send."""
    del line
    with world.gate(do_at(place, kill_myself)) as gate:
        gate.fire(case, world.payout(case), approval=case)


@pytest.mark.parametrize("place", [ARRIVAL, WRITE, EXECUTED])
@pytest.mark.parametrize("kind", [Kind.BURNING, Kind.KEYS])
def test_a_killed_holder_is_taken_over_hours_before_its_claim_runs_out(
    nursery: Nursery, postgres_url: str, tmp_path: Path, kind: Kind, place: str
) -> None:
    """The server drops the lock of a session whose process is gone: one effect, whatever the holder came to."""
    world = World(tmp_path, kind, claim_ttl_s=HOURS_S, journal_url=postgres_url)
    world.approve()
    assert nursery.start(fire_and_die, world, place, "case-1").ended() == -9
    with world.gate() as gate:
        outcome = gate.fire("case-1", world.payout("case-1"), approval="case-1", wait_s=30)
        assert type(outcome).__name__ == "Committed"
        assert gate.verify().valid
    assert len(world.effects()) == 1


def hold_and_wait(line: Line, world: World) -> None:
    """Fire, and sit in the middle of the send until killed."""

    def say_and_wait() -> None:
        line.say("sending")
        line.hear()

    with world.gate(do_at(WRITE, say_and_wait)) as gate:
        gate.fire("case-1", world.payout("case-1"), approval="case-1")


def test_a_stopped_holder_is_not_taken_for_dead(nursery: Nursery, world: World) -> None:
    """Its session goes on while it is stopped: its action is in flight, and nobody sends for it."""
    world.approve()
    holder = nursery.start(hold_and_wait, world)
    assert holder.hear() == "sending"
    holder.signal(signal.SIGSTOP)
    with world.gate() as gate:
        outcome = gate.fire("case-1", world.payout("case-1"), approval="case-1")
        assert (type(outcome).__name__, getattr(outcome, "reason", None)) == ("InFlight", "held")
        assert gate.recover().outcomes[0].receipt.status == "IN_FLIGHT"
        holder.kill()
        assert type(gate.fire("case-1", world.payout("case-1"), approval="case-1", wait_s=30)).__name__ == "Committed"
    assert len(world.effects()) == 1


def recover_together(line: Line, world: World, barrier: Path) -> list[str]:
    """Recover everything at once with the others."""
    with world.gate() as gate:
        line.say("ready")
        pass_barrier(barrier)
        report = gate.recover()
        assert not report.failed, report.failed
        return [type(outcome).__name__ for outcome in report.outcomes]


def test_dead_holders_actions_are_recovered_once_by_many(nursery: Nursery, world: World) -> None:
    """Five actions of killed processes, four processes that recover them at once: five effects, each recorded once."""
    cases = [f"case-{n}" for n in range(5)]
    for case in cases:
        world.approve(case)
        assert nursery.start(fire_and_die, world, EXECUTED if case == "case-0" else WRITE, case).ended() == -9
    barrier = world.folder / "barrier"
    with held(barrier):
        workers = [nursery.start(recover_together, world, barrier) for _ in range(4)]
        assert [worker.hear() for worker in workers] == ["ready"] * 4
    for worker in workers:
        worker.result()
    with world.gate() as gate:
        gate.recover()
        assert {receipt.status for receipt in gate.receipts().receipts} == {"COMMITTED"}
        assert gate.verify().valid
    assert sorted(line["case"] for line in world.effects()) == cases


def revoke_at_once(line: Line, world: World, barrier: Path) -> str:
    """Take the approval back at once with the others."""
    with world.gate() as gate:
        line.say("ready")
        pass_barrier(barrier)
        gate.revoke("shared", by="user:2")
        return "revoked"


@pytest.mark.parametrize("attempt", range(3))
def test_a_revocation_is_before_or_after_each_send(nursery: Nursery, world: World, attempt: int) -> None:
    """Fired and revoked at the same moment: what was sent was reserved before the revocation, in the log's own order (I3)."""
    del attempt
    world.approve("shared", uses=MANY, cap_minor=MANY * AMOUNT_MINOR)
    barrier = world.folder / "barrier"
    with held(barrier):
        workers = [nursery.start(fire_together, world, barrier, f"key-{n}") for n in range(4)]
        workers.append(nursery.start(revoke_at_once, world, barrier))
        assert [worker.hear() for worker in workers] == ["ready"] * 5
    told = Counter(worker.result()[0] for worker in workers[:4])
    workers[4].result()
    with world.gate() as gate:
        gate._driver.journal.sequence()
        topics = [row.topic for row in gate._driver.journal.rows()]
        assert "interlock.action.dispatched" not in topics[topics.index("interlock.approval.revoked") :]
        assert gate.verify().valid
    assert len(world.effects()) == told["Committed"]
    assert told["Committed"] + told["Refused"] == 4


@pytest.mark.parametrize("way", ["release", "lose"])
def test_a_lock_that_was_given_back_is_free_at_once(postgres_url: str, way: str) -> None:
    """Closing gives it back before it returns: who asks next does not hear that its holder lives."""
    with PostgresJournal(postgres_url) as journal:
        asks = journal.take_lock()
        for _ in range(20):
            lock = journal.take_lock()
            assert lock.handle is not None
            handle = lock.handle
            assert asks.probe(handle) is Liveness.ALIVE
            getattr(lock, way)()
            assert asks.probe(handle) is Liveness.GONE
        asks.release()


@pytest.mark.parametrize("connections", [1, 3, 16])
def test_threads_of_one_gate_share_its_connections(world: World, connections: int) -> None:
    """However few there are: nobody waits for ever, each key is sent once, and the cap holds."""
    world.approve("shared", uses=MANY, cap_minor=4 * AMOUNT_MINOR)
    separator = "&" if "?" in world.url else "?"
    with world.gate(options=f"{separator}max_connections={connections}") as gate, ThreadPoolExecutor(12) as pool:
        keys = [f"key-{n % 6}" for n in range(24)]
        outcomes = pool.map(lambda key: gate.fire(key, world.payout(key), approval="shared", wait_s=30), keys)
        told = {outcome.receipt.key: type(outcome).__name__ for outcome in outcomes}
        assert Counter(told.values()) == {"Committed": 4, "Refused": 2}
        assert gate.verify().valid
        gate.recover()
    assert len(world.effects()) == 4
