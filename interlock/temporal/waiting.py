"""How a gated activity waits for an action in flight, and how it takes being cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import CancelledError

from interlock import InFlight
from interlock.temporal.failures import failure_in_flight

R = TypeVar("R")

_LEAST_S = 0.05
_STEP_S = 0.1


class Patience:
    """Decides whether an action in flight is asked about again within this attempt, or by the next one.

    Args:
        wait_s: for how long it may be asked again within this attempt, in seconds.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._until_s = time.monotonic() + wait_s

    def pause_s(self, outcome: InFlight) -> float:
        """Return how long to pause before asking again, in seconds.

        Raises:
            CancelledError: nobody waits for the answer any more.
            ApplicationError: the next attempt is to ask.
        """
        if activity.is_worker_shutdown():
            raise failure_in_flight(outcome, _LEAST_S)  # another worker is free
        if activity.is_cancelled():
            # Nothing is lost by it: whoever recovers goes on with the action, and the same key finds its ending.
            raise CancelledError(f"{outcome.key} is in flight, and nobody waits for it here any more")
        pause_s = max(outcome.retry_after_s, _LEAST_S)
        if time.monotonic() + pause_s > self._until_s:
            raise failure_in_flight(outcome, max(pause_s, self._wait_s))
        return pause_s


def pause(seconds: float) -> None:
    """Block for a while; less where the activity is cancelled, or its worker ends."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0 and not (activity.is_cancelled() or activity.is_worker_shutdown()):
        time.sleep(min(left_s, _STEP_S))


async def pause_awaited(seconds: float) -> None:
    """Wait for a while; less where the activity is cancelled, or its worker ends."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await activity.wait_for_worker_shutdown()


async def uninterrupted(work: Coroutine[Any, Any, R]) -> R:
    """Await work that is bounded in time, and let cancellations wait for its end, however many there are.

    A send that was begun is better recorded than left for recovery: the workflow learns what became of it.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):  # a loop that ends cancels the task as well
            await asyncio.wait({task})
    return task.result()
