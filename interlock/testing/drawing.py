"""How schedules are drawn: single steps by weight, and among them short sequences in which most can go wrong.

Single steps reach every corner, and seldom a deep one: most defects show only where a gate stands between what it read and what
it does about it while something happens, or where somebody comes back to an action at the right time, and then again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from interlock.testing.faults import Call, Fault
from interlock.testing.instants import Instant
from interlock.testing.outside_steps import Approve, Arm, ArmJournal, ArmProvider, Change, ForgetKeys, Resolve, Revoke
from interlock.testing.steps import (
    WORKERS,
    AnyStage,
    Choose,
    Crash,
    Fire,
    GoOn,
    LoseLock,
    PassTime,
    Place,
    Reconcile,
    Recover,
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

IN_DOUBT = 0.7
"""How many of the drawn schedules begin with an action in doubt."""

AT_REST = 0.6
"""How often a schedule ends when there is nothing more to happen."""

IN_SEQUENCE = 0.7
"""How often a sequence is drawn in place of a single step."""

BEFORE_SEND, AFTER_SEND = Place("before", "Send"), Place("after", "Send")

PAUSES: dict[Place, tuple[Instant, ...]] = {
    Place("after", "LookUp"): (Instant.ARRIVAL, Instant.HORIZON),
    Place("before", "Burn"): (Instant.KEY_WINDOW,),
    Place("after", "ReadPremises"): (Instant.APPROVAL,),
    Place("before", "Append"): (Instant.APPROVAL, Instant.CLAIM),
    BEFORE_SEND: (Instant.DEADLINE, Instant.CLAIM, Instant.KEY_MARGIN, Instant.KEY_WINDOW),
    AFTER_SEND: (Instant.CLAIM, Instant.HORIZON),
}
"""Where a gate rests on what it read a moment ago, and until when that is true."""

StepSequence = Callable[[AnyStage, Choose], Iterator[Step]]
"""Yields steps that make sense where the stage stands; each has to be played before the next is drawn."""


def draw_steps(stage: AnyStage, rng: random.Random, max_steps: int) -> Iterator[Step]:
    """Yield the steps of a schedule; each has to be played before the next is drawn.

    Args:
        stage: where they are played.
        rng: what they are drawn with; the same seed, the same steps.
        max_steps: the most steps that there are after the opening.
    """
    if rng.random() < IN_DOUBT:
        yield from opening(stage, rng.choice)
    yield from islice(_draw(stage, rng), rng.randint(2, max_steps))


def opening(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Leave an action in doubt, and perhaps without what it rests on."""
    fault = choose((Fault.LATE, Fault.LATE, Fault.LOST_ANSWER, Fault.LOST_REQUEST, None))
    if fault is not None:
        yield Arm(Call.SEND, fault)
    yield from _one(choose((ArmProvider, Arm, Arm, None, None)), stage, choose)
    yield Fire("A", "1", choose((BEFORE_SEND, AFTER_SEND, AFTER_SEND, None)))
    if "A" in stage.running() and choose((True, False)):
        yield Crash("A")
    yield from _one(choose((Revoke, Change, None, None)), stage, choose)


def pause(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Stop a gate between what it read and what it does about it, let something happen, and let the gate go on."""
    name = choose((*stage.running(), *stage.running(), *WORKERS))
    kind: type[GoOn | Recover | Fire] = GoOn if name in stage.running() else choose((Recover, Recover, Fire))
    step = kind.draw(stage, choose)
    if step is None:
        return
    place = choose(_pauses(stage))
    yield replace(step, until=place)
    if step.worker in stage.running():
        meanwhile = choose((None, None, None, None, Revoke, Change))
        yield from _one(meanwhile, stage, choose) if meanwhile else _wait(stage, choose, PAUSES[place])
        yield GoOn(step.worker)


def come_back(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Let time pass, and let somebody recover what has not ended; perhaps die at its send, and then again."""
    ends = (Instant.HORIZON, Instant.KEY_HALF, Instant.KEY_HALF, Instant.KEY_WINDOW, Instant.KEY_WINDOW)
    yield from _wait(stage, choose, ends)
    step = Recover.draw(stage, choose)
    if step is None:
        return
    yield replace(step, until=choose((BEFORE_SEND, AFTER_SEND, None)))
    if step.worker in stage.running():
        yield Crash(step.worker)
        if choose((True, False)):
            yield from come_back(stage, choose)


SEQUENCES: tuple[StepSequence, ...] = (pause, come_back)


def _draw(stage: AnyStage, rng: random.Random) -> Iterator[Step]:
    kinds, weights = list(KINDS), list(KINDS.values())
    while not (stage.at_rest and rng.random() < AT_REST):
        if rng.random() < IN_SEQUENCE:
            yield from rng.choice(SEQUENCES)(stage, rng.choice)
        else:
            yield from _one(rng.choices(kinds, weights)[0], stage, rng.choice)


def _one(kind: type[Step] | None, stage: AnyStage, choose: Choose) -> Iterator[Step]:
    step = kind.draw(stage, choose) if kind is not None else None
    if step is not None:
        yield step


def _wait(stage: AnyStage, choose: Choose, until: tuple[Instant, ...]) -> Iterator[Step]:
    instants, extras = PassTime.choices(stage)
    ahead = [instant for instant in until if instant in instants]
    if ahead:
        yield PassTime(choose(ahead), choose(extras))


def _pauses(stage: AnyStage) -> list[Place]:
    """Return where a gate can pause, most often where it rests on the provider's own word."""
    often = {"LookUp": 4 * stage.profile.looks_up, "Burn": 4 * stage.profile.burns}
    return [place for place in PAUSES for _ in range(often.get(place.request, 1))]
