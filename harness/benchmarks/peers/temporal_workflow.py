"""Temporal: a workflow with one activity, under the action's key, on a dev server that keeps its state in a file."""

# What it drives comes with `make bench` alone.
# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

with workflow.unsafe.imports_passed_through():
    from harness.benchmarks import null
    from harness.benchmarks.timing import BenchmarkFailed
    from harness.temporal.server import TemporalFailed, TemporalServer, TemporalUnavailable

_ANSWER_TIMEOUT_S = 120
_START_TIMEOUT_S = 120


@activity.defn
async def refund_once(payment: str, amount_minor: int, currency: str) -> str:
    """Act."""
    del payment, amount_minor, currency
    return null.EVIDENCE_JSON


@workflow.defn
class Refund:
    """Carries one refund out."""

    @workflow.run
    async def run(self, payment: str, amount_minor: int, currency: str) -> str:
        """Run the one activity."""
        answer: str = await workflow.execute_activity(
            refund_once, args=[payment, amount_minor, currency], start_to_close_timeout=timedelta(seconds=30)
        )
        return answer


class TemporalPeer:
    """Executes the workflow.

    Args:
        client: of the process.
        loop: which it runs on.
        queue: the process's own task queue, so that a workflow starts on the worker next to its client.
    """

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, queue: str) -> None:
        self._client = client
        self._loop = loop
        self._queue = queue

    def prepare(self, names: Sequence[str]) -> None:
        """Do nothing."""

    def act(self, writer: int, name: str) -> None:
        """Carry one action out.

        Raises:
            BenchmarkFailed: the workflow returned something else than its activity.
        """
        del writer
        answer = asyncio.run_coroutine_threadsafe(self._execute(name), self._loop).result(_ANSWER_TIMEOUT_S)
        if answer != null.EVIDENCE_JSON:
            raise BenchmarkFailed(f"the workflow {name} returned {answer!r}")

    async def _execute(self, name: str) -> str:
        answer: str = await self._client.execute_workflow(
            Refund.run,
            args=[null.PAYMENT, null.AMOUNT_MINOR, null.CURRENCY],
            id=name,
            task_queue=self._queue,
            request_eager_start=True,
        )
        return answer


@contextmanager
def dev_server(folder: Path) -> Generator[str]:
    """Run a dev server on 127.0.0.1, with its database in a folder, and give its address.

    Raises:
        BenchmarkFailed: it is not installed, or does not start.
    """
    try:
        server = TemporalServer.start(folder)
    except (TemporalUnavailable, TemporalFailed) as error:
        raise BenchmarkFailed(f"there is no Temporal dev server: {error}") from error
    with server:
        yield server.address


@contextmanager
def open_temporal(address: str, number: int, writers: int) -> Generator[TemporalPeer]:
    """Run a worker beside the client, on an event loop of their own; the arguments are those of `open_gate`."""
    del writers
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    queue = f"refunds-{number}"

    async def start() -> tuple[Client, Worker]:
        client = await Client.connect(address)
        worker = Worker(
            client, task_queue=queue, workflows=[Refund], activities=[refund_once], workflow_runner=UnsandboxedWorkflowRunner()
        )
        await worker.__aenter__()
        return client, worker

    client, worker = asyncio.run_coroutine_threadsafe(start(), loop).result(_START_TIMEOUT_S)
    try:
        yield TemporalPeer(client, loop, queue)
    finally:
        asyncio.run_coroutine_threadsafe(worker.shutdown(), loop).result(_START_TIMEOUT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
