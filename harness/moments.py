"""What happens to a case while it is carried, as it is told to whoever looks on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.case import CaseResult
    from harness.columns.job import Job


@dataclass(frozen=True, slots=True)
class Began:
    """The customer has paid, and a person has approved the refund."""

    job: Job


@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker process was started."""

    pid: int


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker process has ended, or was killed: -9 is SIGKILL."""

    pid: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class MeanwhileOver:
    """What happens while no worker is there has happened."""

    job: Job


@dataclass(frozen=True, slots=True)
class Closed:
    """The case is at its end, and the provider's own record has been read."""

    result: CaseResult


Moment = Began | WorkerStarted | WorkerEnded | MeanwhileOver | Closed
Tell = Callable[[Moment], None]
"""Called on the thread that carries the case, and meanwhile the case stands still: it only notes, and returns."""


def ignore(_: Moment) -> None:
    """Look on at nothing."""
