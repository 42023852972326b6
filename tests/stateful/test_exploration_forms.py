"""What the exploration takes for the same behaves alike, and what it drops is not read again."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest

from interlock.domain.requests import Burn, FindAction, LoadAction, LoadApproval, Now, Send
from interlock.testing.exploration.families import FAMILIES
from interlock.testing.exploration.journals import Journals
from interlock.testing.exploration.liveness import live_names, only_returns
from interlock.testing.exploration.memory import Write
from interlock.testing.exploration.scope import LEAP_TICKS, SmallProfile, all_profiles, instant
from interlock.testing.exploration.search import Search, explore
from interlock.testing.exploration.state import Faults
from interlock.testing.exploration.workers import History, Run
from interlock.testing.exploration.world import World

PROFILES = list(all_profiles())


def _frame_of(generator: Any) -> FrameType:
    next(generator)
    frame: FrameType = generator.gi_frame
    return frame


def _live_at(generator: Any) -> frozenset[str]:
    frame = _frame_of(generator)
    return live_names(frame.f_code, frame.f_lasti)


def test_a_variable_that_is_not_read_again_is_dead() -> None:
    """Only what is read after the yield is live; what is written before it is read is not."""

    def work(used: int, unused: int, rewritten: int) -> Generator[int, int, int]:
        rewritten = yield unused
        return used + rewritten

    assert _live_at(work(1, 2, 3)) == {"used"}


def test_a_loop_keeps_its_variable_and_what_its_next_round_reads() -> None:
    """The iterator can't be seen; the variable that it fills stands for it."""

    def work(items: list[int], step: int) -> Generator[int, None, None]:
        for item in items:
            yield item + step

    assert _live_at(work([1], 2)) == {"item", "step"}


def test_a_handler_keeps_what_it_reads() -> None:
    """An exception may be thrown in at the yield."""

    def work(words: str) -> Generator[None, None, str]:
        try:
            yield
        except ValueError:
            return words
        return ""

    assert _live_at(work("")) == {"words"}


def test_a_frame_that_only_hands_a_result_on_is_known_as_one() -> None:
    """`return (yield from ...)` adds nothing to what it waits for; anything done to the result does."""

    def inner() -> Generator[None, None, int]:
        yield
        return 1

    def hands_on() -> Generator[None, None, int]:
        return (yield from inner())

    def adds() -> Generator[None, None, int]:
        return (yield from inner()) + 1

    for work, only in ((hands_on, True), (adds, False)):
        frame = _frame_of(work())
        assert only_returns(frame.f_code, frame.f_lasti) is only


def _answered_alike(world: World, twins: dict[int, History]) -> int:
    """Give each worker's twin every answer that the worker got; return how many were compared."""
    runs, compared = world.runs, 0
    for worker, key in [(key[0], key[1]) for key in list(runs._known) if isinstance(key, tuple) and isinstance(key[0], int)]:
        twin, request = twins.get(worker), runs.requests[worker]
        outdated = runs.histories[worker].outdated
        if twin is None or (outdated and not isinstance(request, Now)) or (isinstance(request, Write) and request.is_draft):
            continue
        loads = isinstance(request, FindAction | LoadAction | LoadApproval)
        here: Any = key
        if loads:
            parts = world.journals.approvals if isinstance(request, LoadApproval) else world.journals.actions
            here = world.journals.logs[parts.index(key[1])]
        there = here
        if isinstance(request, Now):
            here, there = instant(runs.histories[worker].present), instant(twin.present)
        expected = runs._answered(worker, here)
        found = runs._number_of(*runs.advanced(twin, Run(twin, runs.sender), there))
        # What is outdated is told apart by less: its times decide nothing that can still be written, but for whether it sends.
        assert found == expected or (outdated and not isinstance(runs.requests[expected], Send | Burn)), "twins go on differently"
        assert isinstance(runs.requests[found], Send) == isinstance(runs.requests[expected], Send)
        compared += 1
    return compared


def _aged_alike(world: World, twins: dict[int, History]) -> int:
    """Let time pass for each worker and its twin, and let somebody else write; return how many were compared."""
    runs = world.runs
    for worker, twin in list(twins.items()):
        changed = [replace(twin, present=twin.present + ticks) for ticks in (1, LEAP_TICKS)]
        changed.append(replace(twin, outdated=True))
        here = [runs._later_unsettled(worker, ticks) for ticks in (1, LEAP_TICKS)]
        here.append(runs._seen_with(worker, replace(runs.histories[worker], outdated=True)))
        there = [runs._number_of(history, Run(twin, runs.sender)) for history in changed]
        assert there == here
    return len(twins)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [0, 17, 21, 29])
def test_workers_with_one_form_behave_alike(number: int) -> None:
    """Of two histories that were taken for one worker, each answer, each wait and each foreign write leads to one again."""
    world = World(PROFILES[number], Faults(orphans=1, resolve=False))
    twins = world.runs.twins = {}
    explore(world, most_states=6_000)
    world.runs.twins = None
    assert _answered_alike(world, twins) > 50
    assert _aged_alike(world, twins) > 50


def _surroundings(profile: SmallProfile, faults: Faults) -> set[Any]:
    """Return every journal, with the provider and the late requests beside it, that can be reached."""
    world = World(profile, faults)
    world.journals = world.rests._journals = Journals(profile, over=world.runs.over)
    search = Search(world, most_states=10_000_000)
    assert search.run()
    reached: set[Any] = set()
    for at in search.tables.surroundings_of(np.concatenate(search.layers)):
        form = world.journals.logs[at.journal].form(profile)
        provider = world.providers.values[at.provider]
        late = tuple(each for each in world.orphans.values[at.orphans] if not provider.keys[each.attempt - 1].is_settled)
        ended = world.journals.facts[at.journal].ended
        # After the end only what became of the action counts.
        reached.add((form[0], provider.effects) if ended else (form, provider, late))
    return reached


NOTHING_MORE = Faults(orphans=0, attempts=1, revocations=False, locks_are_lost=False, resolve=False)
"""As little as can go wrong: kills, lost answers, the provider's own failures, and the end of the key window."""


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("number", "faults"),
    [
        pytest.param(6, Faults(orphans=0, attempts=1), id="no keys"),
        pytest.param(17, NOTHING_MORE, id="keys"),
        pytest.param(29, NOTHING_MORE, id="burns"),
        *(
            pytest.param(number, replace(FAMILIES[family], attempts=1), id=f"{number}-{family}", marks=pytest.mark.long)
            for number in (2, 6, 9, 12, 17, 29)
            for family in FAMILIES
            if number < 9 or FAMILIES[family].orphans < 2
        ),
    ],
)
def test_nothing_is_missed_by_what_is_taken_at_once(number: int, faults: Faults) -> None:
    """With each request as a step of its own, a hundred times as many states, the same journals and providers are reached."""
    plain = _surroundings(PROFILES[number], faults)
    assert len(plain) > 20
    assert plain == _surroundings(PROFILES[number], replace(faults, every_request=True))
