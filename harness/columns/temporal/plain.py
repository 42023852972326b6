"""temporal: the decision is an activity's result, the key is that of the activity, Temporal retries, nothing is re-checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity

from harness.agent import SupportCase
from harness.columns import Serving
from harness.columns.by_hand import ApprovalFile, refunded
from harness.columns.job import Answer, Job, Reached
from harness.columns.temporal import by_hand, workflow
from harness.columns.temporal.heartbeats import heartbeats

APPROVALS = ApprovalFile()
WORKFLOW = workflow.RefundCase


class Activities(by_hand.Activities):
    """The activities of a case. A second try of the refund repeats the same request under the same key."""

    @activity.defn
    def refund(self, case: SupportCase, decision: str) -> Answer:
        """Refund what was approved."""
        del decision
        with heartbeats():
            return refunded(self.send(case), via="sent")


@contextmanager
def serving(job: Job, reached: Reached) -> Iterator[Serving]:
    """Give the activities of a case."""
    activities = Activities(job, reached)
    yield Serving(activities=[activities.decide, activities.refund])


def told(job: Job, answer: Answer) -> Answer:
    """Return the answer as it is: there is nothing else to read."""
    del job
    return answer
