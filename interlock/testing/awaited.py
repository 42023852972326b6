"""An `AsyncTarget` in a crash test, which goes request by request: each of its calls is awaited to its end."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.effects import Effect
from interlock.domain.ports import AsyncTarget, Deadline, Target
from interlock.domain.premises import Premise
from interlock.domain.profiles import CapabilityProfile


class Awaited(Target[Any]):
    """A target that awaits another one, on an event loop of its own: clients keep their connections from call to call.

    Args:
        inner: the target under test.

    Raises:
        RuntimeError: an event loop runs on this thread already, and would have to wait for another one.
    """

    def __init__(self, inner: AsyncTarget[Any]) -> None:
        if _in_a_loop():
            raise RuntimeError(
                "a crash test of an AsyncTarget brings an event loop of its own, and nothing was tested: call it from a plain "
                "function, or with asyncio.to_thread"
            )
        self.name, self.version = inner.name, inner.version
        self.codec, self.policy = inner.codec, inner.policy
        self._inner = inner
        self._runner = asyncio.Runner()

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the target under test promises."""
        return self._inner.capabilities

    @property
    def observes(self) -> bool:
        """Whether it can be asked what a decision is made on."""
        return is_overridden(self._inner, AsyncTarget, "_observe")

    def check(self, effect: Effect[Any], premises: tuple[Premise, ...]) -> None:
        """Let the target under test check it."""
        self._inner.check(effect, premises)

    def close(self) -> None:
        """End the event loop."""
        self._runner.close()

    def _observe(self, subject: str) -> Premise:
        return self._runner.run(self._inner.observe(subject))

    def _send(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        sending = self._inner.send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return self._runner.run(sending)

    def _lookup(self, effect: Effect[Any], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        return self._runner.run(self._inner.lookup(effect, action_id=action_id, deadline=deadline))

    def _burn(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        burning = self._inner.burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return self._runner.run(burning)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_overridden(target: object, base: type, method: str) -> bool:
    """Whether the target has a method of its own: the port has no other way to say what a target can do."""
    return getattr(type(target), method) is not getattr(base, method)
