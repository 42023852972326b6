"""Tools as the model is told about them, arguments as they are held against them, and the SDK's errors as ours."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

import anthropic
import httpx2
import pytest
from msgspec import Meta

from interlock import Effect, ExternalApproval, Money, Premise
from interlock.anthropic import ActingTool, Agent, ApprovedAction, Limits, ReadingTool, ToolInput
from interlock.anthropic.asking import _translated
from interlock.anthropic.tools import WrongArguments
from interlock.errors import InvalidConfiguration, InvalidInput, InvalidKey, ModelError, ModelRequestRefused, ModelUnavailable


class Reason(ToolInput):
    """Why, in a part of its own."""

    code: Literal["broken", "late"]


class Asked(ToolInput):
    """What the tool takes."""

    payment: str
    amount_minor: Annotated[int, Meta(ge=1, description="In minor units")]
    reason: Reason | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Parameters:
    """An effect's parameters."""

    amount_minor: int


def _effect(amount_minor: int = 2000, subject: str = "pi_1") -> Effect[Parameters]:
    return Effect("store", subject, Parameters(amount_minor), Money(amount_minor, "usd"))


def _observe(_asked: Asked) -> Premise:
    raise AssertionError("nothing is read here")


TOOL = ActingTool("act", "Acts.", Asked, lambda asked: _effect(asked.amount_minor))


def test_the_schema_is_made_of_the_type() -> None:
    """Bounds, words, nested parts and what is required are in it, and nothing else is let in."""
    told: Any = TOOL.as_param()
    schema: Any = told["input_schema"]
    assert (told["name"], told["description"], schema["type"]) == ("act", "Acts.", "object")
    assert schema["properties"]["amount_minor"] == {"type": "integer", "minimum": 1, "description": "In minor units"}
    assert (schema["required"], schema["additionalProperties"]) == (["payment", "amount_minor"], False)
    assert schema["$defs"]["Reason"]["properties"]["code"] == {"enum": ["broken", "late"]}


def test_whole_arguments_are_taken() -> None:
    """They come as the type."""
    assert TOOL.parse('{"payment": "pi_1", "amount_minor": 20, "reason": {"code": "late"}}') == Asked("pi_1", 20, Reason("late"))


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "[]",
        "null",
        '{"payment": "pi_1", "amount_minor": 20',
        '{"payment": "pi_1"}',
        '{"payment": "pi_1", "amount_minor": 20.0}',
        '{"payment": "pi_1", "amount_minor": 2e1}',
        '{"payment": "pi_1", "amount_minor": "20"}',
        '{"payment": "pi_1", "amount_minor": true}',
        '{"payment": "pi_1", "amount_minor": NaN}',
        '{"payment": "pi_1", "amount_minor": 0}',
        '{"payment": "pi_1", "amount_minor": 20, "share": 1e400}',
        '{"payment": "pi_1", "amount_minor": 20, "amount_minor": 2000}',
        '{"payment": "pi_1", "amount_minor": 20, "reason": {"code": "late", "code": "broken"}}',
        '{"payment": "pi_1", "amount_minor": 20, "force": true}',
        '{"payment": "pi_1", "amount_minor": 20, "reason": {"code": "other"}}',
        '{"payment": "pi_1", "amount_minor": ' + "9" * 5000 + "}",
        '{"reason": ' + "[" * 100_000 + "}",
    ],
)
def test_other_arguments_are_not(arguments: str) -> None:
    """Neither cut ones, nor of another type, nor out of bounds, nor with a name twice, nor with one too many."""
    with pytest.raises(WrongArguments):
        TOOL.parse(arguments)


def test_what_is_wrong_with_arguments_does_not_repeat_them() -> None:
    """A card number that a model wrote where an amount belongs goes no further."""
    with pytest.raises(WrongArguments) as caught:
        TOOL.parse('{"payment": "pi_1", "amount_minor": "4242424242424242"}')
    assert "4242" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "issue refund", "x" * 65, "naïve"])
def test_a_name_that_the_service_does_not_take_is_refused(name: str) -> None:
    """Where the tool is declared, and not at the first conversation."""
    with pytest.raises(InvalidConfiguration):
        ReadingTool(name, "Reads.", Asked, _observe)


def test_an_input_that_lets_unknown_fields_in_is_refused() -> None:
    """Only a ToolInput forbids them."""
    with pytest.raises(InvalidConfiguration):
        ReadingTool("read", "Reads.", cast("Any", Parameters), _observe)


def test_an_agent_needs_tools_with_names_of_their_own() -> None:
    """None, or two of one name, is a mistake of the host."""
    for tools in ([], [TOOL, TOOL]):
        with pytest.raises(InvalidConfiguration):
            Agent(cast("Any", None), cast("Any", None), model="claude-local", tools=tools)


@pytest.mark.parametrize("figure", [{"turns": -1}, {"retries": -1}, {"duration_s": float("nan")}])
def test_a_limit_limits(figure: dict[str, Any]) -> None:
    """Less than nothing, or no number, would let a conversation go on for ever."""
    with pytest.raises(InvalidConfiguration, match=next(iter(figure))):
        Limits(**figure)


def test_what_is_approved_belongs_to_an_acting_tool() -> None:
    """A misspelt name is found before the model is asked."""
    agent = Agent(cast("Any", None), cast("Any", None), model="claude-local", tools=[TOOL])
    with pytest.raises(InvalidInput, match="'acts'"):
        agent.run("…", approved={"acts": ApprovedAction(key="k", approval="case-1", subject="pi_1")})


def test_an_approved_action_is_of_one_kind() -> None:
    """Either exactly one effect, or one subject; and a key that can name an action."""
    with pytest.raises(InvalidInput):
        ApprovedAction(key="k", approval="case-1")
    with pytest.raises(InvalidInput):
        ApprovedAction(key="k", approval="case-1", subject="pi_1", effect=_effect())
    with pytest.raises(InvalidKey):
        ApprovedAction(key=" ", approval="case-1", subject="pi_1")
    assert ApprovedAction(key="k", approval=ExternalApproval("cases", "case-1"), subject="pi_1").approval_id == "case-1"


def test_what_was_asked_for_is_held_against_what_was_approved() -> None:
    """To the cent where the effect is given, by its subject where that is."""
    exactly = ApprovedAction(key="k", approval="case-1", effect=_effect())
    assert exactly.misfit(_effect()) is None
    assert exactly.misfit(_effect(1999))
    assert exactly.misfit(_effect(subject="pi_2"))
    on_one = ApprovedAction(key="k", approval="case-1", subject="pi_1")
    assert on_one.misfit(_effect(1)) is None
    assert on_one.misfit(_effect(subject="pi_2"))


# --- the SDK's errors

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/messages")
AGAIN = {200, 408, 409, 429, 500, 501, 503, 504, 529}


def _status_errors() -> list[type[anthropic.APIStatusError]]:
    kinds = (kind for _, kind in inspect.getmembers(anthropic, inspect.isclass))
    return [kind for kind in kinds if issubclass(kind, anthropic.APIStatusError)]


def _raised(error: Exception) -> ModelError:
    with pytest.raises(ModelError) as caught, _translated():
        raise error
    return caught.value


def _of(status: int, headers: dict[str, str] | None = None) -> anthropic.APIStatusError:
    response = httpx2.Response(status, request=REQUEST, headers={"request-id": "req_1", **(headers or {})})
    return anthropic.APIStatusError("a customer's words", response=response, body={"error": {"type": "some_error"}})


@pytest.mark.parametrize("kind", _status_errors(), ids=lambda kind: kind.__name__)
def test_every_status_of_the_sdk_is_one_of_two_errors(kind: type[anthropic.APIStatusError]) -> None:
    """What may be different the next time is unavailable, and what has to be corrected first is refused."""
    status = getattr(kind, "status_code", None)
    for code in (status,) if isinstance(status, int) else (200, 400, 401, 403, 404, 413, 429, 500, 529):
        response = httpx2.Response(code, request=REQUEST)
        expected = ModelUnavailable if code in AGAIN or code >= 500 else ModelRequestRefused
        assert type(_raised(kind("", response=response, body=None))) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (anthropic.APIConnectionError(request=REQUEST), ModelUnavailable),
        (anthropic.APITimeoutError(REQUEST), ModelUnavailable),
        (anthropic.CredentialsError("no key"), ModelRequestRefused),
        (httpx2.ReadError("reset"), ModelUnavailable),
        (AssertionError(), ModelUnavailable),
        (ValueError("half a message"), ModelUnavailable),
    ],
)
def test_whatever_else_goes_wrong_is_one_of_them_too(error: Exception, expected: type[ModelError]) -> None:
    """Asking has no effect but an answer, so a broken connection means nothing else."""
    assert type(_raised(error)) is expected


def test_a_call_that_is_wrong_is_no_outage() -> None:
    """A TypeError of the SDK, such as without any key, is the host's, and asking again does not help."""
    with pytest.raises(TypeError), _translated():
        raise TypeError("no authentication method")


def test_the_service_says_whether_and_when_to_ask_again() -> None:
    """x-should-retry goes before the status, and retry-after is passed on."""
    assert type(_raised(_of(400, {"x-should-retry": "true"}))) is ModelUnavailable
    assert type(_raised(_of(429, {"x-should-retry": "false"}))) is ModelRequestRefused
    assert _raised(_of(429, {"retry-after": "7"})).retry_after_s == 7
    assert _raised(_of(429, {"retry-after": "-7"})).retry_after_s == 0
    assert _raised(_of(429, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"})).retry_after_s is None


def test_an_error_has_what_support_asks_for_and_no_words_of_the_service() -> None:
    """Status, type and request id are kept; what the service said may repeat the conversation, and is not."""
    error = _raised(_of(413))
    assert (error.status, error.request_id) == (413, "req_1")
    assert "413 some_error" in str(error)
    assert "customer" not in str(error)
