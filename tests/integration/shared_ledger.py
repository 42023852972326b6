"""One journal and one provider that several processes share: the provider's ledger is a file, and the judge."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from interlock import CapabilityProfile, Done, Effect, Evidence, Gate, GateConfig, Money, NotSent, Settlement, Unknown
from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    BurnAnswer,
    Burned,
    Found,
    KeyState,
    LookupAnswer,
    SendAnswer,
)
from interlock.domain.effects import DataclassCodec
from interlock.domain.ports import Deadline, Target
from interlock.functions import ActingFunction, FunctionTarget, target
from interlock.infrastructure.clock import Clock, SystemClock

AMOUNT_MINOR = 2000
Hook = Callable[[str], None]
"""Called by the provider with the name of the place that a send has come to."""


# --- the provider


@dataclass(frozen=True, slots=True)
class Payout:
    """What the provider pays out."""

    case: str
    amount_minor: int


class Kind(StrEnum):
    """What the provider can do, from the best to the worst."""

    BURNING = "burning"
    KEYS = "keys and a lookup"
    NO_KEYS = "a lookup alone"
    FUNCTION = "nothing"


ARRIVAL, WRITE, EXECUTED = "arrival", "write", "executed"
"""Places of a send: it has begun; its last check is made, and its write is next; it is in the ledger, and not answered yet."""


class LedgerTarget(Target[Payout]):
    """A provider whose ledger is a file that processes share: one line an effect, appended in one write."""

    codec = DataclassCodec(Payout)

    def __init__(self, ledger: Path, profile: CapabilityProfile, at: Hook, wordiness: int) -> None:
        self.name = "ledger"
        self._ledger, self._profile, self._at, self._wordiness = ledger, profile, at, wordiness

    @property
    def capabilities(self) -> CapabilityProfile:
        return self._profile

    def effect(self, parameters: Payout, *, subject: str, money: Money | None = None) -> Effect[Payout]:
        """Return the effect of a payout."""
        return Effect(self.name, subject, parameters, money)

    def _send(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        self._at(ARRIVAL)
        if deadline.remaining_s() <= 0:
            return NotSent("its deadline was over before the write")
        self._at(WRITE)
        with locked_ledger(self._ledger) as lines:
            known = [line for line in lines if line["key"] == idempotency_key] if self._profile.dedupes else []
            if any(line["burned"] for line in known):
                return Unknown("the key was used with another request", KeyState.MISMATCHED)
            if not known:
                append(self._ledger, action_id.hex, idempotency_key, effect.parameters)
        self._at(EXECUTED)
        return Done(evidence(idempotency_key, replayed=bool(known), wordiness=self._wordiness))

    def _lookup(self, effect: Effect[Payout], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, deadline
        mine = [line for line in effects(self._ledger) if line["action"] == action_id.hex]
        return Found(evidence(mine[0]["key"], wordiness=self._wordiness)) if mine else Absent(SystemClock().now())

    def _burn(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del deadline
        with locked_ledger(self._ledger) as lines:
            known = [line for line in lines if line["key"] == idempotency_key]
            if known and not known[0]["burned"]:
                return AlreadyUsed()
            if not known:
                append(self._ledger, action_id.hex, idempotency_key, effect.parameters, burned=True)
            return Burned()


def evidence(reference: str, *, replayed: bool = False, wordiness: int = 0) -> Evidence:
    """Return the provider's word for one of its payouts."""
    words = json.dumps("x" * wordiness)
    return Evidence(reference=reference, state="paid", settlement=Settlement.FINAL, json=words, replayed=replayed)


def append(ledger: Path, action: str, key: str, payout: Payout, *, burned: bool = False) -> None:
    """Write one line with one system call: a process that is killed leaves all of it or nothing."""
    line = json.dumps({"action": action, "key": key, "burned": burned, "pid": os.getpid(), **asdict(payout)})
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@contextmanager
def locked_ledger(ledger: Path) -> Iterator[list[dict[str, Any]]]:
    """Keep other processes out while a key is looked up and used."""
    with ledger.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _lines(ledger)


def effects(ledger: Path) -> list[dict[str, Any]]:
    """Return what the provider has paid out: the judge of every test here."""
    return [line for line in _lines(ledger) if not line["burned"]]


def _lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def nowhere(place: str) -> None:
    """Let every place pass."""
    del place


def do_at(wanted: str, act: Callable[[], object]) -> Hook:
    """Return a hook that acts at one place."""

    def hook(place: str) -> None:
        if place == wanted:
            act()

    return hook


# --- the world of a test


@dataclass(frozen=True)
class World:
    """One journal and one provider, as all processes of a test see them.

    Args:
        folder: where both are.
        kind: what the provider can do.
        claim_ttl_s: the claim's time to live, in seconds.
        send_deadline_s: the wall-clock limit of a send, in seconds.
        wordiness: how many characters of evidence the provider gives.
        journal_url: the journal's, where it is no file in the folder.
    """

    folder: Path
    kind: Kind = Kind.BURNING
    claim_ttl_s: float = 40.0
    send_deadline_s: float = 30.0
    wordiness: int = 0
    journal_url: str | None = None

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def url(self) -> str:
        return self.journal_url or f"sqlite:///{self.journal}"

    def effects(self) -> list[dict[str, Any]]:
        """Return what the provider has paid out."""
        return effects(self.ledger)

    def target(self, at: Hook = nowhere) -> LedgerTarget | FunctionTarget[Payout]:
        """Return the provider as a target."""
        if self.kind is Kind.FUNCTION:
            acts: ActingFunction[Payout] = self._function(at)
            return target("ledger", effect=Payout, send_deadline_s=self.send_deadline_s)(acts)
        keys = self.kind is not Kind.NO_KEYS
        profile = CapabilityProfile(
            send_deadline_s=self.send_deadline_s,
            kernel_s=0.0,
            settle_s=0.0,
            dedupe_window_s=86_400.0 if keys else None,
            roll_forward_s=0.0,
            lookup_staleness_s=0.0,
            burns=self.kind is Kind.BURNING,
        )
        return LedgerTarget(self.ledger, profile, at, self.wordiness)

    def _function(self, at: Hook) -> Any:
        ledger = self.ledger

        def pay(payout: Payout, /, *, idempotency_key: str, deadline_s: float) -> SendAnswer:
            del deadline_s  # a plain function does not ask: that is for the gate to do
            at(ARRIVAL)
            at(WRITE)
            append(ledger, idempotency_key, idempotency_key, payout)
            at(EXECUTED)
            return Done(evidence(idempotency_key))

        return pay

    def gate(self, at: Hook = nowhere, *, options: str = "", clock: Clock | None = None) -> Gate:
        """Open a gate on the journal."""
        config = GateConfig(claim_ttl_s=self.claim_ttl_s)
        return Gate.open(f"{self.url}{options}", targets=[self.target(at)], config=config, clock=clock)

    def payout(self, case: str = "case-1") -> Effect[Payout]:
        """Return the effect of one payout of `AMOUNT_MINOR`."""
        return self.target().effect(Payout(case, AMOUNT_MINOR), subject=case, money=Money(AMOUNT_MINOR, "usd"))

    def approve(self, approval_id: str = "case-1", *, uses: int = 1, cap_minor: int = AMOUNT_MINOR) -> None:
        """Grant an approval."""
        with self.gate() as gate:
            gate.approve(approval_id, by="user:1", expires_in_s=86_400, cap_minor=cap_minor, currency="usd", uses=uses)
