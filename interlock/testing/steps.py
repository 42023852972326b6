"""The steps of a schedule, and those of the gates; what else can happen is in `outside_steps`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, get_type_hints

from interlock.domain import requests
from interlock.testing.instants import Instant, ahead, when
from interlock.testing.stage import MAX_REQUESTS, Stage, endless

AnyStage = Stage[Any, Any]

WORKERS = ("A", "B")
NUMBERS = ("1", "2")
STOPS = ("ReadPremises", "LoadApproval", "FindAction", "LoadAction", "StillAt", "ProbeHolder", "SleepUntil", "Now")
"""The requests that a process can be stopped at, beside those where most is at stake."""


@dataclass(frozen=True, slots=True)
class Place:
    """Right before or right after the next request of a kind.

    Args:
        when: on which side of it.
        request: the name of the request's class in `interlock.domain.requests`.
    """

    when: Literal["before", "after"]
    request: str

    def is_between(self, performed: str, pending: str) -> bool:
        """Return whether it is here.

        Args:
            performed: the request that was performed last.
            pending: the request that is next.
        """
        return self.request == (performed if self.when == "after" else pending)

    def __str__(self) -> str:
        """Return it in plain words."""
        return f"right {self.when} its next {self.request}"

    def __post_init__(self) -> None:
        """Take no request that there is not.

        Raises:
            ValueError: there is no such place.
        """
        request = getattr(requests, str(self.request), None)
        if self.when not in ("before", "after") or not (isinstance(request, type) and issubclass(request, requests.Request)):
            raise ValueError(f"there is no place {self.when!r} a {self.request!r}: name a request of interlock.domain.requests")


Choices = Sequence[Sequence[Any]]
Choose = Callable[[Sequence[Any]], Any]
"""Picks one of several: at random, or as Hypothesis wants it."""


class Step(ABC):
    """One step of a schedule. Its fields are plain, so that its `repr` is the Python that makes it."""

    is_a_fault: ClassVar[bool] = False
    """Whether it arms a fault, and does nothing by itself: a schedule is easier to read with those first."""

    def __post_init__(self) -> None:
        """Take no field for another: a schedule that is written by hand and does nothing would pass.

        Raises:
            TypeError: a field is not of its type.
        """
        for name, kind in _types(type(self)).items():
            if not isinstance(given := getattr(self, name), kind):
                raise TypeError(
                    f"{name} of {type(self).__name__} is given as {given!r}, and not as {getattr(kind, '__name__', kind)}"
                )

    @abstractmethod
    def play(self, stage: AnyStage) -> None:
        """Take the step. One that makes no sense here does nothing, so that any part of a schedule is a schedule."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The step in plain words."""

    @classmethod
    @abstractmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Return what each field may be here, one sequence for each; an empty one means that the step makes no sense here."""

    def counted_as(self, stage: AnyStage) -> str:
        """Return what it counts as among many, in plain words; asked before it is played."""
        del stage
        return self.words

    def matters(self, stage: AnyStage) -> bool:
        """Return whether it can make a difference where the stage stands.

        Most can while an action is open. A fault can wherever it strikes, which is seen later.
        """
        return self.is_a_fault or bool(stage.running()) or any(not action.ended for action in stage.actions())

    def plainer(self) -> Iterator[Step]:
        """Yield this step with one thing less that is special about it."""
        named = {"worker": "A", "action": "1", "until": None, "extra_s": 0, "times": 1}
        for name, plain in named.items():
            if getattr(self, name, plain) != plain:
                step: Any = self
                yield replace(step, **{name: plain})

    @classmethod
    def draw(cls, stage: AnyStage, choose: Choose) -> Self | None:
        """Return a step of this kind that makes sense here; None where there is none."""
        choices = cls.choices(stage)
        return cls(*map(choose, choices)) if all(choices) else None


@lru_cache
def _types(step: type[Step]) -> dict[str, Any]:
    hints = get_type_hints(step)
    return {one.name: hints[one.name] for one in fields(step)}  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] # each step is a dataclass


def _go_on(stage: AnyStage, name: str, until: Place | None) -> None:
    """Let a process perform requests up to a place, or to its end; it performs at least one."""
    worker = stage.worker(name)
    stage.check()
    for _ in range(MAX_REQUESTS):
        if not worker.running:
            stage.judge_error(worker)
            return
        performed = type(worker.step()).__name__
        stage.check()
        if until is not None and until.is_between(performed, type(worker.pending).__name__):
            return
    raise endless(name)


def _places(stage: AnyStage) -> Sequence[Place | None]:
    """Return where a run may be stopped, most often where most is at stake."""
    return _places_with(looks_up=stage.profile.looks_up, burns=stage.profile.burns)


@lru_cache
def _places_with(*, looks_up: bool, burns: bool) -> Sequence[Place | None]:
    reachable = [request for request, has in (("LookUp", looks_up), ("Burn", burns)) if has]
    stops = (*STOPS, *(("Append", "Send", *reachable) * 4))
    whens: tuple[Literal["before", "after"], ...] = ("before", "after")
    return (*[None] * 5, *(Place(when, request) for request in stops for when in whens))


def _up_to(until: Place | None) -> str:
    return f", up to {until}" if until else ""


@dataclass(frozen=True, slots=True)
class Fire(Step):
    """A gate fires an action."""

    worker: str
    action: str = "1"
    until: Place | None = None
    other_effect: bool = False

    def play(self, stage: AnyStage) -> None:
        """Begin, and go on up to the place."""
        if not stage.worker(self.worker).running:
            stage.begin_fire(self.worker, self.action, other_effect=self.other_effect)
            _go_on(stage, self.worker, self.until)

    @property
    def words(self) -> str:
        """The step in plain words."""
        what = "another effect under the key of action" if self.other_effect else "action"
        return f"gate {self.worker} fires {what} {self.action}{_up_to(self.until)}"

    def counted_as(self, stage: AnyStage) -> str:
        """For the first time, again before or after its end, or with another effect."""
        action = stage.action(self.action)
        if action is None:
            return "a gate fires an action"
        if self.other_effect:
            return "a gate fires another effect under a key that is taken"
        return f"a gate fires an action again, {'after' if action.ended else 'before'} its end"

    def matters(self, stage: AnyStage) -> bool:
        """Where the gate is idle."""
        return self.worker not in stage.running()

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any idle gate, an action (rather the first), any place; now and then another effect under a key that is taken."""
        other = stage.setup.other_effect is not None and bool(stage.actions())
        return (_idle(stage), ("1", "1", "1", "1", "2"), _places(stage), (False,) * 9 + (other,))


@dataclass(frozen=True, slots=True)
class Recover(Step):
    """A gate recovers an action."""

    worker: str
    action: str = "1"
    until: Place | None = None

    def play(self, stage: AnyStage) -> None:
        """Begin, and go on up to the place."""
        if not stage.worker(self.worker).running:
            stage.begin_recover(self.worker, self.action)
            _go_on(stage, self.worker, self.until)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"gate {self.worker} recovers action {self.action}{_up_to(self.until)}"

    def counted_as(self, stage: AnyStage) -> str:
        """By the gate that had the action last, or another one."""
        action = stage.action(self.action)
        mine = action is not None and action.claim is not None and action.claim.host == self.worker
        return "the gate that had an action recovers it" if mine else "another gate recovers an action"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any idle gate, any action that has not ended, any place."""
        return (_idle(stage), _in(stage, ended=False), _places(stage))


@dataclass(frozen=True, slots=True)
class Reconcile(Step):
    """A gate asks the provider again about an action that has ended."""

    worker: str
    action: str = "1"

    def play(self, stage: AnyStage) -> None:
        """Ask to the end."""
        if not stage.worker(self.worker).running:
            stage.begin_reconcile(self.worker, self.action)
            _go_on(stage, self.worker, None)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"gate {self.worker} reconciles action {self.action}"

    def counted_as(self, stage: AnyStage) -> str:
        """By the action's end."""
        action = stage.action(self.action)
        return f"a gate reconciles an action that is {action.status if action else 'unknown'}"

    def matters(self, stage: AnyStage) -> bool:
        """Where a lookup could tell."""
        return stage.profile.looks_up and self.worker not in stage.running()

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any idle gate, any action that has ended."""
        return (_idle(stage), _in(stage, ended=True))


@dataclass(frozen=True, slots=True)
class GoOn(Step):
    """A gate that was stopped goes on."""

    worker: str
    until: Place | None = None

    def play(self, stage: AnyStage) -> None:
        """Go on up to the place."""
        if stage.worker(self.worker).running:
            _go_on(stage, self.worker, self.until)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"gate {self.worker} goes on{_up_to(self.until) or ' to its end'}"

    def counted_as(self, stage: AnyStage) -> str:
        """Alone, or while another gate is in the middle of the same action."""
        mine = stage.worker(self.worker)
        beside = [other for name in stage.running() if name != self.worker and (other := stage.worker(name)).key == mine.key]
        return f"a gate goes on{', and another one is in the middle of the same action' if beside else ''}"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any gate that was stopped, any place."""
        return (_busy(stage), _places(stage))


@dataclass(frozen=True, slots=True)
class Crash(Step):
    """A gate's process is killed where it stands."""

    worker: str

    def play(self, stage: AnyStage) -> None:
        """Kill it; another process takes its name."""
        stage.crash(self.worker)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"gate {self.worker} is killed; a new process takes its name"

    def counted_as(self, stage: AnyStage) -> str:
        """By the request that it does not come to."""
        return f"a gate is killed before its {type(stage.worker(self.worker).pending).__name__}"

    def matters(self, stage: AnyStage) -> bool:
        """Where it is in the middle of something."""
        return self.worker in stage.running()

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any gate that was stopped."""
        return (_busy(stage),)


@dataclass(frozen=True, slots=True)
class LoseLock(Step):
    """A gate loses its liveness lock, and lives."""

    worker: str

    def play(self, stage: AnyStage) -> None:
        """Drop it."""
        stage.worker(self.worker).lose_lock()

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"gate {self.worker} loses its liveness lock, and lives"

    def counted_as(self, stage: AnyStage) -> str:
        """Whoever it is."""
        del stage
        return "a gate loses its liveness lock, and lives"

    def matters(self, stage: AnyStage) -> bool:
        """Where it is in the middle of something."""
        return self.worker in stage.running()

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any gate that was stopped."""
        return (_busy(stage),)


@dataclass(frozen=True, slots=True)
class PassTime(Step):
    """Time passes to an instant that matters, or to a second before or after it."""

    to: Instant
    extra_s: int = 0

    def play(self, stage: AnyStage) -> None:
        """Move the world's clock; what is under way happens meanwhile."""
        at = when(stage, self.to)
        if at is not None:
            stage.clock.advance_to(at + timedelta(seconds=self.extra_s))

    @property
    def words(self) -> str:
        """The step in plain words."""
        beside = {-1: "a second before ", 1: "a second past "}.get(self.extra_s, "")
        return f"time passes until {beside}{self.to.value}"

    def counted_as(self, stage: AnyStage) -> str:
        """By the instant, whichever side of it."""
        del stage
        return f"time passes until {self.to.value}"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any instant that is ahead, and sometimes a second beside it."""
        return (ahead(stage), (0, 0, -1, 1))


@dataclass(frozen=True, slots=True)
class StepBack(Step):
    """The clock that the gates read is set back."""

    seconds: int

    def play(self, stage: AnyStage) -> None:
        """Set it back, within what the margin of the key's window allows for."""
        if stage.gate_clock.set_back_s + self.seconds <= _most_behind_s(stage):
            stage.gate_clock.set_back_s += self.seconds

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"the gates' clock steps back by {self.seconds} s"

    def counted_as(self, stage: AnyStage) -> str:
        """By however much."""
        del stage
        return "the gates' clock steps back"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """A little, or more."""
        left = _most_behind_s(stage) - stage.gate_clock.set_back_s
        return ([seconds for seconds in (5, 60) if seconds <= left],)


# --- what makes sense


def _idle(stage: AnyStage) -> list[str]:
    return [name for name in WORKERS if name not in stage.running()]


def _busy(stage: AnyStage) -> list[str]:
    return [name for name in WORKERS if name in stage.running()]


def _in(stage: AnyStage, *, ended: bool) -> list[str]:
    return [n for n in NUMBERS if (action := stage.action(n)) is not None and action.ended is ended]


def _most_behind_s(stage: AnyStage) -> float:
    """How far the gates' clock may fall behind: inside the margin that the target keeps back from its window."""
    return min(300.0, stage.profile.dedupe_margin_s / 2)
