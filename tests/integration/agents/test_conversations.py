"""Conversations through the gate: what it refuses, what a crash leaves behind, outages, limits, and any target."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic

from harness.standins.anthropic.client import LOCAL_API_KEY, AnthropicStandIn
from harness.standins.stripe.client import LOCAL_API_KEY as LOCAL_STRIPE_KEY
from harness.standins.stripe.faults import FaultKind
from interlock import (
    Answer,
    AsyncGate,
    Committed,
    Done,
    Evidence,
    ExternalApproval,
    ExternalTerms,
    Gate,
    Money,
    Premise,
    Refused,
    Settlement,
    target,
)
from interlock.anthropic import ActingTool, Agent, ApprovedAction, AsyncAgent, End, Limits
from interlock.errors import GateClosed, InvalidInput, ModelError, ModelRequestRefused, ModelUnavailable, UnknownApproval
from tests.gates import AwaitedTarget
from tests.integration.tasks import until
from tests.refund_agent import APPROVED_MINOR, Form, RefundAsked, RefundCase, answers, premise_on

ROOT = Path(__file__).resolve().parents[3]


# --- what the gate says


def test_a_refusal_says_what_changed_and_what_is_possible(case: RefundCase) -> None:
    """Support refunded the same by hand after the model had looked: the model is told so, and nothing more goes out."""

    def observe(payment: str) -> Premise:
        seen = case.target.observe(payment)
        case.provider.hand_refund(payment, APPROVED_MINOR)
        return seen

    conversation = case.run(tools=case.tools(observe))
    assert case.refunded() == [APPROVED_MINOR]  # the one by hand
    assert isinstance(conversation.outcomes["issue_refund"], Refused)
    (told,) = answers(conversation)
    assert (told["status"], told["happened"], told["code"]) == ("REFUSED", "no", "premise_duplicate")
    assert conversation.asked[0].is_error


def test_what_is_read_beside_the_request_is_not_what_it_rests_on(case: RefundCase) -> None:
    """The model asks, and reads once more in the same answer: it decided on what it had seen, and that has changed since."""
    seen: list[Premise] = []

    def observe(payment: str) -> Premise:
        if seen:
            case.provider.hand_refund(payment, APPROVED_MINOR)
        seen.append(case.target.observe(payment))
        return seen[-1]

    conversation = case.run("reads_again_and_asks", tools=case.tools(observe))
    assert case.refunded() == [APPROVED_MINOR]  # the one by hand
    assert [told["code"] for told in answers(conversation)] == ["premise_duplicate"]


def test_a_fact_that_can_not_be_read_is_no_premise(case: RefundCase) -> None:
    """The model is told the class of what went wrong and nothing else; without a reading nothing is done."""

    def observe(payment: str) -> Premise:
        raise TimeoutError(f"no answer about {payment} for key {LOCAL_STRIPE_KEY}")

    conversation = case.run(tools=case.tools(observe))
    shown: Any = conversation.messages[2]["content"]
    assert shown[0]["is_error"] is True
    assert "TimeoutError" in shown[0]["content"]
    assert LOCAL_STRIPE_KEY not in shown[0]["content"]
    assert case.refunded() == []


def test_what_may_not_be_read_is_not_shown(one_case: RefundCase) -> None:
    """A reading tool says in its own words what the model may read."""

    def observe(payment: str) -> Premise:
        raise InvalidInput(f"{payment} is not of this case")

    conversation = one_case.run(tools=one_case.tools(observe))
    shown: Any = conversation.messages[2]["content"]
    assert "is not of this case" in shown[0]["content"]
    assert one_case.refunded() == []


def test_an_approval_that_does_not_exist_is_the_hosts_error(case: RefundCase) -> None:
    """It is raised before the model is asked."""
    before = len(case.model.requests())
    unknown = ApprovedAction(key=case.key, approval="case-unknown", subject=case.payment)
    with pytest.raises(UnknownApproval):
        case.run(approved=unknown)
    assert len(case.model.requests()) == before


# --- after a crash


def _never() -> Any:
    raise AssertionError("the model was asked")


def test_what_is_recorded_is_ended_without_the_model(case: RefundCase) -> None:
    """A process died with its intent recorded: the next one ends it, makes no client, and asks nobody."""
    with case.gate() as gate:
        gate.propose(case.key, case.effect, approval=case.id, premises=[premise_on(case)])
    conversation = case.run(client=_never)
    assert conversation.end is End.NOT_ASKED
    assert isinstance(conversation.outcomes["issue_refund"], Committed)
    assert case.refunded() == [APPROVED_MINOR]


def test_what_is_left_to_decide_is_still_asked_for(case: RefundCase) -> None:
    """Of two approved actions one is recorded: it is ended, and the model is asked about the other; both are in the outcomes."""

    @target("note", effect=RefundLike, send_deadline_s=20)
    def note(effect: RefundLike, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        del effect, idempotency_key, deadline_s
        return Done(Evidence(reference="n-1", state="sent", settlement=Settlement.FINAL, json="{}"))

    written = note.effect(RefundLike(1), subject=case.payment)
    with case.gate(note) as gate:
        gate.approve("note-1", by="user:17", expires_in_s=3600)
        gate.propose("note:note-1", written, approval="note-1")
    noting = ActingTool("send_note", "Send a note.", RefundAsked, lambda _: written)
    conversation = case.run(
        tools=[*case.tools(), noting],
        more_targets=(note,),
        also={"send_note": ApprovedAction(key="note:note-1", approval="note-1", effect=written)},
    )
    assert conversation.end is End.FINISHED
    assert {name: type(outcome) for name, outcome in conversation.outcomes.items()} == {
        "send_note": Committed,
        "issue_refund": Committed,
    }
    assert case.refunded() == [APPROVED_MINOR]


@pytest.mark.usefixtures("healthy")
def test_a_conversation_that_was_cancelled_in_the_middle_of_a_send_is_ended_by_the_next(one_case: RefundCase) -> None:
    """The send goes on where it stands; run again, nothing is sent twice, and the model is not asked."""
    case = one_case.in_form(Form(awaited=True, stream=True))

    async def cancelled() -> None:
        gate = await AsyncGate.open(case.url, targets=[case.target])
        async with gate, AsyncAnthropic(api_key=LOCAL_API_KEY, base_url=case.model.base_url) as client:
            agent = AsyncAgent(client, gate, model="claude-local", tools=case.tools())
            running = asyncio.create_task(agent.run(case.prompt(), approved={"issue_refund": case.exactly}))
            await until(lambda: case.provider.held_back() > 0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.to_thread(case.provider.release)

    case.provider.arm(FaultKind.HOLD, seconds=20)
    asyncio.run(cancelled())
    conversation = case.run(client=_never)
    assert conversation.end is End.NOT_ASKED
    assert isinstance(conversation.outcomes["issue_refund"], Committed)
    assert case.refunded() == [APPROVED_MINOR]


def test_an_approval_may_live_elsewhere(one_case: RefundCase) -> None:
    """One that a source reads is as good: the receipt says that it was read and not held."""

    class Cases:
        def read(self, approval_id: str) -> ExternalTerms | None:
            tomorrow = datetime.now(UTC) + timedelta(days=1)
            assert approval_id == "row-1"
            return ExternalTerms(live=True, cap_minor=APPROVED_MINOR, currency="usd", by="user:17", expires_at=tomorrow)

    action = ApprovedAction(key="refund:row-1", approval=ExternalApproval("cases", "row-1"), subject=one_case.payment)
    with (
        Gate.open(one_case.url, targets=[one_case.target], approval_sources={"cases": Cases()}) as gate,
        Anthropic(api_key=LOCAL_API_KEY, base_url=one_case.model.base_url) as client,
    ):
        agent = Agent(client, gate, model="claude-local", tools=one_case.tools())
        conversation = agent.run(one_case.prompt(), approved={"issue_refund": action})
        assert gate.receipt("refund:row-1").approval_held is False
    assert isinstance(conversation.outcomes["issue_refund"], Committed)
    assert one_case.refunded() == [APPROVED_MINOR]


def test_importing_the_adapter_does_not_import_the_sdk() -> None:
    """A restarted program that only ends what is recorded does not pay for it."""
    code = "import sys, interlock.anthropic; sys.exit('anthropic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# --- the service


@pytest.mark.parametrize(("behaviour", "status"), [("overloaded_529", 529), ("rate_limit_429", 429)])
def test_an_outage_is_an_error_of_its_own(case: RefundCase, behaviour: str, status: int) -> None:
    """It has the status and the request's id, and nothing was done."""
    with pytest.raises(ModelUnavailable, match="nothing was decided") as caught:
        case.run(behaviour)
    assert caught.value.status == status
    assert caught.value.request_id
    assert case.refunded() == []


def test_a_short_outage_is_waited_out(case: RefundCase) -> None:
    """One overloaded answer is asked again, and the refund comes about, once."""
    case.model.behave("rate_limit_429", payment=case.payment, times=1, retry_after_s=0.01)
    before = len(case.model.requests())
    conversation = case.run(None, limits=Limits(retries=1))
    assert case.refunded() == [APPROVED_MINOR]
    assert conversation.turns == 3
    assert len(case.model.requests()) == before + 4


def test_a_long_wait_is_not_slept(one_case: RefundCase) -> None:
    """The service wishes for two minutes, and the conversation has ten seconds: it ends at once, and says when to come back."""
    one_case.model.behave("rate_limit_429", payment=one_case.payment, retry_after_s=120)
    with pytest.raises(ModelUnavailable) as caught:
        one_case.run(None, limits=Limits(duration_s=10))
    assert caught.value.retry_after_s == 120


def test_a_wrong_key_is_refused_and_not_repeated(case: RefundCase) -> None:
    """The error tells it from an outage, and does not hold the key."""
    with pytest.raises(ModelRequestRefused) as caught:
        case.run(api_key="fake-key-of-this-test")
    assert caught.value.status == 401
    assert "fake-key-of-this-test" not in str(caught.value)


def test_a_service_that_is_not_there_is_unavailable(case: RefundCase) -> None:
    """No status, and nothing was done."""
    with AnthropicStandIn() as ended:
        pass
    case.model = ended
    with pytest.raises(ModelUnavailable) as caught:
        case.run()
    assert caught.value.status is None


# --- limits


@pytest.mark.parametrize(
    ("limits", "end", "turns"),
    [
        (Limits(turns=3), End.OUT_OF_TURNS, 3),
        (Limits(tokens=1), End.OUT_OF_TOKENS, 1),
        (Limits(duration_s=0), End.OUT_OF_TIME, 0),
    ],
)
def test_a_model_that_reads_for_ever_is_stopped(case: RefundCase, limits: Limits, end: End, turns: int) -> None:
    """Turns, tokens and time each end a conversation, and nothing was done."""
    conversation = case.run("reads_forever", limits=limits)
    assert (conversation.end, conversation.turns) == (end, turns)
    assert case.refunded() == []


# --- any target, any way to read


def test_any_target_can_stand_behind_a_tool(case: RefundCase) -> None:
    """The same loop gives store credit with a plain function: nothing in it knows refunds."""
    given: list[int] = []

    @target("credit", effect=RefundLike, send_deadline_s=20)
    def give(effect: RefundLike, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        del idempotency_key, deadline_s
        given.append(effect.amount_minor)
        return Done(Evidence(reference="cr-1", state="given", settlement=Settlement.FINAL, json="{}"))

    def as_credit(asked: RefundAsked) -> Any:
        money = Money(asked.amount_minor, asked.currency)
        return give.effect(RefundLike(asked.amount_minor), subject=asked.payment, money=money)

    def observe(payment: str) -> Premise:
        return replace(case.target.observe(payment), policy="strict")  # the target's own rule is about refunds

    reads, _ = case.tools(observe)
    tools = [reads, ActingTool("issue_refund", "Give store credit.", RefundAsked, as_credit)]
    conversation = case.run("twice", tools=tools, approved=case.up_to_the_cap, more_targets=(give,))
    assert given == [APPROVED_MINOR]
    assert isinstance(conversation.outcomes["issue_refund"], Committed)
    assert case.refunded() == []


@dataclass(frozen=True)
class RefundLike:
    """The parameters of store credit."""

    amount_minor: int


def test_a_reading_tool_may_be_awaited(one_case: RefundCase) -> None:
    """On an event loop a coroutine function reads as well as a plain one; without one it is a mistake of the host."""
    awaited = AwaitedTarget(one_case.target)
    tools = one_case.tools(awaited.observe)
    with pytest.raises(TypeError, match=r"what `target\.observe` returns"):
        one_case.run(tools=tools)
    on_a_loop = one_case.in_form(Form(awaited=True, stream=True))
    on_a_loop.run(tools=on_a_loop.tools(awaited.observe))
    assert on_a_loop.refunded() == [APPROVED_MINOR]


def test_the_journals_errors_are_the_hosts(one_case: RefundCase) -> None:
    """A gate that is closed in the middle ends the conversation with its error: the model is told no story about it."""
    gate = one_case.gate()

    def observe(payment: str) -> Premise:
        seen = one_case.target.observe(payment)
        gate.close()
        return seen

    with Anthropic(api_key=LOCAL_API_KEY, base_url=one_case.model.base_url) as client:
        agent = Agent(client, gate, model="claude-local", tools=one_case.tools(observe))
        with pytest.raises(GateClosed):
            agent.run(one_case.prompt(), approved={"issue_refund": one_case.exactly})
    assert one_case.refunded() == []


def test_the_errors_are_one_family() -> None:
    """Whoever catches ModelError has caught whatever the service did."""
    assert issubclass(ModelUnavailable, ModelError)
    assert issubclass(ModelRequestRefused, ModelError)
