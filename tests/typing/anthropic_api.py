"""The agent adapter as a user's type checker sees it. Never run: mypy and pyright read it."""

from dataclasses import dataclass
from typing import Annotated, assert_type

from anthropic import Anthropic, AsyncAnthropic
from msgspec import Meta

from interlock import AsyncGate, Effect, Gate, Outcome
from interlock.anthropic import ActingTool, Agent, ApprovedAction, AsyncAgent, Conversation, Limits, ReadingTool, ToolInput
from interlock.stripe import Refund, StripeRefunds


class Payment(ToolInput):
    """What the reading tool takes."""

    payment: str


class Asked(ToolInput):
    """What the acting tool takes."""

    payment: str
    amount_minor: Annotated[int, Meta(ge=1)]


@dataclass(frozen=True)
class Other:
    """Not a tool's input."""

    payment: str


def agents(stripe: StripeRefunds, gate: Gate, async_gate: AsyncGate) -> None:
    """Tools know the type of their arguments, and an agent the gate that it works with."""

    def as_effect(asked: Asked) -> Effect[Refund]:
        assert_type(asked.amount_minor, int)
        return stripe.refund(payment=asked.payment, amount_minor=asked.amount_minor, currency="usd")

    reads = ReadingTool("get_payment", "Reads.", Payment, lambda asked: stripe.observe(asked.payment))
    acts = ActingTool("issue_refund", "Acts.", Asked, as_effect)
    ActingTool("issue_refund", "Acts.", Payment, as_effect)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - another input
    ReadingTool("read", "Reads.", Other, lambda _: stripe.observe("pi_1"))  # type: ignore[type-var] # pyright: ignore[reportArgumentType] - no ToolInput
    agent = Agent(Anthropic(), gate, model="claude", tools=[reads, acts], limits=Limits(turns=3))
    Agent(Anthropic, gate, model="claude", tools=[reads, acts])
    Agent(Anthropic(), async_gate, model="claude", tools=[reads, acts])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - another gate
    approved = {"issue_refund": ApprovedAction(key="refund:case-1", approval="case-1", subject="pi_1")}
    conversation = agent.run("…", approved=approved)
    assert_type(conversation, Conversation)
    assert_type(conversation.outcomes.get("issue_refund"), Outcome | None)


async def awaited(stripe: StripeRefunds, gate: AsyncGate) -> None:
    """On an event loop a reading tool may be a coroutine function."""

    async def observe(asked: Payment):  # type: ignore[no-untyped-def] # noqa: ANN202 - as a user may write it
        return stripe.observe(asked.payment)

    agent = AsyncAgent(AsyncAnthropic(), gate, model="claude", tools=[ReadingTool("read", "Reads.", Payment, observe)])
    assert_type(await agent.run("…", approved={}), Conversation)
