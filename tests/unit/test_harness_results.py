"""The results of the crash matrix: what counts as a surprise, the tallies, and the files."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness import results, table
from harness.audit import __main__ as audit
from harness.case import CaseResult
from harness.columns.job import Answer, Status
from harness.results import Run, surprises, tally, write
from harness.scenarios import SCENARIOS, Money
from harness.verdicts import AnswerVerdict
from harness.world import RefundAtProvider

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PAYMENT = "pi_local_1"


def _case(column: str = "standard", scenario: str = "crash_after_commit") -> CaseResult:
    """A case of a hand-written column that went well."""
    refund = RefundAtProvider(id="re_local_1", amount_minor=2000, status="succeeded", metadata={"case": "case-1"})
    row = {"kind": "refund_created", "refund": refund.id, "payment": PAYMENT, "amount": 2000, "status": "succeeded"}
    return CaseResult(
        case_id="case-1",
        scenario=scenario,
        column=column,
        repetition=1,
        live=False,
        payment=PAYMENT,
        want=SCENARIOS[scenario].want,
        want_answer=SCENARIOS[scenario].answer,
        got=Money(2000, 1),
        refunds=(refund,),
        own_refunds=(refund.id,),
        verdict="held",
        answer=Answer(status=Status.REFUNDED, via="sent", words="done", refund=refund.id, amount_minor=2000),
        answer_verdict=AnswerVerdict.MATCHES,
        as_wanted=True,
        decision={"wording": "The lamp is broken.", "model": "local", "message_id": "msg_local_1", "arguments_json": "{}"},
        exit_codes=(-9, 0),
        killed_at=NOW,
        crash_to_close_s=0.25,
        problem=None,
        lines=(json.dumps(row | {"metadata": refund.metadata}),),
    )


def _run(*cases: CaseResult) -> Run:
    return Run(
        live=False,
        started_at=NOW,
        finished_at=NOW,
        wall_s=1.0,
        scenarios=(SCENARIOS["crash_after_commit"],),
        columns=("standard",),
        cases=cases,
    )


def test_a_case_that_went_as_expected_is_no_surprise() -> None:
    """The good end of each column is silent."""
    assert surprises([_case(), _case("checked"), _case("interlock")]) == []


def test_an_expected_failure_is_no_surprise_and_its_absence_is_one() -> None:
    """A baseline that gets right what it is known to get wrong means that the harness shows nothing."""
    row = "key_pruned_after_24h"
    failed = replace(_case(scenario=row), verdict="VIOLATED by $20", as_wanted=False)
    assert surprises([failed]) == []
    assert surprises([_case(scenario=row)]) != []


@pytest.mark.parametrize(
    "case",
    [
        replace(_case("interlock"), as_wanted=False),
        replace(_case("standard"), verdict="VIOLATED by $20", as_wanted=False),
        replace(_case("checked"), answer_verdict=AnswerVerdict.CONTRADICTS, as_wanted=False),
        replace(_case("checked_with_our_rule"), exit_codes=(0,)),
        replace(_case("standard"), exit_codes=()),
        replace(_case("checked_with_our_rule"), problem="start 2 ended with 1"),
    ],
)
def test_what_is_not_as_expected_is_named_with_its_cell(case: CaseResult) -> None:
    """A wrong verdict, a wrong answer, a worker that was not killed, and a worker that broke each show."""
    (found,) = surprises([case])
    assert found.startswith(f"{case.scenario}, {case.column}: ")


def test_a_tally_counts_and_takes_the_median() -> None:
    """Held, answers, definite outcomes, and crash to close."""
    unknown = Answer(status=Status.AMBIGUOUS, via="", words="")
    cases = [
        replace(_case(), crash_to_close_s=0.1),
        replace(_case(), crash_to_close_s=0.3, verdict="SHORT by $20"),
        replace(_case(), crash_to_close_s=0.7, answer=unknown),
        replace(_case(), crash_to_close_s=None, answer=None, answer_verdict=AnswerVerdict.NONE),
    ]
    assert tally(cases) == results.Tally(
        cases=4, held=3, answers_right=3, known_outcomes=2, crash_to_close_median_s=0.3, crash_to_close_max_s=0.7
    )


def test_the_written_results_pass_the_audit_and_say_local(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Markdown, JSON and ledger lines belong together, and no place is named in them that only this machine has.

    But one cell is not the matrix, and its audit is not taken for the matrix's.
    """
    files = write(_run(_case()), tmp_path)
    assert [path.name for path in files] == ["standalone.md", "standalone.json", "standalone-ledger.jsonl"]
    assert audit.main([str(tmp_path / "standalone.json")]) == audit.INCOMPLETE
    said = capsys.readouterr().out
    assert "INCOMPLETE" in said
    assert "AUDIT:" not in said
    report = (tmp_path / "standalone.md").read_text(encoding="utf-8")
    assert report.startswith("# Crash matrix, standalone: LOCAL")
    assert "The lamp is broken." in report
    assert not any(str(tmp_path) in path.read_text(encoding="utf-8") for path in files)


def test_the_json_has_what_a_reader_needs_to_judge_it(tmp_path: Path) -> None:
    """Versions, what is LOCAL, the limits, and of each case the decision, the ids and the exit codes."""
    write(_run(_case()), tmp_path)
    document = json.loads((tmp_path / "standalone.json").read_text(encoding="utf-8"))
    assert document["mode"] == "LOCAL"
    assert document["what_is_local"]
    assert document["limits"]
    assert document["versions"].keys() == {"python", "interlock", "stripe", "anthropic", "eventsourcing", "SQLite"}
    (case,) = document["cases"]
    assert case["exit_codes"] == [-9, 0]
    assert case["starts"] == 2
    assert case["decision"]["wording"] == "The lamp is broken."
    assert (case["case_id"], case["payment"], case["own_refunds"]) == ("case-1", PAYMENT, ["re_local_1"])


def test_a_partial_run_says_so(tmp_path: Path) -> None:
    """Nobody takes a few cells for the matrix."""
    write(_run(_case()), tmp_path)
    assert "PARTIAL" in (tmp_path / "standalone.md").read_text(encoding="utf-8")


def test_the_table_shows_the_worst_of_repeated_cases() -> None:
    """One violation among many repetitions is seen."""
    bad = replace(_case(), verdict="VIOLATED by $20", answer_verdict=AnswerVerdict.CONTRADICTS, repetition=2)
    shown = table.render(_run(_case(), bad), colour=False)
    assert shown.startswith("LOCAL")
    assert "held 1/2, VIOLATED by $20 1/2" in shown
    assert "CONTRADICTS" in shown
