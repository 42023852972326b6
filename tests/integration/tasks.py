"""What the tests of the async gate share: a stage in memory, and tasks that are stopped at a request and cancelled there."""

import asyncio
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from interlock import Ambiguous, AsyncGate, Committed, Outcome, Refused
from interlock.domain import requests
from interlock.domain.requests import Protocol, Request
from tests.crashing import CrashAt, CrashPoint, Stage, When
from tests.gates import AwaitedTarget
from tests.provider_world import AMOUNT, PROFILES, World

KEY = "refund:case-1"
MANY = 200
TURNS = 200
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it

AsTarget = Callable[[World], Any]
AS_TARGETS: dict[str, AsTarget] = {"awaited": AwaitedTarget, "on-a-thread": lambda world: world}
"""How a world is registered: as a target that is awaited, or as a sync one, which is called on a thread."""


@contextmanager
def staged(profile: str) -> Iterator[Stage]:
    """Make a journal in memory, where there is one, with an approval for many actions."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as name, Stage(Path(name) / "journal.db", World(PROFILES[profile])) as stage:
        stage.approve(uses=MANY, cap_minor=MANY * AMOUNT)
        yield stage


def opening(stage: Stage, *targets: Any) -> Any:
    """Return a gate that is being opened: await it, or enter it."""
    return AsyncGate.open(stage.url, targets=targets, clock=stage.world.clock, config=stage.config)


async def fire(gate: AsyncGate, stage: Stage, key: str = KEY, **options: Any) -> Outcome:
    """Fire the only effect that the world knows."""
    return await gate.fire(key, stage.world.transfer(), approval="case-1", **options)


async def to_the_end(gate: AsyncGate, stage: Stage, key: str = KEY) -> Outcome:
    """Fire again and again, moving the world's time on as each answer says, until there is an outcome."""
    for _ in range(40):
        outcome = await fire(gate, stage, key)
        if isinstance(outcome, Committed | Refused | Ambiguous):
            return outcome
        stage.world.advance(max(0.1, outcome.retry_after_s))
    raise AssertionError("it comes to no end")


async def turn_until_done(task: "asyncio.Task[Any]") -> int:
    """Turn the loop many times while a task waits; return how often it turned before the task was done."""
    for turn in range(TURNS):
        if task.done():
            return turn
        await asyncio.sleep(0)
    return TURNS


class Obstacle:
    """What threads wait at, in vain until the block is left or it is taken away."""

    def __init__(self) -> None:
        self._gone = threading.Event()
        self.take_away = self._gone.set
        self.met = False

    def wait(self) -> None:
        """Wait until it is taken away."""
        self.met = True
        self._gone.wait()

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away: a thread that waits keeps the process from ending."""
        self.take_away()


class Slow(World):
    """A sync target one of whose methods blocks at an obstacle."""

    def __init__(self, stage: Stage, slow: str, obstacle: Obstacle) -> None:
        super().__init__(stage.world.profile)
        self.provider = stage.world.provider
        self._slow = slow
        self._obstacle = obstacle

    def _observe(self, subject: str) -> Any:
        return self._behind("observe", super()._observe, subject)

    def _send(self, effect: Any, **given: Any) -> Any:
        return self._behind("send", super()._send, effect, **given)

    def _lookup(self, effect: Any, **given: Any) -> Any:
        return self._behind("lookup", super()._lookup, effect, **given)

    def _behind(self, name: str, do: Callable[..., Any], *args: Any, **given: Any) -> Any:
        if name == self._slow:
            self._obstacle.wait()
        return do(*args, **given)


async def until(holds: Callable[[], bool]) -> None:
    """Return when something holds that nobody tells of: what threads and other processes do."""
    while not holds():  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0.001)


async def idle(gate: AsyncGate) -> None:
    """Return when no thread of the gate is at work any more."""
    await until(lambda: not gate._driver._under_way)


class Cancelled:
    """A run that is cancelled at one of its requests. What it does there on a thread goes on when the task is gone.

    Args:
        gate: the gate.
        world: its provider, whose time moves when the protocol sleeps.
        point: where.
        meanwhile: what is awaited between the end of the task and that of its thread.
    """

    def __init__(
        self,
        gate: AsyncGate,
        world: World,
        point: CrashPoint | CrashAt,
        meanwhile: Callable[[], Any] | None = None,
    ) -> None:
        self._gate = gate
        self._world = world
        self._point = point
        self._meanwhile = meanwhile
        self._loop = asyncio.get_running_loop()
        self._here = asyncio.Event()
        self._go_on = threading.Event()
        self.trace: list[Request[Any]] = []

    async def run(self, part: Protocol[Any]) -> bool:
        """Run a part of the protocol; return whether it came to the point, and was cancelled there."""
        task = asyncio.create_task(self._gate._driver.drive(part, self._perform))
        here = asyncio.create_task(self._here.wait())
        await asyncio.wait((task, here), return_when=asyncio.FIRST_COMPLETED)
        if not self._here.is_set():
            here.cancel()
            await task
            return False
        try:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            if self._meanwhile is not None:
                await self._meanwhile()
        finally:
            self._go_on.set()
        await idle(self._gate)
        return True

    def _perform(self, request: Request[Any]) -> Any:
        self.trace.append(request)
        when = self._point.when if self._point.hit_by(self.trace) else None
        if when is When.BEFORE:
            self._stop()
        answer = self._answer(request)
        if when is not When.AFTER:
            return answer
        if asyncio.iscoroutine(answer):
            return self._stopped_after(answer)
        self._stop()
        return answer

    def _answer(self, request: Request[Any]) -> Any:
        if isinstance(request, requests.SleepUntil):
            self._world.advance(max(0.0, (request.at - self._world.clock.now()).total_seconds()))
            return None
        return self._gate._driver.perform(request)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._here.set)
        self._go_on.wait()

    async def _stopped_after(self, awaited: Any) -> Any:
        await awaited
        self._here.set()
        await asyncio.Event().wait()
