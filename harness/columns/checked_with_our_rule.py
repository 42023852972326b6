"""checked_with_our_rule: `checked`, with the library's rule for refunds in place of "unchanged since the decision"."""

from __future__ import annotations

from uuid import uuid4

from harness.columns.by_hand import ApprovalFile, carries_mark, connect, refunded, refunds_of, refused
from harness.columns.job import Answer, Job, KillPoint, Reached, decide_once
from interlock.domain.effects import record_effect
from interlock.domain.premises import Purpose
from interlock.stripe import StripeRefunds

APPROVALS = ApprovalFile()


def run(job: Job, reached: Reached) -> Answer:
    """Carry the case to its end. A second start looks first at what became of the one before."""
    client = connect(job)
    target = StripeRefunds(job.stripe_key, api_base=job.stripe_api_base)
    decision = decide_once(job, lambda payment: dict(target.observe(payment).facts))

    for refund in refunds_of(client, job.payment):
        if carries_mark(refund, job.case_id):
            return refunded(refund, via="own mark found")
    if not APPROVALS.read(job).covers(job):
        return refused("the approval is revoked, expired or too small")
    effect = target.refund(payment=job.payment, amount_minor=job.approved_minor, currency=job.currency, reference=job.case_id)
    purpose = Purpose(uuid4(), record_effect(effect, target.codec, target.version), frozenset({job.case_id}))
    objection = target.policy.judge(decision.seen, target.observe(job.payment).facts, purpose).objection
    if objection is not None:
        return refused(objection.words)

    reached(KillPoint.BEFORE_SEND)
    refund = client.v1.refunds.create(
        {"payment_intent": job.payment, "amount": job.approved_minor, "metadata": {"case": job.case_id}},
        {"idempotency_key": f"refund-{job.case_id}"},
    )
    reached(KillPoint.AFTER_ANSWER)
    return refunded(refund, via="sent")
