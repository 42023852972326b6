"""The worker that is measured: one refund through the gate, or by hand as Temporal's documentation suggests; and its workflow.

python -m harness.temporal.measured ADDRESS QUEUE JOURNAL STRIPE VARIANT
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import stripe
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from harness.standins.stripe.client import LOCAL_API_KEY
from interlock import Gate, Premise
from interlock.stripe import StripeRefunds
from interlock.temporal import RECOMMENDED, Firing, GatePlugin, gated

AMOUNT_MINOR = 2000
THREADS = 8
_BEAT_S = 0.5
_TIMEOUT_S = 30.0
_WITHOUT_HEARTBEAT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Options of the worker and the activity, in words and as they are passed.

    Args:
        words: what is different about them.
        worker: those of the worker.
        activity: those of the activity.
    """

    words: str
    worker: dict[str, Any]
    activity: dict[str, Any]


_WORKER, _ACTIVITY = dict(RECOMMENDED.worker), dict(RECOMMENDED.activity)
_STICKY = "sticky_queue_schedule_to_start_timeout"
VARIANTS = {
    "recommended": Variant(words="as recommended", worker=_WORKER, activity=_ACTIVITY),
    "uncached": Variant(words="with max_cached_workflows=0", worker={**_WORKER, "max_cached_workflows": 0}, activity=_ACTIVITY),
    "sticky": Variant(
        words="with the default sticky time-out",
        worker={name: value for name, value in _WORKER.items() if name != _STICKY},
        activity=_ACTIVITY,
    ),
    "default": Variant(
        words=f"with Temporal's defaults, start-to-close {_WITHOUT_HEARTBEAT_S:g} s",
        worker={"max_concurrent_activities": THREADS},
        activity={"start_to_close_timeout": timedelta(seconds=_WITHOUT_HEARTBEAT_S)},
    ),
}


@dataclass(frozen=True)
class Case:
    """A payment, and what was seen of it."""

    id: str
    payment: str
    seen: Premise


class Desk:
    """Both ways to refund."""

    def __init__(self, target: StripeRefunds, client: stripe.StripeClient) -> None:
        self._target, self._client = target, client

    @gated("through-the-gate")
    def through_the_gate(self, case: Case) -> Firing:
        """Say what to fire."""
        effect = self._target.refund(payment=case.payment, amount_minor=AMOUNT_MINOR, currency="usd", reference=case.id)
        return Firing(effect, approval=case.id, premises=[case.seen])

    @activity.defn(name="by-hand")
    def by_hand(self, case: Case) -> str:
        """Send under a key of the workflow's and the activity's ids, with heartbeats beside it."""
        info, ended = activity.info(), threading.Event()
        threading.Thread(target=copy_context().run, args=(_beat, ended), daemon=True).start()
        try:
            key = f"{info.workflow_id}-{info.activity_id}"
            refund = self._client.v1.refunds.create(
                {"payment_intent": case.payment, "amount": AMOUNT_MINOR}, {"idempotency_key": key}
            )
        finally:
            ended.set()
        return refund.id


def _beat(ended: threading.Event) -> None:
    while not ended.wait(_BEAT_S):
        activity.heartbeat()


@workflow.defn(sandboxed=False)
class Measured:
    """One refund."""

    @workflow.run
    async def run(self, case: Case, column: str, variant: str) -> None:
        """Refund, one way or the other."""
        await workflow.execute_activity(column, case, **VARIANTS[variant].activity)


async def work(address: str, queue: str, journal: str, stripe_url: str, variant: str) -> None:
    """Work until the process is killed."""
    stripe.enable_telemetry = False
    target = StripeRefunds(LOCAL_API_KEY, api_base=stripe_url)
    client = stripe.StripeClient(
        LOCAL_API_KEY,
        base_addresses={"api": stripe_url},
        http_client=stripe.RequestsClient(timeout=_TIMEOUT_S),
        max_network_retries=0,
    )
    desk = Desk(target, client)
    with Gate.open(journal, targets=[target]) as gate, ThreadPoolExecutor(THREADS) as executor:
        options = {**VARIANTS[variant].worker, "max_concurrent_activities": THREADS}
        worker = Worker(
            await Client.connect(address),
            task_queue=queue,
            workflows=[Measured],
            activities=[desk.through_the_gate, desk.by_hand],
            activity_executor=executor,
            plugins=[GatePlugin(gate)],
            **options,
        )
        print("ready", flush=True)
        await worker.run()


def _end_with_the_starter() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_starter, daemon=True).start()
    # The workflow is found under this module's own name, by whoever starts it.
    from harness.temporal.measured import work as work_as_imported

    asyncio.run(work_as_imported(*sys.argv[1:]))
