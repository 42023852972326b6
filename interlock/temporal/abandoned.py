"""What a dead worker left: brought to its end when another one starts, and told to Temporal, which still waits for it.

Temporal notices a death by a time-out, and the gate at once, by the lock that the dead one held. So the ending is known long
before the next attempt would be started, and the workflow can go on.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC
from threading import Thread
from typing import Any, Self

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest, ResetStickyTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from interlock import Ambiguous, AsyncGate, Committed, Gate, Receipt, Refused, Report
from interlock.temporal.results import result_of

_LOG = logging.getLogger("interlock")


@dataclass(frozen=True, slots=True)
class Place:
    """Which activity fired an action.

    The three ids name one activity at a time: a run that was reset is another, but a workflow that gives its activities ids
    itself may give one again. When it was scheduled, by the server's clock and the same for all attempts, tells those apart.
    """

    workflow: str
    run: str
    activity: str
    scheduled: str

    @classmethod
    def here(cls) -> Self | None:
        """Return the place of the present activity; None where it is no activity of a workflow that a server waits for."""
        info = activity.info()
        if info.is_local or info.workflow_id is None or info.workflow_run_id is None:
            return None
        return cls(info.workflow_id, info.workflow_run_id, info.activity_id, info.scheduled_time.isoformat())

    @classmethod
    def of(cls, receipt: Receipt) -> Self | None:
        """Return the place that a receipt names; None where it names none."""
        match json.loads(receipt.decision_json or "{}"):
            case {"temporal": {"workflow": str(workflow), "run": str(run), "activity": str(name), "scheduled": str(at)}}:
                return cls(workflow, run, name, at)
            case _:
                return None

    def beside(self, decision: dict[str, Any]) -> dict[str, Any]:
        """Return a decision with the place beside it, for the receipt. What stands there already stays."""
        return {"temporal": asdict(self)} | decision


@asynccontextmanager
async def finishing_abandoned(client: Client, gate: Gate | AsyncGate) -> AsyncGenerator[None]:
    """Finish, beside the block, what dead workers left in flight; what is not finished when it ends is left to attempts.

    Args:
        client: of the namespace that the workflows are in.
        gate: the worker's.
    """
    finishing = asyncio.create_task(_finish(client, gate))
    try:
        yield
    finally:
        finishing.cancel()
        with suppress(asyncio.CancelledError):
            await finishing


async def _finish(client: Client, gate: Gate | AsyncGate) -> None:
    try:
        await _recover_and_tell(client, gate)
    except Exception as error:  # noqa: BLE001 - the worker has to work all the same, and each attempt finds out by itself
        _LOG.warning("what dead workers left is left to the next attempts: %s", type(error).__qualname__)


async def _recover_and_tell(client: Client, gate: Gate | AsyncGate) -> None:
    report = await (gate.recover() if isinstance(gate, AsyncGate) else _on_thread(gate))
    for outcome in report.outcomes:
        if isinstance(outcome, Committed | Refused | Ambiguous):
            with suppress(RPCError):  # the next attempt has begun, or the workflow is over: nobody waits for this one
                await _complete(client, outcome)


async def _on_thread(gate: Gate) -> Report:
    """Recover on a thread that nobody has to wait for: the gate's own end stops it after the action at hand."""
    future: Future[Report] = Future()

    def recover() -> None:
        if not future.set_running_or_notify_cancel():
            return  # the worker has ended already
        try:
            future.set_result(gate.recover())
        except Exception as error:  # noqa: BLE001 - it is handed on, not swallowed
            future.set_exception(error)

    Thread(target=recover, name="interlock-abandoned", daemon=True).start()
    return await asyncio.wrap_future(future)


async def _complete(client: Client, outcome: Committed | Refused | Ambiguous) -> None:
    """Complete the activity that an action was fired in.

    Raises:
        RPCError: nobody waits for it.
    """
    place = Place.of(outcome.receipt)
    if place is None:
        return
    execution = WorkflowExecution(workflow_id=place.workflow, run_id=place.run)
    if await _last_scheduled(client, execution, place.activity) != place.scheduled:
        return
    # First: the workflow's next task goes to the worker that it is bound to when the activity is completed, and that one is dead.
    await client.workflow_service.reset_sticky_task_queue(
        ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)
    )
    handle = client.get_async_activity_handle(workflow_id=place.workflow, run_id=place.run, activity_id=place.activity)
    await handle.complete(result_of(outcome))


async def _last_scheduled(client: Client, execution: WorkflowExecution, activity_id: str) -> str | None:
    """Return when an activity of this id was scheduled, the last time.

    Raises:
        RPCError: there is no such workflow.
    """
    request = GetWorkflowExecutionHistoryReverseRequest(namespace=client.namespace, execution=execution)
    while True:
        page = await client.workflow_service.get_workflow_execution_history_reverse(request)
        for event in page.history.events:
            if event.activity_task_scheduled_event_attributes.activity_id == activity_id:
                return event.event_time.ToDatetime(UTC).isoformat()
        if not page.next_page_token:
            return None
        request.next_page_token = page.next_page_token
