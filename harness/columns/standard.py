"""standard: the decision is saved before the send, the key is derived from the case, the SDK retries, nothing is re-checked."""

from __future__ import annotations

from harness.columns.by_hand import ApprovalFile, connect, refunded, show
from harness.columns.job import Answer, Job, KillPoint, Reached, decide_once

APPROVALS = ApprovalFile()


def run(job: Job, reached: Reached) -> Answer:
    """Carry the case to its end. A second start repeats the same request under the same key."""
    client = connect(job)
    decide_once(job, lambda payment: show(client, payment))

    reached(KillPoint.BEFORE_SEND)
    refund = client.v1.refunds.create(
        {"payment_intent": job.payment, "amount": job.approved_minor, "metadata": {"case": job.case_id}},
        {"idempotency_key": f"refund-{job.case_id}"},
    )
    reached(KillPoint.AFTER_ANSWER)
    return refunded(refund, via="sent")
