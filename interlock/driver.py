"""The driver: performs what the protocol asks for, and gives back what came of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from interlock.domain import requests
from interlock.domain.action import GatedAction, Intent
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalState, misfit
from interlock.domain.effects import Effect
from interlock.domain.ports import ApprovalSource, Target
from interlock.domain.premises import Premise, PremisePolicy, PremiseReading, Purpose, judge_premise, unreadable
from interlock.domain.requests import AppendAnswer, Liveness, Protocol, Request
from interlock.errors import GateClosed
from interlock.infrastructure.clock import Clock, WallDeadline, elapsing_s
from interlock.infrastructure.ids import time_ordered_id
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.locks import Locks

R = TypeVar("R")

READ_DEADLINE_S = 15.0
"""How long a lookup or a burn may take. A read that is cut off is not known, and tried again."""


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

    targets: Mapping[str, Target[Any]]
    policies: Mapping[str, PremisePolicy]
    approval_sources: Mapping[str, ApprovalSource]


class AtWork:
    """Which actions a run of this gate is at work on: neither another thread nor a run inside it takes them for abandoned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[UUID, object] = {}
        self._local = threading.local()

    def begin(self, action_id: UUID) -> bool:
        """Note that the present run is at work on it; return False where another one is."""
        if not hasattr(self._local, "run"):
            self._local.run = object()  # a thread that performs requests on its own is one run
        with self._lock:
            return self._runs.setdefault(action_id, self._local.run) is self._local.run

    @contextmanager
    def run(self) -> Generator[None]:
        """Be a run of its own, and forget at the end what it was at work on."""
        outer, mine = getattr(self._local, "run", None), object()
        self._local.run = mine
        try:
            yield
        finally:
            self._local.run = outer
            with self._lock:
                self._runs = {action_id: run for action_id, run in self._runs.items() if run is not mine}


class Driver:
    """Performs requests for one gate. Threads share it."""

    def __init__(self, journal: Journal, registry: Registry, locks: Locks, clock: Clock) -> None:
        self.journal = journal
        self.registry = registry
        self.locks = locks
        self.clock = clock
        self.closing = threading.Event()
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
            requests.ProbeHolder: self._probe_holder,
            requests.Send: self._send,
            requests.LookUp: self._look_up,
            requests.Burn: self._burn,
            requests.SleepUntil: self._sleep_until,
        }

    def run(self, protocol: Protocol[R]) -> R:
        """Run a protocol on the calling thread."""
        with self.at_work.run():
            return drive(protocol, self.perform)

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child."""
        self.locks.renew_after_fork()
        self.closing = threading.Event()
        self.at_work = AtWork()

    def perform(self, request: Request[Any]) -> Any:
        """Do what the request says, and return its answer."""
        return self._performed_by[type(request)](request)

    def _now(self, request: requests.Now) -> datetime:
        del request
        return self.clock.now()

    def _new_action_id(self, request: requests.NewActionId) -> UUID:
        del request
        action_id = time_ordered_id(self.clock.now())
        self.at_work.begin(action_id)
        return action_id

    def _find_action(self, request: requests.FindAction) -> GatedAction | None:
        return self.journal.find_action(request.key)

    def _load_action(self, request: requests.LoadAction) -> GatedAction:
        return self.journal.load_action(request.action_id)

    def _load_approval(self, request: requests.LoadApproval) -> Approval | None:
        return self.journal.find_approval(request.approval_id)

    def _read_external_approval(self, request: requests.ReadExternalApproval) -> ApprovalReading:
        return read_external(self.registry.approval_sources, request.intent, self.clock.now())

    def _read_premises(self, request: requests.ReadPremises) -> tuple[PremiseReading, ...]:
        return tuple(self._read(premise, request) for premise in request.intent.premises)

    def _append(self, request: requests.Append) -> AppendAnswer:
        return self.journal.append(request.action, request.approval)

    def _still_at(self, request: requests.StillAt) -> bool:
        self.locks.ensure()  # a sender whose lock was lost may have been taken for dead: the version says whether it was
        return self.journal.version_of(request.action_id) == request.version

    def _probe_holder(self, request: requests.ProbeHolder) -> Liveness:
        if not self.at_work.begin(request.action_id):
            return Liveness.ALIVE
        if request.claim is None:
            return Liveness.GONE
        if request.claim.holder == self.locks.holder:
            return Liveness.IDLE
        return self.locks.probe(request.claim.lock) if request.claim.lock else Liveness.UNKNOWN

    def _send(self, request: requests.Send) -> SendAnswer:
        # This clock is read before the journal's: a process that is stopped in between must wake up to less time, never to more.
        since_s = elapsing_s()
        target, effect = self._effect(request)
        left_s = (request.deadline_at - self.clock.now()).total_seconds()
        return target.send(
            effect,
            action_id=request.action_id,
            idempotency_key=request.idempotency_key,
            # A journal's clock that was set back since Dispatched must not stretch the send either.
            deadline=WallDeadline(min(left_s, target.capabilities.send_deadline_s), since_s),
        )

    def _look_up(self, request: requests.LookUp) -> LookupAnswer:
        target, effect = self._effect(request)
        return target.lookup(effect, action_id=request.action_id, deadline=_read_deadline())

    def _burn(self, request: requests.Burn) -> BurnAnswer:
        target, effect = self._effect(request)
        return target.burn(
            effect, action_id=request.action_id, idempotency_key=request.idempotency_key, deadline=_read_deadline()
        )

    def _sleep_until(self, request: requests.SleepUntil) -> None:
        pause_s = (request.at - self.clock.now()).total_seconds()
        if self.closing.wait(max(0.0, pause_s)):
            raise GateClosed("the gate was closed while an action waited to be sent; recover() goes on with it")

    def _effect(self, request: requests.Send | requests.LookUp | requests.Burn) -> tuple[Target[Any], Effect[Any]]:
        target = self.registry.targets[request.effect.target]
        return target, request.effect.effect(target.codec)

    def _read(self, premise: Premise, request: requests.ReadPremises) -> PremiseReading:
        """Read one premise again. Whatever goes wrong, it is unreadable, and never unchanged (I4)."""
        purpose = Purpose(request.action_id, request.intent.effect, request.intent.references)
        try:
            now = self.registry.targets[premise.target].observe(premise.subject)
            return judge_premise(premise, now, self.registry.policies[premise.policy], purpose)
        except Exception as error:  # noqa: BLE001 - a failed read, of whatever kind, is unreadable
            return unreadable(premise, type(error).__qualname__, self.clock.now())


def read_external(sources: Mapping[str, ApprovalSource], intent: Intent, at: datetime) -> ApprovalReading:
    """Read an approval that lives elsewhere. A source that can't be read gives neither a yes nor a no."""
    ref = intent.approval
    try:
        terms = sources[ref.source or ""].read(ref.id)
    except Exception:  # noqa: BLE001 - a failed read, of whatever kind, is unreadable
        return ApprovalReading(ref=ref, state=ApprovalState.UNREADABLE, held=False, read_at=at)
    if terms is None:
        return ApprovalReading(ref=ref, state=ApprovalState.MISSING, held=False, read_at=at)
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


def _read_deadline() -> WallDeadline:
    return WallDeadline(READ_DEADLINE_S)
