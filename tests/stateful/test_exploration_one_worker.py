"""Every schedule of one worker, with one fault and with two crashes, over every capability profile."""

from __future__ import annotations

from functools import cache
from multiprocessing import get_context

import pytest

from interlock.testing.exploration import report
from interlock.testing.exploration.__main__ import one_worker
from interlock.testing.exploration.cells import unexplained, why_not
from interlock.testing.exploration.schedules import KINDS, ROWS, Enumerated
from interlock.testing.exploration.scope import SmallProfile, all_profiles

pytestmark = pytest.mark.xdist_group("exploration-one-worker")


def _enumerated(profile: SmallProfile) -> dict[str, Enumerated]:
    return one_worker(profile, KINDS)


@cache
def everything() -> dict[SmallProfile, dict[str, Enumerated]]:
    """Return what every schedule of every profile came to; carried out once for all tests here."""
    profiles = list(all_profiles())
    with get_context("spawn").Pool(2) as pool:
        return dict(zip(profiles, pool.map(_enumerated, profiles, chunksize=1), strict=True))


def total() -> Enumerated:
    """Return all of it in one."""
    result = Enumerated()
    for by_kind in everything().values():
        for each in by_kind.values():
            result.add(each)
    return result


@pytest.mark.timeout(600)
def test_all_33_profiles_are_enumerated() -> None:
    """Each profile has schedules of both kinds, and the counts are printed."""
    assert len(everything()) == 33
    for kind in KINDS:
        assert all(by_kind[kind].schedules > 100 for by_kind in everything().values())
    print("\n".join(report.one_worker_table(everything())))  # noqa: T201 - shown by pytest -rP


def test_no_schedule_breaks_an_invariant() -> None:
    """Neither one fault nor two crashes lead to two effects, an effect of a refused action, or a needless end."""
    assert total().violations == {}


def test_every_schedule_comes_to_an_end() -> None:
    """No schedule comes back to where it was, and the only ends are the recorded ones."""
    assert total().endless == []
    assert set(total().ends) == {"COMMITTED", "REFUSED", "AMBIGUOUS"}


def test_every_cell_is_reached_or_explained() -> None:
    """Each (request, crash side, recovery row) is reached, or it is known why it can't be."""
    assert unexplained(total().cells, ROWS) == []
    print("\n".join(report.cells_table(total())))  # noqa: T201 - shown by pytest -rP


def test_what_is_said_to_be_impossible_is_not_reached() -> None:
    """A reason why a cell can't be reached is true."""
    assert [cell for cell in total().cells if why_not(cell) is not None] == []


def test_every_recovery_row_is_used() -> None:
    """Each row of the recovery table is what some crash comes to."""
    reached = {cell.row for cell in total().cells}
    assert reached >= {"send again", "new key behind closed door", "refuse behind closed door"}
    assert reached >= {"new key behind burned keys", "refuse behind burned keys", "found"}
    assert reached >= {"no action: fired anew", "nothing dispatched: start"}


def test_durable_prefixes_are_those_of_the_design() -> None:
    """Intended alone, and Intended and Claimed, are reached; nothing is dispatched before both."""
    prefixes = set(total().prefixes)
    assert {(), ("Intended",), ("Intended", "Claimed"), ("Intended", "Claimed", "Dispatched"), ("Intended", "Refused")} <= prefixes
    for prefix in prefixes:
        if "Dispatched" in prefix:
            assert prefix[:2] == ("Intended", "Claimed")
        assert not {"Refused", "Committed", "Ambiguous"} & set(prefix[:-1])
    print("\n".join(report.prefixes_table(total())))  # noqa: T201 - shown by pytest -rP


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", range(33))
def test_every_pair_of_faults(number: int) -> None:
    """Any two faults, crashes among them, break nothing either."""
    from interlock.testing.exploration.schedules import MORE_KINDS, Enumeration

    found = Enumeration(list(all_profiles())[number], **MORE_KINDS["two faults"]).run()
    assert (found.violations, found.endless) == ({}, [])
