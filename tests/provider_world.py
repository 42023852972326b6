"""A provider in memory, with a movable clock, a ledger and faults; and gates that crash at any request of the protocol.

The ledger is the judge: what it holds is what happened, whatever a gate says about itself. Nothing of ours is patched: the
provider implements the `Target` port, and a crash lies in the way the protocol's generator is driven.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

from interlock import Ambiguous, Committed, Gate, GateConfig, Outcome, Refused
from interlock.approvals import ApprovalView, ExternalApproval
from interlock.domain import protocol, requests
from interlock.domain.action import GatedAction
from interlock.domain.answers import Absent as AbsentAnswer
from interlock.domain.answers import (
    AlreadyUsed,
    BurnAnswer,
    Burned,
    CannotTell,
    Declined,
    Done,
    Evidence,
    Found,
    InProgress,
    KeyState,
    LookupAnswer,
    NotSent,
    SendAnswer,
    Settlement,
    Unknown,
)
from interlock.domain.effects import DataclassCodec, Effect, Money
from interlock.domain.endings import Pending
from interlock.domain.ports import ApprovalSource, Deadline, ExternalTerms, Target
from interlock.domain.premises import Facts, Premise, facts_text
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import Protocol, Request
from interlock.outcomes import outcome_of
from interlock.testing import provider as kit
from interlock.testing import world as kit_world
from tests.gates import after, drive, open_gate
from tests.journals import present

R = TypeVar("R")

WorldClock = kit_world.WorldClock
START = kit_world.START
HOUR_S = 3600.0
DAY_S = kit.DAY_S
CURRENCY = kit.CURRENCY
SUBJECT = "acct_1"
AMOUNT = 2000


@dataclass(frozen=True, slots=True)
class Transfer:
    """The parameters of the only effect that the world knows."""

    account: str
    amount_minor: int
    currency: str
    reason: str | None = None


@dataclass(slots=True)
class Entry:
    """One line of the ledger. `action_id` is the mark that our effects carry."""

    reference: str
    subject: str
    amount_minor: int
    currency: str
    at: datetime
    action_id: str | None = None
    case: str | None = None
    state: str = "succeeded"


class SendFault(Enum):
    """What goes wrong with one send."""

    LOST_REQUEST = auto()
    """It never arrives, and nobody can know."""
    LOST_ANSWER = auto()
    """It is carried out, and the answer is lost."""
    LATE = auto()
    """The sender gives up, and the request arrives as late as the profile allows."""
    HANGS = auto()
    """The provider works on it for a while; meanwhile the key is in progress. The answer is lost."""
    FAILS = auto()
    """A 500 without effect, stored where the provider stores failures."""
    FAILS_WITH_EFFECT = auto()
    """A 500, although it was carried out."""
    FAILS_AND_ROLLS_FORWARD = auto()
    """A 500 without effect; the provider carries it out later."""
    DECLINES = auto()
    """A definite no, stored under the key."""
    DECLINES_UNSAVED = auto()
    """A definite no that is not stored."""
    LOST_DECLINE = auto()
    """A definite no, stored, and its answer is lost."""
    RATE_LIMITED = auto()
    """Turned away before it was looked at."""
    RAISES = auto()
    """The client raises; the request never arrives."""
    RAISES_WITH_EFFECT = auto()
    """The client raises after it was carried out."""
    DISAGREES = auto()
    """It is carried out with another amount."""


UNKNOWN_FAULTS = [
    SendFault.LOST_REQUEST,
    SendFault.LOST_ANSWER,
    SendFault.LATE,
    SendFault.HANGS,
    SendFault.FAILS,
    SendFault.FAILS_WITH_EFFECT,
    SendFault.RAISES,
    SendFault.RAISES_WITH_EFFECT,
    SendFault.LOST_DECLINE,
]
"""What leaves the sender without an answer, or with one that says nothing."""


class LookupFault(Enum):
    """What goes wrong with one lookup."""

    FAILS = auto()
    RAISES = auto()


class BurnFault(Enum):
    """What goes wrong with one burn."""

    FAILS = auto()
    LOST_ANSWER = auto()
    RAISES = auto()


class ObserveFault(Enum):
    """What goes wrong with one observation."""

    RAISES = auto()
    EMPTY = auto()


@dataclass(frozen=True, slots=True)
class Sent:
    """One request that reached for the provider, whatever became of it."""

    action_id: str
    idempotency_key: str
    parameters: Transfer
    at: datetime


@dataclass(slots=True)
class _Key:
    body: Transfer | None
    first_at: datetime
    answer: SendAnswer
    busy_until: datetime | None = None


class World(Target[Transfer]):
    """The provider. What it can do is its profile; what it did is its ledger."""

    codec = DataclassCodec(Transfer)
    policy = kit.AccountPremises()

    def __init__(self, profile: CapabilityProfile, name: str = "world") -> None:
        self.name = name
        self.profile = profile
        self.clock = WorldClock()
        self.ledger: list[Entry] = []
        self.state = "open"
        self.sent: list[Sent] = []
        self.burns: list[str] = []
        self.send_faults: list[SendFault | None] = []
        self.lookup_faults: list[LookupFault | None] = []
        self.burn_faults: list[BurnFault | None] = []
        self.observe_faults: list[ObserveFault | None] = []
        self.lookups = 0
        self.replays = True
        self._keys: dict[str, _Key] = {}
        self._roll_at_s = profile.roll_forward_s if profile.roll_forward_s is not None else kit.UNSTATED_ROLL_FORWARD_S

    # --- what tests do to it

    def advance(self, seconds: float) -> None:
        """Move the time on; what was on its way arrives, and what the provider works on ends, in order."""
        self.clock.advance(seconds)

    def settle(self) -> None:
        """Let everything happen that can still happen, however late."""
        self.advance(100 * DAY_S)

    def forget_keys(self) -> None:
        """Lose every idempotency key, before its time."""
        self._keys.clear()

    def by_hand(self, amount_minor: int, *, case: str | None = None) -> Entry:
        """Enter what a person did at the provider, past any gate."""
        return self._enter(SUBJECT, amount_minor, CURRENCY, action_id=None, case=case)

    def transfer(self, amount_minor: int = AMOUNT, currency: str = CURRENCY, subject: str = SUBJECT) -> Effect[Transfer]:
        """Return an effect."""
        return Effect(self.name, subject, Transfer(subject, amount_minor, currency), Money(amount_minor, currency))

    def effects_of(self, action_id: UUID | str) -> list[Entry]:
        """Return the ledger's entries of one action."""
        mark = action_id.hex if isinstance(action_id, UUID) else action_id
        return [entry for entry in self.ledger if entry.action_id == mark]

    def sends_of(self, action_id: UUID | str) -> list[Sent]:
        """Return the requests of one action."""
        mark = action_id.hex if isinstance(action_id, UUID) else action_id
        return [sent for sent in self.sent if sent.action_id == mark]

    # --- the port

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the world promises."""
        return self.profile

    def _observe(self, subject: str) -> Premise:
        fault = self.observe_faults.pop(0) if self.observe_faults else None
        if fault is ObserveFault.RAISES:
            raise TimeoutError
        entries = [
            {"reference": e.reference, "action_id": e.action_id, "case": e.case, "amount_minor": e.amount_minor}
            for e in self.ledger
            if e.subject == subject
        ]
        facts: Facts = {} if fault is ObserveFault.EMPTY else {"state": self.state, "entries": entries}
        return Premise(
            target=self.name,
            subject=subject,
            facts_json=facts_text(facts),
            read_at=self.clock.now(),
            policy=self.policy.name,
        )

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        if deadline.remaining_s() <= 0:
            return NotSent("the deadline was over before the write")
        body = effect.parameters
        self.sent.append(Sent(action_id.hex, idempotency_key, body, self.clock.now()))
        fault = self.send_faults.pop(0) if self.send_faults else None
        match fault:
            case SendFault.RATE_LIMITED:
                return NotSent("turned away")
            case SendFault.LOST_REQUEST:
                return Unknown("timed out")
            case SendFault.RAISES:
                raise ConnectionResetError
            case SendFault.LATE:
                late_s = self.profile.send_deadline_s + self.profile.kernel_s + self.profile.settle_s - 1
                self.clock.later(late_s, lambda: self._arrive(action_id, idempotency_key, body, None))
                return Unknown("timed out")
        answer = self._arrive(action_id, idempotency_key, body, fault)
        if fault is SendFault.RAISES_WITH_EFFECT:
            raise ConnectionResetError
        lost = fault in (SendFault.LOST_ANSWER, SendFault.LOST_DECLINE, SendFault.HANGS)
        return Unknown("the answer was lost") if lost else answer

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del deadline
        self.lookups += 1
        fault = self.lookup_faults.pop(0) if self.lookup_faults else None
        if fault is LookupFault.RAISES:
            raise TimeoutError
        if self.profile.lookup_staleness_s is None or fault is LookupFault.FAILS:
            return CannotTell("the list could not be read")
        fresh_until = self.clock.now() - timedelta(seconds=self.profile.lookup_staleness_s)
        for entry in self.effects_of(action_id):
            if entry.at <= fresh_until:
                return Found(_evidence(entry, effect.parameters))
        return AbsentAnswer(self.clock.now())

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, deadline
        self.burns.append(idempotency_key)
        fault = self.burn_faults.pop(0) if self.burn_faults else None
        if fault is BurnFault.RAISES:
            raise TimeoutError
        if fault is BurnFault.FAILS or not self.profile.burns:
            return CannotTell("the burn was not answered")
        key = self._key(idempotency_key)
        if key is None:
            self._keys[idempotency_key] = _Key(None, self.clock.now(), Unknown("burned"))
            answer: BurnAnswer = Burned()
        elif key.busy_until is not None and self.clock.now() < key.busy_until:
            answer = InProgress()
        else:
            answer = Burned() if key.body is None else AlreadyUsed()
        return CannotTell("the answer was lost") if fault is BurnFault.LOST_ANSWER else answer

    # --- inside

    def _key(self, idempotency_key: str) -> _Key | None:
        key = self._keys.get(idempotency_key)
        window_s = self.profile.dedupe_window_s or 0
        if key is not None and self.clock.now() >= key.first_at + timedelta(seconds=window_s):
            del self._keys[idempotency_key]
            return None
        return key

    def _arrive(self, action_id: UUID, idempotency_key: str, body: Transfer, fault: SendFault | None) -> SendAnswer:
        if not self.profile.dedupes:
            return self._carry_out(action_id, body, fault)
        key = self._key(idempotency_key)
        if key is not None:
            return self._replay(key, body)
        busy_until = None
        if fault is SendFault.HANGS:
            busy_until = self.clock.now() + timedelta(seconds=self.profile.settle_s - 1)
        self._keys[idempotency_key] = record = _Key(body, self.clock.now(), Unknown("working"), busy_until)
        record.answer = answer = self._carry_out(action_id, body, fault)
        if fault is SendFault.HANGS:
            self._finish_later(record, action_id, body)
        elif fault is SendFault.DECLINES_UNSAVED:
            del self._keys[idempotency_key]
        elif isinstance(answer, Unknown) and not self.profile.stores_failures:
            self._remember_effect_only(idempotency_key, record, action_id)
        return answer

    def _replay(self, key: _Key, body: Transfer) -> SendAnswer:
        if key.body != body:
            return Unknown("the key was used with another request", KeyState.MISMATCHED)
        if key.busy_until is not None and self.clock.now() < key.busy_until:
            return Unknown("another request is in progress", KeyState.IN_PROGRESS)
        match key.answer:
            case Done(evidence):
                return Done(replace(evidence, replayed=True))
            case Declined(code, words):
                return Declined(code, words, replayed=True)
            case _:
                return Unknown("the stored failure", KeyState.STORED_FAILURE)

    def _remember_effect_only(self, idempotency_key: str, record: _Key, action_id: UUID) -> None:
        """Keep the key where it did something: what this provider promises to dedupe is the effect."""
        effects = self.effects_of(action_id)
        if effects and record.body is not None:
            record.answer = Done(_evidence(effects[-1], record.body))
        else:
            del self._keys[idempotency_key]

    def _finish_later(self, record: _Key, action_id: UUID, body: Transfer) -> None:
        def finish() -> None:
            record.answer = self._carry_out(action_id, body, None)

        self.clock.later(self.profile.settle_s - 1, finish)

    def _carry_out(self, action_id: UUID, body: Transfer, fault: SendFault | None) -> SendAnswer:
        def enter(amount_minor: int = body.amount_minor) -> Entry:
            return self._enter(body.account, amount_minor, body.currency, action_id=action_id.hex, case=None)

        match fault:
            case SendFault.HANGS if self.profile.dedupes:
                return Unknown("working")
            case SendFault.HANGS:
                self.clock.later(self.profile.settle_s - 1, enter)
                return Unknown("working")
            case SendFault.FAILS:
                return Unknown("500")
            case SendFault.FAILS_WITH_EFFECT:
                enter()
                return Unknown("500")
            case SendFault.FAILS_AND_ROLLS_FORWARD:
                self.clock.later(max(0.0, self._roll_at_s - 1), enter)
                return Unknown("500")
            case SendFault.DECLINES | SendFault.DECLINES_UNSAVED | SendFault.LOST_DECLINE:
                return Declined("insufficient", "there is not enough left")
            case SendFault.DISAGREES:
                return Done(_evidence(enter(body.amount_minor - 1), body))
            case _:
                return Done(_evidence(enter(), body))

    def _enter(self, subject: str, amount_minor: int, currency: str, *, action_id: str | None, case: str | None) -> Entry:
        entry = Entry(f"tx_{len(self.ledger) + 1}", subject, amount_minor, currency, self.clock.now(), action_id, case)
        self.ledger.append(entry)
        return entry


_SETTLEMENTS = {"succeeded": Settlement.FINAL, "pending": Settlement.OPEN, "failed": Settlement.REVERSED}


def _evidence(entry: Entry, body: Transfer) -> Evidence:
    wrong = (f"amount is {entry.amount_minor}",) if entry.amount_minor != body.amount_minor else ()
    text = json.dumps({"reference": entry.reference, "amount_minor": entry.amount_minor})
    return Evidence(
        reference=entry.reference,
        state=entry.state,
        settlement=_SETTLEMENTS[entry.state],
        json=text,
        disagreements=wrong,
    )


class Table:
    """A user's own table of approvals, read through the port."""

    def __init__(self) -> None:
        self.rows: dict[str, ExternalTerms] = {}
        self.down = False

    def grant(self, approval_id: str, *, until: datetime, cap_minor: int = AMOUNT, live: bool = True) -> None:
        """Put a row in."""
        self.rows[approval_id] = ExternalTerms(live=live, cap_minor=cap_minor, currency=CURRENCY, by="user:1", expires_at=until)

    def read(self, approval_id: str) -> ExternalTerms | None:
        """Return the row."""
        if self.down:
            raise ConnectionError
        return self.rows.get(approval_id)


# --- profiles

PROFILES: dict[str, CapabilityProfile] = {name: replace(profile, kernel_s=5) for name, profile in kit.PROFILES.items()}
"""The crash kit's, with a kernel that gives up sooner, so that more happens within a claim."""


# --- gates that crash


class Crash(BaseException):
    """The process is gone: nothing of ours catches it, and nothing of ours runs after it."""


class When(StrEnum):
    """Where around a request the process dies."""

    BEFORE = "before"
    AFTER = "after"
    LATE = "late"
    """While it is being sent: the request goes on without its sender, and arrives as late as the profile allows."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The n-th request, counted from 0."""

    index: int
    when: When

    def __str__(self) -> str:
        """Return it as a test's id."""
        return f"{self.index}-{self.when}"

    def hit_by(self, trace: list[Request[Any]]) -> bool:
        """Whether the last request of the trace is the one."""
        return len(trace) - 1 == self.index


@dataclass(frozen=True, slots=True)
class CrashAt:
    """The n-th request of a kind, counted from 1."""

    kind: type[Request[Any]]
    when: When
    nth: int = 1

    def hit_by(self, trace: list[Request[Any]]) -> bool:
        """Whether the last request of the trace is the one."""
        return isinstance(trace[-1], self.kind) and sum(isinstance(request, self.kind) for request in trace) == self.nth


Death = CrashPoint | CrashAt
BEFORE_SEND = CrashAt(requests.Send, When.BEFORE)
AFTER_SEND = CrashAt(requests.Send, When.AFTER)
LATE_SEND = CrashAt(requests.Send, When.LATE)


Interposed = Callable[[Request[Any]], None]
"""Called right before a request is performed: whatever it does happens in between."""


def once(kind: type[Request[Any]], do: Callable[[], object], nth: int = 1) -> Interposed:
    """Return what does something once, right before the n-th request of a kind."""
    seen = 0

    def interpose(request: Request[Any]) -> None:
        nonlocal seen
        if isinstance(request, kind):
            seen += 1
            if seen == nth:
                do()

    return interpose


@dataclass
class Actor:
    """A process with a gate on a real journal, which can be made to die at any request of the protocol.

    Args:
        gate: the gate.
        world: its provider, whose clock moves when the protocol sleeps.
        key: the action's key.
        approval: under whose authority.
        premises: on which facts.
    """

    gate: Gate
    world: World
    key: str = "refund:case-1"
    approval: ApprovalView | ExternalApproval | str = "case-1"
    premises: tuple[Premise, ...] = ()
    trace: list[Request[Any]] = field(default_factory=list)

    def begin(self, effect: Effect[Any] | None = None) -> Protocol[Any]:
        """Return the protocol of `fire`, not yet driven."""
        intent = self.gate._operations.intent(self.key, effect or self.world.transfer(), self.approval, self.premises, None, None)
        return protocol.fire(intent, self.gate._operations.sender(self.world.capabilities))

    def fire(self, crash: Death | None = None, interpose: Interposed | None = None) -> Outcome:
        """Fire, perhaps to death."""
        return self._run(self.begin(), crash, interpose)

    def recover(self, crash: Death | None = None, interpose: Interposed | None = None) -> Outcome:
        """Recover the action, perhaps to death."""
        part = protocol.recover(self.action(), self.gate._operations.sender(self.world.capabilities))
        return self._run(part, crash, interpose)

    def action(self) -> GatedAction:
        """Return the action as the journal has it."""
        action = self.gate._driver.journal.find_action(self.key)
        assert action is not None, f"there is no action {self.key!r}"
        return action

    def kinds(self) -> list[str]:
        """Return the names of the requests of the last run."""
        return [type(request).__name__ for request in self.trace]

    def exists(self) -> bool:
        """Whether the journal has the action."""
        return self.gate._driver.journal.find_action(self.key) is not None

    def perform(self, request: Request[Any]) -> Any:
        """Perform one request; a sleep moves the world's clock instead of waiting."""
        if isinstance(request, requests.SleepUntil):
            self.world.advance(max(0.0, (request.at - self.world.clock.now()).total_seconds()))
            return None
        return self.gate._driver.perform(request)

    def die(self) -> None:
        """End as a killed process does: its lock is dropped by the operating system, its file stays."""
        abandon(self.gate)

    def _run(self, part: Protocol[Any], crash: Death | None, interpose: Interposed | None) -> Outcome:
        self.trace = []

        def perform(request: Request[Any]) -> Any:
            self.trace.append(request)
            here = crash.when if crash is not None and crash.hit_by(self.trace) else None
            if here is When.BEFORE:
                raise Crash
            if here is When.LATE:
                self.world.send_faults.insert(0, SendFault.LATE)
            if interpose is not None:
                interpose(request)
            answer = self.perform(request)
            return answer if here is None else after(answer, _crash)

        conclusion = drive(self.gate, part, perform)
        pending = conclusion if isinstance(conclusion, Pending) else None
        return outcome_of(conclusion.action, pending, self.world.clock.now())


def _crash() -> None:
    raise Crash


def abandon(gate: Gate) -> None:
    """Leave a gate as a killed process leaves it."""
    gate._driver.closing.set()
    gate._driver.locks.lose()
    gate._driver.journal.close()


@dataclass
class Stage:
    """A journal, a world, and the actors on it."""

    path: Path
    world: World
    config: GateConfig = field(default_factory=lambda: GateConfig(claim_ttl_s=40))
    sources: dict[str, ApprovalSource] = field(default_factory=dict)
    gates: list[Gate] = field(default_factory=list)
    approval_id: str = "case-1"

    @property
    def url(self) -> str:
        """The journal's URL."""
        return present.journals.url(self.path)

    def gate(self, **options: Any) -> Gate:
        """Open a gate, which is closed with the stage."""
        given = {"targets": [self.world], "approval_sources": self.sources, "config": self.config, **options}
        gate = open_gate(self.url, clock=self.world.clock, **given)
        self.gates.append(gate)
        return gate

    def actor(self, key: str = "refund:case-1", approval: ApprovalView | ExternalApproval | str = "case-1", **more: Any) -> Actor:
        """Open a gate for one action."""
        return Actor(self.gate(), self.world, key, approval, **more)

    def approve(self, approval_id: str = "case-1", **terms: Any) -> ApprovalView:
        """Grant an approval through a gate of its own."""
        self.approval_id = approval_id
        given = {"by": "user:17", "expires_in_s": 30 * 86_400, "cap_minor": AMOUNT, "currency": CURRENCY, **terms}
        with Gate.open(self.url, targets=[self.world], clock=self.world.clock, config=self.config) as gate:
            return gate.approve(approval_id, **given)

    def revoke(self, approval_id: str | None = None) -> None:
        """Take an approval back, the last one unless another is named, through a gate of its own."""
        with Gate.open(self.url, targets=[self.world], clock=self.world.clock, config=self.config) as gate:
            gate.revoke(approval_id or self.approval_id, by="user:18")

    def __enter__(self) -> Self:
        """Return the stage."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close every gate, dead or alive."""
        for gate in self.gates:
            gate.close()


def crash_points(trace: Iterable[Request[Any]]) -> Iterator[CrashPoint]:
    """Yield every place around the requests of a run where a process can die."""
    for index, request in enumerate(trace):
        yield CrashPoint(index, When.BEFORE)
        if isinstance(request, requests.Send):
            yield CrashPoint(index, When.LATE)
        yield CrashPoint(index, When.AFTER)


def crashes(run: Callable[[Death], object], point: Death) -> bool:
    """Return whether the run came to the point, and died there."""
    try:
        run(point)
    except Crash:
        return True
    return False


def in_doubt(stage: Stage, point: Death = BEFORE_SEND, **more: Any) -> Actor:
    """Let a process fire and die at its send; return the dead one."""
    actor = stage.actor(**more)
    assert crashes(actor.fire, point), "it ended before it could die"
    actor.die()
    return actor


def disagreement(world: World, action: GatedAction) -> str | None:
    """Say in what an action's recorded status contradicts the ledger; None where it does not."""
    effects = len(world.effects_of(action.id))
    if effects > 1:
        return f"{effects} effects of one action"
    allowed = {"COMMITTED": (1,), "REFUSED": (0,), "AMBIGUOUS": (0, 1)}
    if action.ended and effects not in allowed[action.status.value]:
        return f"{action.status} with {effects} effects in the ledger"
    return None


def to_the_end(actor: Actor, rounds: int = 40) -> Outcome:
    """Fire again and again, moving the time on as far as each answer says, until there is an outcome."""
    outcome = actor.fire()
    for _ in range(rounds):
        if isinstance(outcome, Committed | Refused | Ambiguous):
            return outcome
        actor.world.advance(max(0.1, outcome.retry_after_s))
        outcome = actor.fire()
    raise AssertionError(f"no end after {rounds} rounds: {outcome}")


def staged(folder: Path, profile: str | CapabilityProfile, **terms: Any) -> Stage:
    """Return a stage with a provider of this profile, and its approval, with these terms, given."""
    stage = Stage(folder / "journal.db", World(PROFILES[profile] if isinstance(profile, str) else profile))
    stage.approve(**terms)
    return stage
