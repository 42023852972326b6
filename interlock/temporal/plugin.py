"""What a worker needs to run gated activities, as one plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from temporalio import activity
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    ActivityInboundInterceptor,
    ActivityOutboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from interlock import AsyncGate, Gate
from interlock.temporal.abandoned import finishing_abandoned
from interlock.temporal.activities import is_gated
from interlock.temporal.binding import bound_to, gates_of

_PASSED_THROUGH = ("interlock", "stripe", "anthropic")
"""Modules that the sandbox takes as they are. Loading them anew for every workflow would take seconds, and none of them has state
that a workflow could reach."""

_WITHOUT_TIMEOUT_S = 10.0
_A_TIMEOUT = 4


class GatePlugin(SimplePlugin):
    """Lets a worker's gated activities fire through its gate.

    It gives them the gate, and sends their heartbeats beside them, so that a send that blocks is not taken for a crash. When the
    worker starts, it finishes what dead workers left in flight, and completes the activities that they died in, without waiting
    for Temporal to notice the deaths. And it lets workflow files import `interlock` and its adapters without
    `imports_passed_through`. Hand it to `Worker(plugins=[…])`. The gate stays its opener's to close, after the worker has ended.

    Args:
        gates: a `Gate` for activities with `def`, an `AsyncGate` for those with `async def`, or one of each. None for a worker
            that runs workflows alone, and for a `Replayer`.

    Raises:
        InvalidConfiguration: there are two of a kind.
    """

    def __init__(self, *gates: Gate | AsyncGate) -> None:
        present = gates_of(gates)
        self._recovering = present.awaited or present.blocking
        # Temporal types a parameter that is not used here as a bare `Callable`.
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            "interlock", interceptors=[_ToGates(gates)], workflow_runner=_passing_through
        )

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:  # noqa: A002 - Temporal's name
        """Run the worker, and finish beside it what dead ones left."""
        if self._recovering is None:
            await super().run_worker(worker, next)
            return
        async with finishing_abandoned(worker.client, self._recovering):
            await super().run_worker(worker, next)


class _ToGates(Interceptor):
    def __init__(self, gates: tuple[Gate | AsyncGate, ...]) -> None:
        self._gates = gates

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return _ToGate(next, self._gates)


class _ToGate(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, gates: tuple[Gate | AsyncGate, ...]) -> None:
        super().__init__(inner)
        self._gates = gates
        self._heartbeat: Callable[..., None] = activity.heartbeat

    def init(self, outbound: ActivityOutboundInterceptor) -> None:
        # `activity.heartbeat` waits for the event loop where the activity has a thread, and this runs on the event loop.
        self._heartbeat = outbound.heartbeat
        super().init(outbound)

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        with bound_to(*self._gates):
            if not is_gated(input.fn):
                return await self.next.execute_activity(input)
            async with _heartbeats(self._heartbeat):
                return await self.next.execute_activity(input)


@asynccontextmanager
async def _heartbeats(heartbeat: Callable[..., None]) -> AsyncGenerator[None]:
    """Send heartbeats while the block runs. What ends an activity that never returns is its start-to-close time-out."""
    timeout = activity.info().heartbeat_timeout
    every_s = timeout.total_seconds() / _A_TIMEOUT if timeout else _WITHOUT_TIMEOUT_S
    beating = asyncio.create_task(_beat(heartbeat, every_s))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(heartbeat: Callable[..., None], every_s: float) -> None:
    while True:
        heartbeat()
        await asyncio.sleep(every_s)


def _passing_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    runner = runner or SandboxedWorkflowRunner()
    if not isinstance(runner, SandboxedWorkflowRunner):
        return runner  # without a sandbox there is nothing to pass through
    return replace(runner, restrictions=runner.restrictions.with_passthrough_modules(*_PASSED_THROUGH))
