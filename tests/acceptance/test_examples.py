"""The examples, as processes of their own against the Stripe stand-in, with its ledger as the judge."""

import ast
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay
from interlock import Receipts

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "examples" / "support_service.py"
PATIENCE_S = 60.0


class Service:
    """The support service, as a process of its own."""

    def __init__(self, journal: str, api_base: str) -> None:
        given = {"STRIPE_SECRET_KEY": LOCAL_API_KEY, "STRIPE_API_BASE": api_base, "INTERLOCK_JOURNAL": journal, "PORT": "0"}
        self._process = subprocess.Popen(
            [sys.executable, str(SERVICE)],
            env={**os.environ, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = urlsplit(self._process.stdout.readline().split()[-1]).netloc

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> int:
        """Kill it with SIGKILL; return its exit code."""
        self._process.kill()
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def start_to_post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> http.client.HTTPConnection:
        """Send a request, and do not wait for its answer."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", path, json.dumps(body), sent)
        return connection

    def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> tuple[int, Any, Any]:
        """Return the status, the headers and the body of the answer."""
        connection = self.start_to_post(path, body, headers)
        try:
            response = connection.getresponse()
            return response.status, response.headers, json.loads(response.read())
        finally:
            connection.close()


class Case:
    """A payment of 100.00, an approved refund of 20.00, and the journal of the service."""

    def __init__(self, standin: StripeStandIn, folder: Path) -> None:
        self.standin = standin
        self.payment = pay(connect(standin)).id
        self.journal = f"sqlite:///{folder / 'support.db'}"
        self.approval = {"case": "case-4471", "amount_minor": 2000, "currency": "usd", "by": "user:17"}
        self.refund = {"case": "case-4471", "payment": self.payment, "amount_minor": 2000, "currency": "usd"}

    def service(self) -> Service:
        """Start the service."""
        return Service(self.journal, self.standin.api_base)

    def moved(self) -> list[int]:
        """Return the refunds in the provider's own ledger."""
        return [one.amount for one in refunds_of(self.standin.ledger_path, self.payment)]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """A case of its own for each test."""
    with StripeStandIn(tmp_path / "ledger.jsonl") as standin:
        yield Case(standin, tmp_path)


def _code_lines(path: Path) -> list[str]:
    """Return the lines that are neither blank, nor a comment, nor a docstring, nor an import."""
    source = path.read_text(encoding="utf-8")
    lines = dict(enumerate(source.splitlines(), start=1))
    for node in ast.walk(ast.parse(source)):
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if isinstance(node, ast.stmt) and (words or isinstance(node, ast.Import | ast.ImportFrom)):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines.pop(number, None)
    return [line for line in lines.values() if line.strip() and not line.strip().startswith("#")]


def test_the_service_embeds_the_gate_in_under_40_lines() -> None:
    """The example stays short: under 40 lines of code, its imports apart."""
    assert len(_code_lines(SERVICE)) < 40


def test_a_refund_behind_an_approval_is_given_once(case: Case) -> None:
    """An approved refund is given once, however often it is asked for; without an approval it is not given."""
    with case.service() as service:
        unapproved = service.post("/refund", case.refund)
        approved = service.post("/approve", case.approval)
        first = service.post("/refund", case.refund)
        again = service.post("/refund", case.refund)
    assert (unapproved[0], approved[0], first[0], again[0]) == (400, 200, 200, 200)
    assert first[2] == again[2]
    assert first[2]["status"] == "COMMITTED"
    assert case.moved() == [2000]


def test_a_service_killed_in_the_middle_of_a_refund_gives_it_once(case: Case) -> None:
    """Killed while Stripe is at work on its refund, and started again, it answers 202 and then 200, and refunds once."""
    case.standin.arm(FaultKind.HOLD, seconds=PATIENCE_S)
    with case.service() as service:
        service.post("/approve", case.approval)
        unanswered = service.start_to_post("/refund", case.refund)
        case.standin.wait_until_held_back(timeout_s=PATIENCE_S)
        assert service.kill() == -signal.SIGKILL
        unanswered.close()
    with case.service() as service:
        status, headers, _ = service.post("/refund", case.refund)
        assert status == 202
        assert int(headers["Retry-After"]) >= 1
        case.standin.release()
        receipt = _until_ended(service, case)
    assert case.moved() == [2000]
    assert (receipt["status"], receipt["attempts"]) == ("COMMITTED", 1)
    assert receipt["via"] in {"recovery-query", "retry-idempotent"}
    with Receipts.open(case.journal) as reader:
        assert reader.verify().valid


def test_a_service_killed_before_the_refund_arrives_gives_it_after_its_start(case: Case) -> None:
    """Killed after a refund that never landed, the service that is started next gives it by itself, without being asked again."""
    case.standin.arm(FaultKind.DROP_BEFORE_COMMIT, times=1000)
    with case.service() as service:
        service.post("/approve", case.approval)
        assert service.post("/refund", case.refund)[0] == 202
        service.kill()
    assert case.moved() == []
    case.standin.reset_faults()
    with case.service():
        _wait_for(lambda: case.moved() == [2000])
    assert case.moved() == [2000]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:8400"},
        {"Origin": "null"},
        {"Host": "support.example"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ],
)
def test_a_web_page_can_not_drive_the_service(case: Case, headers: dict[str, str]) -> None:
    """What a page in a browser could send, cross-origin, as a form or by a name that was made to point here, does nothing."""
    with case.service() as service:
        assert service.post("/approve", case.approval, headers)[0] == 403
        assert service.post("/refund", case.refund)[0] == 400


def test_the_service_listens_on_this_machine_only(case: Case) -> None:
    """It listens on 127.0.0.1, and bad requests are turned away without an effect."""
    with case.service() as service:
        assert service.address.startswith("127.0.0.1:")
        for path, body in (("/refund", []), ("/refund", {"case": "case-4471"}), ("/other", case.refund), ("/refund", None)):
            assert service.post(path, body)[0] == 400
        assert service.post("/approve", {**case.approval, "amount_minor": 20.5})[0] == 400
    assert case.moved() == []


def _until_ended(service: Service, case: Case) -> Any:
    """Ask again as the answers say, until it is not 202."""
    while True:
        status, headers, receipt = service.post("/refund", case.refund)
        if status != 202:
            assert status == 200, receipt
            return receipt
        time.sleep(float(headers["Retry-After"]))


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
