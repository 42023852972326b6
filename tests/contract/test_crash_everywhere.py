"""A process dies before or after every request of the protocol, and another one carries the action to its end.

The ledger judges: at most one effect, an outcome that agrees with it, an end to everything, and no Refused or Ambiguous where
the provider's own state allowed a definite, wanted end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock import Outcome
from interlock.domain import requests
from interlock.domain.profiles import CapabilityProfile
from tests.crashing import (
    AFTER_SEND,
    BEFORE_SEND,
    LATE_SEND,
    Actor,
    CrashPoint,
    Death,
    Stage,
    When,
    crash_points,
    crashes,
    disagreement,
    to_the_end,
)
from tests.provider_world import AMOUNT, HOUR_S, PROFILES, SUBJECT, SendFault, World

Meanwhile = Callable[[Stage], None]


def _nothing(stage: Stage) -> None:
    del stage


def _revoked(stage: Stage) -> None:
    stage.revoke()


def _conflict(stage: Stage) -> None:
    stage.world.provider.state = "closed"


def _a_day_passes(stage: Stage) -> None:
    stage.world.advance(25 * HOUR_S)


def _revoked_and_a_day_passes(stage: Stage) -> None:
    stage.revoke()
    stage.world.advance(25 * HOUR_S)


MEANWHILE: dict[str, Meanwhile] = {
    "nothing": _nothing,
    "revoked": _revoked,
    "conflict": _conflict,
    "a-day": _a_day_passes,
    "revoked-and-a-day": _revoked_and_a_day_passes,
}
REFUSING = ("revoked", "conflict", "revoked-and-a-day")
WINDOW_OVER = ("a-day", "revoked-and-a-day")


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_crash_anywhere_in_fire_leads_to_one_end_that_the_ledger_confirms(profile: str, meanwhile: str, folder: Path) -> None:
    """Whatever request a firing process dies at, the next one ends the action as the ledger has it."""
    cases = Cases(PROFILES[profile], meanwhile, folder)
    for point in cases.points_of_fire():
        with cases.stage(str(point)) as stage:
            first = cases.actor(stage)
            assert crashes(first.fire, point), f"the protocol ended before {point}"
            first.die()
            cases.judge(f"{point} {type(first.trace[point.index]).__name__}", stage)
    assert not cases.problems(), "\n".join(cases.problems())


SECOND_CRASHES = [
    ("keys-lookup-burn-roll-unknown", "nothing"),
    ("keys-lookup-burn-roll-unknown", "revoked"),
    ("keys-burn", "conflict"),
    ("lookup-stale-roll-known", "a-day"),
]


@pytest.mark.parametrize("point", [BEFORE_SEND, LATE_SEND, AFTER_SEND], ids=["before", "late", "after"])
@pytest.mark.parametrize(("profile", "meanwhile"), SECOND_CRASHES)
def test_a_second_crash_anywhere_in_recovery_changes_nothing(profile: str, meanwhile: str, point: Death, folder: Path) -> None:
    """Whatever request the recovering process dies at in its turn, the third one ends the action as the ledger has it."""
    cases = Cases(PROFILES[profile], meanwhile, folder)
    index, when, died = 0, When.BEFORE, True
    while died:
        with cases.stage(f"{index}-{when}") as stage:
            first = cases.actor(stage)
            assert crashes(first.fire, point)
            first.die()
            MEANWHILE[meanwhile](stage)
            second = cases.actor(stage)
            died = crashes(second.recover, CrashPoint(index, when))
            second.die()
            cases.judge(f"{when} recovery's request {index}", stage, meanwhile_is_over=True)
        index, when = (index, When.AFTER) if when is When.BEFORE else (index + 1, When.BEFORE)
    assert index > 5, "recovery made hardly any request"
    assert not cases.problems(), "\n".join(cases.problems())


@pytest.mark.parametrize("seen", ["by its sender", "by nobody"])
@pytest.mark.parametrize("profile", PROFILES)
def test_whatever_goes_wrong_with_the_first_send_the_ledger_confirms_the_end(profile: str, seen: str, folder: Path) -> None:
    """Every fault of a send, seen by a living sender or by nobody, ends as the ledger has it."""
    cases = Cases(PROFILES[profile], "nothing", folder)
    for fault in SendFault:
        if fault is SendFault.FAILS_AND_ROLLS_FORWARD and cases.profile.roll_forward_s == 0:
            continue  # this provider says that it never does
        with cases.stage(fault.name) as stage:
            stage.world.send_faults = [fault]
            first = cases.actor(stage)
            if seen == "by nobody":
                assert crashes(first.fire, AFTER_SEND)
                first.die()
            cases.judge(fault.name, stage, first if seen == "by its sender" else None, fault=fault)
    assert not cases.problems(), "\n".join(cases.problems())


FAILING = {SendFault.FAILS, SendFault.FAILS_WITH_EFFECT, SendFault.FAILS_AND_ROLLS_FORWARD}
DECLINING = {SendFault.DECLINES, SendFault.DECLINES_UNSAVED, SendFault.LOST_DECLINE}


class Cases:
    """Many cases on one journal, each with a world of its own, and what was wrong with their ends."""

    def __init__(self, profile: CapabilityProfile, meanwhile: str, folder: Path) -> None:
        self.profile = profile
        self.meanwhile = meanwhile
        self._path = folder / "journal.db"
        self._problems: list[str] = []
        self._case = ""

    def stage(self, case: str) -> Stage:
        """Return a stage with a fresh world and a fresh approval."""
        self._case = case
        stage = Stage(self._path, World(self.profile))
        stage.approve(case)
        return stage

    def actor(self, stage: Stage) -> Actor:
        """Return a process that was told of the account as it was in the beginning."""
        decided_on = World(self.profile).observe(SUBJECT)
        return stage.actor(f"refund:{self._case}", self._case, premises=(decided_on,))

    def points_of_fire(self) -> list[CrashPoint]:
        """Return where a firing process can die; before the first commit nothing that happens meanwhile makes a difference."""
        with self.stage("whole") as stage:
            actor = self.actor(stage)
            actor.fire()
        points = list(crash_points(actor.trace))
        first_commit = next(i for i, request in enumerate(actor.trace) if isinstance(request, requests.Append))
        return points if self.meanwhile == "nothing" else [point for point in points if point.index >= first_commit]

    def judge(
        self,
        case: str,
        stage: Stage,
        first: Actor | None = None,
        *,
        meanwhile_is_over: bool = False,
        fault: SendFault | None = None,
    ) -> None:
        """Carry the action to its end, twice, and keep what is wrong with that end."""
        if not meanwhile_is_over:
            MEANWHILE[self.meanwhile](stage)
        actor = first or self.actor(stage)
        dispatched = first is not None or (actor.exists() and bool(actor.action().dispatches))
        landed = len(stage.world.ledger) > 0
        outcome = to_the_end(actor)
        stage.world.settle()
        sends = len(stage.world.sent)
        again = to_the_end(self.actor(stage))
        needless = self._needless(outcome, dispatched=dispatched, landed=landed, fault=fault)
        found = [
            disagreement(stage.world, actor.action()),
            f"first {outcome.receipt.status}, then {again.receipt.status}" if type(outcome) is not type(again) else None,
            "a finished action was sent again" if len(stage.world.sent) != sends else None,
            needless,
            self._not_found_later(stage, actor),
        ]
        self._problems += [f"{case}: {problem}" for problem in found if problem]

    def problems(self) -> list[str]:
        """Return all of them, and what verification finds in the journal."""
        with Stage(self._path, World(self.profile)) as stage:
            return [*self._problems, *map(str, stage.gate().verify().findings)]

    def _needless(self, outcome: Outcome, *, dispatched: bool, landed: bool, fault: SendFault | None) -> str | None:
        """Say that the end is less than the provider's state allowed."""
        refusal, ambiguity = outcome.receipt.refusal, outcome.receipt.ambiguity
        if refusal is not None and self.meanwhile not in REFUSING and fault not in DECLINING:
            return f"needlessly REFUSED: {refusal.words}"
        if ambiguity is None or fault is SendFault.DISAGREES:
            return None
        by_lookup = self.profile.looks_up and (landed or self.profile.roll_forward_s is not None)
        in_window = self.profile.dedupes and self.meanwhile not in WINDOW_OVER
        by_replay = in_window and self.meanwhile not in REFUSING and fault not in FAILING
        by_burn = in_window and self.profile.burns and fault not in FAILING
        definite = not dispatched or by_lookup or by_replay or by_burn
        return f"needlessly AMBIGUOUS: {ambiguity}" if definite else None

    def _not_found_later(self, stage: Stage, actor: Actor) -> str | None:
        """Say that reconcile leaves an Ambiguous action alone although the provider has it."""
        action = actor.action()
        effects = stage.world.effects_of(action.id)
        if action.status != "AMBIGUOUS" or not self.profile.looks_up or not effects or effects[0].amount_minor != AMOUNT:
            return None
        (reconciled,) = self._reconciled(stage, actor)
        return None if reconciled.receipt.status == "COMMITTED" else "reconcile does not find what the ledger has"

    @staticmethod
    def _reconciled(stage: Stage, actor: Actor) -> tuple[Outcome, ...]:
        return stage.gate().reconcile(actor.key).outcomes
