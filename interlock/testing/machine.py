"""The crash test of a target: as a Hypothesis state machine, as a seeded run of any length, and as the replay of one schedule."""

from __future__ import annotations

import random
import sys
import unittest
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

from interlock.domain.effects import Effect
from interlock.domain.ports import AsyncTarget, Target
from interlock.testing.drawing import draw_steps
from interlock.testing.failures import CrashTestFailure
from interlock.testing.journals import Journals, journals_at
from interlock.testing.rehearsal import rehearse
from interlock.testing.schedule import as_test, in_words, play, raised_in
from interlock.testing.stage import Setup, Stage
from interlock.testing.steps import Step
from interlock.testing.world import ProviderWorld, WorldClock

W = TypeVar("W", bound=ProviderWorld)
T = TypeVar("T", bound=Target[Any] | AsyncTarget[Any])

MAX_STEPS = 20


@dataclass
class Report:
    """What a run of schedules came to: nothing was wrong.

    Attributes:
        schedules: how many were played.
        steps: how many steps of each kind they had.
        requests: how many requests of the protocol were performed.
        crashes: how many processes were killed.
        sends: how many sends reached for the provider.
        effects: how many entries the ledgers had at the end.
        endings: how the actions ended.
    """

    schedules: int = 0
    steps: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    crashes: int = 0
    sends: int = 0
    effects: int = 0
    endings: Counter[str] = field(default_factory=Counter[str])

    def add(self, stage: Stage[Any, Any], steps: Sequence[Step]) -> None:
        """Count a schedule."""
        self.schedules += 1
        self.steps.update(type(step).__name__ for step in steps)
        self.requests += stage.requests
        self.crashes += stage.crashes
        self.sends += len(stage.honesty.sends)
        self.effects += len(stage.world.ledger())
        self.endings.update(action.status.value for action in stage.actions())

    def merge(self, other: Report) -> None:
        """Count another run's schedules too."""
        for name in ("schedules", "requests", "crashes", "sends", "effects"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.steps.update(other.steps)
        self.endings.update(other.endings)

    def __str__(self) -> str:
        """Return the counts as one line."""
        endings = ", ".join(f"{count:,} {status}" for status, count in sorted(self.endings.items()))
        return (
            f"{self.schedules:,} schedules, {sum(self.steps.values()):,} steps, {self.requests:,} requests, "
            f"{self.crashes:,} kills, {self.sends:,} sends, {self.effects:,} effects; {endings}"
        )


class CrashTest(Generic[W, T]):
    """A crash test of one target in a model of its provider's world.

        PAYOUTS = CrashTest(world=Bank, target=Payouts, effect=lambda bank, payouts: payouts.pay("acct_1", 2000))
        TestPayouts = PAYOUTS.as_test_case()      # pytest and unittest collect it

    Args:
        world: makes the model of the provider, once for every schedule, from the schedule's clock.
        target: makes the target under test, connected to that world: a `Target`, or an `AsyncTarget`, whose calls are awaited one
            after the other.
        effect: makes the effect that is fired.
        other_effect: makes another one, which is fired under the same key (I5).
        journal_url: a PostgreSQL database to play the schedules on, instead of files in memory. A schema is made in it, and
            dropped at the end; nothing else in it is touched.
    """

    def __init__(
        self,
        *,
        world: Callable[[WorldClock], W],
        target: Callable[[W], T],
        effect: Callable[[W, T], Effect[Any]],
        other_effect: Callable[[W, T], Effect[Any]] | None = None,
        journal_url: str | None = None,
    ) -> None:
        self.setup = Setup(world=world, target=target, effect=effect, other_effect=other_effect, journal_url=journal_url)

    def run(
        self,
        schedules: int = 500,
        *,
        seed: int = 0,
        max_steps: int = MAX_STEPS,
        progress: Callable[[int], None] = lambda _done: None,
    ) -> Report:
        """Play schedules that are drawn by seed: the same seed, the same schedules.

        Args:
            schedules: how many.
            seed: the first one's; each has the next.
            max_steps: the most steps that a schedule has, beside the end.
            progress: called after each schedule with how many were played.

        Raises:
            CrashTestFailure: what was found, with the shortest schedule that shows it.
        """
        report = Report()
        with journals_at(self.setup.journal_url) as journals:
            rehearse(self.setup, journals)
            for number in range(schedules):
                self._play_drawn(journals, random.Random(seed + number), max_steps, report)  # noqa: S311 - a schedule is no secret
                progress(number + 1)
        return report

    def replay(self, *steps: Step) -> None:
        """Play one schedule.

        Raises:
            CrashTestFailure: it finds something.
        """
        with journals_at(self.setup.journal_url) as journals:
            failure = self._failure(journals, steps)
        if failure is not None:
            raise self._told(failure, steps)

    def as_test_case(self, *, schedules: int = 100, steps: int = MAX_STEPS) -> type[unittest.TestCase]:
        """Return a test case that pytest and unittest collect: a Hypothesis state machine over the same steps.

        Args:
            schedules: Hypothesis's `max_examples`.
            steps: Hypothesis's `stateful_step_count`.
        """
        from interlock.testing.stateful import test_case_of

        return test_case_of(self, schedules=schedules, steps=steps)

    def shortened(self, journals: Journals, failure: CrashTestFailure, steps: Sequence[Step]) -> CrashTestFailure:
        """Return the failure with the shortest schedule that shows it, in plain words and as a test.

        Args:
            journals: where to play the shorter ones.
            failure: what was found.
            steps: the schedule that found it.
        """
        return self._told(*self._shortest(journals, failure, list(steps)))

    # --- inside

    def _play_drawn(self, journals: Journals, rng: random.Random, max_steps: int, report: Report) -> None:
        steps: list[Step] = []
        with Stage(self.setup, journals) as stage:
            try:
                for step in draw_steps(stage, rng, max_steps):
                    steps.append(step)
                    step.play(stage)
                    stage.check()
                stage.finish()
                report.add(stage, steps)
                return
            except CrashTestFailure as error:
                failure = error
            except Exception as error:
                error.add_note(raised_in(steps))
                raise
        raise self.shortened(journals, failure, steps)

    def _shortest(self, journals: Journals, failure: CrashTestFailure, steps: list[Step]) -> tuple[CrashTestFailure, list[Step]]:
        """Leave out what is not needed, and make plain what need not be special: a part of a schedule is a schedule."""
        candidates = simpler(steps)
        while (candidate := next(candidates, None)) is not None:
            found = self._failure(journals, candidate)
            if found is not None and _same(found, failure):
                failure, steps = found, candidate
                candidates = simpler(steps)
        return failure, steps

    def _failure(self, journals: Journals, steps: Sequence[Step]) -> CrashTestFailure | None:
        with Stage(self.setup, journals) as stage:
            try:
                play(stage, steps)
            except CrashTestFailure as failure:
                return failure
        return None

    def _told(self, failure: CrashTestFailure, steps: Sequence[Step]) -> CrashTestFailure:
        failure.schedule = (
            f"\nThe schedule:\n{in_words(steps)}\n\nAs a test:\n\n{as_test(steps, failure.words, owner_of(self))}\n"
        )
        return failure


def run_crash_test(
    *,
    world: Callable[[WorldClock], W],
    target: Callable[[W], T],
    effect: Callable[[W, T], Effect[Any]],
    other_effect: Callable[[W, T], Effect[Any]] | None = None,
    journal_url: str | None = None,
    schedules: int = 500,
    seed: int = 0,
) -> Report:
    """Run a crash test once; see `CrashTest`.

    Raises:
        CrashTestFailure: what was found, with the shortest schedule that shows it.
    """
    crash_test = CrashTest(world=world, target=target, effect=effect, other_effect=other_effect, journal_url=journal_url)
    return crash_test.run(schedules, seed=seed)


def simpler(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield schedules that are a little simpler than this one, the boldest first."""
    size = len(steps) // 2
    while size:
        yield from (steps[:start] + steps[start + size :] for start in range(0, len(steps), size))
        size //= 2
    for index, (step, following) in enumerate(pairwise(steps)):
        if following.is_a_fault and not step.is_a_fault:
            yield [*steps[:index], following, step, *steps[index + 2 :]]
    for index, step in enumerate(steps):
        yield from ([*steps[:index], plainer, *steps[index + 1 :]] for plainer in step.plainer())


def owner_of(crash_test: CrashTest[Any, Any]) -> str | None:
    """Return where a program can import the crash test from, as `module:name`."""
    for module_name, module in list(sys.modules.items()):
        for name, value in list(vars(module).items()):
            if value is crash_test:
                return f"{_importable(module_name)}:{name}"
    return None


def _importable(module_name: str) -> str:
    """Return a module's name; of the program that runs, the name by which another one can import it."""
    path = getattr(sys.modules[module_name], "__file__", None) if module_name == "__main__" else None
    return Path(path).stem if path else module_name


def _same(one: CrashTestFailure, other: CrashTestFailure) -> bool:
    """Whether two failures are of one kind: a shorter schedule must not lead to another one."""
    return type(one) is type(other) and getattr(one, "invariant", None) == getattr(other, "invariant", None)
