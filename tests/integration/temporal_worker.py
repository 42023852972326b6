"""A worker in a process of its own, to be killed. It ends with the process that started it.

python -m tests.integration.temporal_worker ADDRESS QUEUE JOURNAL STRIPE THREADS DURATIONS
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from harness.standins.stripe.client import LOCAL_API_KEY
from interlock import Gate
from interlock.stripe import StripeRefunds
from interlock.temporal import GatePlugin, Recommended
from tests.integration.temporal_refunds import Refunds
from tests.integration.temporal_workflows import InNoHurry, RefundCase, SayHowItEnded


class Durations(Interceptor):
    """Appends to a file how long each attempt occupied this worker, in seconds."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        """Put the clock around every activity."""
        return _Timed(next, self._file)


class _Timed(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, file: Path) -> None:
        super().__init__(inner)
        self._file = file

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        began_s = time.monotonic()
        try:
            return await self.next.execute_activity(input)
        finally:
            with self._file.open("a") as file:
                file.write(f"{time.monotonic() - began_s}\n")


async def work(address: str, queue: str, journal: str, stripe_url: str, threads: str, durations: str) -> None:
    """Work until the process is killed."""
    stripe = StripeRefunds(LOCAL_API_KEY, api_base=stripe_url)
    desk = Refunds(stripe)
    with Gate.open(journal, targets=[stripe]) as gate, ThreadPoolExecutor(int(threads)) as executor:
        worker = Worker(
            await Client.connect(address),
            task_queue=queue,
            workflows=[InNoHurry, RefundCase, SayHowItEnded],
            activities=[desk.refund, desk.refund_named],
            activity_executor=executor,
            interceptors=[Durations(Path(durations))],
            plugins=[GatePlugin(gate)],
            **Recommended(threads=int(threads)).worker,
        )
        print("ready", flush=True)  # noqa: T201 - its starter waits for it
        await worker.run()


def _end_with_the_starter() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    asyncio.run(work(*sys.argv[1:]))
