"""What the hand-written columns share: the SDK as it is commonly set up, a payment as the model is shown it, and approvals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import msgspec
import stripe

from harness.columns.job import Answer, Job, Status, save

APPROVAL_LASTS = timedelta(days=7)

_TIMEOUT_S = 30.0
_RETRIES = 2


def connect(job: Job) -> stripe.StripeClient:
    """Return a client with the SDK's own retries on."""
    stripe.enable_telemetry = False  # it would write an id under the user's home
    return stripe.StripeClient(
        job.stripe_key,
        base_addresses={"api": job.stripe_api_base} if job.stripe_api_base else {},
        http_client=stripe.RequestsClient(timeout=_TIMEOUT_S),
        max_network_retries=_RETRIES,
    )


def refunds_of(client: stripe.StripeClient, payment: str) -> list[stripe.Refund]:
    """Return all refunds of a payment, newest first."""
    return list(client.v1.refunds.list({"payment_intent": payment, "limit": 100}).auto_paging_iter())


def summary(refunds: list[stripe.Refund]) -> list[dict[str, object]]:
    """Return refunds as a decision rests on them."""
    return [{"id": one.id, "amount": one.amount, "status": one.status} for one in refunds]


def carries_mark(refund: stripe.Refund, case_id: str) -> bool:
    """Return whether a refund was made for the case."""
    return refund.metadata is not None and refund.metadata.to_dict().get("case") == case_id


def show(client: stripe.StripeClient, payment: str) -> dict[str, object]:
    """Return a payment as the model is shown it."""
    read = client.v1.payment_intents.retrieve(payment)
    refunds = summary(refunds_of(client, payment))
    return {"id": read.id, "amount": read.amount, "currency": read.currency, "status": read.status, "refunds": refunds}


def refunded(refund: stripe.Refund, via: str) -> Answer:
    """Report a refund as the provider tells it."""
    words = f"{refund.id}, {refund.amount} {refund.currency}, {refund.status}"
    return Answer(status=Status.REFUNDED, via=via, words=words, refund=refund.id, amount_minor=refund.amount)


def refused(why: str) -> Answer:
    """Report that the refund was not sent, and why."""
    return Answer(status=Status.REFUSED, via="checked", words=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An approval in a file, as a service of its own might keep it."""

    id: str
    cap_minor: int
    currency: str
    expires_at: datetime
    revoked: bool = False

    def covers(self, job: Job) -> bool:
        """Whether it is live and large enough."""
        live = not self.revoked and datetime.now(UTC) < self.expires_at
        return live and self.currency == job.currency and self.cap_minor >= job.approved_minor


class ApprovalFile:
    """The approvals of the hand-written columns."""

    def grant(self, job: Job) -> None:
        """Approve the case's refund."""
        expires_at = datetime.now(UTC) + APPROVAL_LASTS
        self._write(job, Approval(id=job.case_id, cap_minor=job.approved_minor, currency=job.currency, expires_at=expires_at))

    def revoke(self, job: Job) -> None:
        """Take the approval back."""
        self._write(job, replace(self.read(job), revoked=True))

    def read(self, job: Job) -> Approval:
        """Return the approval as it stands."""
        return msgspec.json.decode((job.home / "approval.json").read_bytes(), type=Approval)

    def _write(self, job: Job, approval: Approval) -> None:
        save(job.home / "approval.json", msgspec.json.encode(approval))
