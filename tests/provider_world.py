"""A provider in memory, the crash kit's, as a target whose faults are given call by call.

The ledger is the judge: what it holds is what happened, whatever a gate says about itself. Nothing of ours is patched: the
provider implements the `Target` port.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from uuid import UUID

from interlock.domain.answers import (
    Absent,
    BurnAnswer,
    CannotTell,
    Evidence,
    Found,
    LookupAnswer,
    NotSent,
    SendAnswer,
    Settlement,
    Unknown,
)
from interlock.domain.answers import Done as DoneAnswer
from interlock.domain.effects import DataclassCodec, Effect, Money
from interlock.domain.ports import Deadline, ExternalTerms, Target
from interlock.domain.premises import ChangeKind, Facts, Premise, facts_text
from interlock.domain.profiles import CapabilityProfile
from interlock.testing import provider as kit
from interlock.testing import world as kit_world

WorldClock = kit_world.WorldClock
LedgerEntry = kit_world.LedgerEntry
START = kit_world.START
HOUR_S = 3600.0
DAY_S = kit.DAY_S
CURRENCY = kit.CURRENCY
SUBJECT = "acct_1"
AMOUNT = 2000


@dataclass(frozen=True, slots=True)
class Transfer(kit.Transfer):
    """The parameters of the only effect that the world knows."""

    reason: str | None = None


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


_OF_THE_PROVIDER = {
    SendFault.HANGS: kit.ProviderFault.HANGS,
    SendFault.FAILS: kit.ProviderFault.FAILS,
    SendFault.FAILS_WITH_EFFECT: kit.ProviderFault.FAILS_WITH_EFFECT,
    SendFault.FAILS_AND_ROLLS_FORWARD: kit.ProviderFault.FAILS_AND_ROLLS_FORWARD,
    SendFault.DECLINES: kit.ProviderFault.DECLINES,
    SendFault.DECLINES_UNSAVED: kit.ProviderFault.DECLINES_UNSAVED,
    SendFault.LOST_DECLINE: kit.ProviderFault.DECLINES,
    SendFault.DISAGREES: kit.ProviderFault.DISAGREES,
}
_LOST_ON_ITS_WAY_BACK = (SendFault.LOST_ANSWER, SendFault.LOST_DECLINE, SendFault.HANGS)


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

    action_id: UUID
    idempotency_key: str
    parameters: Transfer
    at: datetime


class World(Target[Transfer]):
    """The provider, as a target. What it can do is its profile; what it did is its ledger.

    Args:
        profile: what it can do, and what the target promises of it.
        name: the target's.
        clock: the world's.

    Attributes:
        provider: the provider itself. A target that is wrong about it has another profile than that.
    """

    codec = DataclassCodec(Transfer)
    policy = kit.AccountPremises()

    def __init__(self, profile: CapabilityProfile, name: str = "world", clock: WorldClock | None = None) -> None:
        self.name = name
        self.profile = profile
        self.provider = kit.SimulatedProvider(clock or WorldClock(), profile)
        self.sent: list[Sent] = []
        self.burns: list[str] = []
        self.send_faults: list[SendFault | None] = []
        self.lookup_faults: list[LookupFault | None] = []
        self.burn_faults: list[BurnFault | None] = []
        self.observe_faults: list[ObserveFault | None] = []
        self.lookups = 0
        self._states: dict[str, str] = {}

    # --- what tests see of it, and do to it

    @property
    def clock(self) -> WorldClock:
        """The world's time."""
        return self.provider.clock

    @property
    def ledger(self) -> list[LedgerEntry]:
        """What was carried out, oldest first."""
        return self.provider.ledger()

    def advance(self, seconds: float) -> None:
        """Move the time on; what was on its way arrives, and what the provider works on ends, in order."""
        self.clock.advance(seconds)

    def settle(self) -> None:
        """Let everything happen that can still happen, however late."""
        self.advance(100 * DAY_S)

    def forget_keys(self) -> None:
        """Lose every idempotency key, before its time."""
        for key in (*(sent.idempotency_key for sent in self.sent), *self.burns):
            self.provider.forget_key(key)

    def by_hand(self, amount_minor: int, *, case: str | None = None) -> None:
        """Enter what a person did at the provider, past any gate."""
        kind = ChangeKind.COMPATIBLE if case is None else ChangeKind.DUPLICATE
        self.provider.change(kind, self.transfer(amount_minor), case or "")

    def becomes(self, state: str) -> None:
        """Let what was carried out first come to another state later."""
        self._states[self.ledger[0].reference] = state

    def transfer(self, amount_minor: int = AMOUNT, currency: str = CURRENCY, subject: str = SUBJECT) -> Effect[Transfer]:
        """Return an effect."""
        return Effect(self.name, subject, Transfer(subject, amount_minor, currency), Money(amount_minor, currency))

    def effects_of(self, action_id: UUID) -> list[LedgerEntry]:
        """Return the ledger's entries of one action."""
        return [entry for entry in self.ledger if entry.action_id == action_id]

    def sends_of(self, action_id: UUID) -> list[Sent]:
        """Return the requests of one action."""
        return [sent for sent in self.sent if sent.action_id == action_id]

    # --- the port

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the target promises."""
        return self.profile

    def _observe(self, subject: str) -> Premise:
        fault = self.observe_faults.pop(0) if self.observe_faults else None
        if fault is ObserveFault.RAISES:
            raise TimeoutError
        facts: Facts = {} if fault is ObserveFault.EMPTY else self.provider.facts()
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
        self.sent.append(Sent(action_id, idempotency_key, body, self.clock.now()))
        fault = self.send_faults.pop(0) if self.send_faults else None
        match fault:
            case SendFault.RATE_LIMITED:
                return NotSent("turned away")
            case SendFault.LOST_REQUEST:
                return Unknown("timed out")
            case SendFault.RAISES:
                raise ConnectionResetError
            case SendFault.LATE:
                # From when its sender gives up, which is sooner where time went by between the dispatch and the write.
                late_s = deadline.remaining_s() + self.profile.kernel_s + self.profile.settle_s - 1
                self.clock.later(late_s, lambda: self.provider.arrive(body, action_id, idempotency_key))
                return Unknown("timed out")
            case _:
                return self._arrive(body, action_id, idempotency_key, fault)

    def _arrive(self, body: Transfer, action_id: UUID, idempotency_key: str, fault: SendFault | None) -> SendAnswer:
        if fault in _OF_THE_PROVIDER:
            self.provider.arm(_OF_THE_PROVIDER[fault])
        answer = self.provider.arrive(body, action_id, idempotency_key)
        if fault is SendFault.RAISES_WITH_EFFECT:
            raise ConnectionResetError
        if fault in _LOST_ON_ITS_WAY_BACK:
            return Unknown("the answer was lost")
        return replace(answer, evidence=self._as_it_stands(answer.evidence)) if isinstance(answer, DoneAnswer) else answer

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del deadline
        self.lookups += 1
        fault = self.lookup_faults.pop(0) if self.lookup_faults else None
        if fault is LookupFault.RAISES:
            raise TimeoutError
        if not self.profile.looks_up or fault is LookupFault.FAILS:
            return CannotTell("the list could not be read")
        entry = self.provider.find(action_id)
        if entry is None:
            return Absent(self.clock.now())
        return Found(self._as_it_stands(kit.evidence_of(entry, effect.parameters)))

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del effect, action_id, deadline
        self.burns.append(idempotency_key)
        fault = self.burn_faults.pop(0) if self.burn_faults else None
        if fault is BurnFault.RAISES:
            raise TimeoutError
        if fault is BurnFault.FAILS or not self.profile.burns:
            return CannotTell("the burn was not answered")
        answer = self.provider.burn(idempotency_key)
        return CannotTell("the answer was lost") if fault is BurnFault.LOST_ANSWER else answer

    def _as_it_stands(self, evidence: Evidence) -> Evidence:
        state = self._states.get(evidence.reference, "succeeded")
        return replace(evidence, state=state, settlement=_SETTLEMENTS[state])


_SETTLEMENTS = {"succeeded": Settlement.FINAL, "pending": Settlement.OPEN, "failed": Settlement.REVERSED}


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


PROFILES: dict[str, CapabilityProfile] = {name: replace(profile, kernel_s=5) for name, profile in kit.PROFILES.items()}
"""The crash kit's, with a kernel that gives up sooner, so that more happens within a claim."""
