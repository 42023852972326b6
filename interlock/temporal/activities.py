"""Activities whose body is the gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, overload

from temporalio import activity
from temporalio.exceptions import CancelledError

from interlock import ApprovalView, Effect, ExternalApproval, InFlight, Premise
from interlock.errors import InterlockError
from interlock.temporal.abandoned import Place
from interlock.temporal.binding import present_gates
from interlock.temporal.failures import failure_of
from interlock.temporal.results import GateResult, result_of
from interlock.temporal.waiting import Patience, pause, pause_awaited, uninterrupted

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__interlock_gated__"


@dataclass(frozen=True, slots=True)
class Firing:
    """What an activity wants fired: the arguments of `Gate.fire`.

    Args:
        effect: what to do; made by a target of the worker's gate.
        approval: under whose authority.
        premises: on which facts: those that the decision was made on, and so the activity's input, not read anew in it.
        key: the name of this one action. By default it is the activity's name and the workflow's id, which is right for a
            workflow that takes this action once. One that takes it again, under another approval, names each itself:
            `f"refund:{approval_id}"`. Never from an attempt, a run id or a model's text.
        supersedes: the key of the refused action that this one carries on.
        decision: how the decision came about, as JSON values, for the receipt; no secrets. The ids of the workflow, the run and
            the activity, and when that was scheduled, are added to it, as `temporal`.
    """

    effect: Effect[Any]
    approval: ApprovalView | ExternalApproval | str
    premises: Sequence[Premise] = ()
    key: str | None = None
    supersedes: str | None = None
    decision: Mapping[str, Any] | None = None


class _Gated:
    """Makes an activity of a function that says what to fire. Made by `gated`."""

    def __init__(self, name: str, wait_s: float) -> None:
        self._name = name
        self._wait_s = wait_s

    @overload
    def __call__(self, plan: Callable[P, Coroutine[Any, Any, Firing]]) -> Callable[P, Coroutine[Any, Any, GateResult]]: ...

    @overload
    def __call__(self, plan: Callable[P, Firing]) -> Callable[P, GateResult]: ...

    def __call__(self, plan: Callable[P, Any]) -> Callable[P, Any]:
        """Return the activity."""
        body = self._awaited(plan) if iscoroutinefunction(plan) else self._blocking(plan)
        # Temporal reads the types that it converts to and from here; the result is ours and not the function's.
        body.__annotations__ = {**plan.__annotations__, "return": GateResult}
        mark_gated(body)
        # An exception that Temporal raises in the middle of the gate's own bookkeeping would be a crash that leaves the
        # process alive: a cancellation is asked about where nothing is half done instead.
        return activity.defn(name=self._name, no_thread_cancel_exception=True)(body)

    def _blocking(self, plan: Callable[P, Firing]) -> Callable[P, GateResult]:
        @wraps(plan)
        def body(*args: P.args, **kwargs: P.kwargs) -> GateResult:
            patience = Patience(self._wait_s)
            _require_wanted()
            with _in_temporals_words():
                firing = plan(*args, **kwargs)
            while True:
                with _in_temporals_words():
                    outcome = present_gates().blocking_gate().fire(self._key(firing), firing.effect, **_options(firing))
                if not isinstance(outcome, InFlight):
                    return result_of(outcome)
                pause(patience.pause_s(outcome))

        return body

    def _awaited(self, plan: Callable[P, Awaitable[Firing]]) -> Callable[P, Coroutine[Any, Any, GateResult]]:
        @wraps(plan)
        async def body(*args: P.args, **kwargs: P.kwargs) -> GateResult:
            patience = Patience(self._wait_s)
            _require_wanted()
            with _in_temporals_words():
                firing = await plan(*args, **kwargs)
            while True:
                with _in_temporals_words():
                    gate = present_gates().awaited_gate()
                    outcome = await uninterrupted(gate.fire(self._key(firing), firing.effect, **_options(firing)))
                if not isinstance(outcome, InFlight):
                    return result_of(outcome)
                await pause_awaited(patience.pause_s(outcome))

        return body

    def _key(self, firing: Firing) -> str:
        if firing.key is not None:
            return firing.key
        info = activity.info()
        # An activity that no workflow started is named by whoever started it, like a workflow.
        return f"{self._name}:{info.workflow_id or info.activity_id}"


def gated(name: str, *, wait_s: float = 10.0) -> _Gated:
    """Make an activity whose body is the gate. Decorate a function or a method that says what to fire.

    With `def` it fires through the worker's `Gate`, on a thread of its `activity_executor`; with `async def` through its
    `AsyncGate`. It returns a `GateResult`. What the function returns has to follow from its arguments alone: it is called
    again at every attempt, on whichever worker is free, and the first effect under a key is the only one.

    Args:
        name: the activity's type, and the first half of its actions' default keys. It stays, whatever the function is called:
            under another name a workflow that is reset would take its action again.
        wait_s: for how long an action in flight is asked about within one attempt, in seconds. After that the attempt ends,
            and the next one asks.

    Raises:
        ApplicationError: (the activity) of type `InFlight`, with `next_retry_delay`; or of the type of an `InterlockError`,
            not retryable where the call itself is wrong.
        CancelledError: (the activity) it was cancelled while nothing was being sent.
    """
    return _Gated(name, wait_s)


def mark_gated(function: F) -> F:
    """Mark an activity as one that needs the gate, and heartbeats beside it; return it."""
    setattr(function, _MARK, True)
    return function


def is_gated(function: object) -> bool:
    """Whether it is an activity whose body is the gate."""
    return getattr(function, _MARK, False) is True


@contextmanager
def _in_temporals_words() -> Generator[None]:
    try:
        yield
    except InterlockError as error:
        raise failure_of(error) from None  # a cause may name hosts and users, and a history keeps it


def _options(firing: Firing) -> dict[str, Any]:
    return {
        "approval": firing.approval,
        "premises": firing.premises,
        "supersedes": firing.supersedes,
        "decision": _with_place(firing.decision),
    }


def _with_place(decision: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    place = Place.here()
    return decision if place is None else place.beside(dict(decision or {}))


def _require_wanted() -> None:
    if activity.is_cancelled() and not activity.is_worker_shutdown():
        # An earlier attempt may have sent: the words are about this one only.
        raise CancelledError("it was cancelled before this attempt wrote or sent anything")
