"""The driver of `AsyncGate`: what blocks runs on threads, what is awaited runs on the event loop.

A protocol goes on, on a thread, from one request that has to be awaited to the next. An action whose target is sync is one
hand-over to a thread and one back; an `AsyncTarget` makes it two.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutine
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from interlock.config import GateConfig
from interlock.domain import requests
from interlock.domain.answers import CannotTell, NotSent, SendAnswer, Unknown
from interlock.domain.ports import AsyncTarget
from interlock.domain.premises import Premise, PremiseReading
from interlock.domain.requests import Request
from interlock.domain.sending import TOO_LATE
from interlock.driver import CLOSED_WHILE_WAITING, READ_DEADLINE_S, Anchoring, Performer, Registry
from interlock.errors import GateClosed
from interlock.infrastructure.clock import Clock, WallDeadline, elapsing_s
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.locks import Locks
from interlock.requests import LetGo, Pause
from interlock.runs import Run, as_present, present_run

GIVEN_UP = "it was given up at its deadline, or by its client"

ANCHOR_POLL_S = 0.02
"""How often a task looks whether its action stands under a checkpoint."""

A = ParamSpec("A")
R = TypeVar("R")
Awaited = Coroutine[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class _Ended(Generic[R]):
    result: R


class _Steps(Generic[R]):
    """A protocol that goes on, on a thread, until something has to be awaited.

    Where nobody waits for its result any more, it stops before its next request, as if it had crashed there; only the answer of a
    send that was being made is written down first.
    """

    def __init__(self, run: Run, part: requests.Protocol[R], perform: Callable[[Request[Any]], Any]) -> None:
        self._run = run
        self._part = part
        self._perform = perform
        self._sent = False

    def go_on(self, advance: Callable[[], Request[Any]]) -> Awaited | _Ended[R]:
        """Perform requests until one of them has to be awaited, and return what to await, or the end."""
        self._run.on_thread = True
        try:
            return self._go_on(advance)
        finally:
            self._run.on_thread = self._run.handed_over = False

    def _go_on(self, advance: Callable[[], Request[Any]]) -> Awaited | _Ended[R]:
        while True:
            try:
                request = advance()
            except StopIteration as stop:
                return _Ended(stop.value)
            if self._stops_before(request):
                raise asyncio.CancelledError
            try:
                answer = self._perform(request)
            except Exception as error:  # noqa: BLE001 - it is handed on, not swallowed
                advance = partial(self._part.throw, error)
                continue
            if iscoroutine(answer):
                return answer
            advance = partial(self._part.send, answer)

    def _stops_before(self, request: Request[Any]) -> bool:
        recording = self._sent and not isinstance(request, requests.Send | LetGo)
        self._sent = isinstance(request, requests.Send) or recording
        return not self._run.going.locked() and not recording


class AsyncDriver(Performer):
    """Drives protocols for tasks, of whichever event loop."""

    def __init__(
        self,
        journal: Journal,
        registry: Registry,
        locks: Locks,
        clock: Clock,
        config: GateConfig,
        log: Anchoring | None = None,
    ) -> None:
        super().__init__(journal, registry, locks, clock, config, log)
        self._awaited_by: Mapping[type[Request[Any]], Callable[[Any], Awaited | None]] = {
            requests.ReadPremises: self._reading_all,
            requests.Send: self._sending,
            requests.LookUp: self._looking_up,
            requests.Burn: self._burning,
            requests.SleepUntil: self._sleeping_until,
            requests.Anchor: self._anchoring,
            Pause: self._pausing,
        }
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._under_way: set[Run] = set()
        self._sleepers: set[Callable[[], object]] = set()
        # Threads of its own, and not the loop's: sends that wait for a slow provider would keep the program's other threads
        # (name resolution among them) from starting, and theirs would keep claims from being recorded.
        self._threads = ThreadPoolExecutor(self.config.async_threads, thread_name_prefix="interlock")

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child, with threads of its own."""
        super().renew_after_fork()
        self._start()

    async def run(self, part: requests.Protocol[R]) -> R:
        """Run a protocol to its end. Cancelling it is a crash of that protocol."""
        return await self.drive(part, self.perform)

    async def drive(self, part: requests.Protocol[R], perform: Callable[[Request[Any]], Any]) -> R:
        """Run a protocol to its end, with something between it and `perform`."""
        run = Run(reads_ahead=True, around=present_run())
        steps = _Steps(run, part, perform)
        with run.going, as_present(run):
            thread = self._begin(run, steps, part)
            try:
                while not isinstance(step := await _result_of(thread), _Ended):
                    thread = self._hand_over(run, steps, await _answer(part, step))
                return step.result
            finally:
                thread.add_done_callback(partial(self._leave, run, part))

    async def call(self, function: Callable[A, R], *args: A.args, **kwargs: A.kwargs) -> R:
        """Call what blocks on a thread."""
        return await asyncio.wrap_future(self._submit(function, *args, **kwargs))

    def perform(self, request: Request[Any]) -> Any:
        """Do what the request says, and return its answer, or what has to be awaited for it."""
        awaited_by = self._awaited_by.get(type(request))
        awaited = awaited_by(request) if awaited_by else None
        return super().perform(request) if awaited is None else awaited

    def stop(self) -> None:
        """Let nothing that waits go on, and wake who sleeps."""
        super().stop()
        # Whoever goes to sleep from here on sees that the gate is closed.
        for wake in tuple(self._sleepers):
            with suppress(RuntimeError):  # its loop is closed
                wake()

    async def close(self) -> None:
        """Give the lock back and close the journal. Closing twice does nothing.

        Runs that are at work on an action are waited for, also those that nobody awaits any more: one of them may have an answer
        that is nowhere else.
        """
        self.stop()
        # In the caller's context: a target that closes its own gate must not wait for itself.
        await asyncio.wrap_future(_on_a_thread_of_its_own(partial(copy_context().run, self._shut_behind_the_last_send)))

    def _shut_behind_the_last_send(self) -> None:
        self.at_work.await_others(self.patience_s)
        self.shut()
        self._closed = True
        self._retire(None)

    def _submit(self, function: Callable[A, R], *args: A.args, **kwargs: A.kwargs) -> Future[R]:
        call = partial(function, *args, **kwargs)
        try:
            return self._threads.submit(copy_context().run, call)
        except RuntimeError:
            raise GateClosed("the gate is closed; nothing was written or sent") from None

    def _begin(self, run: Run, steps: _Steps[R], part: requests.Protocol[R]) -> Future[Awaited | _Ended[R]]:
        self._under_way.add(run)
        try:
            return self._hand_over(run, steps, partial(part.send, None))
        except GateClosed:
            self._under_way.discard(run)
            raise

    def _hand_over(self, run: Run, steps: _Steps[R], advance: Callable[[], Request[Any]]) -> Future[Awaited | _Ended[R]]:
        run.handed_over = True  # others must not take its actions for abandoned while it waits for a thread
        try:
            return self._submit(steps.go_on, advance)
        except BaseException:
            run.handed_over = False
            raise

    def _leave(self, run: Run, part: Generator[Any, Any, Any], thread: Future[Any]) -> None:
        if not thread.cancelled() and thread.exception() is None and iscoroutine(unawaited := thread.result()):
            unawaited.close()
        part.close()
        self.at_work.let_go(run)
        self._retire(run)

    def _retire(self, run: Run | None) -> None:
        """End the threads where the gate is closed, and nobody needs them any more to say what became of a send."""
        with self._lock:
            if run is not None:
                self._under_way.discard(run)
            if self._closed and not any(each.is_on for each in tuple(self._under_way)):
                self._threads.shutdown(wait=False)

    # --- what is awaited

    def _reading_all(self, request: requests.ReadPremises) -> Awaited | None:
        targets = [self.registry.targets.get(premise.target) for premise in request.intent.premises]
        return self._read_all(request) if any(isinstance(target, AsyncTarget) for target in targets) else None

    async def _read_all(self, request: requests.ReadPremises) -> tuple[PremiseReading, ...]:
        return tuple(await asyncio.gather(*(self._read_one(premise, request) for premise in request.intent.premises)))

    async def _read_one(self, premise: Premise, request: requests.ReadPremises) -> PremiseReading:
        target = self.registry.targets.get(premise.target)
        if not isinstance(target, AsyncTarget):
            return await self.call(self._read, premise, request)
        try:
            async with asyncio.timeout(READ_DEADLINE_S):
                now = await target.observe(premise.subject)
            return self._judge(premise, now, request)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            return self._unreadable(premise, error)
        except Exception as error:  # noqa: BLE001 - a failed read, of whatever kind, is unreadable
            return self._unreadable(premise, error)

    def _sending(self, request: requests.Send) -> Awaited | None:
        target = self.registry.targets[request.effect.target]
        if not isinstance(target, AsyncTarget):
            return None
        key, deadline = request.idempotency_key, self._deadline_of(request)
        ask = partial(target.send, self._effect(request), action_id=request.action_id, idempotency_key=key, deadline=deadline)
        return _send_within(deadline, ask)

    def _looking_up(self, request: requests.LookUp) -> Awaited | None:
        target, deadline = self.registry.targets[request.effect.target], WallDeadline(READ_DEADLINE_S)
        if not isinstance(target, AsyncTarget):
            return None
        ask = partial(target.lookup, self._effect(request), action_id=request.action_id, deadline=deadline)
        return _within(deadline, ask, CannotTell(GIVEN_UP))

    def _burning(self, request: requests.Burn) -> Awaited | None:
        target, deadline = self.registry.targets[request.effect.target], WallDeadline(READ_DEADLINE_S)
        if not isinstance(target, AsyncTarget):
            return None
        key = request.idempotency_key
        ask = partial(target.burn, self._effect(request), action_id=request.action_id, idempotency_key=key, deadline=deadline)
        return _within(deadline, ask, CannotTell(GIVEN_UP))

    def _sleeping_until(self, request: requests.SleepUntil) -> Awaited:
        return self._sleep_or_raise(self._seconds_until(request.at))

    async def _sleep_or_raise(self, seconds: float) -> None:
        if await self._sleep(seconds):
            raise GateClosed(CLOSED_WHILE_WAITING)

    def _anchoring(self, request: requests.Anchor) -> Awaited:
        return self._await_anchor(request)

    async def _await_anchor(self, request: requests.Anchor) -> str | None:
        """Look again and again, and hold no thread meanwhile: with a witness that is down, all of them would wait."""
        assert self.log is not None, "nobody anchors without a log"
        until_s = elapsing_s() + self.log.anchor_wait_s
        while not await self.call(self.log.is_anchored, request.action_id, request.version):
            if elapsing_s() >= until_s:
                return self.log.why_not()
            if await self._sleep(ANCHOR_POLL_S):
                return CLOSED_WHILE_WAITING  # an answer and no exception, as in the sync driver
        return None

    def _pausing(self, request: Pause) -> Awaited:
        return self._sleep(request.seconds)

    async def _sleep(self, seconds: float) -> bool:
        """Wait, and return whether the gate was closed meanwhile."""
        loop = asyncio.get_running_loop()
        woken = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(woken.cancel)

        self._sleepers.add(wake)
        try:
            if not self.closing.is_set():
                await asyncio.wait((woken,), timeout=seconds)
        finally:
            self._sleepers.discard(wake)
        return self.closing.is_set()


async def _answer(part: Generator[Request[Any], Any, Any], awaited: Awaited) -> Callable[[], Request[Any]]:
    """Await an answer, and return how the protocol goes on with it, or with what was raised."""
    try:
        answer = await awaited
    except Exception as error:  # noqa: BLE001 - it is handed on, not swallowed
        return partial(part.throw, error)
    return partial(part.send, answer)


async def _result_of(thread: Future[R]) -> R:
    """Await what a thread comes to. Cancelling the await takes nothing back: it may be about to write an answer down."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[R]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(ended.set)

    thread.add_done_callback(tell)
    await ended.wait()
    return thread.result()


def _is_cancelled() -> bool:
    """Whether it is the present task that is cancelled, and not one that a target waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _within(deadline: WallDeadline, ask: Callable[[], Coroutine[Any, Any, R]], otherwise: R) -> R:
    """Await an answer until the deadline."""
    try:
        async with asyncio.timeout(deadline.remaining_s()):
            return await ask()
    except TimeoutError:
        return otherwise
    except asyncio.CancelledError:
        if _is_cancelled():
            raise
        return otherwise


async def _send_within(deadline: WallDeadline, ask: Callable[[], Coroutine[Any, Any, SendAnswer]]) -> SendAnswer:
    if deadline.remaining_s() <= 0:  # a loop that was blocked wakes up late, as a process does that was stopped
        return NotSent(TOO_LATE)
    return await _within(deadline, ask, Unknown(GIVEN_UP))


def _on_a_thread_of_its_own(function: Callable[[], R]) -> Future[R]:
    """Call what must not wait for a thread of the gate's, all of which may be in the middle of a send."""
    threads = ThreadPoolExecutor(1, thread_name_prefix="interlock-once")
    thread = threads.submit(function)
    threads.shutdown(wait=False)
    return thread


class _Closes(Protocol):
    async def close(self) -> None: ...


G = TypeVar("G", bound=_Closes)


class Opening(Generic[G]):
    """A gate that is being opened: await it, or enter it with `async with`, which also closes the gate."""

    def __init__(self, assemble: Callable[[], AsyncDriver], gate: Callable[[AsyncDriver], G]) -> None:
        self._assemble = assemble
        self._make = gate
        self._gate: G | None = None

    def __await__(self) -> Generator[Any, Any, G]:
        """Open the gate, on a thread."""
        return self._open().__await__()

    async def __aenter__(self) -> G:
        """Open the gate, on a thread."""
        self._gate = await self._open()
        return self._gate

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the gate."""
        if self._gate is not None:
            await self._gate.close()

    async def _open(self) -> G:
        thread = _on_a_thread_of_its_own(self._assemble)
        try:
            return self._make(await asyncio.wrap_future(thread))
        except BaseException:
            thread.add_done_callback(_shut_unwanted)
            raise


def _shut_unwanted(thread: Future[AsyncDriver]) -> None:
    """Give back what a gate took that nobody waited for: its lock would say that it lives."""
    if not thread.cancelled() and thread.exception() is None:
        thread.result().shut()
