"""What goes wrong between a gate and a provider, armed for the next call, and two places where it can strike.

`Network` stands below the target: the target's own client goes through it, so that what the target makes of a time-out is tested
too. `FaultyTarget` stands around a target whose transport can't be reached into.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from interlock.domain.answers import BurnAnswer, CannotTell, LookupAnswer, NotSent, SendAnswer, Unknown
from interlock.domain.effects import Effect
from interlock.domain.ports import Deadline, Target
from interlock.domain.premises import Premise, facts_text
from interlock.domain.profiles import CapabilityProfile
from interlock.testing.world import WorldClock

R = TypeVar("R")


class Call(StrEnum):
    """Which call to the provider a fault strikes."""

    SEND = "send"
    LOOKUP = "lookup"
    BURN = "burn"
    OBSERVE = "observe"


class Fault(StrEnum):
    """What goes wrong with one call."""

    REFUSED = "is turned away unsent"
    """No connection, or a rate limiter: provably nothing happened."""
    LOST_REQUEST = "is lost on its way"
    """It never arrives, and nobody can know."""
    LOST_ANSWER = "arrives, and its answer is lost"
    SLOW_ANSWER = "arrives, and its answer drips past the deadline"
    """The caller's time passes while it waits, and then it gives up."""
    LATE = "arrives after its sender gave up"
    """As late as the profile allows."""
    EMPTY = "reads as empty"
    """A read that says nothing; never "nothing changed" (I4)."""


FAULTS_OF: dict[Call, tuple[Fault, ...]] = {
    Call.SEND: (Fault.REFUSED, Fault.LOST_REQUEST, Fault.LOST_ANSWER, Fault.SLOW_ANSWER, Fault.LATE),
    Call.LOOKUP: (Fault.REFUSED, Fault.LOST_ANSWER),
    Call.BURN: (Fault.REFUSED, Fault.LOST_ANSWER, Fault.LATE),
    Call.OBSERVE: (Fault.REFUSED, Fault.EMPTY),
}


class Faults:
    """Faults that wait for their calls: each strikes once, in the order in which they were armed."""

    def __init__(self) -> None:
        self._armed: dict[Call, list[Fault]] = {call: [] for call in Call}

    def arm(self, call: Call, fault: Fault) -> None:
        """Let the next call of this kind that has no fault yet meet this one."""
        self._armed[call].append(fault)

    def take(self, call: Call) -> Fault | None:
        """Return what strikes this call, and have it no more."""
        return self._armed[call].pop(0) if self._armed[call] else None

    def clear(self) -> None:
        """Let nothing go wrong any more."""
        for armed in self._armed.values():
            armed.clear()

    @property
    def armed(self) -> int:
        """How many are waiting."""
        return sum(map(len, self._armed.values()))

    def waiting(self) -> list[tuple[Call, Fault]]:
        """Return those that are waiting, each with its call."""
        return [(call, fault) for call, armed in self._armed.items() for fault in armed]


class Network:
    """The way from a target's client to a model of its provider.

    A world that has one as `network` gets its faults here, and the target under test has to make the right thing of them.

    Args:
        clock: the world's.

    Attributes:
        faults: what goes wrong on it.
        profile: what the target under test promises; nothing arrives later than that allows.
        left_s: how many seconds the present sender has left.
        answered: whether the last request on it was answered.
    """

    def __init__(self, clock: WorldClock) -> None:
        self.clock = clock
        self.faults = Faults()
        self.profile = CapabilityProfile()
        self.left_s = 0.0
        self.answered = False

    def call(self, call: Call | str, arrive: Callable[[], R]) -> R:
        """Carry one request to the provider, and its answer back.

        Args:
            call: what it is for: `send`, `lookup`, `burn` or `observe`.
            arrive: what the provider does when it arrives; it returns the answer, or raises it.

        Raises:
            ConnectionRefusedError: it was not sent.
            TimeoutError: no answer came, whether it arrived, never does, or arrives later.
        """
        fault = self.faults.take(Call(call))
        self.answered = fault in (None, Fault.EMPTY)
        if self.answered:
            return arrive()

        def arrive_unheard() -> None:
            with suppress(Exception):
                arrive()

        match fault:
            case Fault.REFUSED:
                raise ConnectionRefusedError("the connection was refused")
            case Fault.LATE:
                self.clock.later(late_s(self.profile, self.left_s), arrive_unheard)
            case Fault.LOST_ANSWER:
                arrive_unheard()
            case Fault.SLOW_ANSWER:
                arrive_unheard()
                self.clock.advance(self.left_s)
            case _:
                pass
        raise TimeoutError("no answer came in time")


@runtime_checkable
class HasNetwork(Protocol):
    """A world whose target goes through a `Network`."""

    @property
    def network(self) -> Network:
        """The way to it."""
        ...


def network_of(world: object) -> Network | None:
    """Return the world's network; None where the target goes another way."""
    return world.network if isinstance(world, HasNetwork) else None


@contextmanager
def quiet(network: Network | None) -> Generator[None]:
    """Let nothing go wrong on a network for a while; what is armed stays armed."""
    if network is None:
        yield
        return
    armed, network.faults = network.faults, Faults()
    try:
        yield
    finally:
        network.faults = armed


@dataclass(frozen=True, slots=True)
class Heard:
    """One call to the target under test, what it answered, and what the ledger said before and after."""

    call: Call
    action_id: UUID
    idempotency_key: str | None
    answer: SendAnswer | LookupAnswer | BurnAnswer
    at: datetime
    left_s: float
    entries_before: int
    entries_after: int


class Witness(Protocol):
    """Sees every call to the target under test, before it is made and after it was answered."""

    def about_to_send(self, action_id: UUID, effect: Effect[Any], idempotency_key: str, left_s: float) -> None:
        """A send is about to be made."""
        ...

    def entries(self) -> int:
        """Return how many entries the ledger has."""
        ...

    def heard(self, heard: Heard, effect: Effect[Any]) -> None:
        """The target has answered."""
        ...


@dataclass
class _Deadline:
    left_s: float

    def remaining_s(self) -> float:
        return self.left_s


class FaultyTarget(Target[Any]):
    """A target with faults around it, watched by a witness.

    Args:
        inner: the target under test.
        clock: the world's.
        network: what lies below it, where it can be reached into; it has faults of its own.
        witness: who sees every call.

    Attributes:
        unread: what the target under test raised when it was last observed; None where it could be read.
        seen: what the last observation came to; None where it failed, or reads as empty.
    """

    def __init__(self, inner: Target[Any], clock: WorldClock, network: Network | None, witness: Witness) -> None:
        self.inner = inner
        self.name, self.version = inner.name, inner.version
        self.codec, self.policy = inner.codec, inner.policy
        self.faults = Faults()
        self.unread: Exception | None = None
        self.seen: Premise | None = None
        self._network = network
        self._clock = clock
        self._witness = witness

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the target under test promises."""
        return self.inner.capabilities

    def check(self, effect: Effect[Any], premises: tuple[Premise, ...]) -> None:
        """Let the target under test check it."""
        self.inner.check(effect, premises)

    def _observe(self, subject: str) -> Premise:
        fault = self.faults.take(Call.OBSERVE)
        self.seen = None
        if fault is Fault.REFUSED:
            raise ConnectionRefusedError
        try:
            seen = self.inner.observe(subject)
        except Exception as error:
            self.unread = error
            raise
        self.unread = None
        if fault is Fault.EMPTY:
            return replace(seen, facts_json=facts_text({}))
        self.seen = seen
        return seen

    def _send(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        left_s = max(0.0, deadline.remaining_s())
        if self._network is not None:
            self._network.left_s = left_s
        self._witness.about_to_send(action_id, effect, idempotency_key, left_s)
        fault = self.faults.take(Call.SEND)

        def arrive(seconds: float = left_s) -> SendAnswer:
            return self._hear(
                Call.SEND,
                effect,
                action_id,
                idempotency_key,
                seconds,
                lambda: self.inner.send(
                    effect, action_id=action_id, idempotency_key=idempotency_key, deadline=_Deadline(seconds)
                ),
            )

        match fault:
            case None | Fault.EMPTY:
                return arrive()
            case Fault.REFUSED:
                return NotSent("turned away")
            case Fault.LATE if left_s > 0:
                self._clock.later(late_s(self.capabilities, left_s), lambda: arrive(1.0))
            case Fault.LOST_ANSWER | Fault.SLOW_ANSWER:
                arrive()
                if fault is Fault.SLOW_ANSWER:
                    self._clock.advance(left_s)
            case _:
                pass
        return Unknown("no answer came in time")

    def _lookup(self, effect: Effect[Any], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        fault = self.faults.take(Call.LOOKUP)
        if fault is Fault.REFUSED:
            return CannotTell("it could not be asked")
        answer = self._hear(
            Call.LOOKUP,
            effect,
            action_id,
            None,
            deadline.remaining_s(),
            lambda: self.inner.lookup(effect, action_id=action_id, deadline=deadline),
        )
        return CannotTell("no answer came in time") if fault is not None else answer

    def _burn(self, effect: Effect[Any], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        fault = self.faults.take(Call.BURN)

        def arrive() -> BurnAnswer:
            return self._hear(
                Call.BURN,
                effect,
                action_id,
                idempotency_key,
                1.0,
                lambda: self.inner.burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=_Deadline(1.0)),
            )

        del deadline  # a burn that arrives late has none to speak of
        if self._network is not None:
            self._network.left_s = 0.0
        match fault:
            case None:
                return arrive()
            case Fault.LOST_ANSWER:
                arrive()
            case Fault.LATE:
                self._clock.later(late_s(self.capabilities), arrive)
            case _:
                pass
        return CannotTell("no answer came in time")

    def _hear(
        self,
        call: Call,
        effect: Effect[Any],
        action_id: UUID,
        idempotency_key: str | None,
        left_s: float,
        ask: Callable[[], R],
    ) -> R:
        before = self._witness.entries()
        answer = ask()
        after = self._witness.entries()
        said: Any = answer
        self._witness.heard(Heard(call, action_id, idempotency_key, said, self._clock.now(), left_s, before, after), effect)
        return answer


def late_s(profile: CapabilityProfile, left_s: float = 0.0) -> float:
    """Return how late a request can still arrive, one second inside what the profile allows (rule 3).

    What a provider does with it after its arrival has a time of its own, `settle_s`.

    Args:
        profile: what the target promises.
        left_s: the seconds that its sender had left.
    """
    return max(0.0, left_s + profile.kernel_s - 1.0)


class JournalFault(StrEnum):
    """What goes wrong with one call of the journal."""

    APPEND_FAILS = "an append fails, and nothing is written"
    ACKNOWLEDGEMENT_LOST = "an append is written, and its acknowledgement is lost"
    READ_FAILS = "a read fails"
