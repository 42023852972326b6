"""An `AsyncTarget` in a crash test, which goes request by request: each of its calls is awaited to its end.

And what a target raises, of either kind, which its port does not say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from interlock.domain.answers import BURN_ANSWERS, LOOKUP_ANSWERS, SEND_ANSWERS, BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.effects import Effect
from interlock.domain.ports import AsyncTarget, Deadline, Target
from interlock.domain.premises import Premise
from interlock.domain.profiles import CapabilityProfile
from interlock.testing.faults import Call


class Awaited(Target[Any]):
    """A target that awaits another one, on an event loop of its own: clients keep their connections from call to call.

    Args:
        inner: the target under test.

    Attributes:
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
        self.inner = inner
        self._runner = asyncio.Runner()

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the target under test promises."""
        return self.inner.capabilities

    @property
    def observes(self) -> bool:
        """Whether it can be asked what a decision is made on."""
        return is_overridden(self.inner, AsyncTarget, "_observe")

    def check(self, effect: Effect[Any], premises: tuple[Premise, ...]) -> None:
        """Let the target under test check it."""
        self.inner.check(effect, premises)

    def wait_for(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await something on the event loop."""
        return self._runner.run(coroutine)

    def close(self) -> None:
        """End the event loop."""
        self._runner.close()

    def _observe(self, subject: str) -> Premise:
        seen: Premise = self.wait_for(self.inner.observe(subject))
        return seen

    def _send(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        sending = self.inner.send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        answer: SendAnswer = self.wait_for(sending)
        return answer

    def _lookup(self, effect: Effect[Any], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        answer: LookupAnswer = self.wait_for(self.inner.lookup(effect, action_id=action_id, deadline=deadline))
        return answer

    def _burn(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        burning = self.inner.burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        answer: BurnAnswer = self.wait_for(burning)
        return answer


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_overridden(target: object, base: type, method: str) -> bool:
    """Whether the target has a method of its own: the port has no other way to say what a target can do."""
    return getattr(type(target), method) is not getattr(base, method)


class Ample:
    """A deadline that leaves time enough."""

    def remaining_s(self) -> float:
        """Return ten seconds, each time."""
        return 10.0


class Over:
    """A deadline that is over."""

    def remaining_s(self) -> float:
        """Return none."""
        return 0.0


def raised_by(
    target: Target[Any], call: Call, effect: Effect[Any], *, action_id: UUID, idempotency_key: str | None
) -> Exception | None:
    """Return what a target raises when it is asked past its port, which keeps the name of an exception only.

    It is asked where its answer can do no harm any more: it carries out what it carries out.

    Args:
        target: the target under test.
        call: what to call.
        effect: of which effect.
        action_id: of which action.
        idempotency_key: under which key; a lookup has none.
    """
    asked: dict[str, Any] = {"action_id": action_id, "deadline": Ample()}
    if call is not Call.LOOKUP:
        asked["idempotency_key"] = idempotency_key
    under_test: Any = target.inner if isinstance(target, Awaited) else target
    try:
        answer = getattr(under_test, f"_{call}")(effect, **asked)
        if isinstance(target, Awaited):
            answer = target.wait_for(answer)
    except Exception as error:  # noqa: BLE001 - it is what was asked for
        return error
    kinds = (*SEND_ANSWERS, *LOOKUP_ANSWERS, *BURN_ANSWERS)
    return None if isinstance(answer, kinds) else TypeError(f"{answer!r} is no answer")


def in_words(error: Exception | None) -> str:
    """Return what was raised, to be said after something else; nothing where nothing was."""
    return "" if error is None else f"; it raised {type(error).__name__}: {error}"
