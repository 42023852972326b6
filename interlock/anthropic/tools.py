"""What the model is offered: tools that read, tools that act, and what a person approved that they may do."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import msgspec

from interlock.approvals import ApprovalView, ExternalApproval
from interlock.domain.action import require_key
from interlock.domain.effects import Effect
from interlock.domain.premises import Premise
from interlock.errors import InvalidConfiguration, InvalidInput

if TYPE_CHECKING:
    from anthropic.types import ToolParam

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""As docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use has it."""


class ToolInput(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of a tool: derive from it, with a type for each field.

    `Annotated[int, msgspec.Meta(ge=1, description="…")]` adds bounds and words. The JSON schema that the model is shown is made
    of it, and what the model writes is held against it: the service does not. A float is no integer, and an unknown field is
    refused.
    """


I = TypeVar("I", bound=ToolInput)  # noqa: E741 - the input


class WrongArguments(Exception):
    """The model's arguments are not what the tool takes; the text says why, and holds nothing of them."""


class _Tool(Generic[I]):
    """What all tools have: a name, words for the model, and the type of their arguments."""

    def __init__(self, name: str, description: str, input: type[I]) -> None:  # noqa: A002 - the API's own word
        if _NAME.fullmatch(name) is None:
            raise InvalidConfiguration(f"a tool's name is 1 to 64 letters, digits, _ and -, not {name!r}")
        if not issubclass(input, ToolInput):  # pyright: ignore[reportUnnecessaryIsInstance] - not every caller is checked
            raise InvalidConfiguration(f"the input of {name!r} must derive from ToolInput")
        self.name = name
        self.description = description
        self.input = input

    def parse(self, arguments_json: str) -> I:
        """Return the arguments, as far as they have the tool's types.

        Raises:
            WrongArguments: they are no whole JSON, name a field twice, or are not what the schema says.
        """
        try:
            value = json.loads(arguments_json, object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_number)
            return msgspec.convert(value, self.input, strict=True)
        except msgspec.ValidationError as error:
            raise WrongArguments(f"the arguments are not as the schema of {self.name} says: {error}") from None
        except (ValueError, RecursionError):
            raise WrongArguments(f"the arguments of {self.name} are not whole JSON, each field once") from None

    def as_param(self) -> ToolParam:
        """Return the tool as the API is told about it."""
        (reference,), components = msgspec.json.schema_components([self.input])
        name = reference["$ref"].rpartition("/")[2]
        others = {other: schema for other, schema in components.items() if other != name}
        schema: dict[str, object] = {**components[name], **({"$defs": others} if others else {})}
        return {"name": self.name, "description": self.description, "input_schema": schema}


class ReadingTool(_Tool[I]):
    """A tool that shows the model a fact. What it showed is the premise of what the model then asks for.

    Args:
        name: what the model calls it by.
        description: what it is for, to the model.
        input: its arguments.
        observe: reads the fact, such as `lambda asked: stripe.observe(asked.payment)`. It decides what may be read: raise
            `InvalidInput` with words for the model where it may not. Under `AsyncAgent` it may be a coroutine function.

    Raises:
        InvalidConfiguration: a name that the API does not take, or an input that is no `ToolInput`.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input: type[I],  # noqa: A002 - as above
        observe: Callable[[I], Premise | Awaitable[Premise]],
    ) -> None:
        super().__init__(name, description, input)
        self.observe = observe


class ActingTool(_Tool[I]):
    """A tool that acts, through the gate.

    Args:
        name: what the model calls it by.
        description: what it is for, to the model.
        input: its arguments.
        effect: makes of them what is to be done. It sends nothing, and may raise `InvalidInput` with words for the model.
        reads_first: whether the model must have been shown the effect's subject in this conversation. Switch it off only where
            there is nothing to read.

    Raises:
        InvalidConfiguration: as for `ReadingTool`.
    """

    def __init__(
        self,
        name: str,
        description: str,
        input: type[I],  # noqa: A002 - as above
        effect: Callable[[I], Effect[Any]],
        *,
        reads_first: bool = True,
    ) -> None:
        super().__init__(name, description, input)
        self.effect = effect
        self.reads_first = reads_first


AnyTool = ReadingTool[Any] | ActingTool[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedAction:
    """One action that a person approved, and that the model may ask for with one of the tools. Give `effect` or `subject`.

    Args:
        key: the action's key, made from the approval (`f"refund:{approval.id}"`), never from what a model wrote.
        approval: under whose authority.
        effect: exactly what was approved. Whatever else the model asks for is not done.
        subject: what may be acted on, such as the case's payment; anything that the approval covers may be done to it. A cap
            lets a model ask for less: 20 in place of 2000, say.
        supersedes: the key of the refused action that this one carries on.

    Raises:
        InvalidInput: a key that is none; both or neither of effect and subject.
    """

    key: str
    approval: ApprovalView | ExternalApproval | str
    effect: Effect[Any] | None = None
    subject: str | None = None
    supersedes: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be fired, before the model is asked."""
        require_key(self.key)
        if (self.effect is None) == (self.subject is None):
            raise InvalidInput("an approved action has either the exact effect or the subject that may be acted on")

    @property
    def approval_id(self) -> str:
        """The approval's id."""
        return self.approval if isinstance(self.approval, str) else self.approval.id

    def misfit(self, asked: Effect[Any]) -> str | None:
        """Return why what is asked for is not what was approved; None where that is for the gate to say."""
        if self.effect is not None:
            return None if asked == self.effect else "what was asked for is not what was approved"
        return None if asked.subject == self.subject else "that is not what may be acted on in this case"


def in_plain(effect: Effect[Any]) -> Mapping[str, Any]:
    """Return an effect as JSON values, for the model."""
    money = {"amount_minor": effect.money.amount_minor, "currency": effect.money.currency} if effect.money else {}
    return {"target": effect.target, "subject": effect.subject} | money | {"parameters": asdict(effect.parameters)}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name stands twice")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)
