"""A provider in memory, for any capability profile and with every fault; and the target that talks to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    BurnAnswer,
    Burned,
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
from interlock.domain.ports import Deadline, Target
from interlock.domain.premises import Change, ChangeKind, Facts, Judgement, Premise, Purpose, facts_text
from interlock.domain.profiles import CapabilityProfile
from interlock.testing.faults import Call, Network
from interlock.testing.world import LedgerEntry, WorldClock

DAY_S = 86_400.0
CURRENCY = "usd"
UNSTATED_ROLL_FORWARD_S = 40 * DAY_S
"""When a stored failure is carried to its end where the provider does not say for how long that may happen."""


class ProviderFault(StrEnum):
    """What a provider does wrong with a request that arrived."""

    FAILS = "answers 500, and did nothing"
    FAILS_WITH_EFFECT = "answers 500, although it carried it out"
    FAILS_AND_ROLLS_FORWARD = "answers 500, and carries it out later"
    HANGS = "works on it for a while; meanwhile its key is in progress"
    DECLINES = "says no, and stores that under the key"
    DECLINES_UNSAVED = "says no, and stores nothing"
    DISAGREES = "carries it out with another amount"


@dataclass(frozen=True, slots=True)
class Transfer:
    """The parameters of the one effect that the provider knows."""

    account: str
    amount_minor: int
    currency: str = CURRENCY


@dataclass(slots=True)
class _Key:
    """What the provider remembers of an idempotency key. Without a body it was burned."""

    body: Transfer | None
    first_at: datetime
    answer: SendAnswer
    busy_until: datetime | None = None


class SimulatedProvider:
    """A provider with one account, as its profile says that it is.

    Args:
        clock: the world's.
        profile: what it can do, and how long it takes for it.
    """

    def __init__(self, clock: WorldClock, profile: CapabilityProfile) -> None:
        self.clock = clock
        self.profile = profile
        self.network = Network(clock)
        self.state = "open"
        self._entries: list[LedgerEntry] = []
        self._cases: dict[str, str] = {}
        self._keys: dict[str, _Key] = {}
        self._armed: list[ProviderFault] = []

    # --- the world

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry | None:
        """Carry an effect out, as when a request for it arrives."""
        if action_id is None or idempotency_key is None:
            return self._enter(effect.parameters.amount_minor)
        answer = self.arrive(effect.parameters, action_id, idempotency_key)
        done = answer.evidence.reference if isinstance(answer, Done) else None
        return next((entry for entry in self._entries if entry.reference == done), None)

    def ledger(self) -> list[LedgerEntry]:
        """Return everything that was carried out, oldest first."""
        return list(self._entries)

    def forget_key(self, idempotency_key: str) -> None:
        """Lose a key."""
        self._keys.pop(idempotency_key, None)

    @property
    def changes(self) -> Collection[ChangeKind]:
        """What others can do to the account."""
        return (ChangeKind.COMPATIBLE, ChangeKind.DUPLICATE, ChangeKind.CONFLICTING)

    def change(self, kind: ChangeKind, effect: Effect[Any], reference: str) -> None:
        """Let somebody else act on the account."""
        if kind is ChangeKind.CONFLICTING:
            self.state = "closed"
            return
        entry = self._enter(effect.parameters.amount_minor)
        if kind is ChangeKind.DUPLICATE:
            self._cases[entry.reference] = reference

    @property
    def faults(self) -> Collection[str]:
        """Its faults, without those that its profile rules out."""
        rolls = self.profile.roll_forward_s != 0 and (self.profile.stores_failures or not self.profile.dedupes)
        return tuple(fault for fault in ProviderFault if rolls or fault is not ProviderFault.FAILS_AND_ROLLS_FORWARD)

    def arm(self, fault: str) -> None:
        """Let the next request that arrives meet this fault."""
        self._armed.append(ProviderFault(fault))

    def disarm(self) -> None:
        """Have no fault any more."""
        self._armed.clear()

    # --- what requests do to it

    def facts(self) -> Facts:
        """Return the account as it stands."""
        entries = [
            {
                "reference": entry.reference,
                "action_id": entry.action_id.hex if entry.action_id else None,
                "case": self._cases.get(entry.reference),
                "amount_minor": entry.amount_minor,
            }
            for entry in self._entries
        ]
        return {"state": self.state, "entries": entries}

    def arrive(self, body: Transfer, action_id: UUID, idempotency_key: str) -> SendAnswer:
        """Take a request, and answer it."""
        fault = self._armed.pop(0) if self._armed else None
        if not self.profile.dedupes:
            return self._carry_out(body, action_id, idempotency_key, fault)
        key = self._key(idempotency_key)
        if key is not None:
            return self._replay(key, body)
        self._keys[idempotency_key] = record = _Key(body, self.clock.now(), Unknown("working"))
        record.answer = answer = self._carry_out(body, action_id, idempotency_key, fault)
        if fault is ProviderFault.HANGS:
            record.busy_until = self.clock.now() + timedelta(seconds=self._work_s)
        elif fault is ProviderFault.DECLINES_UNSAVED:
            del self._keys[idempotency_key]
        elif isinstance(answer, Unknown) and not self.profile.stores_failures:
            self._remember_the_effect_only(record, body, action_id, idempotency_key)
        return answer

    def find(self, action_id: UUID) -> LedgerEntry | None:
        """Look for what an action did, with the staleness that the profile states."""
        fresh_until = self.clock.now() - timedelta(seconds=self.profile.lookup_staleness_s or 0)
        return next((entry for entry in self._entries if entry.action_id == action_id and entry.at <= fresh_until), None)

    def burn(self, idempotency_key: str) -> BurnAnswer:
        """Take a harmless request under a key."""
        key = self._key(idempotency_key)
        if key is None:
            self._keys[idempotency_key] = _Key(None, self.clock.now(), Unknown("burned"))
            return Burned()
        if self._busy(key):
            return InProgress()
        return Burned() if key.body is None else AlreadyUsed()

    # --- inside

    @property
    def _work_s(self) -> float:
        return max(0.0, self.profile.settle_s - 1)

    def _key(self, idempotency_key: str) -> _Key | None:
        key = self._keys.get(idempotency_key)
        if key is not None and self.clock.now() >= key.first_at + timedelta(seconds=self.profile.dedupe_window_s or 0):
            del self._keys[idempotency_key]
            return None
        return key

    def _busy(self, key: _Key) -> bool:
        return key.busy_until is not None and self.clock.now() < key.busy_until

    def _replay(self, key: _Key, body: Transfer) -> SendAnswer:
        if key.body != body:
            return Unknown("the key was used with another request", KeyState.MISMATCHED)
        if self._busy(key):
            return Unknown("another request is in progress", KeyState.IN_PROGRESS)
        match key.answer:
            case Done(evidence):
                return Done(replace(evidence, replayed=True))
            case Declined(code, words):
                return Declined(code, words, replayed=True)
            case _:
                return Unknown("the stored failure", KeyState.STORED_FAILURE)

    def _remember_the_effect_only(self, record: _Key, body: Transfer, action_id: UUID, idempotency_key: str) -> None:
        """Keep the key where it did something: what this provider promises to dedupe is the effect."""
        entry = next((entry for entry in self._entries if entry.action_id == action_id), None)
        if entry is None:
            del self._keys[idempotency_key]
        else:
            record.answer = Done(evidence_of(entry, body))

    def _carry_out(self, body: Transfer, action_id: UUID, idempotency_key: str, fault: ProviderFault | None) -> SendAnswer:
        def enter(amount_minor: int = body.amount_minor) -> SendAnswer:
            return Done(evidence_of(self._enter(amount_minor, action_id, idempotency_key), body))

        match fault:
            case None:
                return enter()
            case ProviderFault.HANGS:
                self.clock.later(self._work_s, lambda: self._finish(idempotency_key, enter))
                return Unknown("working")
            case ProviderFault.FAILS:
                return Unknown("500")
            case ProviderFault.FAILS_WITH_EFFECT:
                enter()
                return Unknown("500")
            case ProviderFault.FAILS_AND_ROLLS_FORWARD:
                stated_s = self.profile.roll_forward_s
                self.clock.later(UNSTATED_ROLL_FORWARD_S if stated_s is None else max(0.0, stated_s - 1), enter)
                return Unknown("500")
            case ProviderFault.DECLINES | ProviderFault.DECLINES_UNSAVED:
                return Declined("insufficient", "there is not enough left")
            case ProviderFault.DISAGREES:
                return enter(body.amount_minor - 1)

    def _finish(self, idempotency_key: str, enter: Callable[[], SendAnswer]) -> None:
        answer = enter()
        if idempotency_key in self._keys:
            self._keys[idempotency_key].answer = answer

    def _enter(self, amount_minor: int, action_id: UUID | None = None, idempotency_key: str | None = None) -> LedgerEntry:
        entry = LedgerEntry(
            reference=f"tx_{len(self._entries) + 1}",
            at=self.clock.now(),
            action_id=action_id,
            idempotency_key=idempotency_key,
            amount_minor=amount_minor,
        )
        self._entries.append(entry)
        return entry


def evidence_of(entry: LedgerEntry, body: Transfer) -> Evidence:
    """Return the provider's word for an entry, compared with what was asked for."""
    wrong = (f"amount is {entry.amount_minor}",) if entry.amount_minor != body.amount_minor else ()
    return Evidence(
        reference=entry.reference,
        state="succeeded",
        settlement=Settlement.FINAL,
        json=json.dumps({"reference": entry.reference, "amount_minor": entry.amount_minor}),
        disagreements=wrong,
    )


class AccountPremises:
    """The premise policy of the simulated provider: all four kinds of change."""

    name = "simulated-account"
    version = 1

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        """Sort each new entry, and any change of the account's state."""
        before = {entry["reference"] for entry in decided["entries"]}
        changes = [self._sorted(entry, purpose) for entry in now["entries"] if entry["reference"] not in before]
        if now["state"] != decided["state"]:
            changes.append(Change(ChangeKind.CONFLICTING, f"the account is {now['state']}"))
        refuses = any(change.kind in (ChangeKind.CONFLICTING, ChangeKind.DUPLICATE) for change in changes)
        return Judgement(tuple(changes), "decide again on the account as it is now" if refuses else "")

    @staticmethod
    def _sorted(entry: Mapping[str, Any], purpose: Purpose) -> Change:
        if entry["action_id"] == purpose.action_id.hex:
            return Change(ChangeKind.OWN, "our own")
        if entry["case"] in purpose.references:
            return Change(ChangeKind.DUPLICATE, f"{entry['reference']} did the same by hand")
        return Change(ChangeKind.COMPATIBLE, f"{entry['reference']} took {entry['amount_minor']}")


class SimulatedTarget(Target[Transfer]):
    """The target that talks to a simulated provider through its network."""

    codec = DataclassCodec(Transfer)
    policy = AccountPremises()

    def __init__(self, provider: SimulatedProvider, name: str = "simulated") -> None:
        self.name = name
        self._provider = provider

    @property
    def capabilities(self) -> CapabilityProfile:
        """What the provider's profile says."""
        return self._provider.profile

    def transfer(self, amount_minor: int, account: str = "acct_1") -> Effect[Transfer]:
        """Return the effect of a transfer."""
        return Effect(self.name, account, Transfer(account, amount_minor), Money(amount_minor, CURRENCY))

    def _observe(self, subject: str) -> Premise:
        facts = self._provider.network.call(Call.OBSERVE, self._provider.facts)
        return Premise(
            target=self.name,
            subject=subject,
            facts_json=facts_text(facts),
            read_at=self._provider.clock.now(),
            policy=self.policy.name,
        )

    def _send(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        if deadline.remaining_s() <= 0:
            return NotSent("its deadline was over before the write")
        provider = self._provider
        try:
            return provider.network.call(Call.SEND, lambda: provider.arrive(effect.parameters, action_id, idempotency_key))
        except ConnectionRefusedError:
            return NotSent("the connection was refused")

    def _lookup(self, effect: Effect[Transfer], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        provider = self._provider
        if not provider.profile.looks_up:
            return super()._lookup(effect, action_id=action_id, deadline=deadline)
        entry = provider.network.call(Call.LOOKUP, lambda: provider.find(action_id))
        return Found(evidence_of(entry, effect.parameters)) if entry else Absent(provider.clock.now())

    def _burn(self, effect: Effect[Transfer], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        provider = self._provider
        if not provider.profile.burns:
            return super()._burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        return provider.network.call(Call.BURN, lambda: provider.burn(idempotency_key))


_FAST = CapabilityProfile(send_deadline_s=10, kernel_s=20, settle_s=5, dedupe_margin_s=600, roll_forward_s=0)
_KEYS = replace(_FAST, dedupe_window_s=DAY_S)
_STORED = replace(_KEYS, stores_failures=True)

PROFILES: dict[str, CapabilityProfile] = {
    "nothing": replace(_FAST, roll_forward_s=None),
    "nothing-known-to-end": _FAST,
    "keys": _KEYS,
    "keys-stored-failures": _STORED,
    "keys-stored-failures-roll-unknown": replace(_STORED, roll_forward_s=None),
    "keys-burn": replace(_STORED, burns=True),
    "keys-burn-roll-unknown": replace(_STORED, burns=True, roll_forward_s=None),
    "lookup": replace(_FAST, lookup_staleness_s=0),
    "lookup-stale": replace(_FAST, lookup_staleness_s=30),
    "lookup-stale-roll-known": replace(_FAST, lookup_staleness_s=30, roll_forward_s=120),
    "lookup-roll-unknown": replace(_FAST, lookup_staleness_s=0, roll_forward_s=None),
    "keys-lookup": replace(_STORED, lookup_staleness_s=0),
    "keys-lookup-stale-roll-known": replace(_STORED, lookup_staleness_s=30, roll_forward_s=120),
    "keys-lookup-roll-unknown": replace(_STORED, lookup_staleness_s=0, roll_forward_s=None),
    "keys-lookup-burn": replace(_STORED, lookup_staleness_s=0, burns=True),
    "keys-lookup-burn-roll-unknown": replace(_STORED, lookup_staleness_s=0, burns=True, roll_forward_s=None),
    "keys-lookup-stale-burn-roll-known": replace(_STORED, lookup_staleness_s=30, burns=True, roll_forward_s=120),
}
"""Named by what the provider has; failures can't roll forward unless the name says so."""
