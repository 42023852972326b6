"""The agent of the gate's own column: the model's tools stand behind the gate, and what it asks for is fired at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from harness.agent import ISSUE_REFUND, READ_PAYMENT, SYSTEM, Decision
from harness.keys import anthropic_key_from_environment
from interlock import Effect, Gate, Outcome, Receipts
from interlock.anthropic import ActingTool, Agent, ApprovedAction, Limits, ReadingTool, ToolInput
from interlock.stripe import Refund, StripeRefunds

if TYPE_CHECKING:
    from anthropic import Anthropic

    from harness.columns.job import Job

_PaymentId = Annotated[str, Meta(description="The payment intent's id, pi_...")]


class Payment(ToolInput):
    """What get_payment takes."""

    payment: _PaymentId


class RefundAsked(ToolInput):
    """What issue_refund takes. The reason and the explanation are for the receipt: they change nothing that is sent."""

    amount_minor: Annotated[int, Meta(ge=1, description="In minor units, 2000 for $20.00")]
    currency: Annotated[str, Meta(description="Three lower-case letters, as the payment has")]
    payment: _PaymentId
    reason: Literal["requested_by_customer", "duplicate"]
    explanation: Annotated[str, Meta(description="Why, in one sentence of your own")]


def key_of(job: Job) -> str:
    """Return the key of the case's refund."""
    return f"refund:{job.case_id}"


def carry_out(job: Job, gate: Gate, stripe: StripeRefunds) -> Outcome | None:
    """Let the model decide on the case, and fire what it asks for; or bring to its end what an earlier worker fired.

    Returns:
        What became of the refund; None where the model asked for none that was approved.
    """

    def as_effect(asked: RefundAsked) -> Effect[Refund]:
        return stripe.refund(
            payment=asked.payment, amount_minor=asked.amount_minor, currency=asked.currency, reference=job.case_id
        )

    agent = Agent(
        lambda: _client(job),
        gate,
        model=job.model,
        tools=[
            ReadingTool("get_payment", READ_PAYMENT, Payment, lambda asked: stripe.observe(asked.payment)),
            ActingTool("issue_refund", ISSUE_REFUND, RefundAsked, as_effect),
        ],
        system=SYSTEM,
        keep_wording=True,
        # Inside the time that a worker has; a rate limit of a live run is waited out.
        limits=Limits(duration_s=80.0, retries=4),
    )
    approved = stripe.refund(payment=job.payment, amount_minor=job.approved_minor, currency=job.currency, reference=job.case_id)
    case = job.support_case
    conversation = agent.run(
        case.prompt(), approved={"issue_refund": ApprovedAction(key=key_of(job), approval=job.case_id, effect=approved)}
    )
    return conversation.outcomes.get("issue_refund")


def recorded_decision(job: Job) -> Decision:
    """Return the decision as the journal has it; it is there before anything is sent."""
    with Receipts.open(job.journal_url) as journal:
        action = journal.action(key_of(job))
    told = json.loads(action.intent.decision_json or "{}")
    arguments = json.loads(told["arguments"])
    return Decision(
        payment=arguments["payment"],
        amount_minor=arguments["amount_minor"],
        currency=arguments["currency"],
        reason=arguments["reason"],
        wording=told["wording"],
        model=told["model"],
        message_id=told["message"],
        tool_use_id=told["tool_use"],
        arguments_json=told["arguments"],
        seen=action.intent.premises[0].facts,
        asked_at=action.created_on.isoformat(),
    )


def _client(job: Job) -> Anthropic:
    # Costs seconds on a cold start; a worker that was restarted to finish what is recorded never comes here.
    from anthropic import Anthropic

    return Anthropic(api_key=anthropic_key_from_environment() or "", base_url=job.anthropic_base_url)
