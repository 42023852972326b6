"""The side of the processes: a target that kills its process at a named point, a worker's life, and the last recovery."""

from __future__ import annotations

import json
import os
import secrets
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from harness.clocks import ShiftedClock
from harness.sigkill.gates import GateKind, WorkersGate, opened
from harness.sigkill.schedule import CLAIM_TTL_S, CURRENCY, SEND_DEADLINE_S, SETTLE_S, Case, Death, Job, Point, Profile, Verb
from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from interlock import Effect, Gate, GateConfig, Outcome, Premise, Target
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.ports import Deadline
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import InterlockError
from interlock.stripe import Refund, StripeRefunds

FINISHER = "finisher"
_MEETING_S = 1.0
_FURTHER_S = 60.0
_ROUNDS = 12
"""How often the clocks are moved on at the most: an action in flight after that stays so for ever."""

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenCase:
    """A case at the provider: its payment, and what was read of it when the refund was decided on."""

    case: Case
    payment: str
    premise: Premise


@dataclass(frozen=True, slots=True)
class Site:
    """What every process of a schedule shares.

    Args:
        folder: where the journal, the ledger and the logs of the workers are.
        handshake: how to reach the stand-in.
        profile: what the target may rely on.
        cases: the cases.
        journal_url: the journal's, where it is no file in the folder.
        gates: which gate the workers have.
    """

    folder: Path
    handshake: str
    profile: Profile
    cases: tuple[OpenCase, ...] = ()
    journal_url: str | None = None
    gates: GateKind = GateKind.SYNC

    @property
    def url(self) -> str:
        """The journal's address."""
        return self.journal_url or f"sqlite:///{self.folder / 'journal.db'}"

    def refunds(self) -> StripeRefunds:
        """Return the target, with short deadlines, on the stand-in."""
        os.environ["NO_PROXY"] = "127.0.0.1"
        kind = StripeRefunds if self.profile.keys else KeylessRefunds
        return kind(
            LOCAL_API_KEY,
            api_base=StripeStandIn.attach(self.handshake).api_base,
            send_deadline_s=SEND_DEADLINE_S,
            settle_s=SETTLE_S,
            lookup=self.profile.lookup,
            burn=self.profile.burn,
            roll_forward_s=self.profile.roll_forward_s,
            dedupe_window_s=86_400.0 if self.profile.keys else None,
        )

    def gate(self, target: Target[Any], ahead_s: float = 0.0) -> Gate:
        """Open a gate on the journal, its clock moved ahead; it goes by the journal's own where nothing is moved."""
        clock = ShiftedClock(ahead_s) if ahead_s else None
        return Gate.open(self.url, targets=[target], config=GateConfig(claim_ttl_s=CLAIM_TTL_S), clock=clock)

    def workers_gate(self, target: Target[Any]) -> AbstractContextManager[WorkersGate]:
        """Open a worker's gate on the journal."""
        return opened(self.gates, self.url, target, GateConfig(claim_ttl_s=CLAIM_TTL_S))

    def fire(self, gate: WorkersGate, number: int, key: str, wait_s: float = 0.0) -> Outcome:
        """Fire one action of a case: always the same effect under the same key, on the decision that was saved."""
        one = self.cases[number]
        effect = self.refunds().refund(
            payment=one.payment, amount_minor=one.case.amount_minor, currency=CURRENCY, reference=key.replace("/", "-")
        )
        return gate.fire(key, effect, approval=f"case-{number}", premises=[one.premise], wait_s=wait_s)


class Log:
    """What a worker announces to its parent: lines of a file, each written with one call, so that a kill leaves it whole."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path, self._name = folder / f"{name}.log", name

    def say(self, what: str, **about: object) -> None:
        """Announce something."""
        line = json.dumps({"at": time.time(), "who": self._name, "pid": os.getpid(), "what": what, **about})
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode())
        finally:
            os.close(descriptor)

    def lines(self) -> list[Line]:
        """Return what was announced, oldest first."""
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []


class Reaper:
    """Ends this process with SIGKILL at the point that its death names. Nothing can clean up, catch or flush."""

    def __init__(self, death: Death | None, log: Log) -> None:
        self._death, self._log = death, log
        self._passed: Counter[Point] = Counter()

    def at(self, point: Point) -> None:
        """Pass a point, or die there."""
        self._passed[point] += 1
        death = self._death
        if death is None or death.point is not point or self._passed[point] != death.nth:
            return
        if not death.after_s:
            self._die()
        timer = threading.Timer(death.after_s, self._die)
        timer.daemon = True  # a worker that ends first is not held up
        timer.start()

    def _die(self) -> None:
        self._log.say("dying", death=str(self._death))
        os.kill(os.getpid(), signal.SIGKILL)


class KeylessRefunds(StripeRefunds):
    """Refunds at a provider that has no keys: each request gets one of its own, so that the stand-in dedupes nothing."""

    def _send(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        own = f"{idempotency_key}-{secrets.token_hex(8)}"
        return super()._send(effect, action_id=action_id, idempotency_key=own, deadline=deadline)


class MortalTarget(Target[Refund]):
    """A target that passes everything on to the real one, and tells the reaper before and after."""

    def __init__(self, inner: StripeRefunds, reached: Callable[[Point], None]) -> None:
        self.name, self.version, self.codec, self.policy = inner.name, inner.version, inner.codec, inner.policy
        self._inner, self._reached = inner, reached

    @property
    def capabilities(self) -> CapabilityProfile:
        """The real target's."""
        return self._inner.capabilities

    def check(self, effect: Effect[Refund], premises: tuple[Premise, ...]) -> None:
        """Ask the real target."""
        self._inner.check(effect, premises)

    def _observe(self, subject: str) -> Premise:
        self._reached(Point.BEFORE_READ)
        return self._inner.observe(subject)

    def _send(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        self._reached(Point.BEFORE_SEND)
        self._reached(Point.IN_SEND)
        answer = self._inner.send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        self._reached(Point.AFTER_ANSWER)
        return answer

    def _lookup(self, effect: Effect[Refund], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        self._reached(Point.BEFORE_LOOKUP)
        answer = self._inner.lookup(effect, action_id=action_id, deadline=deadline)
        self._reached(Point.AFTER_LOOKUP)
        return answer

    def _burn(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        self._reached(Point.BEFORE_BURN)
        answer = self._inner.burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        self._reached(Point.AFTER_BURN)
        return answer


def live(site: Site, slot: int, jobs: tuple[Job, ...], death: Death | None) -> None:
    """Be a worker for one life: go on from the job at which the life before ended, fire it again, and do the rest."""
    log = Log(site.folder, f"worker-{slot}")
    with_traceback(log, lambda: _live(site, slot, jobs, Reaper(death, log), log))


def finish(site: Site, jump_s: float) -> None:
    """Recover until nothing is in flight, with the clocks moved on; then fire everything again, which must change nothing."""
    log = Log(site.folder, FINISHER)
    with_traceback(log, lambda: _finish(site, jump_s, log))


def with_traceback(log: Log, task: Callable[[], None]) -> None:
    """Do the task; where it raises, announce that, and end with an exit code that says so."""
    try:
        task()
    except BaseException:
        log.say("crashed", traceback=traceback.format_exc())
        raise


def _live(site: Site, slot: int, jobs: tuple[Job, ...], reaper: Reaper, log: Log) -> None:
    begun = [line["job"] for line in log.lines() if line["what"] == "begin"]
    with site.workers_gate(MortalTarget(site.refunds(), reaper.at)) as gate:
        reaper.at(Point.DELAY)
        for number in range(max(begun, default=0), len(jobs)):
            _meet(site, slot, jobs[number])
            log.say("begin", job=number, does=str(jobs[number]), key=jobs[number].key)
            _do(site, gate, jobs[number], log)


def _do(site: Site, gate: WorkersGate, job: Job, log: Log) -> None:
    try:
        match job.verb:
            case Verb.FIRE:
                _say_outcome(log, site.fire(gate, job.case, job.key, job.wait_s))
            case Verb.REVOKE:
                gate.revoke(f"case-{job.case}", by="user:2")
                log.say("revoked", case=job.case)
            case Verb.RECOVER:
                _recover(gate, log)
    except InterlockError as error:
        log.say("raised", key=job.key, error=type(error).__name__, words=str(error))


def _recover(gate: WorkersGate, log: Log) -> None:
    report = gate.recover()
    for outcome in report.outcomes:
        _say_outcome(log, outcome)
    for key, error in report.failed.items():
        log.say("raised", key=key, error=type(error).__name__, words=str(error))


def _say_outcome(log: Log, outcome: Outcome) -> None:
    log.say("outcome", key=outcome.key, status=type(outcome).__name__.upper())


def _meet(site: Site, slot: int, job: Job) -> None:
    """Wait for the other worker that has this job, so that both fire at once; not for long, since it may be dead."""
    if not job.meeting:
        return
    (site.folder / f"{job.meeting}.{slot}").touch()
    until_s = time.monotonic() + _MEETING_S
    while len(list(site.folder.glob(f"{job.meeting}.*"))) < 2 and time.monotonic() < until_s:
        time.sleep(0.001)


def _finish(site: Site, jump_s: float, log: Log) -> None:
    control, ahead_s = StripeStandIn.attach(site.handshake), 0.0
    for further_s in (0.0, jump_s, *([_FURTHER_S] * _ROUNDS)):
        ahead_s += further_s
        control.advance_clock(further_s)
        log.say("clocks", ahead_s=ahead_s)
        with site.gate(site.refunds(), ahead_s) as gate:
            _recover(gate, log)
            if not gate.receipts(status="IN_FLIGHT").receipts:
                break
    with site.gate(site.refunds(), ahead_s) as gate:
        known = {receipt.key for receipt in gate.receipts(limit=500).receipts}
        for number, one in enumerate(site.cases):
            for key in one.case.keys:
                if key in known:
                    _say_outcome(log, site.fire(gate, number, key))
