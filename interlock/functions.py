"""A plain function as a target: no keys, no lookup, no burn. An exception is Unknown.

    @target("email", effect=Email)
    def send_email(effect: Email, /, *, idempotency_key: str, deadline_s: float) -> Answer: ...

The decorator stands at the function that acts, never at a call site, because recovery has to find it again by its name. An
`async def` becomes a target for `AsyncGate`.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar, overload
from uuid import UUID

from interlock.domain.answers import NotSent, SendAnswer
from interlock.domain.effects import DataclassCodec, Effect, Money
from interlock.domain.ports import AsyncTarget, Deadline, Target, TargetBase
from interlock.domain.profiles import CapabilityProfile

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)


class ActingFunction(Protocol[P_contra]):
    """A function that carries an effect out."""

    def __call__(self, effect: P_contra, /, *, idempotency_key: str, deadline_s: float) -> SendAnswer:
        """Act once.

        Args:
            effect: the parameters, as they were intended.
            idempotency_key: unique to this action and attempt; pass it on where the provider has a use for it.
            deadline_s: the seconds that are left.

        Returns:
            Done, Declined, NotSent or Unknown. An exception counts as Unknown.
        """
        ...


class AsyncActingFunction(Protocol[P_contra]):
    """A coroutine function that carries an effect out."""

    def __call__(self, effect: P_contra, /, *, idempotency_key: str, deadline_s: float) -> Coroutine[Any, Any, SendAnswer]:
        """Act once; see `ActingFunction`. It is cancelled at its deadline, which counts as Unknown."""
        ...


A = TypeVar("A")


class _OfFunction(TargetBase[P], Generic[P, A]):
    """What targets made of functions have in common."""

    def __init__(self, name: str, effect: type[P], act: A, send_deadline_s: float) -> None:
        self.name = name
        self.codec = DataclassCodec(effect)
        self._act = act
        self._profile = CapabilityProfile(send_deadline_s=send_deadline_s)

    @property
    def capabilities(self) -> CapabilityProfile:
        """The worst profile there is: whatever is in doubt ends as Ambiguous."""
        return self._profile

    def effect(self, parameters: P, *, subject: str, money: Money | None = None) -> Effect[P]:
        """Return the effect that carries these parameters out.

        Args:
            parameters: an instance of the dataclass that the target was declared with.
            subject: what is acted on, such as the id of an order.
            money: the amount that an approval has to cover, where money is moved.
        """
        return Effect(self.name, subject, parameters, money)


class FunctionTarget(_OfFunction[P, ActingFunction[P]], Target[P]):
    """The target made of a function. See `target`."""

    def _send(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        del action_id  # a function has nowhere to put a mark
        left_s = deadline.remaining_s()
        if left_s <= 0:  # a plain function does not ask how late it is: it may have been woken up after its claim was lost
            return NotSent("its deadline was over before the call")
        return self._act(effect.parameters, idempotency_key=idempotency_key, deadline_s=left_s)


class AsyncFunctionTarget(_OfFunction[P, AsyncActingFunction[P]], AsyncTarget[P]):
    """The target made of a coroutine function. See `target`."""

    async def _send(self, effect: Effect[P], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        del action_id
        left_s = deadline.remaining_s()
        if left_s <= 0:
            return NotSent("its deadline was over before the call")
        return await self._act(effect.parameters, idempotency_key=idempotency_key, deadline_s=left_s)


class Declaration(Generic[P]):
    """What `target` returns: a decorator of the function that acts."""

    def __init__(self, name: str, effect: type[P], send_deadline_s: float) -> None:
        self._name = name
        self._effect = effect
        self._send_deadline_s = send_deadline_s

    @overload
    def __call__(self, act: AsyncActingFunction[P], /) -> AsyncFunctionTarget[P]: ...
    @overload
    def __call__(self, act: ActingFunction[P], /) -> FunctionTarget[P]: ...
    def __call__(self, act: Any, /) -> FunctionTarget[P] | AsyncFunctionTarget[P]:
        """Make the target: of a coroutine function one that is awaited, of any other one that is called."""
        if any(map(inspect.iscoroutinefunction, (act, type(act).__call__))):
            return AsyncFunctionTarget(self._name, self._effect, act, self._send_deadline_s)
        return FunctionTarget(self._name, self._effect, act, self._send_deadline_s)


def target(name: str, *, effect: type[P], send_deadline_s: float = 30.0) -> Declaration[P]:
    """Make a target of the function that acts.

    Args:
        name: the name it is registered under; it is written into the journal, so it stays.
        effect: a frozen dataclass of strings, integers, booleans or None.
        send_deadline_s: how long one call may take, in seconds.

    Returns:
        A decorator that returns a `FunctionTarget`, or, of an `async def`, an `AsyncFunctionTarget`.

    Raises:
        InvalidEffect: the dataclass has a field of another type.
    """
    return Declaration(name, effect, send_deadline_s)
