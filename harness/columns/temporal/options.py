"""The worker and activity options that every column on Temporal runs with, and Temporal's own defaults beside them.

One set for all columns: none is faster because it was tuned. A test holds that the recommended ones are those of
`interlock.temporal`, which this does not import: the hand-written columns do not use the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from harness.columns import Engine

THREADS = 32


class ActivityOptions(TypedDict, total=False):
    """What a workflow passes on to `execute_activity`."""

    start_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType


class WorkerOptions(TypedDict, total=False):
    """What a worker process passes on to `Worker`."""

    sticky_queue_schedule_to_start_timeout: timedelta
    max_heartbeat_throttle_interval: timedelta
    max_concurrent_activities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a column runs on Temporal.

    Args:
        activity: for each activity.
        worker: for each worker.
    """

    activity: ActivityOptions
    worker: WorkerOptions


RECOMMENDED = Options(
    activity=ActivityOptions(
        start_to_close_timeout=timedelta(seconds=130),
        heartbeat_timeout=timedelta(seconds=1.5),
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=0.2), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=10)
        ),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    ),
    worker=WorkerOptions(
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=0.5),
        max_heartbeat_throttle_interval=timedelta(seconds=0.375),
        max_concurrent_activities=THREADS,
    ),
)
DEFAULTS = Options(
    # There is no default for this one, and a workflow without it does not run.
    activity=ActivityOptions(start_to_close_timeout=timedelta(seconds=15)),
    worker=WorkerOptions(),
)


def options_of(engine: Engine) -> Options:
    """Return the options that columns carried by an engine run with."""
    # Compared and not identified: a workflow's sandbox has an Engine of its own.
    return DEFAULTS if engine == Engine.TEMPORAL_DEFAULTS else RECOMMENDED
