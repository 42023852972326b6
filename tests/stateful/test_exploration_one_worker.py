"""Every schedule of one worker, with one fault and with two crashes, over every capability profile."""

from __future__ import annotations

from functools import cache

import pytest

from interlock.testing.exploration import report
from interlock.testing.exploration.cells import unexplained, why_not
from interlock.testing.exploration.schedules import ENDED, GO_ON, KINDS, MORE_KINDS, ROWS, Enumerated, Enumeration
from interlock.testing.exploration.scope import all_profiles

PROFILES = list(all_profiles())
ALL_CELLS = (28, 29, 3, 12)
"""Profiles that reach between them every cell that any profile reaches."""
_ONCE = pytest.mark.xdist_group("every-cell")
"""What is counted of them is read by two tests, and so in one process."""


@cache
def enumerated(number: int) -> dict[str, Enumerated]:
    """Carry out every schedule of one worker with a profile; return what each kind came to."""
    return {kind: Enumeration(PROFILES[number], **options).run() for kind, options in KINDS.items()}


def test_there_are_33_profiles() -> None:
    """Keys or none, burns or not, failures stored or not, three lookups, three kinds of rolling forward, less what can't be."""
    assert len(PROFILES) == len(set(PROFILES)) == 33


@pytest.mark.parametrize("number", [pytest.param(number, marks=_ONCE if number in ALL_CELLS else ()) for number in range(33)])
def test_every_schedule_of_one_worker(number: int) -> None:
    """Neither one fault nor two crashes break an invariant, end needlessly, or come to no end."""
    for kind, found in enumerated(number).items():
        print(f"{PROFILES[number]}, {kind}: {found.schedules:,} schedules of {found.steps:,} steps")  # noqa: T201 - shown by pytest -rP
        assert found.violations == {}
        assert found.endless == []
        assert set(found.ends) <= {"COMMITTED", "REFUSED", "AMBIGUOUS"}
        assert found.schedules > 100


@_ONCE
def test_cells_and_prefixes() -> None:
    """Each (request, crash side, recovery row) is reached or truly can't be; each row is used; the prefixes are the design's."""
    total = Enumerated()
    for number in ALL_CELLS:
        for found in enumerated(number).values():
            total.add(found)
    print("\n".join((*report.cells_table(total), *report.prefixes_table(total))))  # noqa: T201 - shown by pytest -rP
    assert unexplained(total.cells, ROWS) == []
    assert [cell for cell in total.cells if why_not(cell) is not None] == []
    assert {cell.row for cell in total.cells} == set(ROWS) - {ENDED, GO_ON}
    prefixes = set(total.prefixes)
    assert {
        (),
        ("Intended",),
        ("Intended", "Claimed"),
        ("Intended", "Claimed", "Dispatched"),
        ("Intended", "Refused"),
    } <= prefixes
    for prefix in prefixes:
        assert "Dispatched" not in prefix or prefix[:2] == ("Intended", "Claimed")
        assert not {"Refused", "Committed", "Ambiguous"} & set(prefix[:-1])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(33))
def test_every_pair_of_faults(number: int) -> None:
    """Any two faults, crashes among them, break nothing either."""
    found = Enumeration(PROFILES[number], **MORE_KINDS["two faults"]).run()
    assert (found.violations, found.endless) == ({}, [])


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_request_that_was_not_sent_is_gone_on_with() -> None:
    """A crash between the note that nothing was sent and the next Dispatched is recovered by going on."""
    found = Enumeration(PROFILES[0], **MORE_KINDS["two faults"]).run()
    assert any(cell.row == GO_ON for cell in found.cells)
