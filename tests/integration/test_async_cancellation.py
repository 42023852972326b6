"""Cancelling a call of the async gate is a crash like any other; the provider's ledger is the judge."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from interlock import Ambiguous, AsyncGate, Committed, InFlight, Outcome
from interlock.domain import requests
from interlock.domain.requests import Protocol
from interlock.operations import Proposal
from tests.crashing import AFTER_SEND, BEFORE_SEND, CrashAt, CrashPoint, Death, Stage, When, disagreement, in_doubt
from tests.gates import AwaitedTarget
from tests.integration.tasks import (
    AS_TARGETS,
    KEY,
    TURNS,
    AsTarget,
    Cancelled,
    Obstacle,
    Slow,
    fire,
    idle,
    opening,
    staged,
    to_the_end,
    turn_until_done,
    until,
)
from tests.provider_world import CURRENCY, SUBJECT, World

PROFILES = ["nothing", "keys", "lookup"]
Part = Callable[[AsyncGate, Stage], Protocol[Any]]


def _points() -> Iterator[CrashPoint]:
    for index in range(100):
        yield CrashPoint(index, When.BEFORE)
        yield CrashPoint(index, When.AFTER)


def _firing(gate: AsyncGate, stage: Stage) -> Protocol[Any]:
    premises = (World(stage.world.profile).observe(SUBJECT),)
    return gate._operations.fire(Proposal(KEY, stage.world.transfer(), "case-1", premises), 0.0)


def _recovering(gate: AsyncGate, stage: Stage) -> Protocol[Any]:
    del stage
    return gate._operations.recover(None)


def _wanted(profile: str, outcome: Outcome) -> bool:
    """Whether that is what the provider's own state allows; without keys and a lookup, a doubtful send stays doubtful."""
    return isinstance(outcome, Committed) or (profile == "nothing" and isinstance(outcome, Ambiguous))


async def _cancelled_and_judged(stage: Stage, as_target: AsTarget, profile: str, part: Part, point: CrashPoint) -> bool:
    """Cancel a part of the protocol at a point, carry the action on with the same gate, and compare its end with the ledger."""
    async with opening(stage, as_target(stage.world)) as gate:
        run = Cancelled(gate, stage.world, point)
        if not await run.run(part(gate, stage)):
            return False
        where = f"{point} {type(run.trace[point.index]).__name__}"
        after_cancel = run.trace[point.index + 1 :]
        assert not any(isinstance(request, requests.Send) for request in after_cancel), f"{where}: it sent after it was cancelled"
        await gate.recover()
        outcome = await to_the_end(gate, stage)
        stage.world.settle()
        assert disagreement(stage.world, await gate.action(KEY)) is None, where
        assert _wanted(profile, outcome), f"{where}: {outcome}"
        sent = len(stage.world.sent)
        assert type(await to_the_end(gate, stage)) is type(outcome), where
        assert len(stage.world.sent) == sent, f"{where}: a finished action was sent again"
        assert (await gate.verify()).valid, where
        return True


@pytest.mark.parametrize("as_target", AS_TARGETS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_fire_that_is_cancelled_anywhere_ends_as_the_ledger_has_it(profile: str, as_target: str) -> None:
    """Before or after any of its requests: nothing is lost, nothing is sent twice, and the same gate recovers it."""
    points = 0
    for point in _points():
        with staged(profile) as stage:
            if not asyncio.run(_cancelled_and_judged(stage, AS_TARGETS[as_target], profile, _firing, point)):
                break
        points += 1
    assert points > 20


@pytest.mark.parametrize("death", [BEFORE_SEND, AFTER_SEND], ids=["not-done", "done"])
@pytest.mark.parametrize("as_target", AS_TARGETS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_recovery_that_is_cancelled_anywhere_ends_as_the_ledger_has_it(profile: str, as_target: str, death: Death) -> None:
    """A process died around its send, and whoever recovers its action is cancelled at any request of the recovery."""
    points = 0
    for point in _points():
        with staged(profile) as stage:
            in_doubt(stage, death)
            if not asyncio.run(_cancelled_and_judged(stage, AS_TARGETS[as_target], profile, _recovering, point)):
                break
        points += 1
    assert points > 10


async def _held(gate: AsyncGate, stage: Stage, *others: AsyncGate) -> None:
    """See that nobody takes the action for abandoned, and nobody sends."""
    sent = len(stage.world.sent)
    for one in (gate, *others):
        for outcome in (await fire(one, stage), *(await one.recover()).outcomes):
            assert isinstance(outcome, InFlight)
            assert outcome.reason == "held"
    assert len(stage.world.sent) == sent


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
@pytest.mark.parametrize("profile", PROFILES)
def test_cancelling_the_await_does_not_cancel_the_send_of_a_sync_target(profile: str, when: When) -> None:
    """The thread goes on: the action is held until it is done, the send lands once, and its answer is written down."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, stage.world) as gate, opening(stage, stage.world) as other:
            run = Cancelled(gate, stage.world, CrashAt(requests.Send, when), lambda: _held(gate, stage, other))
            assert await run.run(_firing(gate, stage))
            receipt = await gate.receipt(KEY)
            assert (receipt.status, receipt.via) == ("COMMITTED", "first-send")
            assert len(stage.world.ledger) == len(stage.world.sent) == 1

    with staged(profile) as stage:
        asyncio.run(scenario(stage))


def test_closing_waits_for_a_send_that_nobody_awaits_any_more() -> None:
    """A program that is interrupted cancels its tasks and leaves its `async with`: the answer is written down all the same."""

    async def scenario(stage: Stage, obstacle: Obstacle) -> None:
        gate = await opening(stage, Slow(stage, "send", obstacle))
        firing = asyncio.create_task(fire(gate, stage))
        await until(lambda: obstacle.met)
        firing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await firing
        closing = asyncio.create_task(gate.close())
        assert await turn_until_done(closing) == TURNS
        obstacle.take_away()
        await closing

    with staged("nothing") as stage, Obstacle() as obstacle:
        asyncio.run(scenario(stage, obstacle))
        assert stage.gate().receipt(KEY).via == "first-send"


def test_an_answer_that_waits_for_a_thread_is_written_down_although_its_caller_is_cancelled() -> None:
    """The provider has answered, every thread is in the middle of a send, and the caller goes away: nothing is in doubt."""

    async def scenario(stage: Stage, obstacle: Obstacle) -> None:
        awaited, blocking = AwaitedTarget(stage.world), Slow(stage, "send", obstacle)
        blocking.name = "blocking"
        config = replace(stage.config, async_threads=1)
        async with AsyncGate.open(stage.url, targets=[awaited, blocking], clock=stage.world.clock, config=config) as gate:
            answered, may_answer = asyncio.Event(), asyncio.Event()

            async def perform(request: Any) -> Any:
                answer = await gate._driver.perform(request)
                await may_answer.wait()
                answered.set()
                return answer

            def performed(request: Any) -> Any:
                return perform(request) if isinstance(request, requests.Send) else gate._driver.perform(request)

            firing = asyncio.create_task(gate._driver.drive(_firing(gate, stage), performed))
            await until(lambda: len(stage.world.ledger) == 1)
            effect = replace(stage.world.transfer(), target="blocking")
            other = asyncio.create_task(gate.fire("other", effect, approval="case-1"))
            await until(lambda: obstacle.met)
            may_answer.set()
            await answered.wait()
            await asyncio.sleep(0)
            firing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await firing
            obstacle.take_away()
            assert isinstance(await other, Committed)
            await idle(gate)
            assert (await gate.receipt(KEY)).via == "first-send"

    with staged("nothing") as stage, Obstacle() as obstacle:
        asyncio.run(scenario(stage, obstacle))


@pytest.mark.parametrize("nth", [1, 2])
def test_a_thread_that_still_commits_keeps_the_action_from_its_own_gate(nth: int) -> None:
    """Cancelled in the middle of a commit: until that is over, the gate's own `recover` leaves the action alone."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, AwaitedTarget(stage.world)) as gate:
            run = Cancelled(gate, stage.world, CrashAt(requests.Append, When.AFTER, nth), lambda: _still_ours(gate, nth))
            assert await run.run(_firing(gate, stage))
            assert isinstance(await to_the_end(gate, stage), Committed)
            assert len(stage.world.ledger) == 1

    async def _still_ours(gate: AsyncGate, nth: int) -> None:
        outcomes = (await gate.recover()).outcomes
        assert [getattr(outcome, "reason", None) for outcome in outcomes] == (["held"] if nth == 1 else [])

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))


class Halting(AwaitedTarget):
    """A target whose send never answers, after the effect or before it."""

    def __init__(self, world: World, *, acts: bool) -> None:
        super().__init__(world)
        self._acts = acts
        self.sending = asyncio.Event()
        self.cancelled = False
        self.halts = True

    async def _send(self, *args: Any, **kwargs: Any) -> Any:
        if not self.halts:
            return await super()._send(*args, **kwargs)
        if self._acts:
            await super()._send(*args, **kwargs)
        self.sending.set()
        try:
            return await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize("acts", [False, True], ids=["before-the-effect", "after-it"])
@pytest.mark.parametrize("profile", PROFILES)
def test_an_awaited_send_that_is_cancelled_is_in_doubt_like_any_other(profile: str, acts: bool) -> None:  # noqa: FBT001
    """Its coroutine is cancelled, which says nothing about the effect; recovery finds out what can be found out."""

    async def scenario(stage: Stage) -> None:
        halting = Halting(stage.world, acts=acts)
        async with opening(stage, halting) as gate:
            task = asyncio.create_task(fire(gate, stage))
            await halting.sending.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert halting.cancelled
            assert len((await gate.action(KEY)).dispatches) == 1
            halting.halts = False
            outcome = await to_the_end(gate, stage)
            stage.world.settle()
            assert disagreement(stage.world, await gate.action(KEY)) is None
            assert isinstance(outcome, Ambiguous if profile == "nothing" else Committed)

    with staged(profile) as stage:
        asyncio.run(scenario(stage))


def test_a_grant_that_is_cancelled_is_granted_or_not() -> None:
    """Cancelled at any turn of the loop: granting it again with the same terms makes it so, once."""

    async def scenario(stage: Stage) -> None:
        async with opening(stage, stage.world) as gate:
            for n in range(20):
                grant = partial(gate.approve, f"other-{n}", by="user:1", expires_in_s=60, cap_minor=1, currency=CURRENCY)
                task = asyncio.create_task(grant())
                for _ in range(n):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait((task,))
                await idle(gate)
                assert (await grant()).uses_left == 1
            assert (await gate.verify()).valid

    with staged("lookup") as stage:
        asyncio.run(scenario(stage))


def test_a_dead_process_is_recovered_although_the_first_recovery_was_cancelled_with_its_loop() -> None:
    """The loop ends in the middle of a pass; a gate on another loop carries the action to its end."""

    async def dies(stage: Stage) -> None:
        gate = await opening(stage, stage.world)
        assert await Cancelled(gate, stage.world, CrashAt(requests.Append, When.AFTER)).run(_recovering(gate, stage))
        await gate.close()

    async def lives(stage: Stage) -> None:
        async with opening(stage, stage.world) as gate:
            assert isinstance((await gate.recover()).outcomes[0], Committed)

    with staged("keys") as stage:
        in_doubt(stage)
        asyncio.run(dies(stage))
        asyncio.run(lives(stage))
        assert len(stage.world.ledger) == 1
