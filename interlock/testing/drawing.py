"""How schedules are drawn: single steps by weight, and among them short sequences in which most can go wrong.

Single steps reach every corner, and seldom a deep one: most defects show only where a gate stands between what it read and what
it does about it while something happens, or where somebody comes back to an action at the right time, and then again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from interlock.testing.faults import FAULTS_OF, Call, Fault
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

T = TypeVar("T")

KINDS: dict[type[Step], float] = {
    Fire: 12,
    GoOn: 12,
    Crash: 14,
    Recover: 6,
    Arm: 8,
    PassTime: 5,
    ArmProvider: 4,
    ArmJournal: 3,
    ForgetKeys: 2,
    Resolve: 6,
    LoseLock: 2,
    Reconcile: 2,
    Revoke: 2,
    Change: 2,
    StepBack: 1,
    Approve: 1,
}
"""Every kind of step, and how often it is drawn by itself: what ends the action's chances rarely."""

LEAST_STEPS = 2
"""A schedule is drawn with at least so many steps after its opening, if there is anything left to happen."""

IN_DOUBT = 0.7
"""How many of the drawn schedules begin with an action in doubt."""

AT_REST = 0.6
"""How often a schedule ends when every action has."""

IN_SEQUENCE = 0.8
"""How often a sequence is drawn in place of a single step."""

BEFORE_SEND, AFTER_SEND = Place("before", "Send"), Place("after", "Send")
BEFORE_BURN, AFTER_BURN = Place("before", "Burn"), Place("after", "Burn")

KILLS = tuple(
    Place("before", name) for name in ("ReadPremises", "LoadApproval", "Append", "StillAt", "Now", "Send", "LookUp", "Burn")
)
"""Before what a gate can be killed; right after one request is right before the next."""

PAUSES: dict[Place, tuple[Instant, ...]] = {
    Place("after", "LookUp"): (Instant.ARRIVAL, Instant.HORIZON),
    BEFORE_BURN: (Instant.KEY_WINDOW,),
    Place("after", "ReadPremises"): (Instant.APPROVAL,),
    Place("before", "Append"): (Instant.APPROVAL, Instant.CLAIM),
    BEFORE_SEND: (Instant.DEADLINE, Instant.CLAIM, Instant.KEY_MARGIN, Instant.KEY_WINDOW),
    AFTER_SEND: (Instant.CLAIM, Instant.HORIZON),
}
"""Where a gate rests on what it read a moment ago, and until when that is true."""

WAITS = (
    *(Instant.HORIZON,) * 4,
    *(Instant.KEY_HALF,) * 6,
    *(Instant.KEY_WINDOW,) * 6,
    *(Instant.KEY_MARGIN, Instant.RETRY, Instant.DEADLINE, Instant.ARRIVAL),
)
"""Until when somebody stays away from what has not ended."""

DOUBTS: tuple[Fault | type[ArmProvider] | None, ...] = (
    *(Fault.LATE,) * 3,
    *(Fault.LOST_ANSWER,) * 3,
    *(ArmProvider,) * 3,
    *(Fault.LOST_REQUEST, Fault.SLOW_ANSWER, None, None),
)
"""How a send goes that leaves an action in doubt; without a fault its sender may still be killed."""

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
    yield from islice(_draw(stage, rng), rng.randint(LEAST_STEPS, max_steps))


def opening(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Leave an action in doubt, and perhaps without what it rests on."""
    if stage.profile.burns and choose((True, False, False)):
        yield from _one(ArmProvider, stage, choose)
        yield Fire("A", "1", AFTER_SEND)
        yield from close_the_door(stage, choose)
        return
    doubt = choose(DOUBTS)
    if isinstance(doubt, Fault):
        yield Arm(Call.SEND, doubt)
    yield from _one(ArmProvider if doubt is ArmProvider else choose((ArmProvider, Arm, None, None)), stage, choose)
    yield Fire("A", "1", choose((BEFORE_SEND, AFTER_SEND, AFTER_SEND, None)))
    if "A" in stage.running() and choose((True, False)):
        yield Crash("A")
    yield from _one(choose((Revoke, Revoke, Change, Change, StepBack, None, None, None)), stage, choose)


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
        meanwhile = choose((*(None,) * 10, Revoke, Revoke, Change, Change, StepBack, LoseLock))
        yield from _one(meanwhile, stage, choose) if meanwhile else _wait(stage, choose, PAUSES[place])
        yield GoOn(step.worker)


def come_back(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Let time pass, and let somebody recover what has not ended; perhaps die at its send, and then again."""
    if not _makes_sense(Recover, stage):
        return
    if choose((*(True,) * 7, False)):
        yield from _wait(stage, choose, WAITS)
    forget = (ForgetKeys,) * 4 if _makes_sense(ForgetKeys, stage) else ()
    yield from _one(choose((*forget, Arm, ArmJournal, StepBack, *(None,) * 7)), stage, choose)
    step = Recover.draw(stage, choose)
    if step is None:
        return
    yield replace(step, until=choose((BEFORE_SEND, AFTER_SEND, None)))
    if step.worker in stage.running():
        yield Crash(step.worker)
        if choose((True, False)):
            yield from come_back(stage, choose)


def strike(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Let something go wrong with what a gate is about to do, at once, and perhaps kill it on its way."""
    yield from _one(choose((Arm, Arm, ArmProvider, ArmJournal, None)), stage, choose)
    step = choose((Recover, Recover, Fire, GoOn)).draw(stage, choose)
    if step is None:
        return
    yield replace(step, until=choose((None, None, *KILLS)))
    if step.worker in stage.running() and choose((True, True, False)):
        yield Crash(step.worker)


def close_the_door(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Take away what an action in doubt rests on, and let something go wrong while a gate makes sure that it never happens."""
    if not _makes_sense(Recover, stage):
        return
    yield from map(Crash, stage.running())
    yield from _one(choose((Revoke, Revoke, Change, Change, None)), stage, choose)
    calls = [call for call in (Call.BURN, Call.BURN, Call.LOOKUP) if call in Arm.choices(stage)[0]]
    call = choose([None, None, *calls])
    if call is not None:
        yield Arm(call, choose(FAULTS_OF[call]))
    step = Recover(choose(WORKERS), choose(Recover.choices(stage)[1]), choose((BEFORE_BURN, AFTER_BURN, None)))
    yield step
    if step.worker in stage.running() and choose((True, False)):
        yield Crash(step.worker)
    elif step.worker in stage.running():
        yield from _wait(stage, choose, PAUSES[BEFORE_BURN])
        yield GoOn(step.worker)


def interleave(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Let two gates work on one action, and take turns: one request, or up to a place."""
    for name in WORKERS:
        if name not in stage.running():
            kind: type[Fire | Recover] = choose((Fire, Recover))
            yield kind(name, "1", choose((BEFORE_SEND, AFTER_SEND, *PAUSES)))
    for _ in range(choose((2, 3, 4, 5))):
        running = stage.running()
        if len(running) < len(WORKERS):
            return
        name = choose(running)
        request = type(stage.worker(name).pending).__name__
        yield GoOn(name, choose((Place("after", request), Place("after", request), AFTER_SEND, Place("after", "Append"))))


def approve_again(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Grant an approval again that holds no more, and fire or recover under it: it must stay as it is."""
    if choose((True, False)):
        yield from _one(Revoke, stage, choose)
    else:
        yield from _wait(stage, choose, (Instant.APPROVAL,))
    yield Approve()
    yield from _one(choose((Recover, Fire)), stage, choose)


def busy_day(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Let others do the same several times: what an observation or a lookup has to read grows."""
    step = Change.draw(stage, choose)
    if step is not None:
        yield from [step] * choose((2, 3, 4))


def look_back(stage: AnyStage, choose: Choose) -> Iterator[Step]:
    """Come back to what has ended: let a person decide it, ask the provider about it, or fire it again."""
    yield from _one(choose((Resolve, Reconcile)), stage, choose)
    yield from _one(choose((Reconcile, Fire, Approve, None)), stage, choose)


SEQUENCES: dict[StepSequence, float] = {
    come_back: 12,
    pause: 14,
    strike: 5,
    close_the_door: 3,
    interleave: 2.5,
    approve_again: 0.5,
    busy_day: 0.5,
    look_back: 3,
}
"""Every sequence, and how often it is drawn beside the others."""


def _draw(stage: AnyStage, rng: random.Random) -> Iterator[Step]:
    while not (stage.at_rest and rng.random() < AT_REST):
        if rng.random() < IN_SEQUENCE:
            yield from _any(SEQUENCES, rng)(stage, rng.choice)
        else:
            yield from _one(_any(KINDS, rng), stage, rng.choice)


def _any(weights: dict[T, float], rng: random.Random) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]


def _makes_sense(kind: type[Step], stage: AnyStage) -> bool:
    return all(kind.choices(stage))


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
