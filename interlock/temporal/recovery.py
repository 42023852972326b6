"""Recovery on a schedule: what no workflow asks about any more is brought to its end by whichever worker is free."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from temporalio import activity, workflow
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.common import RetryPolicy

from interlock import Ambiguous, InFlight, Report
from interlock.errors import InterlockError
from interlock.temporal.activities import mark_gated
from interlock.temporal.binding import present_gates
from interlock.temporal.failures import failure_of
from interlock.temporal.waiting import uninterrupted

_LISTED = 100
_LONGEST_S = 600.0
_HEARTBEAT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What a pass came to. A list of keys has 100 at the most.

    Attributes:
        ended: how many actions were brought to their end.
        in_flight: how many have to wait.
        ambiguous: keys of those that a person has to decide.
        skipped: keys of those whose target this worker does not know, with what they need.
        failed: keys of those that raised, with the error's name.
    """

    ended: int
    in_flight: int
    ambiguous: list[str]
    skipped: dict[str, str]
    failed: dict[str, str]


@mark_gated
@activity.defn(name="interlock.recover")
async def recovery_activity() -> RecoveryReport:
    """Bring actions in flight whose holder is gone to their end, through the worker's gate; an `AsyncGate`, where it has both.

    Raises:
        ApplicationError: the journal can't be used, or the worker has no gate. The next pass tries again.
    """
    try:
        gates = present_gates()
        if gates.awaited is not None:
            report = await uninterrupted(gates.awaited.recover())
        else:
            report = await uninterrupted(asyncio.to_thread(gates.blocking_gate().recover))
    except InterlockError as error:
        raise failure_of(error) from None  # a cause may name hosts and users, and a history keeps it
    return _summary(report)


@workflow.defn(name="interlock.Recovery")
class RecoveryWorkflow:
    """One pass of `recovery_activity`."""

    @workflow.run
    async def run(self) -> RecoveryReport:
        """Recover once. A pass that fails is not tried again: the next one comes anyway."""
        return await workflow.execute_activity(
            recovery_activity,
            start_to_close_timeout=timedelta(seconds=_LONGEST_S),
            heartbeat_timeout=timedelta(seconds=_HEARTBEAT_S),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


def recovery_schedule(*, task_queue: str, every_s: float = 60.0) -> Schedule:
    """Return a schedule of recovery passes. One that is still running keeps the next from starting; missed ones are missed.

    Args:
        task_queue: of workers that have `RecoveryWorkflow` and `recovery_activity`.
        every_s: how often, in seconds.
    """
    return Schedule(
        action=ScheduleActionStartWorkflow(RecoveryWorkflow.run, id=_id(task_queue), task_queue=task_queue),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=every_s))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=every_s)),
    )


async def ensure_recovery_schedule(client: Client, *, task_queue: str, every_s: float = 60.0) -> str:
    """Make the schedule of recovery passes, or bring it up to date. Every worker may call this at its start.

    Args:
        client: of the namespace that it is for.
        task_queue: of workers that have `RecoveryWorkflow` and `recovery_activity`.
        every_s: how often, in seconds.

    Returns:
        The id of the schedule: one for each task queue.
    """
    schedule = recovery_schedule(task_queue=task_queue, every_s=every_s)
    try:
        await client.create_schedule(_id(task_queue), schedule)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(_id(task_queue)).update(lambda _: ScheduleUpdate(schedule))
    return _id(task_queue)


def _id(task_queue: str) -> str:
    return f"interlock-recovery-{task_queue}"


def _summary(report: Report) -> RecoveryReport:
    in_flight = sum(isinstance(outcome, InFlight) for outcome in report.outcomes)
    ambiguous = [outcome.key for outcome in report.outcomes if isinstance(outcome, Ambiguous)]
    failed = {key: type(error).__name__ for key, error in report.failed.items()}
    return RecoveryReport(
        ended=len(report.outcomes) - in_flight,
        in_flight=in_flight,
        ambiguous=ambiguous[:_LISTED],
        skipped=dict(islice(report.skipped.items(), _LISTED)),
        failed=dict(islice(failed.items(), _LISTED)),
    )
