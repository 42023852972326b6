"""What a gated activity raises: an error or an action in flight, in the words that Temporal's retries understand."""

from __future__ import annotations

from datetime import timedelta

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from interlock import InFlight
from interlock.errors import InterlockError, InvalidInput, UnknownTarget

IN_FLIGHT = "InFlight"
"""The `type` of the error that says: not known yet, ask again."""


def failure_of(error: InterlockError) -> ApplicationError:
    """Return an error of the gate as one of Temporal, under its own name.

    Only what no retry can mend is not retried. A target that this worker does not know may be known to another, as in a
    deployment that is under way.
    """
    hopeless = isinstance(error, InvalidInput) and not isinstance(error, UnknownTarget)
    return ApplicationError(str(error), type=type(error).__name__, non_retryable=hopeless)


def failure_in_flight(outcome: InFlight, retry_after_s: float) -> ApplicationError:
    """Return the error that lets Temporal ask again after a while. It counts as no failure in its metrics and logs."""
    return ApplicationError(
        f"{outcome.key} is in flight ({outcome.reason.value}): {outcome.words}. It is asked about again by itself",
        outcome.reason.value,
        type=IN_FLIGHT,
        next_retry_delay=timedelta(seconds=retry_after_s),
        category=ApplicationErrorCategory.BENIGN,
    )
