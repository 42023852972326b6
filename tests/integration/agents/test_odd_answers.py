"""Answers that the API's own service does not give, and that one which speaks for it may: through the real SDK all the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic

from interlock import Answer, Done, Evidence, Gate, Settlement, target
from interlock.anthropic import ActingTool, Agent, ApprovedAction, Conversation, Limits, ToolInput


class PayoutAsked(ToolInput):
    """What pay_out takes."""

    amount: int = 1


@dataclass(frozen=True)
class Payout:
    """What is paid out."""

    amount: int


class Service:
    """Speaks for the API: each answer has the requests that it was given, streamed where that was asked for."""

    def __init__(self, *requests: tuple[str, dict[str, Any]]) -> None:
        self._answers = iter([list(requests), []])

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer once."""
        asked = next(self._answers)
        content = [{"type": "tool_use", "id": name, "name": "pay_out", "input": arguments} for name, arguments in asked]
        stop = "tool_use" if asked else "end_turn"
        whole = _message(content, stop)
        if not json.loads(request.content).get("stream"):
            return httpx2.Response(200, json=whole)
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(content, stop))
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def _message(content: list[dict[str, Any]], stop: str | None) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    named = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-local"}
    return named | {"content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _events(content: list[dict[str, Any]], stop: str) -> Iterator[dict[str, Any]]:
    """Yield a stream in which each request's arguments come with its beginning."""
    yield {"type": "message_start", "message": _message([], None)}
    for index, block in enumerate(content):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _carried_out(folder: Path, service: Service, *, stream: bool) -> tuple[Conversation, list[int]]:
    """Let an agent carry out what the service answers; return the conversation and what was paid out."""
    ledger: list[int] = []

    @target("payout", effect=Payout)
    def pay(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        del idempotency_key, deadline_s
        ledger.append(effect.amount)
        return Done(Evidence(reference="po-1", state="paid", settlement=Settlement.FINAL, json="{}"))

    tool = ActingTool(
        "pay_out",
        "Pays out.",
        PayoutAsked,
        lambda asked: pay.effect(Payout(asked.amount), subject="customer-1"),
        reads_first=False,
    )
    transport = httpx2.Client(transport=httpx2.MockTransport(service.answer))
    with transport, Gate.open(f"sqlite:///{folder / 'journal.db'}", targets=[pay]) as gate:
        gate.approve("case-1", by="user:17", expires_in_s=60)
        client = Anthropic(api_key="sk-ant-local-0000", http_client=transport)
        agent = Agent(client, gate, model="claude-local", tools=[tool], limits=Limits(retries=0), stream=stream)
        approved = ApprovedAction(key="payout:case-1", approval="case-1", subject="customer-1")
        return agent.run("Pay out.", approved={"pay_out": approved}), ledger


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_two_requests_under_one_id_are_two(tmp_path: Path, stream: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """They ask for different things, so nothing is done: the second is not carried out in the name of the first."""
    service = Service(("toolu_1", {"amount": 20}), ("toolu_1", {"amount": 2000}))
    conversation, ledger = _carried_out(tmp_path, service, stream=stream)
    assert ledger == []
    assert [asked.is_error for asked in conversation.asked] == [True, True]


def test_arguments_that_come_with_the_beginning_of_a_request_count(tmp_path: Path) -> None:
    """No letter of them is streamed; what the tool would take where nothing is said is not taken in their place."""
    conversation, ledger = _carried_out(tmp_path, Service(("toolu_1", {"amount": 20})), stream=True)
    assert ledger == [20]
    assert [json.loads(asked.arguments_json) for asked in conversation.asked] == [{"amount": 20}]
