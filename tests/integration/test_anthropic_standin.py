"""The Anthropic stand-in, spoken to by the real SDK over a socket."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import pytest
from anthropic.types import Message

from harness.standins.anthropic.client import LOCAL_API_KEY, AnthropicControl, AnthropicStandIn

ROOT = Path(__file__).resolve().parents[2]
MODEL = "claude-haiku-4-5-20251001"
PAYMENT = "pi_local_lamp"
PROMPT = f'About {PAYMENT}.\nThe customer wrote: "The lamp came broken"\nApproved refund: 2000 usd (in minor units).'
READ = json.dumps({"id": PAYMENT, "amount": 10000, "currency": "usd", "status": "succeeded", "refunds": []})
TOOLS: list[Any] = [
    {"name": name, "description": name, "input_schema": {"type": "object"}} for name in ("get_payment", "issue_refund")
]


@pytest.fixture(scope="module")
def running() -> Iterator[AnthropicStandIn]:
    """One process for the whole module."""
    with AnthropicStandIn() as standin:
        yield standin


@pytest.fixture
def standin(running: AnthropicStandIn) -> AnthropicStandIn:
    """The stand-in, behaving normally."""
    running.reset()
    return running


@pytest.fixture
def sdk(standin: AnthropicStandIn) -> Iterator[anthropic.Anthropic]:
    """The real SDK without retries."""
    with _sdk(standin) as client:
        yield client


def _sdk(standin: AnthropicControl, api_key: str = LOCAL_API_KEY, max_retries: int = 0) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=api_key, base_url=standin.base_url, max_retries=max_retries, timeout=20)


def _create(sdk: anthropic.Anthropic, messages: list[Any], **options: Any) -> Message:
    message = sdk.messages.create(model=MODEL, max_tokens=500, messages=messages, tools=TOOLS, **options)
    assert isinstance(message, Message)
    return message


def _answered(message: Message, text: str, **extra: Any) -> list[Any]:
    """The turns that answer each tool use of `message` with `text`."""
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": text, **extra}
        for block in message.content
        if block.type == "tool_use"
    ]
    return [message.to_param(), {"role": "user", "content": results}]


def _to_decision(sdk: anthropic.Anthropic) -> list[Any]:
    """The conversation up to where the payment was read."""
    start: list[Any] = [{"role": "user", "content": PROMPT}]
    return [*start, *_answered(_create(sdk, start), READ)]


def _tool_uses(message: Message) -> list[tuple[str, dict[str, object]]]:
    return [(block.name, block.input) for block in message.content if block.type == "tool_use"]


def _words(message: Message) -> str:
    return " ".join(block.text for block in message.content if block.type == "text")


def _post(standin: AnthropicStandIn, headers: dict[str, str], body: object) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(standin.base_url).netloc, timeout=20)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", "/v1/messages", raw, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer, {name.lower(): value for name, value in response.getheaders()}


GOOD_HEADERS = {"authorization": f"Bearer {LOCAL_API_KEY}", "anthropic-version": "2026-10-21"}


def test_the_model_reads_then_asks_then_ends(sdk: anthropic.Anthropic) -> None:
    """A normal conversation is get_payment, one issue_refund as approved, and a closing text."""
    start: list[Any] = [{"role": "user", "content": PROMPT}]
    first = _create(sdk, start)
    assert (first.stop_reason, _tool_uses(first)) == ("tool_use", [("get_payment", {"payment": PAYMENT})])

    read = [*start, *_answered(first, READ)]
    second = _create(sdk, read)
    [(name, arguments)] = _tool_uses(second)
    explanation = arguments.pop("explanation")
    assert second.stop_reason == "tool_use"
    assert name == "issue_refund"
    assert arguments == {
        "amount_minor": 2000,
        "currency": "usd",
        "payment": PAYMENT,
        "reason": "requested_by_customer",
    }
    assert "The lamp came broken" in str(explanation)

    last = _create(sdk, [*read, *_answered(second, '{"status": "succeeded"}')])
    assert (last.stop_reason, _tool_uses(last)) == ("end_turn", [])
    assert "status succeeded" in _words(last)


def test_the_words_say_what_was_read_and_why(sdk: anthropic.Anthropic) -> None:
    """The deciding text holds the payment's state, the complaint and the approved amount."""
    words = _words(_create(sdk, _to_decision(sdk)))
    read = (PAYMENT, "amount 10000", "status succeeded", "number of refunds 0")
    why = ("The lamp came broken", "2000 usd")
    assert [part for part in (*read, *why) if part not in words] == []


def test_a_failed_read_ends_without_a_refund(sdk: anthropic.Anthropic) -> None:
    """Told that the payment can't be read, the model asks for nothing."""
    start: list[Any] = [{"role": "user", "content": PROMPT}]
    message = _create(sdk, [*start, *_answered(_create(sdk, start), "connection lost", is_error=True)])
    assert (message.stop_reason, _tool_uses(message)) == ("end_turn", [])


def test_without_tools_the_model_only_talks(sdk: anthropic.Anthropic) -> None:
    """A request without the two tools is answered with text."""
    message = sdk.messages.create(model=MODEL, max_tokens=50, messages=[{"role": "user", "content": "Hello"}])
    assert (message.stop_reason, _tool_uses(message)) == ("end_turn", [])


def _wordings(seed: int) -> list[str]:
    with AnthropicStandIn(seed=seed) as standin, _sdk(standin) as sdk:
        read = _to_decision(sdk)
        return [_words(_create(sdk, read)) for _ in range(6)]


def test_wording_varies_with_the_seed_and_from_answer_to_answer() -> None:
    """Asked again, the model words the same decision otherwise; a seed repeats a whole run."""
    first = _wordings(1)
    assert len(set(first)) > 1
    assert _wordings(1) == first
    assert _wordings(2) != first


def test_ids_are_never_repeated(sdk: anthropic.Anthropic) -> None:
    """Message ids and tool use ids are new in every answer to the same request."""
    messages = [_create(sdk, _to_decision(sdk)) for _ in range(4)]
    ids = [message.id for message in messages]
    ids += [block.id for message in messages for block in message.content if block.type == "tool_use"]
    assert len(set(ids)) == len(ids) == 8


def test_streamed_events_come_in_the_documented_order(sdk: anthropic.Anthropic) -> None:
    """A streamed answer has each block's start, deltas and stop between message_start and message_delta."""
    with sdk.messages.create(model=MODEL, max_tokens=500, messages=_to_decision(sdk), tools=TOOLS, stream=True) as stream:
        kinds = [event.type for event in stream]
    shape = [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert shape == ["message_start", *block, *block, "message_delta", "message_stop"]


def test_a_streamed_answer_is_the_same_message(sdk: anthropic.Anthropic) -> None:
    """The SDK puts a stream together to the arguments that the JSON answer has."""
    read = _to_decision(sdk)
    with sdk.messages.stream(model=MODEL, max_tokens=500, messages=read, tools=TOOLS) as stream:
        message = stream.get_final_message()
    [(name, arguments)] = _tool_uses(message)
    assert (message.stop_reason, name, arguments["amount_minor"]) == ("tool_use", "issue_refund", 2000)
    assert stream.response.headers["x-standin"] == "local"


def test_ask_too_much_is_above_the_approved_amount(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`ask_too_much` asks for more than was approved, and for the right payment."""
    standin.behave("ask_too_much")
    [(_, arguments)] = _tool_uses(_create(sdk, _to_decision(sdk)))
    amount = arguments["amount_minor"]
    assert isinstance(amount, int)
    assert amount > 2000
    assert arguments["payment"] == PAYMENT


def test_twice_asks_again_after_the_first_refund_was_answered(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`twice` makes two calls, one after the other, and then ends."""
    standin.behave("twice")
    talk = _to_decision(sdk)
    asked = []
    while (message := _create(sdk, talk)).stop_reason == "tool_use":
        asked += _tool_uses(message)
        talk += _answered(message, '{"status": "succeeded"}')
    assert [(name, arguments["amount_minor"]) for name, arguments in asked] == [("issue_refund", 2000)] * 2


def test_parallel_twice_is_one_answer_with_two_identical_uses(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`parallel_twice` passes the SDK as two blocks with different ids, in spite of disable_parallel_tool_use."""
    standin.behave("parallel_twice")
    one_only = {"type": "auto", "disable_parallel_tool_use": True}
    message = _create(sdk, _to_decision(sdk), tool_choice=one_only)
    first, second = _tool_uses(message)
    assert first == second
    assert len({block.id for block in message.content if block.type == "tool_use"}) == 2


def test_parallel_different_asks_for_two_amounts(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`parallel_different` holds two refunds that are not the same."""
    standin.behave("parallel_different")
    first, second = _tool_uses(_create(sdk, _to_decision(sdk)))
    assert first != second


def test_other_payment_is_not_the_one_of_the_case(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`other_payment` asks for the right amount on a payment that nobody named."""
    standin.behave("other_payment")
    [(_, arguments)] = _tool_uses(_create(sdk, _to_decision(sdk)))
    assert arguments["payment"] != PAYMENT
    assert arguments["amount_minor"] == 2000


def test_reworded_is_the_same_request_in_other_words(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`reworded` changes the explanation and the order of the arguments, and nothing that is asked for."""
    read = _to_decision(sdk)
    [(_, plain)] = _tool_uses(_create(sdk, read))
    standin.behave("reworded")
    [(_, reworded)] = _tool_uses(_create(sdk, read))
    assert list(reworded) == list(reversed(plain))
    assert reworded.pop("explanation") != plain.pop("explanation")
    assert reworded == plain


def test_a_cut_stream_raises_nothing_and_shows_a_smaller_amount(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """A clean end of file amid the arguments reads as a refund of 20 with no stop reason."""
    standin.behave("cut_stream")
    with sdk.messages.stream(model=MODEL, max_tokens=500, messages=_to_decision(sdk), tools=TOOLS) as stream:
        message = stream.get_final_message()
    assert message.stop_reason is None
    assert _tool_uses(message) == [("issue_refund", {"amount_minor": 20})]


def test_a_cut_json_answer_does_not_parse(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """Without streaming, the cut answer is half a document."""
    read = _to_decision(sdk)
    standin.behave("cut_stream")
    with pytest.raises((anthropic.APIError, ValueError)):
        _create(sdk, read)


def test_an_error_event_breaks_off_a_stream(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """A mid-stream error event is raised as a status error, though the status was 200."""
    standin.behave("stream_error")
    read = _to_decision(sdk)
    with (
        pytest.raises(anthropic.APIStatusError) as caught,
        sdk.messages.stream(model=MODEL, max_tokens=500, messages=read, tools=TOOLS) as stream,
    ):
        stream.until_done()
    assert caught.value.status_code == 200


def test_max_tokens_leaves_half_written_arguments(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`max_tokens` stops inside the amount, as JSON and as a stream."""
    standin.behave("max_tokens")
    read = _to_decision(sdk)
    with sdk.messages.stream(model=MODEL, max_tokens=500, messages=read, tools=TOOLS) as stream:
        streamed = stream.get_final_message()
    for message in (_create(sdk, read), streamed):
        assert message.stop_reason == "max_tokens"
        assert _tool_uses(message) == [("issue_refund", {"amount_minor": 20})]


def test_a_refusal_asks_for_nothing(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """`refusal` is a stop reason of its own, with its details."""
    standin.behave("refusal")
    message = _create(sdk, _to_decision(sdk))
    assert (message.stop_reason, _tool_uses(message)) == ("refusal", [])
    assert message.stop_details is not None


def test_overload_and_rate_limit_are_the_documented_errors(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """529 and 429 carry their types, and the rate limit its retry-after."""
    standin.behave("overloaded_529")
    with pytest.raises(anthropic.APIStatusError) as overloaded:
        _create(sdk, [{"role": "user", "content": PROMPT}])
    standin.behave("rate_limit_429", retry_after_s=7)
    with pytest.raises(anthropic.RateLimitError) as limited:
        _create(sdk, [{"role": "user", "content": PROMPT}])
    assert overloaded.value.status_code == 529
    assert isinstance(overloaded.value.body, dict)
    assert overloaded.value.body["error"]["type"] == "overloaded_error"
    assert limited.value.response.headers["retry-after"] == "7"


def test_an_outage_of_two_requests_is_over_for_the_third(standin: AnthropicStandIn) -> None:
    """`times` counts the answers that it changed; the SDK's retries get through, and the log shows them."""
    before = len(standin.requests())
    standin.behave("rate_limit_429", times=2, retry_after_s=0.01)
    with _sdk(standin, max_retries=2) as sdk:
        message = _create(sdk, [{"role": "user", "content": PROMPT}])
    assert message.stop_reason == "tool_use"
    seen = [(request["status"], request["retry_count"]) for request in standin.requests()[before:]]
    assert seen == [(429, "0"), (429, "1"), (200, "2")]


def test_a_behaviour_can_be_for_one_payment(standin: AnthropicStandIn, sdk: anthropic.Anthropic) -> None:
    """Cases that share a stand-in do not meet each other's behaviour."""
    standin.behave("refusal", payment="pi_local_somebody_else")
    assert _create(sdk, _to_decision(sdk)).stop_reason == "tool_use"
    standin.behave("refusal", payment=PAYMENT)
    assert _create(sdk, _to_decision(sdk)).stop_reason == "refusal"


def test_a_behaviour_can_be_for_one_request(sdk: anthropic.Anthropic) -> None:
    """The header x-standin-behaviour switches a single request."""
    read = _to_decision(sdk)
    assert _create(sdk, read, extra_headers={"x-standin-behaviour": "refusal"}).stop_reason == "refusal"
    assert _create(sdk, read).stop_reason == "tool_use"


def test_an_unknown_behaviour_is_refused(standin: AnthropicStandIn) -> None:
    """A misspelt behaviour is an error, and never a silent normal."""
    with pytest.raises(ValueError, match="ask_too_much"):
        standin.behave("ask_to_much")


@pytest.mark.parametrize("name", ["authorization", "x-api-key"])
def test_a_key_that_does_not_look_local_is_refused_and_forgotten(standin: AnthropicStandIn, name: str) -> None:
    """A key that may be real gets 401, and stands in no answer and in no log."""
    key = "sk-ant-" + "api03-fake-for-this-test"
    value = f"Bearer {key}" if name == "authorization" else key
    status, answer, _ = _post(standin, {name: value, "anthropic-version": "2026-10-21"}, {})
    assert (status, answer["error"]["type"]) == (401, "authentication_error")
    assert key not in json.dumps(answer)
    assert key not in json.dumps(standin.requests())


def test_the_sdk_sees_an_authentication_error(standin: AnthropicStandIn) -> None:
    """The SDK maps the 401 to its own class."""
    with _sdk(standin, api_key="not-a-local-key") as sdk, pytest.raises(anthropic.AuthenticationError):
        _create(sdk, [{"role": "user", "content": PROMPT}])


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _body(**changes: Any) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 50, "messages": [{"role": "user", "content": PROMPT}]} | changes


ASKED = [
    {"role": "user", "content": PROMPT},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_payment", "input": {}}]},
]
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "{}"}
TEXT = {"type": "text", "text": "Well?"}


@pytest.mark.parametrize(
    ("headers", "body", "status", "kind"),
    [
        ({"anthropic-version": "2026-10-21"}, _body(), 401, "authentication_error"),
        ({"authorization": f"Bearer {LOCAL_API_KEY}"}, _body(), 400, "invalid_request_error"),
        (GOOD_HEADERS, b"{", 400, "invalid_request_error"),
        (GOOD_HEADERS, [], 400, "invalid_request_error"),
        (GOOD_HEADERS, {"model": MODEL}, 400, "invalid_request_error"),
        (GOOD_HEADERS, _body(max_tokens=0), 400, "invalid_request_error"),
        (GOOD_HEADERS, _body(model="gpt-local"), 404, "not_found_error"),
        (GOOD_HEADERS, _body(messages=[]), 400, "invalid_request_error"),
        (GOOD_HEADERS, _body(messages=[{"role": "system", "content": "x"}]), 400, "invalid_request_error"),
        (GOOD_HEADERS, _body(messages=ASKED), 400, "invalid_request_error"),
        (GOOD_HEADERS, _body(messages=[*ASKED, _user("Well?")]), 400, "invalid_request_error"),
        (
            GOOD_HEADERS,
            _body(messages=[*ASKED, _user([TEXT, RESULT])]),
            400,
            "invalid_request_error",
        ),
        (GOOD_HEADERS, _body(messages=[_user([TEXT | {"x": 1}])]), 400, "invalid_request_error"),
        (GOOD_HEADERS | {"x-standin-behaviour": "nonsense"}, _body(), 400, "invalid_request_error"),
    ],
)
def test_a_wrong_request_gets_the_documented_error(
    standin: AnthropicStandIn, headers: dict[str, str], body: object, status: int, kind: str
) -> None:
    """Missing headers and malformed bodies are refused in the API's shape, and marked as local."""
    got, answer, answered = _post(standin, headers, body)
    assert (got, answer["type"], answer["error"]["type"]) == (status, "error", kind)
    assert answer["request_id"] == answered["request-id"]
    assert answered["x-standin"] == "local"


def test_results_before_text_are_taken(standin: AnthropicStandIn) -> None:
    """The tool's results first and then words is a right request."""
    status, _, _ = _post(standin, GOOD_HEADERS, _body(messages=[*ASKED, _user([RESULT, TEXT])]))
    assert status == 200


def test_attached_clients_share_the_stand_in(standin: AnthropicStandIn) -> None:
    """Another process's client switches the same stand-in, and does not end it."""
    AnthropicStandIn.attach(standin.handshake).behave("refusal")
    with _sdk(standin) as sdk:
        assert _create(sdk, _to_decision(sdk)).stop_reason == "refusal"


def test_it_listens_on_loopback_only(standin: AnthropicStandIn) -> None:
    """Both addresses are on 127.0.0.1."""
    assert {urlsplit(url).hostname for url in (standin.base_url, standin.control_url)} == {"127.0.0.1"}


def _wait_until_closed(url: str) -> None:
    """Return once nothing listens at `url` any more; the test's time limit bounds the wait."""
    address = urlsplit(url)
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((address.hostname, address.port)) != 0:
                return
        time.sleep(0.05)


def test_leaving_the_context_ends_the_process() -> None:
    """Nothing is left behind by a client that ends its stand-in."""
    with AnthropicStandIn() as standin:
        url = standin.base_url
    _wait_until_closed(url)


PARENT = """
    import os, sys, threading, time
    from harness.standins.anthropic.client import AnthropicStandIn
    started = []
    starter = threading.Thread(target=lambda: started.append(AnthropicStandIn()))
    starter.start()
    starter.join()
    print(started[0].handshake, flush=True)
    if sys.argv[1] == "fork" and (child := os.fork()) == 0:
        time.sleep(600)
        os._exit(0)
    print(child if sys.argv[1] == "fork" else 0, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("how", ["plain", "fork"])
def test_it_dies_with_a_killed_parent(how: str) -> None:
    """SIGKILL of the parent ends the stand-in, also where a forked sibling holds its pipe open.

    The thread that started it has ended long before, and that alone does not end it.
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PARENT), how], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        standin, sibling = AnthropicStandIn.attach(parent.stdout.readline()), int(parent.stdout.readline())
        try:
            with _sdk(standin) as sdk:
                assert _create(sdk, [{"role": "user", "content": PROMPT}]).stop_reason == "tool_use"
            parent.kill()
            _wait_until_closed(standin.base_url)
        finally:
            if sibling:
                os.kill(sibling, signal.SIGKILL)
