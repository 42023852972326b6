"""The async gate on a real event loop: never blocked, shared by many tasks, opened, closed and forked."""

import asyncio
import inspect
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.generate_async import ASYNC_GATE, generate
from interlock import (
    AsyncGate,
    Committed,
    ExternalApproval,
    Gate,
    InFlight,
)
from interlock.domain import requests
from interlock.errors import GateClosed, OutcomeNotRecorded
from interlock.operations import Proposal
from tests.crashing import AFTER_SEND, CrashAt, Stage, When, in_doubt
from tests.gates import AwaitedTarget
from tests.integration.tasks import (
    AS_TARGETS,
    KEY,
    MANY,
    TURNS,
    AsTarget,
    Cancelled,
    Obstacle,
    Slow,
    fire,
    opening,
    staged,
    turn_until_done,
    until,
)
from tests.journals import PostgresJournals, present
from tests.provider_world import AMOUNT, SUBJECT, SendFault, Table

TASKS = 100


# --- nothing blocks the loop


def test_a_journal_that_is_blocked_does_not_block_the_loop() -> None:
    """While somebody else holds the database's write lock, the loop turns; then the commit goes through."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, stage.world) as gate:
            with closing(sqlite3.connect(stage.path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                granting = asyncio.create_task(gate.approve("other", by="user:1", expires_in_s=60))
                assert await turn_until_done(granting) == TURNS
                other.execute("ROLLBACK")
            assert (await granting).uses_left == 1

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))


@pytest.mark.parametrize("slow", ["observe", "send", "lookup"])
def test_a_sync_target_that_blocks_does_not_block_the_loop(slow: str) -> None:
    """It blocks until the loop has turned many times, which it could never do on the loop itself."""

    async def scenario(stage: Stage) -> None:
        premise = stage.world.observe(SUBJECT)
        if slow == "lookup":
            in_doubt(stage, AFTER_SEND)
        with Obstacle() as obstacle:
            world = Slow(stage, slow, obstacle)
            async with opening(stage, world) as gate:
                firing = asyncio.create_task(gate.fire(KEY, world.transfer(), approval="case-1", premises=[premise]))
                assert await turn_until_done(firing) == TURNS
                obstacle.take_away()
                assert isinstance(await firing, Committed)

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))


def test_an_approval_source_that_blocks_does_not_block_the_loop() -> None:
    """A table of the user's own is read on a thread."""

    class SlowTable(Table):
        def __init__(self, obstacle: Obstacle) -> None:
            super().__init__()
            self._obstacle = obstacle

        def read(self, approval_id: str) -> Any:
            self._obstacle.wait()
            return super().read(approval_id)

    async def scenario(stage: Stage, obstacle: Obstacle) -> None:
        table, world = SlowTable(obstacle), AwaitedTarget(stage.world)
        table.grant("row-1", until=stage.world.clock.now() + timedelta(days=1))
        sources, row = {"table": table}, ExternalApproval("table", "row-1")
        async with AsyncGate.open(stage.url, targets=[world], approval_sources=sources, clock=stage.world.clock) as gate:
            firing = asyncio.create_task(gate.fire(KEY, stage.world.transfer(), approval=row))
            assert await turn_until_done(firing) == TURNS
            obstacle.take_away()
            assert isinstance(await firing, Committed)

    with staged("lookup") as stage, Obstacle() as obstacle:
        asyncio.run(scenario(stage, obstacle))


def test_awaited_premises_are_read_together() -> None:
    """Each of three reads answers only when all have begun."""
    begun = asyncio.Event()

    class Together(AwaitedTarget):
        reads = 0

        async def _observe(self, subject: str) -> Any:
            Together.reads += 1
            if Together.reads == 3:
                begun.set()
            await begun.wait()
            return await super()._observe(subject)

    async def scenario(stage: Stage) -> None:
        async with opening(stage, Together(stage.world)) as gate:
            premise = stage.world.observe(SUBJECT)
            outcome = await gate.fire(KEY, stage.world.transfer(), approval="case-1", premises=[premise] * 3)
            assert isinstance(outcome, Committed)

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))


# --- many tasks, many gates


async def _all_commit(stage: Stage, as_target: AsTarget) -> None:
    async with opening(stage, as_target(stage.world)) as gate:
        outcomes = await asyncio.gather(*(fire(gate, stage, f"key-{n}") for n in range(TASKS)))
        assert Counter(map(type, outcomes)) == {Committed: TASKS}
        assert (await gate.approval("case-1")).remaining_minor == (MANY - TASKS) * AMOUNT
        assert (await gate.verify()).valid
        assert (await gate.recover()).outcomes == ()
    assert len(stage.world.ledger) == TASKS


@pytest.mark.parametrize("as_target", AS_TARGETS)
def test_a_hundred_tasks_all_commit(as_target: str) -> None:
    """Each has a key of its own; each is sent once, and the approval is spent exactly."""
    with staged("nothing") as stage:
        asyncio.run(_all_commit(stage, AS_TARGETS[as_target]))


def test_a_hundred_tasks_all_commit_on_postgresql(postgres_url: str) -> None:
    """More threads than connections: they wait for each other, and the loop for none of them."""
    with present.use(PostgresJournals(postgres_url)), staged("nothing") as stage:
        asyncio.run(_all_commit(stage, AwaitedTarget))


@pytest.mark.parametrize("as_target", AS_TARGETS)
def test_of_a_hundred_tasks_with_one_key_one_sends(as_target: str) -> None:
    """The others hear InFlight or its outcome, over two gates in one process."""

    async def scenario(stage: Stage) -> None:
        targets = [AS_TARGETS[as_target](stage.world) for _ in range(2)]
        async with opening(stage, targets[0]) as one, opening(stage, targets[1]) as two:
            outcomes = await asyncio.gather(*(fire((one, two)[n % 2], stage) for n in range(TASKS)))
            kinds = Counter(map(type, outcomes))
            assert kinds[Committed] >= 1
            assert kinds[Committed] + kinds[InFlight] == TASKS
        assert len(stage.world.ledger) == len(stage.world.sent) == 1

    with staged("nothing") as stage:
        asyncio.run(scenario(stage))


def test_two_gates_in_one_process_are_two_holders() -> None:
    """What one is at work on, the other leaves alone; when the first is closed, the other takes over at once."""

    async def scenario(stage: Stage) -> None:
        one = await opening(stage, stage.world)
        async with opening(stage, stage.world) as two:
            assert one._driver.locks.holder != two._driver.locks.holder
            assert await Cancelled(one, stage.world, CrashAt(requests.StillAt, When.AFTER)).run(
                one._operations.fire(Proposal(KEY, stage.world.transfer(), "case-1"), 0.0)
            )
            assert getattr(await fire(two, stage), "reason", None) == "held"
            await one.close()
            assert isinstance(await fire(two, stage), Committed)
        assert len(stage.world.sent) == 1

    with staged("keys") as stage:
        asyncio.run(scenario(stage))


def test_fire_waits_as_long_as_it_is_told() -> None:
    """`wait_s` goes on with what is in flight. While it waits the action is nobody's, and `recover` may go on with it."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, stage.world) as gate:
            waiting = asyncio.create_task(fire(gate, stage, wait_s=600))
            await until(lambda: len(gate._driver._sleepers) == 1)
            (outcome,) = (await gate.recover()).outcomes
            assert getattr(outcome, "reason", None) == "provider_busy", "not held: nobody is at work on it"
            stage.world.advance(60)
            assert isinstance(await waiting, Committed)

    with staged("keys") as stage:
        stage.world.send_faults = [SendFault.HANGS]
        asyncio.run(scenario(stage))
        assert len(stage.world.ledger) == 1


# --- opening and closing


def test_a_gate_can_be_awaited_or_entered() -> None:
    """Both open it; leaving the block closes it, and closing twice does nothing."""

    async def scenario(stage: Stage) -> None:
        gate = await opening(stage, stage.world)
        async with gate:
            assert (await gate.approval("case-1")).uses == 200
        await gate.close()
        with pytest.raises(GateClosed):
            await gate.receipts()
        with pytest.raises(GateClosed):
            await fire(gate, stage)
        async with opening(stage, stage.world) as entered:
            assert (await entered.recover()).outcomes == ()
        with pytest.raises(GateClosed):
            await entered.recover()

    with staged("keys") as stage:
        asyncio.run(scenario(stage))


def test_an_opening_that_is_cancelled_leaves_no_lock() -> None:
    """What it took is given back when its thread is done: a lock that stays would say that a holder lives."""

    async def scenario(stage: Stage) -> None:
        for turns in range(4):
            task = asyncio.ensure_future(_opened(stage))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
        await until(lambda: not any(thread.name.startswith("interlock-once") for thread in threading.enumerate()))

    with staged("keys") as stage:
        asyncio.run(scenario(stage))
        assert list(Path(f"{stage.path}-holders").iterdir()) == []


async def _opened(stage: Stage) -> AsyncGate:
    gate: AsyncGate = await opening(stage, stage.world)
    await gate.close()
    return gate


def test_closing_wakes_whoever_waits() -> None:
    """A fire that waits raises GateClosed, and `recover_forever` ends."""

    async def scenario(stage: Stage) -> None:
        gate = await opening(stage, stage.world)
        forever = asyncio.create_task(gate.recover_forever())
        in_doubt(stage, CrashAt(requests.Send, When.LATE))
        waiting = asyncio.create_task(fire(gate, stage, wait_s=600))
        await until(lambda: len(gate._driver._sleepers) == 2)
        await gate.close()
        with pytest.raises(GateClosed):
            await waiting
        await forever

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))


def test_recover_forever_recovers_and_can_be_cancelled() -> None:
    """It carries on what a dead process left; cancelling it ends it, and the gate goes on."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, AwaitedTarget(stage.world)) as gate:
            forever = asyncio.create_task(gate.recover_forever())
            await until(lambda: len(stage.world.ledger) == 1)
            forever.cancel()
            with pytest.raises(asyncio.CancelledError):
                await forever
            assert isinstance(await fire(gate, stage, "another"), Committed)

    with staged("keys") as stage:
        in_doubt(stage)
        asyncio.run(scenario(stage))
        assert len(stage.world.ledger) == 2


def test_what_recover_forever_leaves_in_flight_is_nobodys_while_it_pauses() -> None:
    """It goes on for ever as one run, and lets go of each action when it has done what can be done."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, stage.world) as gate:
            forever = asyncio.create_task(gate.recover_forever())
            await until(lambda: stage.world.lookups > 0 and len(gate._driver._sleepers) == 1)
            assert getattr(await fire(gate, stage), "reason", None) == "settling", "not held: nobody is at work on it"
            await gate.stop()
            await forever

    with staged("lookup") as stage:
        in_doubt(stage, CrashAt(requests.Send, When.LATE))
        asyncio.run(scenario(stage))


class Answering(AwaitedTarget):
    """A target that is awaited, and answers when it is told to."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.world)
        self.sending, self.may_answer = asyncio.Event(), asyncio.Event()

    async def _send(self, *args: Any, **kwargs: Any) -> Any:
        self.sending.set()
        await self.may_answer.wait()
        return await super()._send(*args, **kwargs)


def test_closing_waits_for_the_sends_of_other_tasks() -> None:
    """What another task is sending is recorded before the journal is closed: a target that can't be asked leaves no doubt."""

    async def scenario(stage: Stage) -> None:
        target = Answering(stage)
        gate = await opening(stage, target)
        firing = asyncio.create_task(fire(gate, stage))
        await target.sending.wait()
        closing = asyncio.create_task(gate.close())
        assert await turn_until_done(closing) == TURNS
        target.may_answer.set()
        await closing
        assert isinstance(await firing, Committed)

    with staged("nothing") as stage:
        asyncio.run(scenario(stage))
        assert stage.gate().receipt(KEY).via == "first-send"


def test_a_gate_that_is_closed_from_inside_a_send_does_not_wait_for_itself() -> None:
    """A target may close its own gate; what it answers then can't be recorded, and says so."""

    async def scenario(stage: Stage) -> None:
        class Closing(AwaitedTarget):
            async def _send(self, *args: Any, **kwargs: Any) -> Any:
                await gate.close()
                return await super()._send(*args, **kwargs)

        gate = await opening(stage, Closing(stage.world))
        with pytest.raises(OutcomeNotRecorded):
            await fire(gate, stage)

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))
        assert len(stage.world.ledger) == 1


def test_an_answer_that_comes_when_the_journal_is_closed_is_not_lost() -> None:
    """It was sent, and can't be recorded: the exception has the evidence, and the next gate finds it."""

    async def scenario(stage: Stage) -> None:
        target = Answering(stage)
        gate = await opening(stage, target)
        firing = asyncio.create_task(fire(gate, stage))
        await target.sending.wait()
        gate._driver.journal.close()  # as `close` does when a send takes longer than its target may
        target.may_answer.set()
        with pytest.raises(OutcomeNotRecorded) as raised:
            await firing
        assert raised.value.evidence.reference == stage.world.ledger[0].reference
        await gate.close()
        assert gate._driver._threads._shutdown, "nobody needs its threads any more"
        async with opening(stage, stage.world) as other:
            (outcome,) = (await other.recover()).outcomes
            assert outcome.receipt.via == "recovery-query"

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))
        assert len(stage.world.ledger) == 1


# --- the same gate


def test_the_async_gate_is_what_the_script_makes_of_the_sync_one() -> None:
    """`make generate` would change nothing."""
    assert ASYNC_GATE.read_text(encoding="utf-8") == generate()


def test_both_gates_have_the_same_methods() -> None:
    """The same names, the same arguments, and of the async one every method but `open` is a coroutine."""

    def methods(gate: type) -> dict[str, Any]:
        return {name: value for name, value in inspect.getmembers(gate, inspect.isfunction) if not name.startswith("_")}

    one, other = methods(Gate), methods(AsyncGate)
    assert one.keys() == other.keys()
    assert all(inspect.iscoroutinefunction(method) for method in other.values())
    for name, method in one.items():
        assert inspect.signature(method) == inspect.signature(other[name]), name
    assert [*inspect.signature(Gate.open).parameters] == [*inspect.signature(AsyncGate.open).parameters]


def test_both_gates_read_the_same() -> None:
    """Receipts, pages, attention, the aggregate and the verification are those of the sync gate."""

    async def read(stage: Stage) -> list[Any]:
        async with opening(stage, stage.world) as gate:
            return [
                (await gate.receipt(KEY)).to_json(),
                [receipt.key for receipt in (await gate.receipts(status="AMBIGUOUS", limit=1)).receipts],
                [receipt.key for receipt in await gate.attention()],
                (await gate.action(KEY)).version,
                (await gate.verify(KEY)).valid,
            ]

    with staged("nothing-known-to-end") as stage:
        stage.world.send_faults = [SendFault.LOST_ANSWER]
        gate = stage.gate()
        gate.fire(KEY, stage.world.transfer(), approval="case-1")
        assert asyncio.run(read(stage)) == [
            gate.receipt(KEY).to_json(),
            [receipt.key for receipt in gate.receipts(status="AMBIGUOUS", limit=1).receipts],
            [receipt.key for receipt in gate.attention()],
            gate.action(KEY).version,
            gate.verify(KEY).valid,
        ]
