"""A schedule as data: steps that can be played, told in plain words, and written down as a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from interlock.domain.premises import ChangeKind
from interlock.testing.faults import Call, Fault, JournalFault
from interlock.testing.steps import (
    AnyStage,
    Approve,
    Arm,
    ArmJournal,
    ArmProvider,
    Change,
    Choose,
    Crash,
    Fire,
    ForgetKeys,
    GoOn,
    Instant,
    LoseLock,
    PassTime,
    Place,
    Reconcile,
    Recover,
    Resolve,
    Revoke,
    Step,
    StepBack,
)

KINDS: dict[type[Step], float] = {
    Fire: 12,
    GoOn: 12,
    Crash: 14,
    Recover: 6,
    Arm: 8,
    PassTime: 5,
    ArmProvider: 4,
    ArmJournal: 2,
    ForgetKeys: 2,
    Resolve: 6,
    LoseLock: 1.5,
    Reconcile: 1,
    Revoke: 2,
    Change: 2,
    StepBack: 0.5,
    Approve: 0.2,
}
"""Every kind of step, and how often it is drawn beside the others: what ends the action's chances rarely."""


def opening(stage: AnyStage, choose: Choose) -> list[Step]:
    """Return steps that leave an action in doubt, which is where most can go wrong."""
    failing = ArmProvider.draw(stage, choose)
    fault = choose((Fault.LATE, Fault.LATE, Fault.LOST_ANSWER, Fault.LOST_REQUEST, None))
    armed: list[Step] = [Arm(Call.SEND, fault)] if fault else []
    fired = Fire("A", "1", choose((Place("before", "Send"), Place("after", "Send"), None)))
    if failing is not None and choose((True, False, False)):
        armed.append(failing)
    return [*armed, fired, *choose(([Crash("A")], []))]


def play(stage: AnyStage, steps: Iterable[Step]) -> None:
    """Take the steps one after the other, check after each, bring everything to its end, and judge that.

    Raises:
        CrashTestFailure: something is wrong.
    """
    for step in steps:
        step.play(stage)
        stage.check()
    stage.finish()


def in_words(steps: Sequence[Step]) -> str:
    """Return a schedule as numbered lines."""
    lines = [step.words for step in steps] or ["nothing happens"]
    lines.append("faults stop, whoever was stopped goes on, and every action is fired again until it ends")
    return "\n".join(f"  {number}. {line}" for number, line in enumerate(lines, 1))


def as_test(steps: Sequence[Step], words: str, owner: str | None = None) -> str:
    """Return the schedule as a test that takes it without Hypothesis.

    Args:
        steps: the schedule.
        words: what is wrong, for the test's name and docstring.
        owner: the module and the name of the `CrashTest`, as `module:name`.
    """
    module, _, name = (owner or "").partition(":")
    used = sorted(
        {type(step).__name__ for step in steps}
        | set(re.findall(r"\b(Place|Instant|Call|Fault|JournalFault|ChangeKind)\b", _arguments(steps)))
    )
    lines = [f"from interlock.testing import {', '.join(used)}"] if used else []
    lines.append(f"from {module} import {name}" if name else "# CRASH_TEST is the CrashTest that found it")
    lines += ["", "", f"def test_{_identifier(words)}() -> None:", f'    """{words.splitlines()[0]}"""']
    lines += [f"    {name or 'CRASH_TEST'}.replay(", *(f"        {source(step)}," for step in steps), "    )"]
    return "\n".join(lines)


def source(step: Step) -> str:
    """Return the Python that makes a step."""
    text = repr(step)
    for enum in (Instant, Call, Fault, JournalFault, ChangeKind):
        text = re.sub(rf"<({enum.__name__}\.\w+): '[^']*'>", r"\1", text)
        text = re.sub(rf'<({enum.__name__}\.\w+): "[^"]*">', r"\1", text)
    return re.sub(r", (until=None|other_effect=False|extra_s=0|times=1)", "", text)


def _arguments(steps: Sequence[Step]) -> str:
    return " ".join(source(step).partition("(")[2] for step in steps)


def _identifier(words: str) -> str:
    name = re.sub(r"\W+", "_", words.partition(":")[0].lower()).strip("_")
    return name or "regression"
