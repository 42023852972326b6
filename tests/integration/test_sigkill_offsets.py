"""A worker is killed at seeded offsets across its two commits, and at the provider's places; another process ends the action."""

import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock import Gate
from tests.integration.processes import Nursery, finish, fire
from tests.integration.shared_ledger import AMOUNT_MINOR, ARRIVAL, EXECUTED, WRITE, Kind, World

NORMAL, LONG = 40, 300
BEYOND = 1.2
"""How far the offsets reach beyond the measured span, so that its end is among them."""
SHORT_S = 0.5
"""The send deadline where the horizon has to be waited for."""


@dataclass(frozen=True)
class Plan:
    """What the provider can do, and what happens in the world while nobody is at work."""

    kind: Kind
    revoked: bool


PLANS = [Plan(kind, revoked) for kind in (Kind.BURNING, Kind.KEYS, Kind.NO_KEYS) for revoked in (False, True)]
SEEDS = [
    *range(NORMAL),
    *(pytest.param(seed, marks=pytest.mark.long) for seed in range(NORMAL, NORMAL + LONG)),
]


@pytest.fixture(scope="module")
def span_s(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long one fire takes here, from the word to the answer, in a process as fresh as those that are killed."""
    spans_s = []
    for _ in range(5):
        world = World(tmp_path_factory.mktemp("span"))
        world.approve()
        worker = nursery.start(fire, world)
        worker.hear()
        begun_s = time.perf_counter()
        worker.tell()
        assert worker.result() == "Committed"
        spans_s.append(time.perf_counter() - begun_s)
    return statistics.median(spans_s)


def world_of(plan: Plan, folder: Path) -> World:
    """Return a world in which recovery need not wait long where it has to wait for the horizon."""
    return World(folder, plan.kind, send_deadline_s=30.0 if plan.kind is Kind.BURNING else SHORT_S)


def carry_to_its_end(nursery: Nursery, world: World, *, revoked: bool) -> str:
    """Check the journal as the dead left it, let another process end the action, and check it against the ledger."""
    with world.gate() as gate:
        left = gate.verify()
        assert left.valid, left.findings
        if revoked:
            gate.revoke("case-1", by="user:2")
    sent = len(world.effects())
    assert sent <= 1
    status: str = nursery.run(finish, world)
    with world.gate() as gate:
        require_agreement(gate, world)
    assert not revoked or len(world.effects()) == sent, "a revoked approval let a second process send"
    return status


def require_agreement(gate: Gate, world: World) -> None:
    """Hold the journal against the provider's ledger."""
    checked = gate.verify()
    assert checked.valid, checked.findings
    (receipt,) = gate.receipts().receipts
    paid = [line for line in world.effects() if line["action"] == receipt.action_id]
    assert len(paid) == len(world.effects())
    assert receipt.status in {"COMMITTED", "REFUSED"}
    assert len(paid) == (1 if receipt.status == "COMMITTED" else 0)
    assert gate.approval("case-1").remaining_minor == AMOUNT_MINOR * (1 - len(paid))


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_anywhere(nursery: Nursery, span_s: float, tmp_path: Path, seed: int) -> None:
    """Killed at any moment: the journal opens, verifies and recovers; at most one effect; COMMITTED if one, REFUSED if none."""
    chance, plan = random.Random(seed), PLANS[seed % len(PLANS)]
    world = world_of(plan, tmp_path)
    world.approve()
    worker = nursery.start(fire, world)
    assert worker.hear() == "ready"
    delay_s = chance.uniform(0, BEYOND * span_s)
    worker.tell()
    time.sleep(delay_s)
    worker.kill()
    status = carry_to_its_end(nursery, world, revoked=plan.revoked)
    assert status == "Committed" or plan.revoked


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.kind}{', revoked' if plan.revoked else ''}")
@pytest.mark.parametrize("place", [ARRIVAL, WRITE, EXECUTED])
def test_killed_in_the_send(nursery: Nursery, tmp_path: Path, place: str, plan: Plan) -> None:
    """Killed as the send arrives, before or right after it takes effect: the effect that happened stands, and it stays one."""
    world = world_of(plan, tmp_path)
    world.approve()
    worker = nursery.start(fire, world, "case-1", "case-1", place)
    assert worker.hear() == "ready"
    worker.tell()
    assert worker.ended() == -9
    assert len(world.effects()) == (1 if place == EXECUTED else 0)
    wanted = "Refused" if plan.revoked and place != EXECUTED else "Committed"
    assert carry_to_its_end(nursery, world, revoked=plan.revoked) == wanted


@pytest.mark.parametrize("place", [ARRIVAL, WRITE, EXECUTED])
def test_killed_where_nobody_can_look(nursery: Nursery, tmp_path: Path, place: str) -> None:
    """A function that was killed is never called again: AMBIGUOUS, whether it had acted or not, and the reservation stays."""
    world = World(tmp_path, Kind.FUNCTION)
    world.approve()
    worker = nursery.start(fire, world, "case-1", "case-1", place)
    assert worker.hear() == "ready"
    worker.tell()
    assert worker.ended() == -9
    assert nursery.run(finish, world) == "Ambiguous"
    assert len(world.effects()) == (1 if place == EXECUTED else 0)
    with world.gate() as gate:
        assert gate.approval("case-1").remaining_minor == 0
        assert gate.verify().valid


def test_killed_before_anything_is_durable(nursery: Nursery, tmp_path: Path) -> None:
    """Killed before the first commit: the key is free, and the next process that fires it commits."""
    world = World(tmp_path)
    world.approve()
    worker = nursery.start(fire, world)
    assert worker.hear() == "ready"
    worker.kill()
    with world.gate() as gate:
        assert gate.receipts().receipts == ()
    assert carry_to_its_end(nursery, world, revoked=False) == "Committed"
