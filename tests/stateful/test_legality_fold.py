"""The rules as a fold over states say of every history that a gate writes what the aggregates say of it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from harness.crash_test import simulated
from interlock.domain.action import GatedAction
from interlock.domain.legality import Legality, Progress, Rule, after
from interlock.domain.states import STATES_BY_TOPIC
from interlock.evidence.decoding import decode_state
from interlock.infrastructure.journal import Journal
from interlock.testing import PROFILES
from interlock.testing.drawing import draw_steps
from interlock.testing.journals import journals_at
from interlock.testing.machine import MAX_STEPS
from interlock.testing.stage import Stage

SCHEDULES = 20
"""For each profile."""


def _differences(action: GatedAction, progress: Progress) -> dict[str, tuple[object, object]]:
    said = {
        "status": (action.status, progress.status),
        "term": (action.claim.term if action.claim else 0, progress.term),
        "claim": (action.claim, progress.claim),
        "attempt": (action.attempt, progress.attempt),
        "sends": (len(action.dispatches), progress.sends),
        "doubt": (action.doubt, progress.doubt),
        "horizon": (action.horizon_at if action.dispatches else None, progress.horizon_at),
        "intent": (action.intent, progress.intent),
    }
    return {name: both for name, both in said.items() if both[0] != both[1]}


def _folded(journal: Journal) -> Legality:
    """Fold the stored bytes, as somebody does who has no eventsourcing, and find nothing."""
    legality, rows = Legality(), journal.rows(limit=10_000)
    for row in rows:
        event = journal.domain_event(row)
        state = decode_state(row.topic, row.state or b"")
        assert {name: getattr(event, name) for name in vars(state)} == vars(state)
        found = legality.read(event.originator_id, STATES_BY_TOPIC[row.topic], state)
        assert not [breach for breach in found if breach.rule is not Rule.TIME], (row.position, found)
    assert not list(legality.unreserved())
    return legality


@pytest.mark.parametrize("profile", PROFILES)
def test_the_fold_says_what_the_aggregate_says(profile: str) -> None:
    """Status, claim, term, attempt, sends, doubt, horizon, and each approval's sums; and that every history is legal."""
    setup, endings = simulated(PROFILES[profile]).setup, Counter[str]()
    with journals_at(None) as journals:
        for seed in range(SCHEDULES):
            with Stage[Any, Any](setup, journals) as stage:
                for step in draw_steps(stage, random.Random(seed), MAX_STEPS):
                    step.play(stage)
                stage.finish()
                legality = _folded(stage.journal)
                for action in stage.actions():
                    assert not _differences(action, legality.actions[action.id])
                    endings[action.status] += 1
                    approval = stage.journal.find_approval(action.intent.approval.id)
                    assert approval is not None
                    folded = legality.approvals[approval.id]
                    assert (folded.reserved, folded.spent) == (approval.reserved, approval.spent)
                    assert (folded.expires_at, folded.revoked) == (approval.expires_at, approval.revoked_at is not None)
    assert endings, "something was fired"


def test_a_state_that_is_not_known_leaves_the_order_known() -> None:
    """By its topics alone an action has a status and a number of sends, and nothing else is claimed."""
    progress = Progress()
    for name in ("intended", "claimed", "dispatched", "claimed", "dispatched", "ambiguous"):
        progress = after(progress, STATES_BY_TOPIC[f"interlock.action.{name}"], None)
    assert (progress.status, progress.sends) == ("AMBIGUOUS", 2)
    assert (progress.term, progress.attempt, progress.intent, progress.doubt) == (None, None, None, None)
