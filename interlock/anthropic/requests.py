"""What a conversation asks of the outside: the model, the gate, the reading tools, and time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.anthropic.asking import Answer
from interlock.anthropic.tools import ApprovedAction, ReadingTool, ToolInput
from interlock.approvals import ApprovalView
from interlock.domain.effects import Effect
from interlock.domain.premises import Premise
from interlock.domain.requests import Request
from interlock.outcomes import Outcome, Report


@dataclass(frozen=True, slots=True)
class Ask(Request[Answer]):
    """Ask the model once.

    Args:
        body: the arguments of the SDK's call.
        stream: whether to have the answer streamed.
        silence_s: for how long nothing may come, in seconds.
        until_s: when to give up, on the clock of `elapsing_s`.
    """

    body: Mapping[str, Any]
    stream: bool
    silence_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Observe(Request[Premise]):
    """Read what the model wants to see."""

    tool: ReadingTool[Any]
    asked: ToolInput


@dataclass(frozen=True, slots=True)
class Fire(Request[Outcome]):
    """Carry out what the model asked for."""

    action: ApprovedAction
    effect: Effect[Any]
    premises: tuple[Premise, ...]
    decision: Mapping[str, Any]
    wait_s: float


@dataclass(frozen=True, slots=True)
class Recover(Request[Report]):
    """Bring an action that is recorded to its end."""

    key: str


@dataclass(frozen=True, slots=True)
class ReadApproval(Request[ApprovalView]):
    """Read how an approval in the journal stands."""

    approval_id: str


@dataclass(frozen=True, slots=True)
class Pause(Request[None]):
    """Wait for so many seconds."""

    seconds: float
