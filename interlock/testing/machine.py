"""The crash test of a target: as a Hypothesis state machine, as a seeded run of any length, and as the replay of one schedule."""

from __future__ import annotations

import random
import sys
import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

from interlock.domain.effects import Effect
from interlock.domain.ports import AsyncTarget, Target
from interlock.errors import InvalidConfiguration
from interlock.testing.drawing import LEAST_STEPS, draw_steps
from interlock.testing.failures import CrashTestFailure
from interlock.testing.journals import Journals, journals_at
from interlock.testing.rehearsal import rehearse
from interlock.testing.report import Report, Tally
from interlock.testing.schedule import as_test, in_words, play, raised_in
from interlock.testing.setup import Setup
from interlock.testing.stage import Stage
from interlock.testing.steps import WORKERS, Crash, Fire, LoseLock, PassTime, Place, Step
from interlock.testing.world import ProviderWorld, WorldClock

W = TypeVar("W", bound=ProviderWorld)
T = TypeVar("T", bound=Target[Any] | AsyncTarget[Any])

MAX_STEPS = 20

_NOT_AGAIN = """
Played again it shows nothing, and so the test passes: the target or the model of its provider goes by chance or by the machine's
clock, or keeps something from one schedule to the next.
"""


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
            InvalidConfiguration: nothing would be played.
        """
        if schedules < 1 or max_steps < LEAST_STEPS:
            raise InvalidConfiguration(
                f"{schedules} schedules of at most {max_steps} steps test nothing: play at least one, of at least {LEAST_STEPS}"
            )
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
            TypeError: what is given is not steps.
        """
        for step in steps:
            if not isinstance(step, Step):  # pyright: ignore[reportUnnecessaryIsInstance] # a user's code may not be type-checked
                raise TypeError(f"a schedule is made of steps, such as Fire('A'), and not of {step!r}")
        with journals_at(self.setup.journal_url) as journals:
            failure = self._failure(journals, steps)
        if failure is not None:
            raise self._told(failure, steps, comes_again=True)

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
        shorter, shortest = self._shortest(journals, failure, list(steps))
        again = self._failure_like(failure, journals, shortest)
        return self._told(shorter, shortest, comes_again=again is not None)

    # --- inside

    def _play_drawn(self, journals: Journals, rng: random.Random, max_steps: int, report: Report) -> None:
        steps: list[Step] = []
        with Stage(self.setup, journals) as stage:
            tally = Tally(stage)
            try:
                for step in draw_steps(stage, rng, max_steps):
                    steps.append(step)
                    tally.count(step)
                    step.play(stage)
                    stage.check()
                tally.steps_are_over()
                stage.finish()
                report.merge(tally.report())
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
            found = self._failure_like(failure, journals, candidate)
            if found is not None:
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

    def _failure_like(self, failure: CrashTestFailure, journals: Journals, steps: Sequence[Step]) -> CrashTestFailure | None:
        """Return a failure of the same kind, where the schedule shows one; what else it may come to is another matter."""
        try:
            found = self._failure(journals, steps)
        except Exception:  # noqa: BLE001 - a shorter schedule can lead the user's code to an exception of its own
            return None
        return found if found is not None and _same(found, failure) else None

    def _told(self, failure: CrashTestFailure, steps: Sequence[Step], *, comes_again: bool) -> CrashTestFailure:
        test = as_test(steps, failure.words, owner_of(self))
        failure.schedule = f"\nThe schedule:\n{in_words(steps)}\n\nAs a test:\n\n{test}\n{'' if comes_again else _NOT_AGAIN}"
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
    # Two that are of no use without each other, such as a fault and who runs into it.
    for one, other in combinations(range(len(steps)), 2):
        yield [step for index, step in enumerate(steps) if index not in (one, other)]
    for index, (step, following) in enumerate(pairwise(steps)):
        if following.is_a_fault and not step.is_a_fault:
            yield [*steps[:index], following, step, *steps[index + 2 :]]
    for index, step in enumerate(steps):
        yield from ([*steps[:index], plainer, *steps[index + 1 :]] for plainer in step.plainer())
    yield from _killed_instead(steps)
    # The plainest way to have an action taken over is that its gate dies: then nobody has to wait for a claim or a lock.
    for index, step in enumerate(steps):
        if isinstance(step, PassTime | LoseLock):
            yield from ([*steps[:index], Crash(name), *steps[index + 1 :]] for name in WORKERS)


def _killed_instead(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield schedules in which the first gate is killed beside its send, in place of all that went wrong around it."""
    index = next((index for index, step in enumerate(steps) if isinstance(step, Fire)), len(steps))
    for fire in steps[index : index + 1]:
        rest = [step for step in steps[index + 1 :] if not step.is_a_fault]
        for until in (Place("before", "Send"), Place("after", "Send")):
            if isinstance(fire, Fire) and len(rest) + 2 < len(steps):
                yield [replace(fire, until=until), Crash(fire.worker), *rest]


def owner_of(crash_test: CrashTest[Any, Any]) -> str | None:
    """Return where a program can import the crash test from, as `module:name`."""
    places = [
        (module_name, name)
        for module_name, module in list(sys.modules.items())
        for name, value in list(vars(module).items())
        if value is crash_test
    ]
    # The program that runs comes last: it may have the crash test from elsewhere.
    for module_name, name in sorted(places, key=lambda place: place[0] == "__main__"):
        importable = _importable(module_name)
        if importable is not None:
            return f"{importable}:{name}"
    return None


def _importable(module_name: str) -> str | None:
    """Return a module's name; of the program that runs, the name by which another one can import it, where it is a file."""
    if module_name != "__main__":
        return module_name
    path = getattr(sys.modules[module_name], "__file__", None)
    return Path(path).stem if path else None


def _same(one: CrashTestFailure, other: CrashTestFailure) -> bool:
    """Whether two failures are of one kind: a shorter schedule must not lead to another one."""
    return type(one) is type(other) and getattr(one, "invariant", None) == getattr(other, "invariant", None)
