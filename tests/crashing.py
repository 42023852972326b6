"""Gates that crash at any request of the protocol, on a real journal, before a provider in memory.

Nothing of ours is patched: a crash lies in the way the protocol's generator is driven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from interlock import Ambiguous, Committed, Gate, GateConfig, Outcome, Refused
from interlock.approvals import ApprovalView, ExternalApproval
from interlock.domain import protocol, requests
from interlock.domain.action import GatedAction
from interlock.domain.effects import Effect
from interlock.domain.endings import Pending
from interlock.domain.ports import ApprovalSource
from interlock.domain.premises import Premise
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import Protocol, Request
from interlock.operations import Proposal
from interlock.outcomes import outcome_of, pending_outcome
from tests.gates import after, drive, open_gate
from tests.journals import present
from tests.provider_world import AMOUNT, CURRENCY, PROFILES, SendFault, World


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
        intent = self.gate._operations.intent(Proposal(self.key, effect or self.world.transfer(), self.approval, self.premises))
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
        if isinstance(conclusion, Pending):
            return pending_outcome(conclusion, self.world.clock.now())
        return outcome_of(conclusion.action)


def _crash() -> None:
    raise Crash


def abandon(gate: Gate) -> None:
    """Leave a gate as a killed process leaves it."""
    gate._driver.closing.set()
    gate._driver.locks.lose()
    gate._driver.journal.close()


CLAIM_OVER_S = 41.0
"""Past the time to live of a claim that a stage's gates make."""


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
        given = {"targets": [self.world], "approval_sources": self.sources, "config": self.config, "clock": self.world.clock}
        gate = open_gate(self.url, **{**given, **options})
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


def assert_agreement(stage: Stage, actor: Actor) -> None:
    """Let everything land that still can; then the journal says what the ledger says, and verifies."""
    stage.world.settle()
    assert disagreement(stage.world, actor.action()) is None
    assert not actor.gate.verify().findings


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
