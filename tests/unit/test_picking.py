"""Which actions a pass of the recovery service works on."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import cast
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.picking import Picker, Survey, locks_to_probe
from interlock.domain.requests import Liveness
from interlock.domain.summary import IN_FLIGHT, ActionSummary

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOWN = frozenset({"t"})
LATER, EARLIER = NOW + timedelta(seconds=30), NOW - timedelta(seconds=1)


def _flying(lock: str | None, expires_at: datetime | None, action_id: UUID | None = None) -> ActionSummary:
    return ActionSummary(
        action_id=(action_id or uuid4()).hex,
        version=3,
        key="k",
        status=IN_FLIGHT,
        target="t",
        subject="s",
        approval_id="a",
        amount_minor=None,
        currency=None,
        via=None,
        code=None,
        attention=False,
        claim_lock=lock,
        claim_expires_at=expires_at,
        intended_at=EARLIER,
        changed_at=EARLIER,
    )


def _survey(*flying: ActionSummary, busy: frozenset[UUID] = frozenset(), **liveness: Liveness) -> Survey:
    return Survey(at=NOW, flying=flying, liveness=liveness, busy=busy)


def _picked(survey: Survey, at_most: int = 100, seed: int = 0) -> list[UUID]:
    return Picker(at_most, Random(seed).sample).pick(survey, KNOWN)


def test_one_question_answers_for_all_actions_of_a_holder() -> None:
    """500 claims of one holder are one lock to ask about; claims that have run out, or have no lock, are none."""
    flying = [_flying("dead", LATER) for _ in range(500)]
    flying += [_flying("other", LATER), _flying("old", EARLIER), _flying(None, LATER), _flying(None, None)]
    assert locks_to_probe(flying, NOW) == ["dead", "other"]


def test_what_may_be_taken_over_is_picked_and_nothing_else() -> None:
    """Free are: nobody's, run out, of a dead holder, and idle ones of one's own; not: a living holder's, or one unknown."""
    free = [_flying(None, None), _flying("alive", EARLIER), _flying("gone", LATER), _flying("own", LATER), _flying("alive", NOW)]
    held = [_flying("alive", LATER), _flying("unknown", LATER), _flying("never-asked", LATER), _flying(None, LATER)]
    survey = _survey(*free, *held, alive=Liveness.ALIVE, gone=Liveness.GONE, own=Liveness.IDLE, unknown=Liveness.UNKNOWN)
    assert set(_picked(survey)) == {UUID(one.action_id) for one in free}


def test_a_row_that_somebody_edited_stops_nobody() -> None:
    """A claim's end that is no time any more is no reason to leave the action alone: its events say what may be done."""
    edited = replace(_flying("alive", LATER), claim_expires_at=cast("datetime", "soon"))
    assert locks_to_probe([edited], NOW) == []
    assert _picked(_survey(edited)) == [UUID(edited.action_id)]


def test_what_a_run_of_this_gate_is_at_work_on_is_left_to_it() -> None:
    """An action of one's own claim that a thread is at work on is not picked."""
    mine = uuid4()
    assert _picked(_survey(_flying("own", LATER, mine), busy=frozenset({mine}), own=Liveness.IDLE)) == []


@given(st.integers(0, 60), st.integers(1, 60), st.integers(0, 2**32))
def test_a_pass_is_bounded(free: int, at_most: int, seed: int) -> None:
    """A pass never has more than its bound, has as many as it can, and has none twice."""
    picked = _picked(_survey(*(_flying(None, None) for _ in range(free))), at_most, seed)
    assert len(picked) == len(set(picked)) == min(free, at_most)


def test_nodes_seldom_begin_with_the_same_action() -> None:
    """Twenty nodes that see the same 500 actions pick different ones: most are picked by two nodes at the most."""
    survey = _survey(*(_flying("gone", LATER) for _ in range(500)), gone=Liveness.GONE)
    picked = Counter(one for seed in range(20) for one in _picked(survey, 25, seed))
    assert len({_picked(survey, 25, seed)[0] for seed in range(20)}) >= 15
    assert sum(1 for many in picked.values() if many <= 2) >= 0.8 * len(picked)


def test_every_action_is_picked_in_the_end() -> None:
    """Picking at random leaves none out: passes over the same actions come to each of them."""
    survey = _survey(*(_flying(None, None) for _ in range(100)))
    picker, seen = Picker(10, Random(1).sample), set[UUID]()
    for _ in range(200):
        seen.update(picker.pick(survey, KNOWN))
    assert len(seen) == 100


def test_what_rests_takes_nobodys_place() -> None:
    """An action that can't go on before a time is not picked before it, and is afterwards."""
    waiting, ready = uuid4(), uuid4()
    picker = Picker(1, Random(0).sample)
    flying = (_flying(None, None, waiting), _flying(None, None, ready))
    picker.rest(waiting, LATER)
    assert [picker.pick(_survey(*flying), KNOWN) for _ in range(20)] == [[ready]] * 20
    assert picker.pick(Survey(at=LATER, flying=flying[:1], liveness={}), KNOWN) == [waiting]


def test_a_provider_that_hangs_does_not_fill_every_pass() -> None:
    """Each target has its turn: of 500 actions of one and two of another, the two are in the first pass, at its beginning."""
    many = [_flying(None, None) for _ in range(500)]
    few = [replace(_flying(None, None), target="healthy") for _ in range(2)]
    picked = Picker(25, Random(3).sample).pick(_survey(*many, *few), frozenset({"t", "healthy"}))
    assert {UUID(one.action_id) for one in few} <= set(picked[:4])


def test_what_this_node_cannot_send_comes_last() -> None:
    """1,500 actions of a target that is not here keep no action waiting of one that is; they fill what is left of the pass."""
    foreign = [replace(_flying(None, None), target="elsewhere") for _ in range(1_500)]
    own = _flying(None, None)
    picked = Picker(25, Random(4).sample).pick(_survey(*foreign, own), KNOWN)
    assert picked[0] == UUID(own.action_id)
    assert len(picked) == 25
