"""checked: `standard`, and at the top what a careful engineer checks by hand before sending."""

from __future__ import annotations

from harness.columns.by_hand import ApprovalFile, carries_mark, connect, refunded, refunds_of, refused, show, summary
from harness.columns.job import Answer, Job, KillPoint, Reached, decide_once

APPROVALS = ApprovalFile()


def run(job: Job, reached: Reached) -> Answer:
    """Carry the case to its end. A second start looks first at what became of the one before."""
    client = connect(job)
    decision = decide_once(job, lambda payment: show(client, payment))

    refunds = refunds_of(client, job.payment)
    for refund in refunds:
        if carries_mark(refund, job.case_id):
            return refunded(refund, via="own mark found")
    if not APPROVALS.read(job).covers(job):
        return refused("the approval is revoked, expired or too small")
    if summary(refunds) != decision.seen["refunds"]:
        return refused("the payment's refunds changed since the decision")

    reached(KillPoint.BEFORE_SEND)
    refund = client.v1.refunds.create(
        {"payment_intent": job.payment, "amount": job.approved_minor, "metadata": {"case": job.case_id}},
        {"idempotency_key": f"refund-{job.case_id}"},
    )
    reached(KillPoint.AFTER_ANSWER)
    return refunded(refund, via="sent")
