"""Thirty-two processes on one SQLite file."""

from collections import Counter
from pathlib import Path

import pytest

from tests.integration.processes import Line, Nursery, held, pass_barrier
from tests.integration.shared_ledger import AMOUNT_MINOR, WRITE, Hook, World, do_at, nowhere

MANY = 32


def fire_together(line: Line, world: World, barrier: Path, key: str, at: Hook = nowhere) -> tuple[str, str]:
    """Fire at once with the others."""
    with world.gate(at) as gate:
        line.say("ready")
        pass_barrier(barrier)
        outcome = gate.fire(key, world.payout(key), approval="shared")
        reason = getattr(outcome, "reason", None) or outcome.receipt.to_dict().get("refusal")
        return type(outcome).__name__, str(reason)


def fire_slowly_together(line: Line, world: World, barrier: Path, key: str) -> tuple[str, str]:
    """Fire at once with the others; who sends says so, and waits in the middle of the send."""

    def say_and_wait() -> None:
        line.say("sending")
        line.hear()

    return fire_together(line, world, barrier, key, do_at(WRITE, say_and_wait))


@pytest.mark.parametrize("uses", [1, MANY])
def test_same_key_is_sent_once(nursery: Nursery, tmp_path: Path, uses: int) -> None:
    """Of 32 processes that fire the same key at once one sends; the others hear InFlight or its outcome, and no error."""
    world = World(tmp_path)
    world.approve("shared", uses=uses, cap_minor=uses * AMOUNT_MINOR)
    with held(tmp_path / "barrier"):
        workers = [nursery.start(fire_together, world, tmp_path / "barrier", "one") for _ in range(MANY)]
        assert [worker.hear() for worker in workers] == ["ready"] * MANY
    outcomes = Counter(worker.result()[0] for worker in workers)
    assert len(world.effects()) == 1
    assert outcomes["Committed"] >= 1
    assert outcomes["Committed"] + outcomes["InFlight"] == MANY
    with world.gate() as gate:
        assert gate.verify().valid
        assert [receipt.status for receipt in gate.receipts().receipts] == ["COMMITTED"]


def test_others_are_in_flight_while_one_sends(nursery: Nursery, tmp_path: Path) -> None:
    """As long as the winner is in the middle of its send, the other 31 hear that the claim is held."""
    world = World(tmp_path)
    world.approve("shared")
    with held(tmp_path / "barrier"):
        workers = [nursery.start(fire_slowly_together, world, tmp_path / "barrier", "one") for _ in range(MANY)]
        assert [worker.hear() for worker in workers] == ["ready"] * MANY
    said = {worker.pid: worker.hear() for worker in workers}
    winners = [worker for worker in workers if said[worker.pid] == "sending"]
    assert len(winners) == 1
    assert Counter(map(str, said.values())) == {"sending": 1, "('returned', ('InFlight', 'held'))": MANY - 1}
    assert world.effects() == []
    winners[0].tell()
    assert winners[0].result()[0] == "Committed"
    assert [line["pid"] for line in world.effects()] == [winners[0].pid]


def test_cap_holds_across_processes(nursery: Nursery, tmp_path: Path) -> None:
    """Of 32 processes that fire different keys under one approval whose cap covers 3, exactly 3 send; the rest are refused."""
    world = World(tmp_path)
    world.approve("shared", uses=MANY, cap_minor=3 * AMOUNT_MINOR)
    with held(tmp_path / "barrier"):
        workers = [nursery.start(fire_together, world, tmp_path / "barrier", f"key-{n}") for n in range(MANY)]
        assert [worker.hear() for worker in workers] == ["ready"] * MANY
    outcomes = [worker.result() for worker in workers]
    assert Counter(name for name, _ in outcomes) == {"Committed": 3, "Refused": MANY - 3}
    assert all("approval_used_up" in why for name, why in outcomes if name == "Refused")
    assert len({line["action"] for line in world.effects()}) == len(world.effects()) == 3
    with world.gate() as gate:
        assert gate.approval("shared").remaining_minor == 0
        assert gate.verify().valid


def test_uses_hold_across_processes(nursery: Nursery, tmp_path: Path) -> None:
    """An approval for one use lets one of 32 different keys through, whatever its cap."""
    world = World(tmp_path)
    world.approve("shared", uses=1, cap_minor=MANY * AMOUNT_MINOR)
    with held(tmp_path / "barrier"):
        workers = [nursery.start(fire_together, world, tmp_path / "barrier", f"key-{n}") for n in range(MANY)]
        assert [worker.hear() for worker in workers] == ["ready"] * MANY
    assert Counter(worker.result()[0] for worker in workers) == {"Committed": 1, "Refused": MANY - 1}
    assert len(world.effects()) == 1
