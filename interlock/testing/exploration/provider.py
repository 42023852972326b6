"""A provider as a small value: two keys, an effect or not, and what may still come of its failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from interlock.domain.answers import (
    AlreadyUsed,
    Burned,
    Declined,
    Done,
    InProgress,
    KeyState,
    Unknown,
)
from interlock.testing.exploration.scope import EVIDENCE, SmallProfile

_MOST_ROLLS = 2
FOR_EVER = -1
"""A failure that may roll forward, and nobody knows until when."""


class Record(Enum):
    """What the provider has under a key."""

    NONE = "nothing"
    BUSY = "a request at work"
    DONE = "a stored success"
    DECLINED = "a stored no"
    FAILED = "a stored failure"
    BURNED = "the burning request"

    def __lt__(self, other: Record) -> bool:
        """Order them, so that states can be sorted."""
        return self.value < other.value


class Kind(Enum):
    """What kind of request is under way."""

    EFFECT = "send"
    BURN = "burn"

    def __lt__(self, other: Kind) -> bool:
        """Order them, so that states can be sorted."""
        return self.value < other.value


class Key(NamedTuple):
    """One key: its record, and whether its window is over, so that it may be forgotten."""

    record: Record = Record.NONE
    old: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the provider has anything under it."""
        return self.record is not Record.NONE

    @property
    def is_settled(self) -> bool:
        """Whether its record stays as it is until its window is over."""
        return self.record not in (Record.NONE, Record.BUSY) and not self.old


@dataclass(frozen=True, slots=True)
class Outcome:
    """One thing that the provider may do next with a request.

    Args:
        words: what it does.
        provider: the provider afterwards.
        answer: what it answers; None where the request is at work, and the answer comes later.
        fault: whether it goes wrong.
    """

    words: str
    provider: Provider
    answer: Any = None
    fault: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Provider:
    """The provider's state.

    Args:
        keys: the record of each attempt's key.
        effects: how many times the effect was carried out.
        unseen_ticks: for how long a stale lookup may still miss it.
        rolls: for each failure that may be carried to its end: for how many ticks more, or FOR_EVER.
    """

    keys: tuple[Key, ...]
    effects: int = 0
    unseen_ticks: int = 0
    rolls: tuple[int, ...] = ()

    def with_key(self, attempt: int, record: Record) -> Provider:
        """Return it with a fresh record under the attempt's key."""
        keys = (*self.keys[: attempt - 1], Key(record), *self.keys[attempt:])
        return replace(self, keys=keys)

    def with_effect(self, profile: SmallProfile) -> Provider:
        """Return it with the effect carried out once more."""
        # Within so many ticks of an instant inside a tick reaches into the last of them.
        unseen = profile.figures.staleness + 1 if profile.lookup == "stale" else 0
        return replace(self, effects=self.effects + 1, unseen_ticks=unseen)

    def with_roll(self, profile: SmallProfile) -> Provider:
        """Return it with one more failure that may be carried to its end."""
        ticks = profile.figures.roll_forward + 1 if profile.roll_forward == "known" else FOR_EVER
        return replace(self, rolls=tuple(sorted((*self.rolls, ticks))))

    def later(self) -> Provider:
        """Return it one tick later."""
        rolls = tuple(sorted(each if each == FOR_EVER else each - 1 for each in self.rolls if each != 1))
        return replace(self, unseen_ticks=max(0, self.unseen_ticks - 1), rolls=rolls)

    def much_later(self) -> Provider:
        """Return it after a leap: every key may be forgotten, and nothing with a known end is left to come."""
        keys = tuple(Key(key.record, old=key.is_known) for key in self.keys)
        return replace(self, keys=keys, unseen_ticks=0, rolls=tuple(each for each in self.rolls if each == FOR_EVER))

    def land(self, kind: Kind, attempt: int, profile: SmallProfile) -> Iterator[Outcome]:
        """Yield what may happen when a request arrives."""
        record = self.keys[attempt - 1].record
        if kind is Kind.BURN:
            yield self._burn(attempt, record)
        elif not profile.dedupes:
            yield from self._carry_out_without_keys(profile)
        elif record is Record.NONE:
            yield Outcome("starts on it", self.with_key(attempt, Record.BUSY))
        else:
            words, answer = _REPEATED[record]
            yield Outcome(words, self, answer)

    def finish(self, attempt: int, profile: SmallProfile) -> Iterator[Outcome]:
        """Yield what may come of the request that is at work under the attempt's key."""
        yield Outcome("carries it out", self.with_key(attempt, Record.DONE).with_effect(profile), Done(EVIDENCE))
        no = Declined("no", "no")
        yield Outcome("says no, and forgets the key", self.with_key(attempt, Record.NONE), no, fault=True)
        yield Outcome("says no, and stores that", self.with_key(attempt, Record.DECLINED), no, fault=True)
        failure = Unknown("5xx")
        if not profile.stores_failures:
            yield Outcome("answers 5xx, and forgets the key", self.with_key(attempt, Record.NONE), failure, fault=True)
            return
        failed = self.with_key(attempt, Record.FAILED)
        yield Outcome("stores a 5xx without an effect", failed, failure, fault=True)
        yield Outcome("stores a 5xx although it carried it out", failed.with_effect(profile), failure, fault=True)
        if profile.roll_forward != "no" and len(self.rolls) < _MOST_ROLLS:
            yield Outcome("stores a 5xx, and may carry it out later", failed.with_roll(profile), failure, fault=True)

    def looked_up(self, profile: SmallProfile) -> Iterator[bool]:
        """Yield what a lookup may say: whether the effect is there."""
        if self.effects:
            yield True
        if not self.effects or (profile.lookup == "stale" and self.unseen_ticks):
            yield False

    def alone(self, profile: SmallProfile) -> Iterator[Outcome]:
        """Yield what the provider may do by itself."""
        for number in range(len(self.rolls)):
            rest = replace(self, rolls=self.rolls[:number] + self.rolls[number + 1 :])
            yield Outcome("carries a failed request to its end", rest.with_effect(profile))
        for attempt, key in enumerate(self.keys, 1):
            if key.old and key.record is not Record.BUSY:
                yield Outcome(f"forgets key {attempt}", self.with_key(attempt, Record.NONE))

    def _burn(self, attempt: int, record: Record) -> Outcome:
        if record is Record.NONE:
            return Outcome("takes the burn", self.with_key(attempt, Record.BURNED), Burned())
        if record is Record.BURNED:
            return Outcome("repeats its answer to the burn", self, Burned())
        if record is Record.BUSY:
            return Outcome("says that a request is in progress", self, InProgress())
        return Outcome("says that the key is used already", self, AlreadyUsed())

    def _carry_out_without_keys(self, profile: SmallProfile) -> Iterator[Outcome]:
        yield Outcome("carries it out", self.with_effect(profile), Done(EVIDENCE))
        yield Outcome("says no", self, Declined("no", "no"), fault=True)
        yield Outcome("answers 5xx without an effect", self, Unknown("5xx"), fault=True)
        if profile.roll_forward != "no" and len(self.rolls) < _MOST_ROLLS:
            yield Outcome("answers 5xx, and may carry it out later", self.with_roll(profile), Unknown("5xx"), fault=True)


_REPEATED: dict[Record, tuple[str, Any]] = {
    Record.BUSY: ("says that a request is in progress", Unknown("409", KeyState.IN_PROGRESS)),
    Record.DONE: ("repeats the stored success", Done(replace(EVIDENCE, replayed=True))),
    Record.DECLINED: ("repeats the stored no", Declined("no", "no", replayed=True)),
    Record.FAILED: ("repeats the stored 5xx", Unknown("5xx", KeyState.STORED_FAILURE)),
    Record.BURNED: ("says that the key was used with another request", Unknown("400", KeyState.MISMATCHED)),
}
"""What a request under a key that has a record gets for an answer."""
