"""The columns on Temporal, from the outside: two rows on a real dev server, with real workers that are killed, and the audit."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.audit.__main__ import INCOMPLETE
from harness.standins.anthropic.client import LOCAL_API_KEY as LOCAL_ANTHROPIC_KEY
from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import LOCAL_API_KEY as LOCAL_STRIPE_KEY
from harness.standins.stripe.client import StripeStandIn
from harness.temporal.server import TemporalUnavailable, find_binary
from tests.matrix_run import LIVE_KEY, ROOT, Cell, Completed, Matrix, run_module, run_once

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("full-matrix")]

BEFORE_SEND, AFTER_ANSWER = "hand_refund_during_outage", "key_lost_inside_window"
COLUMNS = ("temporal", "temporal_checked", "temporal_interlock")


def _run(folder: Path, rows: tuple[str, ...], *arguments: str, **environment: str) -> Completed:
    chosen = [part for row in rows for part in ("--scenario", row)]
    return run_module("harness.run", "--matrix", "e2e", *chosen, *arguments, "--out", str(folder), **environment)


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """Two rows in the three columns."""
    try:
        find_binary()
    except TemporalUnavailable as missing:
        if os.environ.get("CI", "").lower() in {"1", "true"}:
            raise
        pytest.skip(str(missing))
    columns = [part for column in COLUMNS for part in ("--column", column)]
    rows = (BEFORE_SEND, AFTER_ANSWER)
    return run_once(tmp_path_factory, "full-matrix", "e2e.json", lambda folder: _run(folder, rows, *columns))


def test_one_command_ends_with_the_table_and_as_expected(matrix: Matrix) -> None:
    """It exits with 0, says LOCAL, and that these few cells are not the matrix."""
    assert matrix.exit_code == 0, matrix.printed
    assert "\nLOCAL" in matrix.printed
    assert (matrix.document["complete"], matrix.document["surprises"], matrix.document["targets"]) == (False, [], [])


def test_temporal_alone_violates_both_rows(matrix: Matrix) -> None:
    """Retrying is not asking: after the hand refund, and without the key, $20 too much goes out."""
    assert [matrix.cell(row, "temporal")["verdict"] for row in (BEFORE_SEND, AFTER_ANSWER)] == ["VIOLATED by $20"] * 2
    assert matrix.cell(AFTER_ANSWER, "temporal")["answer_verdict"] == "CONTRADICTS"


@pytest.mark.parametrize("column", ["temporal_checked", "temporal_interlock"])
@pytest.mark.parametrize("row", [BEFORE_SEND, AFTER_ANSWER])
def test_who_looks_first_is_as_wanted(matrix: Matrix, row: str, column: str) -> None:
    """The check by hand and the gate both hold these rows, and both say so rightly."""
    assert matrix.cell(row, column)["as_wanted"]


def test_the_gate_in_an_activity_leaves_its_receipt(matrix: Matrix) -> None:
    """One send, found by the second attempt; and a refusal behind a burned key."""
    found, refused = (matrix.cell(row, "temporal_interlock")["answer"]["receipt"] for row in (AFTER_ANSWER, BEFORE_SEND))
    assert (found["via"], found["sends"]) == ("recovery-query", 1)
    assert (refused["status"], refused["refusal"]["door"]) == ("REFUSED", "burned")


def test_each_worker_is_killed_once_and_the_workflow_goes_on_by_itself(matrix: Matrix) -> None:
    """The first ends with -9 and the second with 0. By hand that takes another attempt; the gate may answer for the dead one."""
    for case in matrix.document["cases"]:
        assert case["exit_codes"] == [-9, 0], case["case_id"]
        fewest = 1 if case["column"] == "temporal_interlock" else 2
        assert fewest <= case["workflow"]["attempts"] <= 3, case["case_id"]


def test_decisions_are_the_models_and_are_in_the_results(matrix: Matrix) -> None:
    """Each case was decided on its own payment, once, and the workflow kept it."""
    for case in matrix.document["cases"]:
        assert case["decision"]["payment"] == case["payment"]
        assert case["decision"]["wording"]


def test_no_real_key_and_no_place_of_this_machine_is_in_what_was_written(matrix: Matrix) -> None:
    """The results can be shown to others."""
    written = [path.read_text(encoding="utf-8") for path in matrix.folder.iterdir()]
    assert len(written) == 4
    assert not any(LIVE_KEY in text or str(ROOT) in text or "interlock-matrix-" in text for text in (*written, matrix.printed))


def test_the_audit_agrees_with_the_results(matrix: Matrix) -> None:
    """Read again from the ledger and from Temporal's histories, each cell says the same."""
    done = run_module("harness.audit", str(matrix.folder / "e2e.json"))
    assert done.returncode == INCOMPLETE, done.stdout + done.stderr
    assert "AUDIT:" not in done.stdout
    assert "6 cases of LOCAL results audited" in done.stdout


def _got(cell: Cell) -> None:
    cell["got"]["minor"] -= 2000


def _attempts(cell: Cell) -> None:
    cell["workflow"]["attempts"] += 1


def _receipt(cell: Cell) -> None:
    cell["answer"]["receipt"]["status"] = "REFUSED"


@pytest.mark.parametrize("edit", [_got, _attempts, _receipt])
def test_the_audit_names_an_edited_cell(matrix: Matrix, tmp_path: Path, edit: Callable[[Cell], None]) -> None:
    """Whatever of a cell was changed by hand, it fails with that cell's name."""
    folder = tmp_path / "edited"
    shutil.copytree(matrix.folder, folder)
    path = folder / "e2e.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    (cell,) = [case for case in document["cases"] if (case["scenario"], case["column"]) == (AFTER_ANSWER, "temporal_interlock")]
    edit(cell)
    path.write_text(json.dumps(document), encoding="utf-8")
    done = run_module("harness.audit", str(path))
    assert done.returncode == 1
    assert f"{AFTER_ANSWER} / temporal_interlock ({cell['case_id']})" in done.stdout


def test_a_live_run_takes_the_same_path_and_its_audit_asks_the_provider(tmp_path: Path) -> None:
    """Rehearsed at stand-ins, with an emulated row; a refund that was added since the run shows."""
    keys = {"STRIPE_SECRET_KEY": LOCAL_STRIPE_KEY, "ANTHROPIC_API_KEY": LOCAL_ANTHROPIC_KEY}
    results = tmp_path / "results"
    with AnthropicStandIn() as model, StripeStandIn(tmp_path / "ledger.jsonl") as stripe:
        at = ("--live", "--every", "0", "--stripe-address", stripe.api_base, "--model-address", model.base_url)
        done = _run(results, (AFTER_ANSWER,), "--column", "temporal_interlock", *at, **keys)
        assert done.returncode == 0, done.stdout + done.stderr
        asked = run_module("harness.audit", str(results / "e2e.json"), "--ask", stripe.api_base, **keys)
        assert asked.returncode == INCOMPLETE, asked.stdout + asked.stderr
        assert "record says now" in asked.stdout
        (case,) = json.loads((results / "e2e.json").read_text(encoding="utf-8"))["cases"]
        assert case["as_wanted"]
        stripe.hand_refund(case["payment"], 500)
        again = run_module("harness.audit", str(results / "e2e.json"), "--ask", stripe.api_base, **keys)
        assert again.returncode == 1
        assert "got: " in again.stdout
