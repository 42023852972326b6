"""The small scope of the exploration: ticks, names, profiles, and one action under one approval.

Only the order of instants matters, so time is counted in ticks, and a profile's figures are whole ticks: a send's deadline, a
claim's time to live, the time in which a request lands or is lost, a lookup's staleness and the roll-forward time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import product
from typing import Literal
from uuid import UUID

from interlock.domain.action import Intent
from interlock.domain.answers import Evidence, Settlement
from interlock.domain.approvals import Approval, ApprovalRef, ApprovalTerms
from interlock.domain.effects import DataclassCodec, Effect, Money, record_effect
from interlock.domain.premises import Premise, PremiseReading, Purpose, Strict, judge_premise, unreadable
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.sending import Sender

START = datetime(2026, 1, 1, tzinfo=UTC)
TICK_S = 100
"""Longer than every pause of the protocol, and than the margin between a deadline and its claim's end."""
WINDOW_TICKS = 100_000
"""The key window: far beyond everything that is counted in single ticks, so that it ends by a leap only."""
LEAP_TICKS = 2 * WINDOW_TICKS
"""What is called 25 hours: past every window, deadline, claim and horizon."""

ACTION_ID = UUID(int=1)
DRAFT_ID = UUID(int=2)
APPROVAL_ID = UUID(int=3)

Lookup = Literal["fresh", "stale", "none"]
RollForward = Literal["no", "known", "unknown"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Durations, in ticks; the sends' deadline is before the claim's end, and a request lands or is lost within `landing`."""

    deadline: int = 1
    claim_ttl: int = 2
    landing: int = 1
    staleness: int = 1
    roll_forward: int = 1


@dataclass(frozen=True)
class SmallProfile:
    """What a provider can do, as the rules of the protocol tell profiles apart.

    Args:
        dedupes: it knows idempotency keys.
        burns: a key can be used up by a harmless request.
        stores_failures: it stores a 5xx under the key, and replays it.
        lookup: whether the effect can be looked up, and at once or with a delay.
        roll_forward: whether a failure may be carried to its end later, and whether anybody knows for how long.
        figures: the durations.
    """

    dedupes: bool
    burns: bool
    stores_failures: bool
    lookup: Lookup
    roll_forward: RollForward
    figures: Figures = field(default=Figures())

    def __str__(self) -> str:
        keys = "keys" if self.dedupes else "no keys"
        burns = "+burn" if self.burns else ""
        stores = "" if not self.dedupes else ", 5xx stored" if self.stores_failures else ", 5xx not stored"
        return f"{keys}{burns}{stores}, lookup {self.lookup}, roll-forward {self.roll_forward}"

    @property
    def send_may_tell(self) -> bool:
        """Whether it may be the last way to learn what became of an action to send it again under its key."""
        blind = self.lookup == "none" or self.roll_forward == "unknown"
        return self.dedupes and not self.burns and blind

    @cached_property
    def capabilities(self) -> CapabilityProfile:
        """The profile that the protocol reckons with."""
        staleness_s = {"fresh": 0, "stale": self.figures.staleness * TICK_S, "none": None}
        roll_forward_s = {"no": 0, "known": self.figures.roll_forward * TICK_S, "unknown": None}
        return CapabilityProfile(
            send_deadline_s=self.figures.deadline * TICK_S,
            kernel_s=self.figures.landing * TICK_S / 2,
            settle_s=self.figures.landing * TICK_S / 2,
            dedupe_window_s=WINDOW_TICKS * TICK_S if self.dedupes else None,
            dedupe_margin_s=0,
            stores_failures=self.stores_failures,
            roll_forward_s=roll_forward_s[self.roll_forward],
            lookup_staleness_s=staleness_s[self.lookup],
            burns=self.burns,
        )


def all_profiles(figures: Figures = Figures()) -> Iterator[SmallProfile]:
    """Yield all 33 profiles: a failure that rolls forward is a stored one where there are keys, and only a key can be burned."""
    lookups: tuple[Lookup, ...] = ("fresh", "stale", "none")
    rolls: tuple[RollForward, ...] = ("no", "known", "unknown")
    for (dedupes, burns), lookup, stores, roll in product(
        ((False, False), (True, False), (True, True)), lookups, (False, True), rolls
    ):
        if (stores and not dedupes) or (dedupes and not stores and roll != "no"):
            continue
        yield SmallProfile(dedupes, burns, stores, lookup, roll, figures)


def instant(ticks: int) -> datetime:
    """Return the time at that tick."""
    return START + timedelta(seconds=ticks * TICK_S)


def ticks_from(present: int, at: datetime) -> int:
    """Return how many ticks `at` lies after the present one, rounded up."""
    return -int((instant(present) - at).total_seconds() // TICK_S)


@dataclass(frozen=True, slots=True)
class Payment:
    """The parameters of the only effect."""

    account: str


CODEC = DataclassCodec(Payment)
EFFECT = record_effect(Effect("small", "account", Payment("account"), Money(1, "usd")), CODEC, 1)
EVIDENCE = Evidence(reference="effect", state="done", settlement=Settlement.FINAL, json="{}")
DISAGREEING = replace(EVIDENCE, disagreements=("amount",))
AS_DECIDED = Premise(target="small", subject="account", facts_json='{"state":"good"}', read_at=START, policy="strict")
AS_CHANGED = Premise(target="small", subject="account", facts_json='{"state":"bad"}', read_at=START, policy="strict")
INTENT = Intent(key="key", effect=EFFECT, approval=ApprovalRef("approval"), premises=(AS_DECIDED,))
OTHER_EFFECT = record_effect(Effect("small", "account", Payment("another account"), Money(1, "usd")), CODEC, 1)
FIRES = {"fire": INTENT, "fire another": replace(INTENT, effect=OTHER_EFFECT)}
"""What may be fired under the one key: which of the two comes first fixes the effect, and the other is an error (I5)."""
_PURPOSE = Purpose(ACTION_ID, EFFECT, INTENT.references)
_NO_END_S = 10**9

GOOD_READING: tuple[PremiseReading, ...] = (judge_premise(AS_DECIDED, AS_DECIDED, Strict(), _PURPOSE),)
BAD_READING: tuple[PremiseReading, ...] = (judge_premise(AS_DECIDED, AS_CHANGED, Strict(), _PURPOSE),)
NO_READING: tuple[PremiseReading, ...] = (unreadable(AS_DECIDED, "the read failed", START),)


def granted_approval(expires_after: int | None) -> Approval:
    """Return the approval with its Granted event pending: it covers the effect once, for so many ticks."""
    expires_in_s = _NO_END_S if expires_after is None else expires_after * TICK_S
    terms = ApprovalTerms(cap_minor=1, currency="usd", by="person:1", expires_in_s=expires_in_s, fingerprint=None, uses=1)
    return Approval.grant(APPROVAL_ID, "approval", terms, START)


def small_sender(profile: SmallProfile) -> Sender:
    """Return the gate of a worker, as the worker itself sees it."""
    return Sender(
        holder="me",
        host="host",
        pid=1,
        lock="lock",
        claim_ttl_s=profile.figures.claim_ttl * TICK_S,
        profile=profile.capabilities,
    )
