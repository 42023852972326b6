"""The crash matrix, from the outside: one whole run of the command, read by many claims, and its audit."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.audit.__main__ import INCOMPLETE
from harness.scenarios import SCENARIOS
from tests.matrix_run import LIVE_KEY, ROOT, Cell, Matrix, run_module, run_once

# One run takes most of a minute on two processors, and longer beside other tests.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("crash-matrix")]

COMMON_ROWS = [name for name, row in SCENARIOS.items() if not row.interlock_only]


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The whole matrix."""
    return run_once(
        tmp_path_factory, "crash-matrix", "standalone.json", lambda folder: run_module("harness.run", "--out", str(folder))
    )


def test_one_command_ends_with_the_table_and_as_expected(matrix: Matrix) -> None:
    """It exits with 0, says LOCAL, and shows every row and column."""
    assert matrix.exit_code == 0, matrix.printed
    table = matrix.printed[matrix.printed.index("\nLOCAL") :]
    assert all(name.partition(" ")[0] in table for name in SCENARIOS)
    assert all(column in table for column in ("standard", "checked", "checked_with_our_rule", "interlock"))
    assert matrix.document["complete"] is True
    assert matrix.document["surprises"] == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_interlock_row_is_as_wanted(matrix: Matrix, scenario: str) -> None:
    """The provider's ledger holds what is wanted, and the answer says so."""
    case, wanted = matrix.cell(scenario, "interlock"), SCENARIOS[scenario]
    assert case["got"] == {"minor": wanted.want.minor, "refunds": wanted.want.refunds}
    assert case["verdict"] == "held"
    assert case["answer_verdict"] == "matches"
    assert case["answer"]["status"] == wanted.answer


def test_where_nobody_can_know_the_gate_says_so(matrix: Matrix) -> None:
    """Without a lookup, and with the key forgotten, one refund is out and the answer is AMBIGUOUS."""
    case = matrix.cell("no_lookup_after_24h", "interlock")
    assert case["answer"]["receipt"]["status"] == "AMBIGUOUS"
    assert case["got"] == {"minor": 2000, "refunds": 1}


@pytest.mark.parametrize(
    "scenario",
    ["hand_refund_during_outage", "approval_revoked_during_outage", "key_pruned_after_24h", "key_lost_inside_window"],
)
def test_standard_violates_four_rows(matrix: Matrix, scenario: str) -> None:
    """Nothing is re-checked, so $20 too much goes out."""
    assert matrix.cell(scenario, "standard")["verdict"] == "VIOLATED by $20"


def test_standard_holds_elsewhere(matrix: Matrix) -> None:
    """It is no straw man."""
    held = {row for row in COMMON_ROWS if matrix.cell(row, "standard")["as_wanted"]}
    assert len(held) == len(COMMON_ROWS) - 4


def test_standard_does_not_notice_that_it_refunded_twice(matrix: Matrix) -> None:
    """With the key forgotten it reports one refund, and two carry its mark."""
    for scenario in ("key_pruned_after_24h", "key_lost_inside_window"):
        case = matrix.cell(scenario, "standard")
        assert case["answer_verdict"] == "CONTRADICTS"
        assert len(case["own_refunds"]) == 2


def test_checked_is_short_where_an_unrelated_refund_was_given_and_right_elsewhere(matrix: Matrix) -> None:
    """A check by hand takes any change for a reason to stop."""
    verdicts = {row: matrix.cell(row, "checked")["verdict"] for row in COMMON_ROWS}
    assert verdicts == dict.fromkeys(COMMON_ROWS, "held") | {"unrelated_refund_during_outage": "SHORT by $20"}
    assert all(matrix.cell(row, "checked")["answer_verdict"] == "matches" for row in COMMON_ROWS)


def test_every_worker_is_killed_once_and_only_once(matrix: Matrix) -> None:
    """The first start of every case ends with -9, and every other with 0."""
    for case in matrix.document["cases"]:
        first, *others = case["exit_codes"]
        assert first == -9, case["case_id"]
        assert others, case["case_id"]
        assert set(others) == {0}, case["case_id"]


def test_each_door_that_is_closed_is_named(matrix: Matrix) -> None:
    """A refusal says whether the key was burned, or the horizon waited for where burning is off."""
    for row in ("hand_refund_during_outage", "approval_revoked_during_outage"):
        burned, waited = (matrix.cell(name, "interlock")["answer"]["receipt"] for name in (row, f"{row} (burn off)"))
        assert burned["refusal"]["door"] == "burned"
        assert waited["refusal"]["door"] == "horizon"


def test_a_found_refund_is_not_sent_again(matrix: Matrix) -> None:
    """After a crash behind the provider's answer the gate looks, finds, and sends nothing."""
    for row in ("crash_after_commit", "approval_revoked_after_commit", "key_pruned_after_24h", "key_lost_inside_window"):
        receipt = matrix.cell(row, "interlock")["answer"]["receipt"]
        assert (receipt["via"], receipt["sends"]) == ("recovery-query", 1)


def test_decisions_are_the_models_and_the_wording_differs(matrix: Matrix) -> None:
    """Each case was decided on its own payment, in words of its own."""
    cases = matrix.document["cases"]
    assert all(case["decision"]["payment"] == case["payment"] for case in cases)
    wordings = {re.sub(r"pi_\w+", "", case["decision"]["wording"]) for case in cases}
    assert len(wordings) > len(cases) // 2


def test_no_real_key_and_no_place_of_this_machine_is_in_what_was_written(matrix: Matrix) -> None:
    """A local run neither takes nor tells the key that lay about, and its files can be shown to others."""
    written = [path.read_text(encoding="utf-8") for path in matrix.folder.iterdir()]
    assert len(written) == 3
    for text in (*written, matrix.printed):
        assert LIVE_KEY not in text
    assert not any(str(ROOT) in text or "interlock-matrix-" in text for text in written)


def test_the_audit_agrees_with_the_results(matrix: Matrix) -> None:
    """Read again from the ledger, each cell says the same."""
    done = run_module("harness.audit", str(matrix.folder / "standalone.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "35 cases of LOCAL results audited" in done.stdout


def _got(cell: Cell) -> None:
    cell["got"]["minor"] += 1


def _verdict(cell: Cell) -> None:
    cell["verdict"] = "VIOLATED by $20"


def _want(cell: Cell) -> None:
    cell["want"]["minor"] = 4000


def _answer(cell: Cell) -> None:
    cell["answer"]["status"] = "refused"


def _refund(cell: Cell) -> None:
    cell["answer"]["refund"] = "re_local_other"


def _exit_code(cell: Cell) -> None:
    cell["exit_codes"][0] = 0


def _receipt(cell: Cell) -> None:
    cell["answer"]["receipt"]["status"] = "REFUSED"


def _edited(matrix: Matrix, folder: Path) -> Path:
    shutil.copytree(matrix.folder, folder)
    return folder / "standalone.json"


@pytest.mark.parametrize("edit", [_got, _verdict, _want, _answer, _refund, _exit_code, _receipt])
def test_the_audit_names_an_edited_cell(matrix: Matrix, tmp_path: Path, edit: Callable[[Cell], None]) -> None:
    """Any figure or word of a cell that is not what the ledger says makes it fail, with the cell."""
    path = _edited(matrix, tmp_path / "edited")
    document = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = [case for case in document["cases"] if (case["scenario"], case["column"]) == ("crash_after_commit", "interlock")]
    edit(cell)
    path.write_text(json.dumps(document), encoding="utf-8")
    done = run_module("harness.audit", str(path))
    assert done.returncode == 1
    assert f"crash_after_commit / interlock ({cell['case_id']})" in done.stdout


def test_the_audit_names_a_cell_whose_ledger_was_edited(matrix: Matrix, tmp_path: Path) -> None:
    """It believes the ledger, so a refund that is missing there shows."""
    path = _edited(matrix, tmp_path / "edited")
    ledger = path.with_name("standalone-ledger.jsonl")
    refund = matrix.cell("crash_after_commit", "interlock")["own_refunds"][0]
    kept = [line for line in ledger.read_text(encoding="utf-8").splitlines() if refund not in line]
    ledger.write_text("\n".join(kept), encoding="utf-8")
    done = run_module("harness.audit", str(path))
    assert done.returncode == 1
    assert "crash_after_commit / interlock" in done.stdout


def test_the_audit_notices_a_case_that_was_left_out(matrix: Matrix, tmp_path: Path) -> None:
    """An inconvenient cell can't be dropped."""
    path = _edited(matrix, tmp_path / "edited")
    document = json.loads(path.read_text(encoding="utf-8"))
    document["cases"] = document["cases"][1:]
    path.write_text(json.dumps(document), encoding="utf-8")
    done = run_module("harness.audit", str(path))
    assert done.returncode == 1
    assert "complete" in done.stdout


def test_the_gate_is_as_wanted_on_postgres(tmp_path: Path) -> None:
    """A death on either side of the send, and a day that passed, with the journal in a database; it is audited as well."""
    rows = ("crash_after_commit", "approval_revoked_during_outage", "key_pruned_after_24h")
    chosen = [part for row in rows for part in ("--scenario", row)]
    done = run_module("harness.run", "--journal", "postgres", "--column", "interlock", *chosen, "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "standalone-postgres.json").read_text(encoding="utf-8"))
    assert (document["journal"], document["surprises"], document["complete"]) == ("PostgreSQL", [], False)
    assert [case["as_wanted"] for case in document["cases"]] == [True] * len(rows)
    audited = run_module("harness.audit", str(tmp_path / "standalone-postgres.json"))
    assert (audited.returncode, "AUDIT:" in audited.stdout) == (INCOMPLETE, False), audited.stdout
