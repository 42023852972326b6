"""A live run, rehearsed: the same command and code with the stand-ins' addresses, and keys of the right form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.audit.__main__ import INCOMPLETE
from harness.standins.anthropic.client import LOCAL_API_KEY as LOCAL_ANTHROPIC_KEY
from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import StripeStandIn

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("live-rehearsal")]

ROOT = Path(__file__).resolve().parents[2]
RESTRICTED_KEY = "rk_test_local_0000"
ROWS = ("unrelated_refund_during_outage", "key_lost_inside_window", "no_lookup_after_24h")


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One run, read by several tests: where its results are, and what it printed."""
    folder = tmp_path_factory.mktemp("rehearsal")
    chosen = [part for row in ROWS for part in ("--scenario", row)] + ["--column", "standard", "--column", "interlock"]
    keys = {"STRIPE_SECRET_KEY": RESTRICTED_KEY, "ANTHROPIC_API_KEY": LOCAL_ANTHROPIC_KEY}
    with AnthropicStandIn() as model, StripeStandIn(folder / "ledger.jsonl") as stripe:
        at = ["--stripe-address", stripe.api_base, "--model-address", model.base_url]
        command = [sys.executable, "-m", "harness.run", "--live", "--every", "0", *at, *chosen, "--out", str(folder)]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **keys}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout + done.stderr


@pytest.fixture(scope="module")
def document(rehearsed: tuple[Path, str]) -> dict[str, Any]:
    """What it wrote."""
    written: dict[str, Any] = json.loads((rehearsed[0] / "standalone.json").read_text(encoding="utf-8"))
    return written


def _cell(document: dict[str, Any], scenario: str, column: str) -> dict[str, Any]:
    (case,) = [case for case in document["cases"] if (case["scenario"], case["column"]) == (scenario, column)]
    return dict(case)


def test_a_live_run_takes_the_same_path(document: dict[str, Any]) -> None:
    """Hand refunds and the record go through the provider's own API; the gate is as wanted in every row."""
    assert document["surprises"] == []
    gate = {row: _cell(document, row, "interlock") for row in ROWS}
    assert all(case["as_wanted"] and case["exit_codes"][0] == -9 for case in gate.values())
    assert gate["no_lookup_after_24h"]["answer"]["status"] == "ambiguous"
    assert gate["key_lost_inside_window"]["answer"]["via"] == "recovery-query"


def test_a_key_that_the_proxy_forgot_is_forgotten(document: dict[str, Any]) -> None:
    """The column that relies on the key alone refunds twice, as it does at a provider that really forgets."""
    case = _cell(document, "key_lost_inside_window", "standard")
    assert (case["verdict"], len(case["own_refunds"])) == ("VIOLATED by $20", 2)


def test_it_says_what_is_emulated_and_that_it_is_a_rehearsal(rehearsed: tuple[Path, str], document: dict[str, Any]) -> None:
    """The rows that can't be had are marked, in the results and on the terminal, and it never passes for a live run."""
    assert set(document["emulated"]) == {"key_lost_inside_window", "no_lookup_after_24h"}
    assert "renames the keys" in document["emulated"]["key_lost_inside_window"]
    assert document["mode"].startswith("REHEARSAL")
    report = (rehearsed[0] / "standalone.md").read_text(encoding="utf-8")
    assert "`key_lost_inside_window` | $20 in 1 (EMULATED)" in report
    assert "`unrelated_refund_during_outage` | $25 in 2 |" in report
    assert "EMULATED: key_lost_inside_window, no_lookup_after_24h" in rehearsed[1]


def test_no_key_is_in_what_it_wrote(rehearsed: tuple[Path, str]) -> None:
    """Neither in the results, nor in the ledger, nor in what it printed."""
    folder, printed = rehearsed
    for text in (printed, *(path.read_text(encoding="utf-8") for path in folder.glob("standalone*"))):
        assert RESTRICTED_KEY not in text
        assert LOCAL_ANTHROPIC_KEY not in text


def test_the_audit_reads_it(rehearsed: tuple[Path, str]) -> None:
    """As it reads local results."""
    command = [sys.executable, "-m", "harness.audit", str(rehearsed[0] / "standalone.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == INCOMPLETE, done.stdout + done.stderr
    assert "AUDIT:" not in done.stdout
