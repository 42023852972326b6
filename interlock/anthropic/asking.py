"""Asking the model once, through the SDK, and reading its answer: what is whole, and what is not.

The SDK is imported here, inside functions, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from interlock.errors import ModelError, ModelRequestRefused, ModelUnavailable
from interlock.infrastructure.clock import elapsing_s

if TYPE_CHECKING:
    from anthropic import Anthropic, APIStatusError, AsyncAnthropic
    from anthropic.types import Message, MessageParam

    from interlock.anthropic.requests import Ask

_TRY_AGAIN = frozenset((408, 409, 429))
"""What the SDK itself asks again after, beside 5xx (anthropic, `_base_client.py`)."""
_FIRST_FAULT, _FIRST_FAULT_OF_ITS_OWN = 400, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to use a tool.

    Args:
        id: the tool use's id.
        name: the tool's name, as the model wrote it.
        arguments_json: the arguments as JSON text; of a streamed answer to the letter as the model wrote them.
    """

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the model.

    Args:
        model: which model it was.
        message_id: its id.
        stop_reason: why it ended there; None where it is not whole.
        text: what the model said beside its requests.
        calls: its requests to use tools.
        param: the answer as the next request carries it.
        tokens: what it cost, input and output.
    """

    model: str
    message_id: str
    stop_reason: str | None
    text: str
    calls: tuple[Call, ...]
    param: MessageParam
    tokens: int


@dataclass(slots=True)
class _Stream:
    """What the SDK's own sum of a stream does not tell: the arguments to the letter, and whether the end was seen.

    A stream that just ends raises nothing, and its half-written arguments parse: {"amount": 20} of 2000.
    """

    until_s: float
    written: dict[int, str] = field(default_factory=dict[int, str])
    ended: bool = False

    def see(self, event: Any) -> None:
        """Take one event in.

        Raises:
            ModelUnavailable: the time is over.
        """
        if elapsing_s() > self.until_s:
            raise ModelUnavailable("the answer took too long")
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            self.written[event.index] = self.written.get(event.index, "") + event.delta.partial_json
        self.ended = self.ended or event.type == "message_stop"

    def answer(self, message: Message) -> Answer:
        """Return the answer that the events make up."""
        return _answer(message, message.stop_reason if self.ended else None, self.written)


def ask(client: Anthropic, request: Ask) -> Answer:
    """Ask the model once, with none of the SDK's retries.

    Raises:
        ModelError: it could not be asked.
    """
    with _translated():
        once = client.with_options(max_retries=0, timeout=request.silence_s)
        if not request.stream:
            message = cast("Message", once.messages.create(**request.body))
            return _answer(message, message.stop_reason)
        seen = _Stream(request.until_s)
        with once.messages.stream(**request.body) as stream:
            for event in stream:
                seen.see(event)
            return seen.answer(stream.get_final_message())


async def ask_awaiting(client: AsyncAnthropic, request: Ask) -> Answer:
    """Ask the model once; see `ask`."""
    with _translated():
        once = client.with_options(max_retries=0, timeout=request.silence_s)
        if not request.stream:
            message = cast("Message", await once.messages.create(**request.body))
            return _answer(message, message.stop_reason)
        seen = _Stream(request.until_s)
        async with once.messages.stream(**request.body) as stream:
            async for event in stream:
                seen.see(event)
            return seen.answer(await stream.get_final_message())


def _answer(message: Message, stop_reason: str | None, written: dict[int, str] | None = None) -> Answer:
    calls: list[Call] = []
    for index, block in enumerate(message.content):
        if block.type == "tool_use":
            # A service may also send them with the block's beginning, and then no letter of them by itself.
            arguments = (written or {}).get(index) or json.dumps(block.input)
            calls.append(Call(id=block.id, name=block.name, arguments_json=arguments))
    return Answer(
        model=message.model,
        message_id=message.id,
        stop_reason=stop_reason,
        text="\n".join(block.text for block in message.content if block.type == "text"),
        calls=tuple(calls),
        param=message.to_param(),
        tokens=message.usage.input_tokens + message.usage.output_tokens,
    )


@contextmanager
def _translated() -> Generator[None]:
    """Turn whatever went wrong into one of two errors: asking has no effect but an answer, so nothing else matters."""
    from anthropic import APIStatusError, CredentialsError

    try:
        yield
    except (ModelError, TypeError):  # a TypeError is a call that is wrong, such as one without a key
        raise
    except APIStatusError as error:
        raise _of_status(error) from error
    except CredentialsError as error:
        raise ModelRequestRefused("no credentials") from error
    except Exception as error:
        # Of a broken stream come the SDK's own errors, its transport's, and an AssertionError where no event came at all.
        raise ModelUnavailable(f"{type(error).__module__}.{type(error).__qualname__}") from error


def _of_status(error: APIStatusError) -> ModelError:
    # A stream that was broken off by an `error` event has the status 200, of its beginning.
    again = error.status_code in _TRY_AGAIN or not _FIRST_FAULT <= error.status_code < _FIRST_FAULT_OF_ITS_OWN
    wish = error.response.headers.get("x-should-retry")
    kind = ModelUnavailable if (wish == "true" or (again and wish != "false")) else ModelRequestRefused
    what = f"{error.status_code} {error.type or 'without a type'}"
    return kind(what, status=error.status_code, request_id=error.request_id, retry_after_s=_retry_after_s(error))


def _retry_after_s(error: APIStatusError) -> float | None:
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:  # there is none, or it is a date
        return None
