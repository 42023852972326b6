"""The whole matrix: its targets, its options, its results, and what its audit sees that nobody else would."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness import results
from harness.audit import __main__ as audit
from harness.audit import figures, wanted
from harness.carrier import WorkflowRecord
from harness.case import CaseResult
from harness.columns import COLUMNS, Engine
from harness.columns.job import Answer, Status
from harness.columns.temporal.options import DEFAULTS, RECOMMENDED, THREADS, options_of
from harness.matrices import E2E, MATRICES
from harness.results import Run, surprises
from harness.scenarios import SCENARIOS, Money
from harness.targets import Target, targets_of
from harness.verdicts import AnswerVerdict
from harness.world import RefundAtProvider
from interlock import temporal

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ROW = "crash_after_commit"
MATRIX = tuple(E2E.columns)

Json = dict[str, Any]


def _case(column: str, took_s: float = 4.0, row: str = ROW) -> CaseResult:
    """A case that went well, in whichever column."""
    case_id = f"case-{column}-{row}"
    refund = RefundAtProvider(id=f"re_{case_id}", amount_minor=2000, status="succeeded", metadata={"case": case_id})
    payment = f"pi_{case_id}"
    line = {"kind": "refund_created", "refund": refund.id, "payment": payment, "amount": 2000, "status": "succeeded"}
    receipt = {"status": "COMMITTED", "evidence": {"reference": refund.id}, "subject": payment, "amount_minor": 2000}
    gate, engine = COLUMNS[column].gate, COLUMNS[column].engine
    return CaseResult(
        case_id=case_id,
        scenario=row,
        column=column,
        repetition=1,
        live=False,
        payment=payment,
        want=SCENARIOS[row].want,
        want_answer=SCENARIOS[row].answer,
        got=Money(2000, 1),
        refunds=(refund,),
        own_refunds=(refund.id,),
        verdict="held",
        answer=Answer(
            status=Status.REFUNDED,
            via="sent",
            words="done",
            refund=refund.id,
            amount_minor=2000,
            receipt=receipt if gate else None,
            receipt_text="a receipt" if gate else None,
        ),
        answer_verdict=AnswerVerdict.MATCHES,
        as_wanted=True,
        decision={"wording": "The lamp is broken.", "model": "local", "message_id": "msg_local_1", "arguments_json": "{}"},
        exit_codes=(-9, 0),
        killed_at=NOW,
        crash_to_close_s=took_s,
        problem=None,
        workflow=_workflow(case_id, took_s) if engine is not Engine.NONE else None,
        lines=(json.dumps(line | {"metadata": refund.metadata}),),
    )


def _workflow(case_id: str, took_s: float) -> WorkflowRecord:
    closed_at = (NOW + timedelta(seconds=took_s)).isoformat()
    started_at = (NOW + timedelta(seconds=took_s - 0.1)).isoformat()
    events: list[Json] = [
        {"event": 1, "at": NOW.isoformat(), "kind": "WORKFLOW_EXECUTION_STARTED"},
        {"event": 2, "at": started_at, "kind": "ACTIVITY_TASK_STARTED", "activity": "refund", "attempt": 2},
        {"event": 3, "at": started_at, "kind": "ACTIVITY_TASK_COMPLETED"},
        {"event": 4, "at": closed_at, "kind": "WORKFLOW_EXECUTION_COMPLETED"},
    ]
    workflow_id = f"refund-{case_id}"
    lines = tuple(json.dumps({"workflow": workflow_id} | event) for event in events)
    return WorkflowRecord(workflow_id=workflow_id, run_id="run-1", attempts=2, closed_at=closed_at, lines=lines)


def _run(*cases: CaseResult) -> Run:
    return Run(
        matrix=E2E,
        live=False,
        started_at=NOW,
        finished_at=NOW,
        wall_s=1.0,
        scenarios=(SCENARIOS[ROW],),
        columns=MATRIX,
        cases=cases,
    )


def _written(folder: Path, *cases: CaseResult) -> Path:
    results.write(_run(*cases), folder)
    return folder / "e2e.json"


def _audited(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    code = audit.main([str(path)])
    said = capsys.readouterr().out
    assert (code == audit.FOUND) == ("AUDIT:" in said)
    return said


def test_every_column_is_in_the_matrix_and_in_the_audits_own_list() -> None:
    """A column that was forgotten in one of them would be judged by nobody."""
    assert set(MATRICES) == set(wanted.MATRICES)
    for name, matrix in MATRICES.items():
        assert set(matrix.columns) == set(wanted.MATRICES[name])
    assert {name for name, column in COLUMNS.items() if column.gate} == wanted.GATE
    assert {name for name, column in COLUMNS.items() if column.has(gate_only=True)} == wanted.ALONE


def test_all_columns_on_temporal_have_the_options_that_the_library_recommends() -> None:
    """None is faster because it was tuned, and none slower because it was not."""
    assert RECOMMENDED.activity == temporal.RECOMMENDED.activity
    assert RECOMMENDED.worker == temporal.RECOMMENDED.worker
    assert RECOMMENDED.worker.get("max_concurrent_activities") == THREADS
    assert options_of(Engine.TEMPORAL) is RECOMMENDED


def test_the_default_options_are_temporals_own() -> None:
    """Nothing but the time-out without which an activity does not run."""
    assert DEFAULTS.activity.keys() == {"start_to_close_timeout"}
    assert DEFAULTS.worker == {}
    assert options_of(Engine.TEMPORAL_DEFAULTS) is DEFAULTS


def test_a_column_with_temporals_defaults_is_expected_to_fail_where_the_column_is() -> None:
    """Other options lose time, and no verdict."""
    row = "key_lost_inside_window"
    for column in ("temporal", "temporal_defaults"):
        assert surprises([_case(column, row=row)]) != []
        assert surprises([replace(_case(column, row=row), verdict="VIOLATED by $20", as_wanted=False)]) == []


def _missed(*cases: CaseResult) -> set[str]:
    return {target.name for target in targets_of(cases) if not target.met}


GOOD = (
    _case("interlock", 1.0),
    _case("temporal", 4.0),
    _case("temporal_checked", 4.0),
    _case("temporal_interlock", 4.2),
    _case("temporal_defaults", 16.0),
    _case("temporal_checked_defaults", 17.0),
    _case("temporal_interlock_defaults", 3.0),
)


def test_a_good_run_reaches_every_target() -> None:
    """There are eight of them, and three are about the cells."""
    targets = targets_of(GOOD)
    assert _missed(*GOOD) == set()
    assert len(targets) == 8


@pytest.mark.parametrize(
    ("spoiled", "missed"),
    [
        (_case("interlock", 2.01), {"interlock_longest_s"}),
        (replace(_case("interlock"), crash_to_close_s=None), {"interlock_longest_s"}),
        (_case("temporal_interlock", 4.6), {"above_temporal_s"}),
        (_case("temporal_interlock", 9.0), {"above_temporal_s", "temporal_interlock_median_s"}),
        (replace(_case("temporal_interlock"), as_wanted=False), {"temporal_interlock_not_as_wanted"}),
        (replace(_case("interlock", 1.0), as_wanted=False), {"interlock_not_as_wanted"}),
        (
            replace(_case("temporal_interlock"), workflow=replace(_workflow("case-1", 4.0), attempts=4)),
            {"temporal_interlock_attempts"},
        ),
        (_case("temporal_interlock_defaults", 8.1), {"share_of_defaults"}),
        (_case("temporal_checked_defaults", 5.9), {"share_of_defaults"}),
    ],
)
def test_each_target_is_missed_by_what_it_is_about(spoiled: CaseResult, missed: set[str]) -> None:
    """A slow close, a lost attempt and a wrong cell each show, and nothing else does."""
    kept = [case for case in GOOD if case.column != spoiled.column]
    assert _missed(*kept, spoiled) == missed


def test_a_case_without_an_end_is_no_faster_than_one_with_an_end() -> None:
    """It can't be left out of a median."""
    hanging = replace(_case("temporal_interlock", row="key_lost_inside_window"), crash_to_close_s=None)
    assert _missed(*GOOD, hanging) == {"temporal_interlock_median_s", "above_temporal_s"}


def test_rows_that_wait_for_the_horizon_are_in_no_figure_of_times() -> None:
    """They wait because they were told to."""
    waiting = _case("interlock", 9.0, "hand_refund_during_outage (burn off)")
    assert _missed(*GOOD, waiting) == set()


def test_a_target_without_a_figure_is_missed() -> None:
    """What could not be measured was not reached."""
    assert not Target(name="n", what="w", measured=None, at_most=1).met


def test_the_written_results_pass_their_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Results, ledger, histories and report belong together."""
    path = _written(tmp_path, *GOOD)
    assert {file.name for file in tmp_path.iterdir()} == {
        "e2e.md",
        "e2e.json",
        "e2e-ledger.jsonl",
        "e2e-histories.jsonl",
    }
    assert "AUDIT:" not in _audited(path, capsys)


def test_the_report_has_the_workflows_the_attempts_and_the_options(tmp_path: Path) -> None:
    """A reader can look each case up in Temporal, and sees what is the dev server's."""
    _written(tmp_path, *GOOD)
    report = (tmp_path / "e2e.md").read_text(encoding="utf-8")
    assert report.startswith("# Crash matrix, standalone and on Temporal: LOCAL")
    for text in ("refund-case-temporal_interlock", "run-1", "2 attempts", "dev server", "default options"):
        assert text in report


def _attempts(case: Json) -> None:
    case["workflow"]["attempts"] = 1


def _closed_at(case: Json) -> None:
    case["workflow"]["closed_at"] = NOW.isoformat()


def _faster(case: Json) -> None:
    case["crash_to_close_s"] = 1.0


def _killed_later(case: Json) -> None:
    case["killed_at"] = (NOW + timedelta(seconds=3.95)).isoformat()


def _another_workflow(case: Json) -> None:
    case["workflow"]["workflow_id"] = "refund-case-other"


def _no_workflow(case: Json) -> None:
    case["workflow"] = None


def _verdict(case: Json) -> None:
    case["verdict"] = "VIOLATED by $20"


@pytest.mark.parametrize("edit", [_attempts, _closed_at, _faster, _killed_later, _another_workflow, _no_workflow, _verdict])
def test_the_audit_names_an_edited_cell_on_temporal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[Json], None]
) -> None:
    """Attempts, times, ids and verdicts are held against the histories and the ledger."""
    path = _written(tmp_path, *GOOD)
    document = json.loads(path.read_text(encoding="utf-8"))
    (case,) = [case for case in document["cases"] if case["column"] == "temporal"]
    edit(case)
    path.write_text(json.dumps(document), encoding="utf-8")
    assert f"AUDIT: {ROW} / temporal (case-temporal-{ROW}):" in _audited(path, capsys)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("held**, answer refunded matches, 4.20 s, 2 attempts", "held**, answer refunded matches, 2.20 s, 2 attempts"),
        ("held**, answer refunded matches, 4.20 s, 2 attempts", "held**, answer refunded matches, 4.20 s, 1 attempt"),
        ("**held**, answer refunded matches, 4.20 s", "**SHORT by $20**, answer refunded matches, 4.20 s"),
    ],
)
def test_the_audit_names_an_edited_cell_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    """What people read is held against what it was made from."""
    path = _written(tmp_path, *GOOD)
    report = tmp_path / "e2e.md"
    text = report.read_text(encoding="utf-8")
    assert text.count(before) == 1
    report.write_text(text.replace(before, after, 1), encoding="utf-8")
    assert f"{ROW} / temporal_interlock: the report shows" in _audited(path, capsys)


def test_the_audit_notices_a_history_that_is_gone_and_one_too_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow that is in the results and not in Temporal's record, or the other way round."""
    path = _written(tmp_path, *GOOD)
    histories = tmp_path / "e2e-histories.jsonl"
    text = histories.read_text(encoding="utf-8")
    histories.write_text(text.replace("refund-case-temporal_checked-", "refund-case-nobody-"), encoding="utf-8")
    said = _audited(path, capsys)
    assert "its workflow has no history" in said
    assert f"belong to no case: refund-case-nobody-{ROW}" in said


def test_the_audit_notices_a_workflow_that_did_not_end_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow that failed, or has no end, is no cell."""
    path = _written(tmp_path, *GOOD)
    histories = tmp_path / "e2e-histories.jsonl"
    text = histories.read_text(encoding="utf-8")
    histories.write_text(text.replace("EXECUTION_COMPLETED", "EXECUTION_FAILED"), encoding="utf-8")
    assert "the workflow's end" in _audited(path, capsys)


def test_the_audit_notices_a_case_that_was_not_carried_on_after_the_death(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The activity that the worker died in has to have its end afterwards, or the row shows nothing."""
    path = _written(tmp_path, *GOOD)
    histories = tmp_path / "e2e-histories.jsonl"
    events = [json.loads(line) for line in histories.read_text(encoding="utf-8").splitlines()]
    early = (NOW - timedelta(seconds=1)).isoformat()
    lines = [json.dumps(event | ({"at": early} if "ACTIVITY" in event["kind"] else {})) for event in events]
    histories.write_text("\n".join(lines), encoding="utf-8")
    assert "no activity was completed after the worker's death" in _audited(path, capsys)


def _tally(document: Json) -> None:
    document["tallies"]["temporal"]["held"] = 8


def _median(document: Json) -> None:
    document["tallies"]["temporal_interlock"]["crash_to_close_median_s"] = 2.0


@pytest.mark.parametrize("edit", [_tally, _median])
def test_the_audit_adds_the_tallies_up_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Callable[[Json], None]
) -> None:
    """A sum that was made prettier shows."""
    path = _written(tmp_path, *GOOD)
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    assert "AUDIT: tally of temporal" in _audited(path, capsys)


def _judged() -> Json:
    """The results of a run of which only the figures are looked at, as if every cell had been run."""
    document = results.as_json(_run(*GOOD)) | {"complete": True}
    return document | {"targets": [results.target_json(target) for target in targets_of(GOOD)]}


def _target(document: Json, name: str) -> Json:
    (target,) = [target for target in document["targets"] if target["name"] == name]
    return dict(target)


def test_the_audit_works_the_targets_out_again() -> None:
    """From the cases alone it comes to the same figures, against bounds of its own."""
    assert list(figures.audit(_judged())) == []


@pytest.mark.parametrize("name", [target.name for target in targets_of(GOOD)])
@pytest.mark.parametrize("edit", [{"measured": -1}, {"measured": None}, {"at_most": 99}, {"met": False}])
def test_the_audit_names_an_edited_target(name: str, edit: Json) -> None:
    """A figure, a bound or a verdict on it that was made prettier, or worse."""
    document = _judged()
    edited = _target(document, name) | edit
    document["targets"] = [edited if target["name"] == name else target for target in document["targets"]]
    assert any(f"target {name}" in finding for finding in figures.audit(document))


def test_the_audit_notices_a_target_that_was_left_out() -> None:
    """A missed one can't be dropped."""
    document = _judged()
    document["targets"] = document["targets"][1:]
    assert any(finding.startswith("targets") for finding in figures.audit(document))


def test_a_part_of_the_matrix_and_a_live_run_have_no_targets() -> None:
    """A few cells measure nothing, and the times of a live run are the network's."""
    assert _run(*GOOD).targets == []
    whole = replace(_run(*GOOD), scenarios=tuple(SCENARIOS.values()))
    assert len(whole.targets) == 8
    assert replace(whole, live=True).targets == []
