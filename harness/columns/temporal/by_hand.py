"""What the hand-written columns on Temporal share: the decision, and the refund under the key that Temporal suggests."""

from __future__ import annotations

import stripe
from temporalio import activity

from harness.agent import SupportCase
from harness.columns.by_hand import connect, show
from harness.columns.job import Job, KillPoint, Reached, ask, show_decision
from harness.columns.temporal.heartbeats import heartbeats


class Activities:
    """The activities of a case.

    Args:
        job: the case's.
        reached: called at each point at which a worker can die.
    """

    def __init__(self, job: Job, reached: Reached) -> None:
        self.client = connect(job)
        self.job = job
        self.reached = reached

    @activity.defn
    def decide(self, case: SupportCase) -> str:
        """Let the model decide. Temporal saves the decision, a JSON document, before anything is sent."""
        del case
        with heartbeats():
            decision = ask(self.job, lambda payment: show(self.client, payment)).to_json()
        show_decision(self.job, decision)
        return decision

    def send(self, case: SupportCase) -> stripe.Refund:
        """Refund, under the key that Temporal's documentation suggests: it is the same in every try of the activity."""
        info = activity.info()
        self.reached(KillPoint.BEFORE_SEND)
        refund = self.client.v1.refunds.create(
            {"payment_intent": case.payment, "amount": case.approved_minor, "metadata": {"case": case.case_id}},
            {"idempotency_key": f"{info.workflow_run_id}-{info.activity_id}"},
        )
        self.reached(KillPoint.AFTER_ANSWER)
        return refund
