"""The gates that a test runs with: the sync one, or the async one with targets that are awaited, behind the same methods.

A test is written for `Gate`. With the async gate each of its calls runs on an event loop of its own, to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import iscoroutine, iscoroutinefunction
from typing import Any, Self, TypeVar, cast
from uuid import UUID

from interlock import AsyncGate, AsyncTarget, CapabilityProfile, Deadline, Effect, Gate, Premise, Target
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.requests import Protocol, Request

R = TypeVar("R")


class AwaitedTarget(AsyncTarget[Any]):
    """A sync target of a test as one that is awaited: the event loop turns before and after each call."""

    def __init__(self, target: Target[Any]) -> None:
        self.name = target.name
        self.version = target.version
        self.codec = target.codec
        self.policy = target.policy
        self._target: Any = target

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the target promises, as it does now."""
        profile: CapabilityProfile = self._target.capabilities
        return profile

    def check(self, effect: Effect[Any], premises: tuple[Premise, ...]) -> None:
        """Let the target check."""
        self._target.check(effect, premises)

    async def _observe(self, subject: str) -> Premise:
        observed: Premise = await _turning(lambda: self._target._observe(subject))
        return observed

    async def _send(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        given = {"action_id": action_id, "idempotency_key": idempotency_key, "deadline": deadline}
        answer: SendAnswer = await _turning(lambda: self._target._send(effect, **given))
        return answer

    async def _lookup(self, effect: Effect[Any], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        answer: LookupAnswer = await _turning(lambda: self._target._lookup(effect, action_id=action_id, deadline=deadline))
        return answer

    async def _burn(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        given = {"action_id": action_id, "idempotency_key": idempotency_key, "deadline": deadline}
        answer: BurnAnswer = await _turning(lambda: self._target._burn(effect, **given))
        return answer


async def _turning(ask: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    try:
        return ask()
    finally:
        await asyncio.sleep(0)


class BlockingGate:
    """An async gate with the methods of a sync one."""

    def __init__(self, gate: AsyncGate) -> None:
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        """Return a method of the gate that runs to its end, or what else it has."""
        value = getattr(self._gate, name)
        return (lambda *args, **kwargs: asyncio.run(value(*args, **kwargs))) if iscoroutinefunction(value) else value

    def __enter__(self) -> Self:
        """Return the gate."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the gate."""
        asyncio.run(self._gate.close())


class _Present:
    """The kind of gate that the test runs with."""

    def __init__(self) -> None:
        self.kind = "sync"

    @contextmanager
    def use(self, kind: str) -> Iterator[None]:
        """Run with another kind."""
        before, self.kind = self.kind, kind
        try:
            yield
        finally:
            self.kind = before


present = _Present()


def open_gate(url: str, *, targets: list[Any], **options: Any) -> Gate:
    """Open a gate of the present kind."""
    if present.kind == "sync":
        return Gate.open(url, targets=targets, **options)
    return cast("Gate", BlockingGate(asyncio.run(_opened(url, list(map(AwaitedTarget, targets)), options))))


async def _opened(url: str, targets: list[AwaitedTarget], options: dict[str, Any]) -> AsyncGate:
    return await AsyncGate.open(url, targets=targets, **options)


def drive(gate: Gate, part: Protocol[R], perform: Callable[[Request[Any]], Any]) -> R:
    """Run a protocol with something between it and the gate's driver. `perform` may return what is to be awaited."""
    driven: Any = gate._driver.drive(part, perform)
    result: R = asyncio.run(driven) if iscoroutine(driven) else driven
    return result


def after(answer: Any, do: Callable[[], None]) -> Any:
    """Do something after an answer has come, awaited or not, and return it."""
    if not iscoroutine(answer):
        do()
        return answer
    return _done_after(answer, do)


async def _done_after(awaited: Any, do: Callable[[], None]) -> Any:
    answer = await awaited
    do()
    return answer
