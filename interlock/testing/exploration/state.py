"""The states of the small world, and the steps between them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong beside kills, lost answers and late requests.

    Args:
        workers: how many there are.
        orphans: how many requests of dead senders may be on their way.
        attempts: how many idempotency keys the world goes along with.
        revocations: whether the approval may be taken back.
        leap: whether the key window may end.
        locks_are_lost: whether a worker that lives may lose its lock.
        premises_change: whether the premise may turn bad, and good again.
        resolve: whether a person may say of an Ambiguous action that it did not happen.
        journal: whether the journal may fail.
        reads: whether lookups, burns and premises may fail to be read.
        propose: whether the action may be proposed before it is fired.
        expires_after: the tick at which the approval expires; None where it never does.
        disagreements: whether what the provider says of its effect may disagree with what was asked for.
        keys_are_forgotten: whether a key may be forgotten inside its window, while nobody is at work and nothing is under way.
        another_effect: whether the key may be fired with another effect.
        clock_steps_back: whether the clock that workers and journal reckon by may step back, by a tick, once.
        every_request: whether each request is a step of its own, also where its time makes no difference.
    """

    workers: int = 2
    orphans: int = 2
    attempts: int = 2
    revocations: bool = True
    leap: bool = True
    locks_are_lost: bool = True
    premises_change: bool = False
    resolve: bool = True
    journal: bool = False
    reads: bool = False
    propose: bool = False
    expires_after: int | None = None
    disagreements: bool = False
    keys_are_forgotten: bool = False
    another_effect: bool = False
    clock_steps_back: bool = False
    every_request: bool = False

    def in_words(self) -> str:
        """Say which faults there are beside kills, pauses and lost answers."""
        possible = {
            f"up to {self.orphans} {'request' if self.orphans == 1 else 'requests'} at a time without a sender": self.orphans > 0,
            "revocation": self.revocations,
            "end of the key window": self.leap,
            "lost locks": self.locks_are_lost,
            "a person's word": self.resolve,
            "premises that change": self.premises_change,
            "failed reads": self.reads,
            "journal failures": self.journal,
            f"an approval that expires at tick {self.expires_after}": self.expires_after is not None,
            "evidence that disagrees": self.disagreements,
            "a key forgotten inside its window": self.keys_are_forgotten,
            "another effect fired under the key": self.another_effect,
            "a clock that steps back by a tick, once": self.clock_steps_back,
        }
        return ", ".join(words for words, there in possible.items() if there)


class Air(NamedTuple):
    """A request under way: of which kind and attempt, for how many ticks, and whether the provider is at work on it."""

    kind: str
    attempt: int
    age: int = 0
    at_work: bool = False


class Worker(NamedTuple):
    """A worker in the world: its run, its request under way, and what it may do or knows."""

    run: int = 0
    air: Air | tuple[()] = ()
    licence: int = 0
    """The attempt whose announced send is still to be made (I1)."""
    done: bool = False
    """Whether it has a definite Done in its hands (rule 6)."""


class State(NamedTuple):
    """A state of the world, as numbers of its parts."""

    journal: int
    provider: int
    bad: int
    workers: tuple[int, ...]
    orphans: int
    behind: int = 0
    """By how many ticks the clock was set back."""


class Step(NamedTuple):
    """Something that happens.

    Args:
        words: what, in plain words.
        fault: whether it is none of what happens while nothing goes wrong.
        state: the state afterwards.
        violation: what it breaks by itself.
        other: what it means for the other worker: `outdated`, `bereft`, or nothing.
        by: who takes it: `worker`, `orphan`, `provider`, `world` or `time`.
    """

    words: str
    fault: str
    state: State
    violation: str | None = None
    other: str = ""
    by: str = "worker"


class Parts(Generic[T]):
    """Numbers for values."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self.values: list[T] = []

    def number(self, value: T) -> int:
        """Return the value's number."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number
