"""Processes with an async gate: forked, and killed with SIGKILL in the middle of a send."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock import AsyncGate, GateConfig, Outcome
from tests.gates import AwaitedTarget
from tests.integration.processes import Line, Nursery
from tests.integration.shared_ledger import ARRIVAL, EXECUTED, WRITE, World, do_at

HOURS_S = 12 * 3600.0


def prefork(line: Line, world: World) -> str:
    """Open a gate and use it; when its loop has ended, fork a worker."""
    gate = asyncio.run(_used(world))
    line.fork(work, world, gate)
    line.hear()
    asyncio.run(gate.close())
    return str(gate._driver.locks.holder)


async def _used(world: World) -> AsyncGate:
    gate = await AsyncGate.open(world.url, targets=[world.target()])
    await _pay(gate, world, "parent")
    return gate


async def _pay(gate: AsyncGate, world: World, case: str) -> Outcome:
    await gate.approve(case, by="user:1", expires_in_s=3600, cap_minor=2000, currency="usd")
    return await gate.fire(case, world.payout(case), approval=case)


def work(line: Line, world: World, gate: AsyncGate) -> tuple[str, str]:
    """Fire on the inherited gate, on a loop of one's own."""
    del line
    return type(asyncio.run(_pay(gate, world, "child"))).__name__, str(gate._driver.locks.holder)


def test_a_forked_worker_goes_on_with_a_loop_of_its_own(nursery: Nursery, tmp_path: Path) -> None:
    """No loop survives a fork; the gate does, as a holder of its own, with threads of its own."""
    world = World(tmp_path)
    parent = nursery.start(prefork, world)
    said, holder = nursery.adopt().result()
    parent.tell()
    assert said == "Committed"
    assert holder != parent.result()
    assert sorted(line["case"] for line in world.effects()) == ["child", "parent"]


def fire_and_hang(line: Line, world: World, place: str, awaited: bool) -> None:  # noqa: FBT001 - a task's arguments come from another process
    """Fire, and come to a halt in the middle of the send, on a thread or on the event loop."""

    def hang() -> None:
        line.say("here")
        line.hear()

    asyncio.run(_fire(world, place, hang, awaited=awaited))


async def _fire(world: World, place: str, hang: Callable[[], None], *, awaited: bool) -> None:
    sync = world.target(do_at(place, hang))
    config = GateConfig(claim_ttl_s=world.claim_ttl_s)
    async with AsyncGate.open(world.url, targets=[AwaitedTarget(sync) if awaited else sync], config=config) as gate:
        await _pay(gate, world, "case-1")


@pytest.mark.parametrize("awaited", [False, True], ids=["on-a-thread", "awaited"])
@pytest.mark.parametrize("place", [ARRIVAL, WRITE, EXECUTED])
def test_a_killed_process_is_recovered_at_once(nursery: Nursery, tmp_path: Path, place: str, awaited: bool) -> None:  # noqa: FBT001
    """It is held while it lives; after SIGKILL another process takes over, hours before the claim runs out, and it lands once."""
    world = World(tmp_path, claim_ttl_s=HOURS_S)
    victim = nursery.start(fire_and_hang, world, place, awaited)
    assert victim.hear() == "here"
    with world.gate() as other:
        assert type(other.fire("case-1", world.payout("case-1"), approval="case-1")).__name__ == "InFlight"
        victim.kill()
        assert type(other.fire("case-1", world.payout("case-1"), approval="case-1")).__name__ == "Committed"
        assert other.verify().valid
    assert len(world.effects()) == 1
