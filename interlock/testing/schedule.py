"""A schedule as data: steps that can be played, told in plain words, and written down as a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from interlock.domain.premises import ChangeKind
from interlock.testing.faults import Call, Fault, JournalFault
from interlock.testing.instants import Instant
from interlock.testing.steps import AnyStage, Step


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


def raised_in(steps: Sequence[Step]) -> str:
    """Return what is noted on an exception of the user's own code, which is neither anybody's lie nor a violation.

    Args:
        steps: what was played until it was raised.
    """
    return f"raised by the code under test, or by the model of its provider, in this schedule:\n{in_words(steps)}"


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
    lines += ["", "", f"def test_{_identifier(words)}() -> None:", f"    {_docstring(words)}"]
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


def _docstring(words: str) -> str:
    """Return what is wrong as a docstring, whatever the provider's own words have in them."""
    plain = words.splitlines()[0]
    return repr(plain) if re.search(r'["\\]', plain) else f'"""{plain}"""'


def _identifier(words: str) -> str:
    name = re.sub(r"\W+", "_", words.partition(":")[0].lower()).strip("_")
    return name or "regression"
