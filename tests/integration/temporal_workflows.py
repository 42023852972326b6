"""A workflow file as a user writes it: it imports the gate and a provider, and passes nothing through the sandbox by hand."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import assert_never

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from interlock import Premise
from interlock.stripe import Refund, StripeRefunds
from interlock.temporal import RECOMMENDED, AmbiguousResult, CommittedResult, GateResult, RefusedResult
from tests.integration.temporal_refunds import Case, Refunds

IMPORTED = (Premise, Refund, StripeRefunds)


@workflow.defn
class RefundCase:
    """Refunds a case and says what became of it."""

    @workflow.run
    async def run(self, case: Case, awaited: bool) -> GateResult:  # noqa: FBT001 - a workflow's argument
        """Refund, through the activity with `async def` where it is asked for."""
        if awaited:
            return await workflow.execute_activity_method(Refunds.refund_awaited, case, **RECOMMENDED.activity)
        return await workflow.execute_activity_method(Refunds.refund, case, **RECOMMENDED.activity)


@workflow.defn
class InNoHurry:
    """Refunds a case without heartbeats: of itself, Temporal notices a worker's death after ten minutes."""

    @workflow.run
    async def run(self, case: Case) -> GateResult:
        """Refund."""
        return await workflow.execute_activity_method(Refunds.refund, case, start_to_close_timeout=timedelta(minutes=10))


@workflow.defn
class OneIdTwice:
    """Refunds two cases, one after the other, in activities to which it gives the same id."""

    @workflow.run
    async def run(self, first: Case, second: Case, elsewhere: str) -> GateResult:
        """Wait three seconds for the first, on another task queue, and then refund the second; return what became of that."""
        with suppress(ActivityError):
            await workflow.execute_activity_method(
                Refunds.refund_named,
                first,
                activity_id="refund",
                task_queue=elsewhere,
                start_to_close_timeout=timedelta(seconds=3),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        return await workflow.execute_activity_method(
            Refunds.refund_named, second, activity_id="refund", start_to_close_timeout=timedelta(minutes=10)
        )


@workflow.defn
class SayHowItEnded:
    """Matches on the result, as a workflow that goes on from there does."""

    @workflow.run
    async def run(self, case: Case) -> str:
        """Refund, and say in words what became of it."""
        result = await workflow.execute_activity_method(Refunds.refund, case, **RECOMMENDED.activity)
        match result:
            case CommittedResult():
                return f"committed {result.amount_minor} {result.currency} by {result.via}"
            case RefusedResult():
                return f"refused: {result.code}"
            case AmbiguousResult():
                return f"ambiguous: {result.words}"
            case _:
                assert_never(result)
