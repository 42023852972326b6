"""The catalogue of deliberate defects fits the code, covers every promise, and (in the long run) every defect is caught."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from harness.sabotage import report, runner
from harness.sabotage.__main__ import main
from harness.sabotage.catalogue import CATALOGUE, unbroken
from harness.sabotage.defects import PROMISES, Defect, StaleCatalogueError
from harness.sabotage.kept import Kept
from harness.sabotage.runner import ROOT, Run

MADE = "Made by a test."

each_defect = pytest.mark.parametrize("defect", CATALOGUE, ids=lambda defect: defect.name)


@each_defect
def test_a_defect_fits_the_code_as_it_is(defect: Defect) -> None:
    """What it replaces stands in its file exactly once, and what comes of it is still a program that differs."""
    sound = (ROOT / defect.file).read_text(encoding="utf-8")
    spoiled = defect.applied(sound)
    if defect.file.endswith(".py"):
        assert ast.dump(ast.parse(spoiled)) != ast.dump(ast.parse(sound))


@each_defect
def test_a_defect_names_promises_and_tests_that_there_are(defect: Defect) -> None:
    """A promise that is spelled wrong would count for nothing, and a file that is gone would catch nothing."""
    assert set(defect.breaks) <= set(PROMISES)
    assert defect.breaks
    assert defect.tests
    assert all((ROOT / test).is_file() for test in defect.tests)


def test_every_promise_has_a_defect_that_breaks_it() -> None:
    """Each invariant, each rule of recovery and each way of closing the door; and no two defects share a name."""
    assert unbroken() == []
    assert len({defect.name for defect in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("text", ["", "now < until\nnow < until\n"], ids=["gone", "twice"])
def test_a_catalogue_that_fell_behind_the_code_says_so(text: str, tmp_path: Path) -> None:
    """Text that is not there, or more than once, is an error, and the file stays as it was."""
    defect = Defect(name="late", breaks=("I1",), file="clock.py", old="now < until", new="True", tests=("tests",))
    (tmp_path / "clock.py").write_text(text)
    with pytest.raises(StaleCatalogueError, match="late"):
        defect.apply(tmp_path)
    assert (tmp_path / "clock.py").read_text() == text


def test_a_survivor_stands_in_the_table() -> None:
    """The table names who survived, and which test caught the others."""
    one, other = CATALOGUE[:2]
    runs = [Run(one, None, 30, 2.0), Run(other, "tests.contract.test_rules::test_it", 3, 1.0)]
    table = report.render(Run(None, None, 40, 5.0), runs, MADE)
    assert f"survived: {one.name}\n" in table
    assert f"| {one.name} | {', '.join(one.breaks)} | **SURVIVED** | 30 |" in table
    assert f"| {other.name} | {', '.join(other.breaks)} | `test_rules::test_it` | 3 |" in table
    assert runs[0].survived
    assert not runs[1].survived


def test_what_could_not_be_run_is_no_survivor_and_not_caught() -> None:
    """Nothing is known of it, and the rest is run all the same."""
    stale = replace(CATALOGUE[0], old="a text that stands nowhere")
    (run,) = runner.run_with([stale])
    assert run.trouble is not None
    assert "stands 0 times" in run.trouble
    assert not run.survived
    table = report.render(Run(None, None, 40, 5.0), [run], MADE)
    assert "defects: 1, caught: 0, survived: none\n" in table
    assert f"| {stale.name} | {', '.join(stale.breaks)} | not run |" in table


def test_a_run_is_kept_for_the_very_defect_alone(tmp_path: Path) -> None:
    """A long run goes on where it stood; a defect or a number of schedules that has changed is run again."""
    one, other = CATALOGUE[:2]
    run, control = Run(one, "tests.contract.test_rules::test_it", 3, 1.0, schedules=7), Run(None, None, 40, 5.0)
    kept = Kept(tmp_path / "runs.jsonl", 100)
    kept.add(run, [one])
    kept.add(control, [one, other])
    kept.add(Run(other, None, 0, 0.0, trouble="no tests"), [other])
    again = Kept(tmp_path / "runs.jsonl", 100)
    assert (again.of(one), again.without([other, one])) == (run, control)
    assert again.of(other) is None
    assert again.of(replace(one, new="something else")) is None
    assert again.without([one, replace(other, tests=("tests/other.py",))]) is None
    unseen = next(one for one in CATALOGUE if not runner.in_the_crash_kit(one))
    kept.add(Run(unseen, "tests.test_it::test_it", 2, 1.0), [unseen])
    more = Kept(tmp_path / "runs.jsonl", 200)
    assert more.of(one) is None
    assert more.of(unseen) is not None


def test_schedules_are_counted_where_the_crash_kit_can_see_the_defect() -> None:
    """The table tells a defect that so many schedules miss from one that they can't see."""
    seen = next(one for one in CATALOGUE if runner.in_the_crash_kit(one))
    unseen = next(one for one in CATALOGUE if not runner.in_the_crash_kit(one))
    runs = [Run(one, "tests.test_it::test_it", 3, 1.0, schedules) for one, schedules in ((seen, 7), (seen, None), (unseen, None))]
    rows = report.render(Run(None, None, 40, 5.0), runs, MADE, 100).splitlines()
    assert [row.rsplit("|", 2)[1].strip() for row in rows if "`test_it::test_it`" in row] == ["7", "-", ""]


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_defect_that_breaks_nothing_survives() -> None:
    """The runner can tell: a comment in the place of a comment turns no test red, in the copy that is imported."""
    harmless = Defect(
        name="harmless",
        breaks=("I2",),
        file="interlock/domain/profiles.py",
        old='"""Return until when a key counts as still deduped; None where the provider has no keys."""',
        new='"""Return something."""',
        tests=("tests/unit/test_domain_aggregates.py",),
    )
    (run,) = runner.run_with([harmless])
    assert run.survived
    assert run.tests > 0


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    [
        "lookup-before-the-door-only",
        "burn-not-judged-again-when-it-is-answered",
        "key-window-counted-from-the-last-send",
    ],
)
def test_a_thousand_drawn_schedules_find_what_needs_the_right_moment(name: str) -> None:
    """Each needs a gate that stands still, or comes back, while just the right time passes: the draw has to go there."""
    (defect,) = (one for one in CATALOGUE if one.name == name)
    with runner.copy_of_repository() as root:
        defect.apply(root)
        assert runner.schedules_until_found(root, 1_000) is not None


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_defect_is_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With any one of them in the library, the suite is red."""
    code = main(["--out", str(tmp_path / "sabotage.md")])
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
