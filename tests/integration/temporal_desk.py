"""A support desk for tests with a real Temporal server: cases, workers in this process and in others, the provider's ledger."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import stripe
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from interlock import AsyncGate, Gate, Receipts
from interlock.stripe import StripeRefunds
from interlock.temporal import RECOMMENDED, GatePlugin, RecoveryWorkflow, recovery_activity
from tests.integration.temporal_refunds import APPROVED_MINOR, Case, Refunds
from tests.integration.temporal_workflows import InNoHurry, OneIdTwice, RefundCase, SayHowItEnded

ROOT = Path(__file__).resolve().parents[2]
LONGEST_S = 60.0
_THREADS = 8
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")


class Desk:
    """A task queue, a journal and what is needed to refund cases. As a context manager it ends its workers.

    Args:
        address: of the Temporal server.
        standin: the payment provider.
        client: what customers pay with.
        folder: for the journal and the workers' notes.
        journal: the journal's URL; a file in the folder by default.
        options: of the target, in this process.
    """

    def __init__(
        self,
        address: str,
        standin: StripeStandIn,
        client: stripe.StripeClient,
        folder: Path,
        journal: str | None = None,
        **options: Any,
    ) -> None:
        self.address, self.standin, self.queue = address, standin, f"refunds-{uuid.uuid4().hex}"
        self.journal = journal or f"sqlite:///{folder / 'journal.db'}"
        self.stripe = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base, **options)
        self.durations = folder / "durations"
        self._client = client
        self._processes = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._processes.close()

    def gate(self) -> Gate:
        """Open a gate."""
        return Gate.open(self.journal, targets=[self.stripe])

    def case(self) -> Case:
        """Let a customer pay, and a person approve a refund of a part of it."""
        payment = pay(self._client).id
        case = Case(f"case-{payment}", payment, self.stripe.observe(payment))
        with self.gate() as gate:
            gate.approve(case.id, by="user:17", expires_in_s=3600, cap_minor=APPROVED_MINOR, currency="usd")
        return case

    def revoke(self, case: Case) -> None:
        """Take the approval of a case back."""
        with self.gate() as gate:
            gate.revoke(case.id, by="user:17")

    def refunded(self, case: Case) -> list[int]:
        """Return the refunds of a case in the provider's own ledger."""
        return [one.amount for one in refunds_of(self.standin.ledger_path, case.payment)]

    def status(self, case: Case) -> str:
        """Return how the journal has the action of a case."""
        with Receipts.open(self.journal) as receipts:
            return receipts.receipt(f"refund:{case.id}").status

    async def connect(self) -> Client:
        """Return a client of the server."""
        return await Client.connect(self.address)

    async def start(self, case: Case, workflow: Any = SayHowItEnded.run, *more: Any) -> WorkflowHandle[Any, Any]:
        """Start the workflow of a case. Its id is the case's."""
        client = await self.connect()
        return await client.start_workflow(workflow, args=[case, *more], id=case.id, task_queue=self.queue)

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[Worker]:
        """Work in this process, with both kinds of gate."""
        desk = Refunds(self.stripe)
        async with AsyncGate.open(self.journal, targets=[self.stripe]) as awaited:
            with self.gate() as gate, ThreadPoolExecutor(RECOMMENDED.threads) as executor:
                async with Worker(
                    await self.connect(),
                    task_queue=self.queue,
                    workflows=[InNoHurry, OneIdTwice, RefundCase, SayHowItEnded, RecoveryWorkflow],
                    activities=[desk.refund, desk.refund_awaited, desk.refund_named, recovery_activity],
                    activity_executor=executor,
                    plugins=[GatePlugin(gate, awaited)],
                    **RECOMMENDED.worker,
                ) as worker:
                    yield worker

    def process(self, threads: int = _THREADS) -> subprocess.Popen[str]:
        """Start a worker in a process of its own, and wait until it works."""
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        told = [self.address, self.queue, self.journal, self.standin.api_base, str(threads), str(self.durations)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.temporal_worker", *told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"},
        )
        self._processes.enter_context(process)
        self._processes.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process


async def attempts(handle: WorkflowHandle[Any, Any]) -> list[int]:
    """Return the attempt at which each activity of a workflow came to its end."""
    events = [event async for event in handle.fetch_history_events()]
    return [
        event.activity_task_started_event_attributes.attempt
        for event in events
        if event.HasField("activity_task_started_event_attributes")
    ]


async def pending(handle: WorkflowHandle[Any, Any]) -> Any:
    """Return what the server has of the activity that a workflow waits for; None while it waits for none."""
    described = await handle.describe()
    return next(iter(described.raw_description.pending_activities), None)


async def result_of(handle: WorkflowHandle[Any, Any]) -> Any:
    """Return what a workflow came to; a time-out, where it hangs."""
    async with asyncio.timeout(LONGEST_S):
        return await handle.result()
