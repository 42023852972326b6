"""A case on Temporal, as its parent sees it: a workflow on a server that stays, and worker processes that do not."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from typing import Any, TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from harness.carrier import WORKER_LIMIT_S, Carrier, WorkflowRecord
from harness.columns import COLUMNS
from harness.columns.job import Answer, Job
from harness.columns.temporal.workflow import Closed
from harness.moments import Tell, ignore
from harness.world import World

T = TypeVar("T")

_LOOK_S = 0.5

REFUND = "refund"
"""The activity that moves money; the columns call it so, and its tries are counted."""


class OnTemporal(Carrier):
    """A worker serves the case's task queue. It is killed, and another one is started; the workflow goes on by itself."""

    _module = "harness.temporal.worker"

    def __init__(self, world: World, tell: Tell = ignore) -> None:
        super().__init__(world, tell)
        self._closed: Closed | None = None
        self._serving: subprocess.Popen[bytes] | None = None

    def crash(self, job: Job) -> None:
        """Start the workflow, and a worker that dies where the job says."""
        self._job = job
        column = COLUMNS[job.column]

        async def start(client: Client) -> None:
            await client.start_workflow(
                column.on_temporal.WORKFLOW.run,
                args=[job.support_case, column.engine],
                id=_workflow_id(job),
                task_queue=job.case_id,
                execution_timeout=timedelta(seconds=2 * WORKER_LIMIT_S),
            )

        _with_client(job, start)
        self._wait(self._start(job), job)

    def finish(self, job: Job) -> Answer | None:
        """Start a worker, and wait until the workflow is closed."""
        self._job = job
        serving = self._serving = self._start(job)
        try:
            self._closed = _with_client(job, lambda client: _result(client, job, serving))
        except (WorkflowFailureError, RPCError, TimeoutError) as error:
            self.problem = f"the workflow did not close well: {error!r}, {error.__cause__!r}"
            return None
        return self._closed.answer

    def wind_up(self, answer: Answer | None) -> Answer | None:
        """End the worker, read the history, and return the answer with the gate's receipt."""
        if self._serving is not None:
            self._serving.terminate()
            self._wait(self._serving, self._job)
        self.workflow = _with_client(self._job, lambda client: _record(client, self._job))
        return COLUMNS[self._job.column].on_temporal.told(self._job, answer) if answer else None

    def decision(self, job: Job) -> dict[str, Any] | None:
        """Return the decision from the history's end."""
        del job
        decision: dict[str, Any] | None = json.loads(self._closed.decision) if self._closed else None
        return decision


def _workflow_id(job: Job) -> str:
    return f"refund-{job.case_id}"


def _with_client(job: Job, use: Callable[[Client], Awaitable[T]]) -> T:
    async def connected() -> T:
        assert job.temporal is not None, "a world for columns on Temporal has its address"
        return await use(await Client.connect(job.temporal))

    return asyncio.run(connected())


async def _result(client: Client, job: Job, serving: subprocess.Popen[bytes]) -> Closed:
    """Return how the workflow was closed, as soon as it is.

    Raises:
        TimeoutError: it was not, in time or before its worker was gone.
    """
    handle = client.get_workflow_handle(_workflow_id(job), result_type=Closed)
    async with asyncio.timeout(WORKER_LIMIT_S):
        closing: asyncio.Future[Closed] = asyncio.ensure_future(handle.result())
        while not closing.done():
            if serving.poll() is not None:
                closing.cancel()
                raise TimeoutError("its worker is gone")
            await asyncio.wait({closing}, timeout=_LOOK_S)
        return await closing


async def _record(client: Client, job: Job) -> WorkflowRecord:
    handle = client.get_workflow_handle(_workflow_id(job))
    history = (await handle.fetch_history()).events
    described = await handle.describe()
    names = {event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name for event in history}
    events = [_in_short(event, names) for event in history]
    return WorkflowRecord(
        workflow_id=described.id,
        run_id=described.run_id,
        attempts=max((event["attempt"] for event in events if event.get("activity") == REFUND), default=0),
        closed_at=described.close_time.astimezone(UTC).isoformat() if described.close_time else None,
        lines=tuple(json.dumps({"workflow": described.id, **event}) for event in events),
    )


def _in_short(event: HistoryEvent, names: dict[int, str]) -> dict[str, Any]:
    """Return what is judged of an event: its kind and time, and of an activity's start which one it was and which try."""
    at = event.event_time.ToDatetime(UTC).isoformat()
    told = {"event": event.event_id, "at": at, "kind": EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")}
    if event.event_type != EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
        return told
    started = event.activity_task_started_event_attributes
    return told | {"activity": names[started.scheduled_event_id], "attempt": started.attempt}
