"""The options of workers and activities that we recommend, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

_READS_S = 60.0
"""What a pass of the gate may spend on looking at the provider beside its sends: four reads of at most 15 s."""

_SENDS_A_PASS = 2
"""`GateConfig.sends_per_pass`, as it is by default."""


class ActivityOptions(TypedDict):
    """Options of `workflow.execute_activity`."""

    start_to_close_timeout: timedelta
    heartbeat_timeout: timedelta
    retry_policy: RetryPolicy
    cancellation_type: ActivityCancellationType


class WorkerOptions(TypedDict):
    """Options of `temporalio.worker.Worker`."""

    sticky_queue_schedule_to_start_timeout: timedelta
    max_heartbeat_throttle_interval: timedelta
    max_concurrent_activities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommended:
    """The options that we recommend, for `**options.activity` and `**options.worker`; `reasons` says why each.

    Args:
        send_deadline_s: the longest send deadline of the gate's targets, in seconds.
        wait_s: what the activities were given as `gated(wait_s=…)`, in seconds.
        heartbeat_timeout_s: how long a worker may be silent before its activities are given to another, in seconds.
        threads: how many activities a worker runs at once; of as many threads its `activity_executor` is to be.
    """

    send_deadline_s: float = 30.0
    wait_s: float = 10.0
    heartbeat_timeout_s: float = 1.5
    threads: int = 32

    @property
    def activity(self) -> ActivityOptions:
        """Options for each call of a gated activity."""
        return ActivityOptions(
            start_to_close_timeout=timedelta(seconds=self.wait_s + self._pass_s),
            heartbeat_timeout=timedelta(seconds=self.heartbeat_timeout_s),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=0.2),
                backoff_coefficient=2.0,
                maximum_interval=timedelta(seconds=10),
                maximum_attempts=0,
            ),
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )

    @property
    def worker(self) -> WorkerOptions:
        """Options for each worker."""
        return WorkerOptions(
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=0.5),
            max_heartbeat_throttle_interval=timedelta(seconds=self.heartbeat_timeout_s / 4),
            max_concurrent_activities=self.threads,
        )

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why each option is as it is, and where that is written."""
        return _REASONS

    @property
    def _pass_s(self) -> float:
        return _SENDS_A_PASS * self.send_deadline_s + _READS_S


_REASONS: Mapping[str, str] = {
    "start_to_close_timeout": (
        "As long as the longest pass of the gate after the longest wait, so that no attempt is given up in the middle of a send. "
        "It is not what finds out a crash, so it may be long "
        "(docs.temporal.io/encyclopedia/detecting-activity-failures#start-to-close-timeout)."
    ),
    "heartbeat_timeout": (
        "What finds out a crash: without it, the next attempt waits for start_to_close_timeout "
        "(docs.temporal.io/encyclopedia/detecting-activity-failures#heartbeat-timeout). A worker that was only slow loses "
        "nothing by it: the next attempt finds the action held, and waits."
    ),
    "retry_policy": (
        "Without a limit on attempts: it is the gate that keeps a second send from happening, and an attempt that ends without "
        "an answer leaves the action in flight. The first pause is short, because after a crash it is lost time "
        "(docs.temporal.io/encyclopedia/retry-policies; the default is 1 s)."
    ),
    "cancellation_type": (
        "A send that was begun is finished and recorded, and the workflow hears of it. By default a cancelled workflow goes on "
        "without knowing what became of it (python.temporal.io/temporalio.workflow.ActivityCancellationType.html)."
    ),
    "sticky_queue_schedule_to_start_timeout": (
        "The workflow's next task is first offered to the worker that had the last one, also if that is dead, and for 10 s by "
        "default (docs.temporal.io/sticky-execution, python.temporal.io/temporalio.worker.Worker.html). Without the cache "
        "(max_cached_workflows=0) it is not, and every task replays the whole history."
    ),
    "max_heartbeat_throttle_interval": (
        "The SDK holds heartbeats back for 80% of their time-out, unless this is shorter, and that leaves a busy worker a fifth "
        "of the time-out to be late by (python.temporal.io/temporalio.worker.Worker.html)."
    ),
    "max_concurrent_activities": (
        "Not more than there are threads, or an activity waits for a thread on this worker while another worker is free "
        "(python.temporal.io/temporalio.worker.Worker.html)."
    ),
}

RECOMMENDED = Recommended()
"""The options for targets with send deadlines up to 30 s, as `StripeRefunds` has it."""
