"""What an async gate awaits: targets with coroutines, functions that are `async def`, and their deadlines."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from interlock import (
    Ambiguous,
    Answer,
    AsyncFunctionTarget,
    AsyncGate,
    Committed,
    Done,
    Evidence,
    Gate,
    GateConfig,
    InFlight,
    NotSent,
    Outcome,
    Settlement,
    target,
)
from interlock.domain import requests
from interlock.errors import InvalidConfiguration
from tests.crashing import Stage, in_doubt
from tests.gates import AwaitedTarget
from tests.integration.tasks import KEY, opening, staged, to_the_end
from tests.provider_world import SUBJECT


@dataclass(frozen=True)
class Letter:
    """What the function is told."""

    to: str


def _posted() -> Answer:
    return Done(Evidence(reference="letter-1", state="posted", settlement=Settlement.FINAL, json="{}"))


def test_an_async_function_is_a_target() -> None:
    """`@target` on an `async def` makes one that is awaited; the worst profile, as of a plain function."""
    letters: list[str] = []

    @target("letters", effect=Letter, send_deadline_s=1)
    async def post(effect: Letter, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        await asyncio.sleep(0)
        assert idempotency_key
        assert 0 < deadline_s <= 1
        letters.append(effect.to)
        if effect.to == "nobody":
            raise ConnectionResetError
        return _posted()

    async def scenario(stage: Stage) -> None:
        async with AsyncGate.open(stage.url, targets=[post]) as gate:
            await gate.approve("letters", by="user:1", expires_in_s=60, uses=2)
            for to, wanted in (("somebody", Committed), ("nobody", Ambiguous)):
                outcome = await gate.fire(f"letter:{to}", post.effect(Letter(to), subject=to), approval="letters")
                assert isinstance(outcome, wanted)

    assert isinstance(post, AsyncFunctionTarget)
    with staged("lookup") as stage:
        asyncio.run(scenario(stage))
    assert letters == ["somebody", "nobody"]


@pytest.mark.parametrize("ends", ["cancelled", "answers-all-the-same"])
def test_an_await_is_given_up_at_its_deadline(ends: str) -> None:
    """A coroutine that goes on past its deadline is cancelled, and nobody knows what became of it, unless it says so itself."""
    cancelled: list[bool] = []

    @target("letters", effect=Letter, send_deadline_s=0.05)
    async def post(effect: Letter, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        del effect, idempotency_key, deadline_s
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            if ends == "cancelled":
                raise
        return _posted()

    async def scenario(stage: Stage) -> Outcome:
        async with AsyncGate.open(stage.url, targets=[post]) as gate:
            await gate.approve("letters", by="user:1", expires_in_s=60)
            return await gate.fire("letter", post.effect(Letter("you"), subject="you"), approval="letters")

    with staged("lookup") as stage:
        outcome = asyncio.run(scenario(stage))
    assert cancelled == [True]
    assert isinstance(outcome, Ambiguous if ends == "cancelled" else Committed)


def test_a_loop_that_was_blocked_past_the_deadline_sends_nothing() -> None:
    """Between the durable announcement and the await the program blocked its own loop: provably nothing was sent."""

    class Late(AwaitedTarget):
        calls = 0

        async def _send(self, *args: Any, **kwargs: Any) -> Any:
            Late.calls += 1
            return await super()._send(*args, **kwargs)

    async def scenario(stage: Stage) -> None:
        async with opening(stage, Late(stage.world)) as gate:
            request = requests.Send(
                (await gate.action(KEY)).id,
                (await gate.action(KEY)).intent.effect,
                "key",
                stage.world.clock.now(),
            )
            assert isinstance(await gate._driver.perform(request), NotSent)

    with staged("keys") as stage:
        in_doubt(stage)
        asyncio.run(scenario(stage))
        assert Late.calls == 0


def test_the_sync_gate_refuses_a_target_that_has_to_be_awaited() -> None:
    """It could not be waited for: that is said at open, and no journal is made."""
    with staged("keys") as stage:
        nowhere = stage.path.with_name("new.db")
        with pytest.raises(InvalidConfiguration, match="AsyncGate"):
            Gate.open(f"sqlite:///{nowhere}", targets=[AwaitedTarget(stage.world)])  # type: ignore[list-item]
        assert not nowhere.exists()


def test_configuration_is_checked_for_awaited_targets_too() -> None:
    """A send deadline that is not inside the claim's time to live does not open."""

    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidConfiguration, match="send_deadline_s"):
            await AsyncGate.open(stage.url, targets=[AwaitedTarget(stage.world)], config=GateConfig(claim_ttl_s=11))

    with staged("keys") as stage:
        asyncio.run(scenario(stage))


class GivesUp(AwaitedTarget):
    """A target whose own task is cancelled while it waits for it, as a connection pool that is shut down does it."""

    def __init__(self, stage: Stage, where: str) -> None:
        super().__init__(stage.world)
        self._where = where

    async def _observe(self, *args: Any, **kwargs: Any) -> Any:
        await self._give_up("observe")
        return await super()._observe(*args, **kwargs)

    async def _send(self, *args: Any, **kwargs: Any) -> Any:
        await self._give_up("send")
        return await super()._send(*args, **kwargs)

    async def _lookup(self, *args: Any, **kwargs: Any) -> Any:
        await self._give_up("lookup")
        return await super()._lookup(*args, **kwargs)

    async def _give_up(self, where: str) -> None:
        if where == self._where:
            task = asyncio.create_task(asyncio.Event().wait())
            await asyncio.sleep(0)
            task.cancel()
            await task


@pytest.mark.parametrize("where", ["send", "lookup", "observe"])
def test_a_cancellation_inside_a_target_is_no_cancellation_of_the_caller(where: str) -> None:
    """Whatever a target's own task ends with is not known, as any failure, and the actions behind it are worked on."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, GivesUp(stage, where)) as gate:
            (outcome,) = (await gate.recover()).outcomes
            assert isinstance(outcome, InFlight)
            assert outcome.reason == "settling"
        async with opening(stage, AwaitedTarget(stage.world)) as gate:
            assert isinstance(await to_the_end(gate, stage), Committed)

    with staged("keys" if where == "send" else "lookup") as stage:
        in_doubt(stage, premises=(stage.world.observe(SUBJECT),))
        asyncio.run(scenario(stage))
        assert len(stage.world.ledger) == 1
