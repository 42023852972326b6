"""temporal_checked: `temporal`, and at the top of the activity what a careful engineer checks by hand before sending."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity

from harness.agent import Decision, SupportCase
from harness.columns import Serving
from harness.columns.by_hand import ApprovalFile, carries_mark, refunded, refunds_of, refused, summary
from harness.columns.job import Answer, Job, Reached
from harness.columns.temporal import by_hand, workflow
from harness.columns.temporal.heartbeats import heartbeats

APPROVALS = ApprovalFile()
WORKFLOW = workflow.RefundCase


class Activities(by_hand.Activities):
    """The activities of a case. A second try of the refund looks first at what became of the one before."""

    @activity.defn
    def refund(self, case: SupportCase, decision: str) -> Answer:
        """Refund what was approved, if it still may be."""
        with heartbeats():
            refunds = refunds_of(self.client, case.payment)
            for refund in refunds:
                if carries_mark(refund, case.case_id):
                    return refunded(refund, via="own mark found")
            if not APPROVALS.read(self.job).covers(self.job):
                return refused("the approval is revoked, expired or too small")
            if summary(refunds) != Decision.from_json(decision).seen["refunds"]:
                return refused("the payment's refunds changed since the decision")
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
