"""Reading a Messages request: what is refused as malformed, and what the scripted model needs to know of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.standins.anthropic.behaviours import Moment

_PAYMENT = re.compile(r"\bpi_[A-Za-z0-9_]+")
_APPROVED = re.compile(r"^Approved refund: (\d+) ([a-z]{3})\b", re.MULTILINE)
_COMPLAINT = re.compile(r'The customer wrote: "?(.+?)"?$', re.MULTILINE)
# The service refuses unknown fields in what is sent back to it, which catches an SDK's own extras in echoed content.
_BLOCK_FIELDS = {
    "text": {"type", "text", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "caller", "cache_control", "toolset_name"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}


class ApiError(Exception):
    """An error answer of the API, with the shape of docs.claude.com/en/api/errors."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = dict(headers or {})


def _invalid(message: str) -> ApiError:
    return ApiError(400, "invalid_request_error", message)


@dataclass(frozen=True)
class ToolResult:
    """A tool's answer, joined with the call that it answers."""

    name: str
    text: str
    is_error: bool


@dataclass(frozen=True)
class Approved:
    """The refund that the prompt says a person approved."""

    amount_minor: int
    currency: str


@dataclass(frozen=True)
class Conversation:
    """One request, as the scripted model sees it."""

    model: str
    stream: bool
    tools: frozenset[str]
    payment: str | None
    other_payment: str | None
    approved: Approved | None
    complaint: str
    results: tuple[ToolResult, ...]
    refund_calls: int

    @property
    def moment(self) -> Moment:
        """Where in its script the model is."""
        last = self.results[-1].name if self.results else ""
        return {"get_payment": Moment.DECISION, "issue_refund": Moment.AFTER_REFUND}.get(last, Moment.START)


def parse_conversation(raw: bytes) -> Conversation:
    """Check a request body and read the conversation out of it.

    Raises:
        ApiError: The body is not what the Messages API accepts.
    """
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise _invalid("The request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise _invalid("The request body must be an object")
    for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
        if name not in body:
            raise _invalid(f"{name}: Field required")
        if not isinstance(body[name], kind):
            raise _invalid(f"{name}: Input should be a valid {kind.__name__}")
    if not body["model"].startswith("claude-"):
        raise ApiError(404, "not_found_error", f"model: {body['model']}")
    if body["max_tokens"] < 1:
        raise _invalid("max_tokens: Input should be greater than or equal to 1")
    turns = [_blocks(message, index) for index, message in enumerate(body["messages"])]
    _check_turns(body["messages"], turns)
    return _read(body, turns)


def _blocks(message: object, index: int) -> list[dict[str, Any]]:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        raise _invalid(f"messages.{index}.role: Input should be 'user' or 'assistant'")
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list) or not content:
        raise _invalid(f"messages.{index}.content: Field required")
    for place, block in enumerate(content):
        allowed = _BLOCK_FIELDS.get(str(block.get("type"))) if isinstance(block, dict) else None
        if allowed is None:
            raise _invalid(f"messages.{index}.content.{place}: Input tag does not match any of the expected tags")
        for extra in sorted(set(block) - allowed):
            raise _invalid(f"messages.{index}.content.{place}.{block['type']}.{extra}: Extra inputs are not permitted")
    return content


def _check_turns(messages: list[dict[str, Any]], turns: list[list[dict[str, Any]]]) -> None:
    if not turns or messages[0]["role"] != "user":
        raise _invalid('messages: first message must use the "user" role')
    if messages[-1]["role"] != "user":
        raise _invalid("This model does not support assistant message prefill")
    for index, blocks in enumerate(turns):
        asked = _ids(turns[index - 1], "tool_use", "id") if index else []
        answered = _ids(blocks, "tool_result", "tool_use_id")
        if sorted(asked) != sorted(answered):
            raise _invalid(f"messages.{index}: each `tool_use` block must have one `tool_result` block in the next message")
        if any(block["type"] == "tool_result" for block in blocks[len(answered) :]):
            raise _invalid(f"messages.{index}: `tool_result` blocks must come before any text")


def _ids(blocks: list[dict[str, Any]], kind: str, field: str) -> list[str]:
    return [str(block.get(field)) for block in blocks if block["type"] == kind]


def _read(body: dict[str, Any], turns: list[list[dict[str, Any]]]) -> Conversation:
    calls = {block["id"]: block["name"] for blocks in turns for block in blocks if block["type"] == "tool_use"}
    prompt = "\n".join(block["text"] for block in turns[0] if block["type"] == "text")
    approved = _APPROVED.search(prompt)
    payments = list(dict.fromkeys(_PAYMENT.findall(prompt)))
    complaint = _COMPLAINT.search(prompt)
    return Conversation(
        model=body["model"],
        stream=bool(body.get("stream")),
        tools=frozenset(tool.get("name", "") for tool in body.get("tools") or []),
        payment=payments[0] if payments else None,
        other_payment=payments[1] if len(payments) > 1 else None,
        approved=Approved(int(approved.group(1)), approved.group(2)) if approved else None,
        complaint=complaint.group(1) if complaint else "",
        results=tuple(_result(block, calls) for block in turns[-1] if block["type"] == "tool_result"),
        refund_calls=sum(name == "issue_refund" for name in calls.values()),
    )


def _result(block: dict[str, Any], calls: dict[str, str]) -> ToolResult:
    content = block.get("content", "")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    return ToolResult(calls[block["tool_use_id"]], str(content), bool(block.get("is_error")))
