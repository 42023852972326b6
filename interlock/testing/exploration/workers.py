"""Workers: runs of the real protocol that can be copied, compared and remembered.

A worker is which part of the protocol it runs and the answers that it got; a copy of it is a fresh generator that is given the
same answers. Workers with one canonical form are one worker, and what each does with an answer is found out once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from interlock.domain import protocol
from interlock.domain.action import GatedAction, SendPurpose
from interlock.domain.answers import BurnAnswer, Declined, LookupAnswer, SendAnswer
from interlock.domain.endings import Ended, Pending
from interlock.domain.progress import DECLINED
from interlock.domain.requests import Append, AppendAnswer, NewActionId, Now, ReadPremises, Request, SleepUntil, StillAt
from interlock.domain.sending import Sender
from interlock.errors import InterlockError
from interlock.testing.exploration.canonical import View, begins_afresh, form_of_run
from interlock.testing.exploration.memory import Log, Write
from interlock.testing.exploration.scope import (
    ACTION_ID,
    BAD_READING,
    DRAFT_ID,
    FIRES,
    GOOD_READING,
    INTENT,
    LEAP_TICKS,
    NO_READING,
    SmallProfile,
    instant,
    small_sender,
)

_LIVE_RUNS = 4000
"""How many suspended generators are kept at hand; the others are made again from their answers when they are needed."""
_AGES = SendAnswer | LookupAnswer | BurnAnswer
"""What takes so long that premises which were read before it have to be read again. (So does a sleep, which tells nothing.)"""
_VERSIONS_APART = 1000
"""A version that somebody else wrote is counted from another thousand, so that no two agree by chance."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """An answer that is made anew for each copy: aggregates can be changed by whoever has them."""

    log: Log
    what: str = "action"

    def make(self) -> Any:
        """Return the aggregate."""
        return self.log.load_action() if self.what == "action" else self.log.load_approval()


@dataclass(frozen=True, slots=True)
class Raised:
    """An answer that is an error."""

    error: InterlockError


@dataclass(frozen=True, slots=True)
class History:
    """How a worker came to where it is.

    Args:
        part: which part of the protocol it runs.
        log: the journal as it was loaded at the start.
        answers: what it was answered.
        present: its present tick.
        head: the version of the action that it knows as the latest.
        outdated: whether somebody else has written to the action since.
    """

    part: str
    log: Log | None
    answers: tuple[Any, ...] = ()
    present: int = 0
    head: int = 0
    outdated: bool = False

    @property
    def was_declined(self) -> bool:
        """Whether it was told a no by the provider."""
        return any(isinstance(answer, Declined) for answer in self.answers)

    @property
    def has_read_premises(self) -> bool:
        """Whether it has read the premises since it slept, or last asked the provider for anything (I4)."""
        for answer in reversed(self.answers):
            if answer is None or isinstance(answer, _AGES):
                return False
            if answer in (GOOD_READING, BAD_READING, NO_READING):
                return True
        return False


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: its conclusion, or the error that it raised."""

    conclusion: str

    @property
    def says_not_recorded(self) -> bool:
        """Whether it told its caller that the provider has it and the journal does not."""
        return self.conclusion == "OutcomeNotRecorded"


class Run:
    """A generator of the protocol, suspended at a request or ended."""

    def __init__(self, history: History, sender: Sender) -> None:
        self.end: End | None = None
        self.appended: Append | None = None
        self.request: Request[Any]
        """What it waits for."""
        self.generator = _begun(history, sender)
        self._go_on(lambda: next(self.generator))
        for answer in history.answers:
            self.answer(answer)

    def answer(self, answer: Any) -> None:
        """Give it an answer, as the driver does."""
        request = self.request
        if isinstance(answer, Raised):
            self._go_on(lambda: self.generator.throw(answer.error))
            return
        if isinstance(answer, Loaded):
            answer = answer.make()
        if isinstance(request, Append) and answer is AppendAnswer.APPENDED:
            request.action.collect_events()
            if request.approval is not None:
                request.approval.collect_events()
        self._go_on(lambda: self.generator.send(answer))

    def _go_on(self, step: Callable[[], Request[Any]]) -> None:
        try:
            self.request = step()
        except StopIteration as stop:
            self.end = End(_named(stop.value))
        except InterlockError as error:
            self.end = End(type(error).__name__)


class Workers:
    """All workers that were met so far, by number. Number 0 is an idle one.

    Args:
        profile: what the provider can do.
        premises_are_steady: whether the premises never change, so that reading them can't come too early or too late.
        every_request: whether each request is a step of its own, also where its time makes no difference.
        clock_steps_back: whether the clock may step back, by a tick, once.
        keep: variables that make a difference although nobody reads them again.
    """

    def __init__(
        self,
        profile: SmallProfile,
        *,
        premises_are_steady: bool = True,
        every_request: bool = False,
        clock_steps_back: bool = False,
        keep: frozenset[str] = frozenset(),
    ) -> None:
        self.profile = profile
        self.sender = small_sender(profile)
        self.premises_are_steady = premises_are_steady
        self.every_request = every_request
        self._keep = keep
        self.over = -1 if clock_steps_back else 0
        """How far in the past what is over is taken to be; see View."""
        self.kind = (profile, premises_are_steady, every_request, clock_steps_back, keep)
        """What decides how runs settle, and which are taken for one."""
        self._numbers: dict[Hashable, int] = {"idle": 0}
        self.histories: list[History] = [History("idle", None)]
        self.requests: list[Request[Any] | Write | None] = [None]
        self.ends: list[End | None] = [None]
        self._begin_afresh: list[bool] = [False]
        self.twins: dict[int, History] | None = None
        """Another history of each worker, where one is to be compared with it; nobody keeps any otherwise."""
        self._known: dict[Hashable, int] = {}
        self._live: OrderedDict[int, Run] = OrderedDict()

    def __len__(self) -> int:
        """Return how many different workers were met."""
        return len(self.histories)

    def begin(self, part: str, log: Log | None, log_number: int) -> int:
        """Return the worker that begins a part of the protocol, with the action as the journal has it."""
        key = ("begin", part, log_number)
        if key not in self._known:
            goes_on = log is not None and log.action and part not in FIRES
            seen = log.seen_at(0, _VERSIONS_APART) if log is not None and goes_on else None
            history = History(part, seen, head=_VERSIONS_APART if seen is not None else 0)
            self._known[key] = self._settled(self._number_of(history, Run(history, self.sender)))
        return self._known[key]

    def answered(self, worker: int, answer: Any, key: Hashable = None) -> int:
        """Return what becomes of a worker that gets an answer.

        Args:
            worker: its number.
            answer: the answer; a `Log` where it loads something.
            key: what tells the answer apart, where it can't be hashed.
        """
        known = (worker, key if key is not None else answer)
        if known not in self._known:
            self._known[known] = self._settled(self._answered(worker, answer))
        return self._known[known]

    def later(self, worker: int, ticks: int = 1) -> int:
        """Return the worker when so many ticks have passed, and it has not moved."""
        key = ("later", worker, ticks)
        if key not in self._known:
            self._known[key] = self._settled(self._later_unsettled(worker, ticks))
        return self._known[key]

    def outdated(self, worker: int) -> int:
        """Return the worker when somebody else has written to the action."""
        key = ("outdated", worker)
        if key not in self._known:
            self._known[key] = self._settled(self._seen_with(worker, replace(self.histories[worker], outdated=True)))
        return self._known[key]

    def bereft(self, worker: int) -> int:
        """Return the worker when the other one is dead: what it has read of the other's claim is now of one that is gone."""
        key = ("bereft", worker)
        if key not in self._known:
            self._known[key] = self._settled(self._bereft(worker))
        return self._known[key]

    def are_as_good_as_idle(self, worker: int) -> bool:
        """Whether a worker can do no more than an idle one, now that the action exists.

        It is about to load the action and knows nothing; or it holds a draft, which can't become the action any more.
        """
        return self._begin_afresh[worker] or self.fires(worker) is not None

    def fires(self, worker: int) -> str | None:
        """Return which effect a run fires that knows of no action yet, by its name in FIRES."""
        history = self.histories[worker]
        return history.part if history.part in FIRES and history.head == 0 else None

    def at_latest(self, worker: int, version: int) -> bool:
        """Whether that version, as the worker counts, is the journal's latest."""
        history = self.histories[worker]
        return version == history.head and not history.outdated

    def _answered(self, worker: int, answer: Any) -> int:
        history, request = self.histories[worker], self.requests[worker]
        if isinstance(request, Write) and answer is AppendAnswer.APPENDED and request.is_draft:
            # The draft that won is the action: its id is the action's from the start.
            history = replace(history, answers=tuple(ACTION_ID if each == DRAFT_ID else each for each in history.answers))
            return self._number_of(*self.advanced(history, Run(history, self.sender), answer))
        run = self._live.pop(worker) if worker in self._live else Run(history, self.sender)
        return self._number_of(*self.advanced(history, run, answer))

    def advanced(self, history: History, run: Run, answer: Any) -> tuple[History, Run]:
        """Return the history and the run with one more answer; the run itself goes on."""
        request = _frozen(run.request)
        if isinstance(answer, Log):
            answer, history = self._loaded(run.request, answer, history)
        run.answer(answer)
        if isinstance(request, Write) and answer is AppendAnswer.APPENDED:
            history = replace(history, head=request.action_version + len(request.action_events))
        return replace(history, answers=(*history.answers, answer)), run

    def _loaded(self, request: Request[Any], log: Log, history: History) -> tuple[Any, History]:
        if type(request).__name__ == "LoadApproval":
            return Loaded(log.seen_at(history.present), "approval"), history
        if not log.action:
            return None, history
        moved = history.outdated or history.head == 0
        head = history.head + _VERSIONS_APART if moved else history.head
        return Loaded(log.seen_at(history.present, head)), replace(history, head=head, outdated=False)

    def _bereft(self, worker: int) -> int:
        history, gone = self.histories[worker], {"other": "gone"}
        logs = [history.log, *(each.log for each in history.answers if isinstance(each, Loaded))]
        if self.requests[worker] is None or not any(log.names_holder("other") for log in logs if log is not None):
            return worker
        history = replace(
            history,
            answers=tuple(
                replace(each, log=each.log.with_holders(gone)) if isinstance(each, Loaded) else each for each in history.answers
            ),
            log=history.log.with_holders(gone) if history.log is not None else None,
        )
        return self._number_of(history, Run(history, self.sender))

    def _seen_with(self, worker: int, history: History) -> int:
        """Return the number of the worker at the same request, seen with a history of the same answers."""
        if self.requests[worker] is None:
            return worker
        if worker not in self._live:
            self._keep_at_hand(worker, Run(history, self.sender))
        return self._number_of(history, self._live[worker], at_hand=False)

    def _number_of(self, history: History, run: Run, *, at_hand: bool = True) -> int:
        form: Hashable = run.end
        if run.end is None:
            view = View(self.profile, history.present, history.head, history.outdated, self._keep, self.over)
            form = form_of_run(run.generator, view), self._told_for(run.request, history)
        number = self._numbers.get(form)
        if number is not None:
            if self.twins is not None and history != self.histories[number]:
                self.twins.setdefault(number, history)
            return number  # with the history and the clock of the first that was met
        number = self._numbers[form] = len(self.histories)
        self.histories.append(history)
        self.ends.append(run.end)
        self._begin_afresh.append(run.end is None and begins_afresh(run.generator))
        self.requests.append(_frozen(run.request) if run.end is None else None)
        if at_hand and run.end is None:
            self._keep_at_hand(number, run)
        return number

    def _told_for(self, request: Request[Any], history: History) -> bool | None:
        """Return what a run was told, as far as what it is about to write may be wrong by that, and does not say so itself."""
        match request.action.pending_events if isinstance(request, Append) else ():
            case [*_, GatedAction.Dispatched(purpose=SendPurpose.EXECUTE)]:
                return history.has_read_premises
            case [*_, GatedAction.Refused(code=code)] if code.startswith(DECLINED):
                return history.was_declined
            case [*_, GatedAction.Ambiguous()] if self.profile.send_may_tell:
                return history.was_declined
            case _:
                return None

    def _keep_at_hand(self, worker: int, run: Run) -> None:
        self._live[worker] = run
        if len(self._live) > _LIVE_RUNS:
            self._live.popitem(last=False)

    def _settled(self, worker: int) -> int:
        """Take at once every step that commutes with all that others can do: their order makes no difference."""
        if self.every_request or self.requests[worker] is None:
            return worker
        key = ("settled", worker)
        if key not in self._known:
            after = self._after_certain(worker)
            self._known[key] = after if after == worker else self._settled(after)
        return self._known[key]

    def _after_certain(self, worker: int) -> int:
        """Return the worker after one step that commutes with all that others can do; the worker itself where there is none."""
        request = self.requests[worker]
        if isinstance(request, Now):
            return self._told_the_time(worker) if self._commutes_with_time(worker) else worker
        answer = self._certain_answer(worker, request) if request is not None else None
        return self._answered(worker, *answer) if answer is not None else worker

    def _certain_answer(self, worker: int, request: Request[Any] | Write) -> tuple[Any] | None:
        """Return the only answer that a request can get whenever it is made, in a tuple; None where it depends on others."""
        outdated = self.histories[worker].outdated
        match request:
            case NewActionId():
                return (DRAFT_ID,)
            case SleepUntil():
                return (None,)
            case ReadPremises() if self.premises_are_steady:
                return (GOOD_READING,)
            case StillAt() if outdated:
                return (False,)
            case Write(is_draft=False) if outdated:
                return (AppendAnswer.ACTION_MOVED,)
            case _:
                return None

    def _told_the_time(self, worker: int) -> int:
        return self.answered(worker, instant(self.histories[worker].present), "now")

    def _commutes_with_time(self, worker: int) -> bool:
        key = ("commutes", worker)
        if key not in self._known:
            self._known[key] = 0  # while it is being found out
            self._known[key] = self._asked_at_any_time(worker)
        return bool(self._known[key])

    def _asked_at_any_time(self, worker: int) -> bool:
        """Whether to ask first and wait then comes to the same as to wait first, for one tick, for many, and for 25 hours."""
        if self.over and self._later_unsettled(worker, -1) != worker:
            return False  # whether the clock steps back before or after makes a difference
        asked = self._told_the_time(worker)
        for ticks in (1, LEAP_TICKS):
            waited = self._later_unsettled(worker, ticks)
            if self._told_the_time(waited) != self.later(asked, ticks):
                return False
            if ticks == 1 and waited != worker and not self._commutes_with_time(waited):
                return False
        return True

    def _later_unsettled(self, worker: int, ticks: int) -> int:
        history = self.histories[worker]
        return self._seen_with(worker, replace(history, present=history.present + ticks))


def _frozen(request: Request[Any]) -> Request[Any] | Write:
    return Write.of(request) if isinstance(request, Append) else request


def _begun(history: History, sender: Sender) -> Any:
    if history.part in FIRES:
        return protocol.fire(FIRES[history.part], sender)
    action = history.log.load_action() if history.log is not None else None
    if action is None:
        return protocol.propose(INTENT)
    if history.part == "resolve":
        looks_up = sender.profile.looks_up
        return protocol.resolve(action, happened=False, by="person:3", note="", looks_up=looks_up, despite_roll_forward=False)
    return {"recover": protocol.recover, "reconcile": protocol.reconcile}[history.part](action, sender)


def _named(conclusion: Any) -> str:
    match conclusion:
        case Ended(action):
            return f"Ended {action.status}"
        case Pending(_, reason):
            return f"Pending {reason}"
        case GatedAction():
            return "Intended"
        case _:
            raise TypeError(conclusion)
