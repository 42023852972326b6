"""What a gate's operations ask of the outside, beside what the protocol asks (`domain.requests`)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from interlock.domain.action import GatedAction
from interlock.domain.approvals import Approval
from interlock.domain.picking import Survey
from interlock.domain.requests import AppendAnswer, Request
from interlock.infrastructure.recording import SummaryFilter


@dataclass(frozen=True, slots=True)
class AppendApproval(Request[AppendAnswer]):
    """Write an approval's pending events."""

    approval: Approval


@dataclass(frozen=True, slots=True)
class FindPage(Request[list[UUID]]):
    """The ids of the next actions that fulfil the conditions, oldest first."""

    conditions: SummaryFilter
    limit: int
    after: UUID | None = None


@dataclass(frozen=True, slots=True)
class SurveyFlight(Request[Survey]):
    """What is in flight, and which of the holders are gone: one question for each holder, and not for each action."""


@dataclass(frozen=True, slots=True)
class ForgetStates(Request[GatedAction.Erased]):
    """Forget what the events of an erased action say, and return what is left."""

    action_id: UUID


@dataclass(frozen=True, slots=True)
class ForgetApproval(Request[None]):
    """Forget what the events of an erased approval say."""

    approval_id: str


@dataclass(frozen=True, slots=True)
class GivePositions(Request[None]):
    """Give the events that were committed since the last time their positions in the log."""


@dataclass(frozen=True, slots=True)
class LetGo(Request[None]):
    """Be at work on nothing any more. What comes next, another run of this gate may go on with instead."""


@dataclass(frozen=True, slots=True)
class Pause(Request[bool]):
    """Wait for so many seconds, and say whether the gate was closed meanwhile."""

    seconds: float
