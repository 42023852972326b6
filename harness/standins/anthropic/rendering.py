"""An answer as the bytes of the Messages API: one JSON object, or server-sent events in their documented order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.standins.anthropic.script import Answer, Text, ToolUse

_PIECE_CHARS = 24


def as_json(answer: Answer, model: str, input_tokens: int) -> bytes:
    """The whole message; half of it where the answer is cut off."""
    message = _envelope(answer, model, input_tokens) | {
        "content": [_block(block) for block in answer.blocks],
        "stop_reason": answer.stop_reason,
        "usage": {"input_tokens": input_tokens, "output_tokens": _output_tokens(answer)},
    }
    message |= _stop_details(answer)
    body = json.dumps(message).encode()
    return body if answer.stop_reason else body[: len(body) // 2]


def as_events(answer: Answer, model: str, input_tokens: int) -> Iterator[bytes]:
    """The events of a streamed message; a cut answer just ends while its last block is open."""
    yield _event("message_start", message=_envelope(answer, model, input_tokens))
    yield _event("ping")
    last = len(answer.blocks) - 1
    for index, block in enumerate(answer.blocks):
        yield from _block_events(index, block, closed=index < last or answer.stop_reason is not None)
    if answer.stop_reason is None:
        return
    delta = {"stop_reason": answer.stop_reason, "stop_sequence": None} | _stop_details(answer)
    yield _event("message_delta", delta=delta, usage={"output_tokens": _output_tokens(answer)})
    yield _event("message_stop")


def error_event(kind: str, message: str) -> bytes:
    """The event by which the service breaks off a stream whose status was 200."""
    return _event("error", error={"type": kind, "message": message})


def _block_events(index: int, block: Text | ToolUse, *, closed: bool) -> Iterator[bytes]:
    if isinstance(block, Text):
        start, kind, key, written = {"type": "text", "text": ""}, "text_delta", "text", block.text
    else:
        start, kind, key, written = _block(block) | {"input": {}}, "input_json_delta", "partial_json", block.input_json
    yield _event("content_block_start", index=index, content_block=start)
    for at in range(0, len(written), _PIECE_CHARS):
        yield _event("content_block_delta", index=index, delta={"type": kind, key: written[at : at + _PIECE_CHARS]})
    if closed:
        yield _event("content_block_stop", index=index)


def _envelope(answer: Answer, model: str, input_tokens: int) -> dict[str, Any]:
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": input_tokens, "output_tokens": 1},
    }


def _block(block: Text | ToolUse) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}


def _stop_details(answer: Answer) -> dict[str, Any]:
    if answer.stop_reason != "refusal":
        return {}
    return {"stop_details": {"type": "refusal", "category": None, "explanation": None}}


def _output_tokens(answer: Answer) -> int:
    written = sum(len(block.text if isinstance(block, Text) else block.input_json) for block in answer.blocks)
    return written // 4 + 1


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()
