"""A refund case in front of an agent: sync and async, streamed and whole, against both stand-ins, behind one way to call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

import stripe
from anthropic import Anthropic, AsyncAnthropic
from msgspec import Meta

from harness.keys import DEFAULT_MODEL
from harness.standins.anthropic.client import LOCAL_API_KEY as LOCAL_ANTHROPIC_KEY
from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import LOCAL_API_KEY as LOCAL_STRIPE_KEY
from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from interlock import AsyncGate, Effect, Gate, Premise
from interlock.anthropic import ActingTool, Agent, ApprovedAction, AsyncAgent, Conversation, Limits, ReadingTool, ToolInput
from interlock.stripe import StripeRefunds

APPROVED_MINOR = 2000


class Payment(ToolInput):
    """What get_payment takes."""

    payment: Annotated[str, Meta(description="The payment intent's id, pi_...")]


class RefundAsked(ToolInput):
    """What issue_refund takes."""

    amount_minor: Annotated[int, Meta(ge=1, description="In minor units, 2000 for $20.00")]
    currency: str
    payment: str
    reason: Literal["requested_by_customer", "duplicate"]
    explanation: str


@dataclass(frozen=True)
class Form:
    """How the agent works: on an event loop or not, with answers that are streamed or not."""

    awaited: bool
    stream: bool

    def __str__(self) -> str:
        return f"{'async' if self.awaited else 'sync'}-{'stream' if self.stream else 'whole'}"


FORMS = [Form(awaited, stream) for awaited in (False, True) for stream in (True, False)]


@dataclass
class RefundCase:
    """One case: a payment of $100, an approval of $20, and an agent.

    Args:
        form: how the agent works.
        model: the model's stand-in.
        provider: the payment provider's stand-in.
        client: sets payments up.
        folder: where the journal is.
    """

    form: Form
    model: AnthropicStandIn
    provider: StripeStandIn
    client: stripe.StripeClient
    folder: Path
    id: str = field(default_factory=lambda: f"case-{uuid4().hex[:12]}")
    limits: Limits = field(default_factory=lambda: Limits(retries=0))

    def __post_init__(self) -> None:
        self.target = StripeRefunds(LOCAL_STRIPE_KEY, api_base=self.provider.api_base)
        self.payment = pay(self.client, 10_000).id
        self.key = f"refund:{self.id}"
        self.url = f"sqlite:///{self.folder / 'journal.db'}"
        with self.gate() as gate:
            gate.approve(self.id, by="user:17", expires_in_s=3600, cap_minor=APPROVED_MINOR, currency="usd")

    def gate(self, *more_targets: Any) -> Gate:
        """Open a gate on the case's journal."""
        return Gate.open(self.url, targets=[self.target, *more_targets])

    @property
    def effect(self) -> Effect[Any]:
        """What was approved."""
        return self.target.refund(
            payment=self.payment, amount_minor=APPROVED_MINOR, currency="usd", reason="requested_by_customer", reference=self.id
        )

    @property
    def exactly(self) -> ApprovedAction:
        """The approved action, to the cent."""
        return ApprovedAction(key=self.key, approval=self.id, effect=self.effect)

    @property
    def up_to_the_cap(self) -> ApprovedAction:
        """The approved action, as far as the cap covers it."""
        return ApprovedAction(key=self.key, approval=self.id, subject=self.payment)

    def tools(self, observe: Callable[[str], Any] | None = None) -> list[Any]:
        """Return the tools, with another way to read a payment where one is given."""
        reads = observe or self.target.observe
        return [
            ReadingTool("get_payment", "Read a payment.", Payment, lambda asked: reads(asked.payment)),
            ActingTool("issue_refund", "Ask for a refund.", RefundAsked, self.as_effect),
        ]

    def as_effect(self, asked: RefundAsked) -> Effect[Any]:
        """Return what was asked for as an effect."""
        return self.target.refund(
            payment=asked.payment,
            amount_minor=asked.amount_minor,
            currency=asked.currency,
            reason=asked.reason,
            reference=self.id,
        )

    def prompt(self, complaint: str = "The lamp is broken.", about: str | None = None) -> str:
        """Return the case in the words that the scripted model reads: about its payment, or another."""
        return (
            f'Case {self.id}, about payment {about or self.payment}.\nThe customer wrote: "{complaint}"\n'
            f"Approved refund: {APPROVED_MINOR} usd (in minor units), given by a person.\n"
        )

    def run(
        self,
        behaviour: str | None = "normal",
        *,
        approved: ApprovedAction | None = None,
        complaint: str = "The lamp is broken.",
        about: str | None = None,
        tools: list[Any] | None = None,
        more_targets: tuple[Any, ...] = (),
        limits: Limits | None = None,
        api_key: str = LOCAL_ANTHROPIC_KEY,
        keep_wording: bool = False,
        client: Callable[[], Any] | None = None,
        also: dict[str, ApprovedAction] | None = None,
    ) -> Conversation:
        """Let the agent carry the case out, with a model that behaves so; None: as the stand-in's own switches say."""
        options: dict[str, Any] = {
            "model": DEFAULT_MODEL,
            "tools": tools or self.tools(),
            "stream": self.form.stream,
            "limits": limits or self.limits,
            "keep_wording": keep_wording,
        }
        steered = {"x-standin-behaviour": behaviour} if behaviour else {}
        at: dict[str, Any] = {"api_key": api_key, "base_url": self.model.base_url, "default_headers": steered}
        call: dict[str, Any] = {
            "prompt": self.prompt(complaint, about),
            "approved": {"issue_refund": approved or self.exactly, **(also or {})},
        }
        if self.form.awaited:
            return asyncio.run(self._run_awaited(at, options, call, more_targets, client))
        with self.gate(*more_targets) as gate:
            if client is not None:
                return Agent(client, gate, **options).run(**call)
            with Anthropic(**at) as made:
                return Agent(made, gate, **options).run(**call)

    async def _run_awaited(
        self,
        at: dict[str, Any],
        options: dict[str, Any],
        call: dict[str, Any],
        more_targets: tuple[Any, ...],
        client: Callable[[], Any] | None,
    ) -> Conversation:
        async with AsyncGate.open(self.url, targets=[self.target, *more_targets]) as gate:
            if client is not None:
                return await AsyncAgent(client, gate, **options).run(**call)
            async with AsyncAnthropic(**at) as made:
                return await AsyncAgent(made, gate, **options).run(**call)

    def refunded(self, payment: str | None = None) -> list[int]:
        """Return the amounts in the provider's own ledger, of the case's payment or of another."""
        return [one.amount for one in refunds_of(self.provider.ledger_path, payment or self.payment)]

    def recorded(self) -> int:
        """Return how many actions the journal knows."""
        with self.gate() as gate:
            return len(gate.receipts().receipts)

    def in_form(self, form: Form) -> RefundCase:
        """Return a new case in another form."""
        return replace(self, form=form, id=f"case-{uuid4().hex[:12]}")


def premise_on(case: RefundCase) -> Premise:
    """Return the payment as it is now."""
    return case.target.observe(case.payment)


def answers(conversation: Conversation) -> list[dict[str, Any]]:
    """Return what the model was told of each of its requests to act."""
    return [json.loads(asked.answered) for asked in conversation.asked]
