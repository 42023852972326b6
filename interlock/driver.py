"""The driver: performs what the protocol asks for, and gives back what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from typing import Protocol as Protocols
from uuid import UUID

from interlock.config import GateConfig
from interlock.domain import requests
from interlock.domain.action import GatedAction, Intent
from interlock.domain.answers import BurnAnswer, LookupAnswer, NotSent, SendAnswer
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalState, misfit
from interlock.domain.effects import Effect
from interlock.domain.picking import Survey, locks_to_probe
from interlock.domain.ports import ApprovalSource, AsyncTarget, ExternalTerms, Target
from interlock.domain.premises import Premise, PremisePolicy, PremiseReading, Purpose, judge_premise, unreadable
from interlock.domain.requests import AppendAnswer, Liveness, Protocol, Request
from interlock.domain.sending import CLAIM_MARGIN_S, NOT_SENT_PAUSES_S, TOO_LATE
from interlock.domain.summary import IN_FLIGHT
from interlock.errors import GateClosed
from interlock.infrastructure.clock import Clock, WallDeadline, behind_s, elapsed_by, elapsing_s
from interlock.infrastructure.ids import time_ordered_id
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.locks import Locks
from interlock.infrastructure.recording import SummaryFilter
from interlock.requests import (
    AppendApproval,
    FindPage,
    ForgetApproval,
    ForgetStates,
    GivePositions,
    LetGo,
    Pause,
    SurveyFlight,
)
from interlock.runs import AtWork, ClockReading, Closing, Run, as_present, present_run

R = TypeVar("R")

AnyTarget = Target[Any] | AsyncTarget[Any]

READ_DEADLINE_S = 15.0
"""How long a lookup or a burn may take. A read that is cut off is not known, and tried again."""

_POSITIONS_AT_ONCE, _POSITION_ROUNDS = 1000, 10
"""How many events one transaction gives positions to, and how many such transactions a pass makes at the most."""

CLOSED_WHILE_WAITING = "the gate was closed while an action waited to be sent; recover() goes on with it"


def drive(protocol: Protocol[R], perform: Callable[[Request[Any]], Any]) -> R:
    """Run a protocol to its end; an exception of `perform` is raised inside it, where it may be given a meaning."""
    try:
        request = next(protocol)
        while True:
            try:
                answer = perform(request)
            except Exception as error:  # noqa: BLE001 - it is handed on, not swallowed
                request = protocol.throw(error)
            else:
                request = protocol.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result


@dataclass(frozen=True, slots=True)
class Registry:
    """What recovery finds again by name."""

    targets: Mapping[str, AnyTarget]
    policies: Mapping[str, PremisePolicy]
    approval_sources: Mapping[str, ApprovalSource]


class Anchoring(Protocols):
    """What says whether an event stands under a checkpoint that counts (`log.service.LogService`)."""

    @property
    def anchors(self) -> bool:
        """Whether sends wait for it."""
        ...

    def await_anchor(self, action_id: UUID, version: int, is_closing: Callable[[], bool]) -> str | None:
        """Wait for it, and return None, or why it does not, in words."""
        ...

    def is_anchored(self, action_id: UUID, version: int) -> bool:
        """Say whether it does by now."""
        ...

    @property
    def anchor_wait_s(self) -> float:
        """For how long it is waited for, in seconds."""
        ...

    def why_not(self) -> str:
        """Return, in words, why an event does not stand under a checkpoint."""
        ...

    def start(self) -> None:
        """Begin to sign, where there is a key."""
        ...

    def stop(self) -> None:
        """End it."""
        ...

    def renew_after_fork(self) -> None:
        """Compete for the lead as a process of its own, in a forked child."""
        ...


class Performer:
    """Performs requests for one gate. Threads share it. `Driver` and `AsyncDriver` say who waits for them.

    Args:
        journal: the event store.
        registry: what recovery finds again by name.
        locks: who the gate is.
        clock: where its time comes from.
        config: the gate's figures.
        log: signs the journal; None where nobody of this process does.
    """

    def __init__(
        self,
        journal: Journal,
        registry: Registry,
        locks: Locks,
        clock: Clock,
        config: GateConfig,
        log: Anchoring | None = None,
    ) -> None:
        self.journal = journal
        self.log = log
        self.registry = registry
        self.locks = locks
        self.clock = clock
        self.config = config
        self.closing = Closing()
        self.is_shut = False
        self._shutting = threading.RLock()
        self.at_work = AtWork()
        self._performed_by: Mapping[type[Request[Any]], Callable[[Any], Any]] = {
            requests.Now: self._now,
            requests.NewActionId: self._new_action_id,
            requests.FindAction: self._find_action,
            requests.LoadAction: self._load_action,
            requests.LoadApproval: self._load_approval,
            requests.ReadExternalApproval: self._read_external_approval,
            requests.ReadPremises: self._read_premises,
            requests.Append: self._append,
            requests.StillAt: self._still_at,
            requests.Anchor: self._anchor,
            requests.ProbeHolder: self._probe_holder,
            requests.Send: self._send,
            requests.LookUp: self._look_up,
            requests.Burn: self._burn,
            requests.SleepUntil: self._sleep_until,
            AppendApproval: self._append_approval,
            FindPage: self._find_page,
            SurveyFlight: self._survey_flight,
            ForgetApproval: self._forget_approval,
            ForgetStates: self._forget_states,
            GivePositions: self._give_positions,
            LetGo: self._let_go,
            Pause: self._pause,
        }

    @property
    def patience_s(self) -> float:
        """For how long a send may still be at work, in seconds."""
        longest_s = max((target.capabilities.send_deadline_s for target in self.registry.targets.values()), default=0.0)
        return longest_s + CLAIM_MARGIN_S

    def stop(self) -> None:
        """Let nothing that waits go on."""
        self.closing.set()

    def shut(self) -> None:
        """Give the lock back and close the journal. Shutting twice does nothing."""
        self.stop()
        with self._shutting:  # a descriptor that two threads close may be somebody else's by the second time
            if self.log is not None:
                self.log.stop()
            self.locks.release()
            self.journal.close()
            self.is_shut = True

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child."""
        self.locks.renew_after_fork()
        if self.log is not None:
            self.log.renew_after_fork()
        self.closing = Closing()
        self._shutting = threading.RLock()
        self.at_work = AtWork()

    def perform(self, request: Request[Any]) -> Any:
        """Do what the request says, and return its answer."""
        return self._performed_by[type(request)](request)

    def _now(self, request: requests.Now) -> datetime:
        del request
        run, elapsed_s = present_run(), elapsed_by(self.clock)
        now = self.clock.now()
        if run is not None:
            run.readings = (*run.readings[-1:], ClockReading(now, elapsed_s))
        return now

    def _new_action_id(self, request: requests.NewActionId) -> UUID:
        del request
        action_id = time_ordered_id(self.clock.now())
        self.at_work.begin(action_id)
        return action_id

    def _find_action(self, request: requests.FindAction) -> GatedAction | None:
        run, approval_id = present_run(), request.approval_id
        if run is None or not run.reads_ahead or approval_id is None:
            return self.journal.find_action(request.key)
        found = self.journal.find_action_or_approval(request.key, approval_id)
        if isinstance(found, GatedAction):
            return found
        run.ahead = (approval_id, found)
        return None

    def _load_action(self, request: requests.LoadAction) -> GatedAction:
        return self.journal.load_action(request.action_id)

    def _load_approval(self, request: requests.LoadApproval) -> Approval | None:
        run = present_run()
        ahead, approval = run.ahead if run is not None and run.ahead is not None else (None, None)
        if run is None or ahead != request.approval_id:
            return self.journal.find_approval(request.approval_id)
        run.ahead = None  # whoever asks again does so because it has moved
        return approval

    def _read_external_approval(self, request: requests.ReadExternalApproval) -> ApprovalReading:
        return read_external(self.registry.approval_sources, request.intent, self.clock.now())

    def _read_premises(self, request: requests.ReadPremises) -> tuple[PremiseReading, ...]:
        return tuple(self._read(premise, request) for premise in request.intent.premises)

    def _append(self, request: requests.Append) -> AppendAnswer:
        return self.journal.append(request.action, request.approval)

    def _append_approval(self, request: AppendApproval) -> AppendAnswer:
        return self.journal.append(None, request.approval)

    def _find_page(self, request: FindPage) -> list[UUID]:
        return self.journal.find(request.conditions, limit=request.limit, after=request.after)

    def _survey_flight(self, request: SurveyFlight) -> Survey:
        del request
        flying = tuple(self.journal.all_summaries(SummaryFilter(status=IN_FLIGHT)))
        at, own = self.clock.now(), self.locks.handle
        liveness = {lock: Liveness.IDLE if lock == own else self.locks.probe(lock) for lock in locks_to_probe(flying, at)}
        return Survey(at=at, flying=flying, liveness=liveness, busy=self.at_work.on())

    def _forget_approval(self, request: ForgetApproval) -> None:
        self.journal.forget_approval(request.approval_id)

    def _forget_states(self, request: ForgetStates) -> GatedAction.Erased:
        return self.journal.forget(request.action_id)

    def _give_positions(self, request: GivePositions) -> None:
        del request
        for _ in range(_POSITION_ROUNDS):
            if self.journal.sequence(_POSITIONS_AT_ONCE) < _POSITIONS_AT_ONCE:
                return

    def _let_go(self, request: LetGo) -> None:
        del request
        self.at_work.let_go()

    def _still_at(self, request: requests.StillAt) -> bool:
        self.locks.ensure()  # a sender whose lock was lost may have been taken for dead: the version says whether it was
        return self.journal.version_of(request.action_id) == request.version

    def _anchor(self, request: requests.Anchor) -> str | None:
        assert self.log is not None, "nobody anchors without a log"
        why_not = self.log.await_anchor(request.action_id, request.version, self.closing.is_set)
        # An answer and no exception: that nothing was sent is written down before the gate is shut, and nobody has to doubt it.
        return CLOSED_WHILE_WAITING if self.closing.is_set() else why_not

    def _probe_holder(self, request: requests.ProbeHolder) -> Liveness:
        if not self.at_work.begin(request.action_id):
            return Liveness.ALIVE
        if request.claim is None:
            return Liveness.GONE
        if request.claim.holder == self.locks.holder:
            return Liveness.IDLE
        return self.locks.probe(request.claim.lock) if request.claim.lock else Liveness.UNKNOWN

    def _send(self, request: requests.Send) -> SendAnswer:
        deadline = self._deadline_of(request)
        if deadline.remaining_s() <= 0:  # the journal's clock was set back, or this process was stopped right here
            return NotSent(TOO_LATE)
        target, effect = self._target(request.effect.target), self._effect(request)
        return target.send(effect, action_id=request.action_id, idempotency_key=request.idempotency_key, deadline=deadline)

    def _look_up(self, request: requests.LookUp) -> LookupAnswer:
        target, effect = self._target(request.effect.target), self._effect(request)
        return target.lookup(effect, action_id=request.action_id, deadline=WallDeadline(READ_DEADLINE_S))

    def _burn(self, request: requests.Burn) -> BurnAnswer:
        target, effect = self._target(request.effect.target), self._effect(request)
        return target.burn(
            effect,
            action_id=request.action_id,
            idempotency_key=request.idempotency_key,
            deadline=WallDeadline(READ_DEADLINE_S),
        )

    def _sleep_until(self, request: requests.SleepUntil) -> None:
        if self.closing.wait(self._seconds_until(request.at)):
            raise GateClosed(CLOSED_WHILE_WAITING)

    def _pause(self, request: Pause) -> bool:
        return self.closing.wait(request.seconds)

    def _seconds_until(self, at: datetime) -> float:
        # The journal's clock may have been set back since `at` was reckoned, and nobody means to wait for longer than this.
        return min(max(0.0, (at - self.clock.now()).total_seconds()), max(NOT_SENT_PAUSES_S))

    def _deadline_of(self, request: requests.Send) -> WallDeadline:
        # This clock is read before the journal's: a process that is stopped in between must wake up to less time, never to more.
        since_s = elapsing_s()
        target = self.registry.targets[request.effect.target]
        left_s = (request.deadline_at - self._latest()).total_seconds() - behind_s(self.clock)
        return WallDeadline(min(left_s, target.capabilities.send_deadline_s), since_s)

    def _latest(self) -> datetime:
        """Return the latest that it can be: a journal's clock that was set back since Dispatched must not stretch the send."""
        run, elapsed_s = present_run(), elapsed_by(self.clock)
        readings = run.readings if run is not None else ()
        return max([self.clock.now(), *(at + timedelta(seconds=elapsed_s - read_s) for at, read_s in readings)])

    def _effect(self, request: requests.Send | requests.LookUp | requests.Burn) -> Effect[Any]:
        return request.effect.effect(self.registry.targets[request.effect.target].codec)

    def _target(self, name: str) -> Target[Any]:
        target = self.registry.targets[name]
        assert isinstance(target, Target), "what is awaited is not asked for here"
        return target

    def _read(self, premise: Premise, request: requests.ReadPremises) -> PremiseReading:
        """Read one premise again. Whatever goes wrong, it is unreadable, and never unchanged (I4)."""
        try:
            return self._judge(premise, self._target(premise.target).observe(premise.subject), request)
        except Exception as error:  # noqa: BLE001 - a failed read, of whatever kind, is unreadable
            return self._unreadable(premise, error)

    def _judge(self, premise: Premise, now: Premise, request: requests.ReadPremises) -> PremiseReading:
        purpose = Purpose(request.action_id, request.intent.effect, request.intent.references)
        return judge_premise(premise, now, self.registry.policies[premise.policy], purpose)

    def _unreadable(self, premise: Premise, error: BaseException) -> PremiseReading:
        return unreadable(premise, type(error).__qualname__, self.clock.now())


class Driver(Performer):
    """Drives protocols on the calling thread."""

    def run(self, protocol: Protocol[R]) -> R:
        """Run a protocol to its end."""
        return self.drive(protocol, self.perform)

    def drive(self, protocol: Protocol[R], perform: Callable[[Request[Any]], Any]) -> R:
        """Run a protocol to its end, with something between it and `perform`."""
        run = Run(reads_ahead=True, around=present_run())
        with run.going, as_present(run):
            try:
                return drive(protocol, perform)
            finally:
                self.at_work.let_go(run)

    def close(self) -> None:
        """Give the lock back and close the journal. Closing twice does nothing.

        Other threads that are at work on an action are waited for: one of them may have an answer that is nowhere else.
        """
        self.stop()
        self.at_work.await_others(self.patience_s)
        self.shut()


def read_external(sources: Mapping[str, ApprovalSource], intent: Intent, at: datetime) -> ApprovalReading:
    """Read an approval that lives elsewhere. A source that can't be read gives neither a yes nor a no."""
    ref = intent.approval
    try:
        terms: object = sources[ref.source or ""].read(ref.id)
    except Exception as error:  # noqa: BLE001 - a failed read, of whatever kind, is unreadable
        terms = error
    if terms is None:
        return ApprovalReading(ref=ref, state=ApprovalState.MISSING, held=False, read_at=at)
    if not isinstance(terms, ExternalTerms):
        return ApprovalReading(ref=ref, state=ApprovalState.UNREADABLE, held=False, read_at=at)
    state = ApprovalState.LIVE if terms.live else ApprovalState.REVOKED
    if terms.live and at >= terms.expires_at:
        state = ApprovalState.EXPIRED
    return ApprovalReading(
        ref=ref,
        state=state,
        held=False,
        read_at=at,
        cap_minor=terms.cap_minor,
        currency=terms.currency,
        by=terms.by,
        expires_at=terms.expires_at,
        misfit=misfit(intent.effect, cap_minor=terms.cap_minor, currency=terms.currency, fingerprint=terms.fingerprint),
    )
