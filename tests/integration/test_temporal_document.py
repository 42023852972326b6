"""The page about Temporal: its files are run on a real server, as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from harness.temporal.server import TemporalServer
from interlock.temporal import RECOMMENDED

PAGE = Path(__file__).resolve().parents[2] / "docs" / "temporal.md"
FILE = re.compile(r"^```python no-run\n# not run: [^\n]*\n# (?P<name>\w+\.py)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
ENDS_WITHIN_S = 60.0


def page() -> str:
    """Return the page."""
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.usefixtures("healthy")
def test_the_program_on_the_page_refunds_once(
    temporal_server: TemporalServer, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path
) -> None:
    """Its worker and its case run in processes of their own; the provider's ledger has one refund then."""
    payment = pay(client).id
    there = {
        'os.environ["STRIPE_SECRET_KEY"]': f'os.environ["STRIPE_SECRET_KEY"], api_base={standin.api_base!r}',
        "127.0.0.1:7233": temporal_server.address,
        "pi_123": payment,
    }
    files = {found["name"]: found["body"] for found in FILE.finditer(page())}
    assert set(files) == {"refunds.py", "workflows.py", "worker.py", "case.py"}
    assert all(any(old in text for text in files.values()) for old in there)
    for name, text in files.items():
        for old, new in there.items():
            text = text.replace(old, new)  # noqa: PLW2901 - step by step
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {**os.environ, "STRIPE_SECRET_KEY": LOCAL_API_KEY}
    with subprocess.Popen([sys.executable, "-W", "error", "worker.py"], cwd=tmp_path, env=environment) as worker:
        try:
            # Its exit code says nothing: a short-lived client's native threads can end a Python that is finalizing
            # (github.com/temporalio/sdk-python/issues/300).
            case = subprocess.run(
                [sys.executable, "-W", "error", "case.py"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=ENDS_WITHIN_S,
            )
        finally:
            worker.kill()
    (refund,) = refunds_of(standin.ledger_path, payment)
    assert case.stdout == f"refunded: {refund.refund}\n", case.stderr
    assert refund.amount == 2000


def test_the_page_has_every_option() -> None:
    """What is recommended stands in its table."""
    table = set(re.findall(r"^\| `(\w+)` \|", page(), re.MULTILINE))
    assert table == set(RECOMMENDED.reasons)
