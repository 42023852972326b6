"""Random schedules of several gates on one action: whatever meets whatever, the ledger agrees with the journal in the end.

A seed is a schedule: which requests fail, who dies where, what another gate or the world does right before which request, whose
lock is lost while it lives. A seed that fails once goes on the list of seeds that are always tried.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from interlock.domain import requests
from interlock.domain.action import GatedAction, SendPurpose
from interlock.domain.requests import Request
from interlock.errors import GateClosed, OutcomeNotRecorded, PremiseUnreadable
from tests.crashing import Actor, Crash, CrashAt, CrashPoint, Death, Stage, When, abandon, disagreement, to_the_end
from tests.journals import present
from tests.provider_world import HOUR_S, PROFILES, SUBJECT, BurnFault, LookupFault, ObserveFault, SendFault, World

PLACES: list[type[Request[Any]]] = [
    requests.Append,
    requests.Append,
    requests.StillAt,
    requests.Send,
    requests.Burn,
    requests.LookUp,
    requests.Now,
    requests.ReadPremises,
    requests.LoadApproval,
    requests.SleepUntil,
]
WAITS_S = {"wait": 3.0, "wait-longer": 25.0, "past-claim": 41.0, "past-horizon": 200.0, "a-day": 25 * HOUR_S}
EVENTS = (*WAITS_S, "wait", "revoke", "close", "reopen", "by-hand", "blind", "lose-lock")
DEPTH = 3
"""How many gates are at work inside each other at the most."""


class Schedule:
    """One random schedule of one action."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random = random.Random(seed)
        self.name = f"case-{seed}"
        world = World(PROFILES[self.random.choice(list(PROFILES))])
        self.stage = Stage(path, world)
        self.stage.approve(self.name, expires_in_s=400 * 86_400)
        never = {SendFault.DISAGREES} | ({SendFault.FAILS_AND_ROLLS_FORWARD} if world.profile.roll_forward_s == 0 else set())
        sends = [None] * 5 + [fault for fault in SendFault if fault not in never]
        world.send_faults = self.random.choices(sends, k=6)
        world.lookup_faults = self.random.choices([None, None, None, *LookupFault], k=6)
        world.burn_faults = self.random.choices([None, None, None, *BurnFault], k=4)
        self.premises = (world.observe(SUBJECT),) if self.random.random() < 0.6 else ()

    def actor(self) -> Actor:
        """Return another process."""
        return self.stage.actor(self.name, self.name, premises=self.premises)

    def run(self) -> Actor:
        """Let several processes fire, then let whoever is left die, and bring the action to its end."""
        for _ in range(self.random.randrange(1, 6)):
            self.fires(self.actor(), 0)
            for _ in range(self.random.randrange(3)):
                self.happens(self.actor())
        for gate in self.stage.gates:
            abandon(gate)
        world = self.stage.world
        for faults in (world.send_faults, world.lookup_faults, world.burn_faults, world.observe_faults):
            faults.clear()
        last = self.actor()
        to_the_end(last, rounds=120)
        world.settle()
        return last

    def fires(self, actor: Actor, depth: int) -> None:
        """Let one process fire, perhaps to death, and perhaps with others at work in between."""
        place, nth, interrupted = self.random.choice(PLACES), self.random.randrange(4), self.random.random() < 0.7
        seen = 0

        def interpose(request: Request[Any]) -> None:
            nonlocal seen
            seen += isinstance(request, place)
            if depth < DEPTH and interrupted and isinstance(request, place) and seen == nth + 1:
                self.comes_between(actor, depth)

        try:
            actor.fire(self.death(), interpose)
        except Crash:
            if self.random.random() < 0.8:
                actor.die()  # or it is stopped for ever, with its lock held
        except (PremiseUnreadable, OutcomeNotRecorded, GateClosed):
            pass  # each says what is not known; the journal and the ledger are judged in the end

    def comes_between(self, actor: Actor, depth: int) -> None:
        """Let something happen, or another process fire."""
        for _ in range(self.random.choice((1, 1, 2))):
            if self.random.random() < 0.5:
                self.happens(actor)
            else:
                self.fires(self.actor(), depth + 1)

    def death(self) -> Death | None:
        """Return where a process dies, if it does."""
        chance = self.random.random()
        if chance < 0.5:
            return CrashPoint(self.random.randrange(22), self.random.choice((When.BEFORE, When.AFTER)))
        return CrashAt(requests.Send, When.LATE, self.random.choice((1, 1, 2))) if chance < 0.65 else None

    def happens(self, actor: Actor) -> None:
        """Let the world move."""
        world, event = self.stage.world, self.random.choice(EVENTS)
        world.advance(WAITS_S.get(event, 0.0))
        match event:
            case "revoke":
                self.stage.revoke()
            case "close":
                world.provider.state = "closed"
            case "reopen":
                world.provider.state = "open"
            case "by-hand":
                world.by_hand(1)
            case "blind":
                world.observe_faults.append(self.random.choice(list(ObserveFault)))
            case "lose-lock":
                actor.gate._driver.locks.lose()


def _wrong(schedule: Schedule, last: Actor) -> list[str]:
    """Return everything that is wrong with the end of a schedule."""
    action, world = last.action(), schedule.stage.world
    found = [disagreement(world, action)]
    if len(world.sends_of(action.id)) > len(action.dispatches):
        found.append("more was sent than dispatched")
    if _sent_after_revocation(schedule, action):
        found.append("a send was dispatched after the revocation")
    profile = world.profile
    if action.status == "AMBIGUOUS" and profile.looks_up:
        effects = world.effects_of(action.id)
        if profile.roll_forward_s is not None:
            found.append("needlessly AMBIGUOUS")
        elif effects and last.gate.reconcile(action.key).outcomes[0].receipt.status != "COMMITTED":
            found.append("reconcile does not find it")
    found += map(str, last.gate.verify(action.key).findings)
    return [problem for problem in found if problem]


def _sent_after_revocation(schedule: Schedule, action: GatedAction) -> bool:
    """Whether a Dispatched that executes stands behind the Revoked in the log (I3)."""
    held = schedule.stage.gates[-1]._driver.journal.find_approval(schedule.name)
    assert held is not None
    executions = {event.originator_version for event in action.dispatches if event.purpose is SendPurpose.EXECUTE}
    log = present.journals.log(schedule.stage.path)
    revoked = [at for at, (one, _, topic) in enumerate(log) if (one, topic) == (held.id.hex, "interlock.approval.revoked")]
    sent = [at for at, (one, version, _) in enumerate(log) if one == action.id.hex and version in executions]
    return bool(revoked) and any(at > revoked[0] for at in sent)


def _try_seeds(seeds: range, folder: Path) -> None:
    problems = []
    for seed in seeds:
        schedule = Schedule(seed, folder / f"journal-{seed // 50}.db")
        with schedule.stage:
            problems += [f"seed {seed}: {problem}" for problem in _wrong(schedule, schedule.run())]
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("start", range(0, 400, 100))
def test_random_schedules_end_as_the_ledger_has_it(start: int, folder: Path) -> None:
    """At most one effect, an end that agrees with it, nothing sent undispatched or after a revocation, a legal log."""
    _try_seeds(range(start, start + 100), folder)


@pytest.mark.long
@pytest.mark.sqlite_only  # what is drawn is the protocol's; on PostgreSQL the 400 schedules above are played
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("start", range(1000, 21_000, 1000))
def test_many_random_schedules_end_as_the_ledger_has_it(start: int, folder: Path) -> None:
    """The same, with more of them."""
    _try_seeds(range(start, start + 1000), folder)
