"""What the exploration takes for the same behaves alike, and what it drops is not read again."""

from __future__ import annotations

from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest

from interlock.domain.requests import FindAction, LoadAction, LoadApproval, Now
from interlock.testing.exploration.liveness import live_names, only_returns
from interlock.testing.exploration.memory import Write
from interlock.testing.exploration.scope import all_profiles, instant
from interlock.testing.exploration.search import explore
from interlock.testing.exploration.state import Faults
from interlock.testing.exploration.workers import Run
from interlock.testing.exploration.world import World


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


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("exploration-1")
@pytest.mark.parametrize("number", [0, 21, 29])
def test_workers_with_one_form_behave_alike(number: int) -> None:
    """Of two histories that were taken for one worker, each answer leads to one worker again."""
    world = World(list(all_profiles())[number], Faults(orphans=1, resolve=False))
    runs, compared = world.runs, 0
    twins = runs.twins = {}
    explore(world, most_states=15_000)
    answers = [(key[0], key[1]) for key in list(runs._known) if isinstance(key, tuple) and isinstance(key[0], int)]
    for worker, key in answers:
        twin = twins.get(worker)
        request = runs.requests[worker]
        # What is outdated is told apart by less: its times decide nothing that can still be written.
        if twin is None or runs.histories[worker].outdated or (isinstance(request, Write) and request.is_draft):
            continue
        loads = isinstance(request, FindAction | LoadAction | LoadApproval)
        here: Any = world.journals.logs[key[1]] if loads else key
        there = here
        if isinstance(request, Now):
            here, there = instant(runs.histories[worker].present), instant(twin.present)
        expected = runs._answered(worker, here)
        assert runs._number_of(*runs.advanced(twin, Run(twin, runs.sender), there)) == expected
        compared += 1
    assert compared > 50
