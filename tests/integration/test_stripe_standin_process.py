"""The stand-in as a process: its ports, its ledger, its request log, its end, and many clients at once."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, ControlRefusedError, StripeControl, StripeStandIn
from harness.standins.stripe.ledger import (
    DisputeOpened,
    LedgerWriter,
    PaymentCreated,
    RefundCreated,
    RefundStatusChanged,
    read_ledger,
    refunds_of,
)
from harness.standins.stripe.sdk import connect, pay, refund

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module; every test makes payments of its own."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture(scope="module")
def client(standin: StripeStandIn) -> stripe.StripeClient:
    """The real SDK, with the key of one account."""
    return connect(standin)


def test_attached_control_moves_the_same_world(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Another process that has the JSON line gets the same world."""
    payment = pay(client).id
    attached: StripeControl = StripeStandIn.attach(standin.handshake)
    attached.hand_refund(payment, 700)
    assert (attached.pid, attached.ledger_path, attached.api_base) == (
        standin.pid,
        standin.ledger_path,
        standin.api_base,
    )
    assert [one.amount for one in client.v1.refunds.list({"payment_intent": payment}).data] == [700]


def test_client_imports_the_standard_library_only() -> None:
    """A worker that imports the client and the ledger pays for no third-party package."""
    program = (
        "import sys; import harness.standins.stripe.client, harness.standins.stripe.ledger;"
        "print([name for name in sys.modules if 'site-packages' in (getattr(sys.modules[name], '__file__', '') or '')])"
    )
    found = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
                           check=True, capture_output=True, text=True, timeout=30)  # fmt: skip
    assert found.stdout.strip() == "[]"


def test_listens_on_this_machine_only(standin: StripeStandIn) -> None:
    """Both ports are bound to the loopback address."""
    for url in (standin.api_base, standin.control_url):
        assert url.startswith("http://127.0.0.1:")
    with pytest.raises(OSError):  # noqa: PT011  refused, unreachable or timed out, as the system has it
        socket.create_connection(("127.0.0.2", int(standin.api_base.rpartition(":")[2])), timeout=2)


def test_ends_when_closed(tmp_path: Path) -> None:
    """After its context the process is gone, and it went by itself."""
    with StripeStandIn(tmp_path / "ledger.jsonl") as running:
        process = running._process
        assert process is not None
        assert (process.pid, process.poll()) == (running.pid, None)
    assert process.returncode == 0


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked sibling"])
def test_dies_with_its_parent(tmp_path: Path, *, forked: bool) -> None:
    """A parent that is killed takes it along, also where a forked sibling still holds the pipe open."""
    program = (
        "import os, signal, time\n"
        "from harness.standins.stripe.client import StripeStandIn\n"
        f"running = StripeStandIn({str(tmp_path / 'ledger.jsonl')!r})\n"
        f"sibling = os.fork() if {forked} else None\n"
        "if sibling == 0: os.close(1); time.sleep(60); os._exit(0)\n"
        "print(running.handshake, sibling or '', sep='\\n', flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True, timeout=30)
    assert died.returncode == -signal.SIGKILL
    handshake, sibling = died.stdout.splitlines()
    try:
        _wait_until_refused(json.loads(handshake)["api"])
    finally:
        if sibling:
            os.kill(int(sibling), signal.SIGKILL)


def test_start_that_fails_says_so(tmp_path: Path) -> None:
    """Where the ledger can't be written, the start fails instead of running without one."""
    with pytest.raises(RuntimeError, match="ended before it listened"):
        StripeStandIn(tmp_path / "no folder" / "ledger.jsonl")


def test_ledger_tells_the_story(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Each effect is a row, in order, with the clock's time and the real one."""
    payment = pay(client, 5000, payment_method="pm_card_pendingRefund")
    one = refund(client, payment.id, 2000, key="story", metadata={"case": "1"})
    standin.complete_refund(one.id)
    standin.dispute(payment.id)
    effects = [row.effect for row in read_ledger(standin.ledger_path)][-4:]
    created, refunded, completed, disputed = effects
    assert isinstance(created, PaymentCreated)
    assert (created.payment, created.amount, created.status) == (payment.id, 5000, "succeeded")
    assert isinstance(refunded, RefundCreated)
    assert (refunded.idempotency_key, refunded.status, refunded.metadata) == ("story", "pending", {"case": "1"})
    assert completed == RefundStatusChanged(one.id, payment.id, "succeeded", None)
    assert disputed == DisputeOpened(payment.id, str(payment.latest_charge))


def test_ledger_times(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A moved clock moves `at`, and leaves the wall time alone."""
    before = standin.now()
    standin.advance_clock(1000)
    pay(client)
    row = read_ledger(standin.ledger_path)[-1]
    assert row.at >= before + 1000
    assert row.wall_time < row.at


def test_unfinished_line_is_not_an_effect(tmp_path: Path) -> None:
    """A line without its end was never acknowledged; a damaged complete line is an error, not silence."""
    ledger = tmp_path / "ledger.jsonl"
    writer = LedgerWriter(ledger)
    writer.write(DisputeOpened("pi_1", "ch_1"), at=1.0)
    writer.close()
    whole = ledger.read_text()
    ledger.write_text(whole + whole[: len(whole) // 2])
    assert [row.effect for row in read_ledger(ledger)] == [DisputeOpened("pi_1", "ch_1")]
    ledger.write_text(whole[: len(whole) // 2] + "\n")
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        read_ledger(ledger)


def test_request_log(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Every request is logged in order, with what became of it, and without any key."""
    payment = pay(client).id
    start = len(standin.requests())
    refund(client, payment, 2000, key="log")
    refund(client, payment, 2000, key="log")
    with pytest.raises(stripe.IdempotencyError):
        refund(client, payment, 1, key="log")
    client.v1.refunds.list({"payment_intent": payment})
    logged = standin.requests()[start:]
    assert [one.disposition for one in logged] == ["executed", "replayed", "refused", "read"]
    assert [one.sequence for one in logged] == list(range(start, start + 4))
    assert [(one.method, one.path, one.idempotency_key) for one in logged[2:]] == [
        ("POST", "/v1/refunds", "log"),
        ("GET", "/v1/refunds", None),
    ]
    assert LOCAL_API_KEY not in repr(standin.requests())


def test_half_a_request_has_no_effect(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A request whose body never arrived whole is not executed."""
    payment = pay(client).id
    before = len(standin.requests())
    host, _, port = standin.api_base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as half:
        body = f"payment_intent={payment}&amount=2000"
        head = f"POST /v1/refunds HTTP/1.1\r\nAuthorization: Bearer {LOCAL_API_KEY}\r\nContent-Length: {len(body) + 5}\r\n"
        half.sendall(f"{head}\r\n{body}".encode())
        half.shutdown(socket.SHUT_WR)
        assert half.recv(1) == b""
    assert len(standin.requests()) == before
    assert refunds_of(standin.ledger_path, payment) == []


def test_sender_that_dies_after_sending_has_acted(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A request that was sent whole is executed, though its sender reads no answer."""
    payment = pay(client).id
    connection = http.client.HTTPConnection(standin.api_base.removeprefix("http://"))
    headers = {"Authorization": f"Bearer {LOCAL_API_KEY}", "Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/v1/refunds", f"payment_intent={payment}&amount=2000", headers)
    connection.close()
    for _ in range(500):
        if client.v1.refunds.list({"payment_intent": payment}).data:
            break
    assert [one.amount for one in refunds_of(standin.ledger_path, payment)] == [2000]


def test_one_key_from_many_threads_is_one_refund(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """However many send the same request at once, one executes."""
    payment = pay(client).id

    def send(_: int) -> str:
        try:
            return refund(connect(standin), payment, 2000, key="crowd").id
        except stripe.APIError as busy:
            return str(busy.http_status)

    with ThreadPoolExecutor(16) as crowd:
        answers = set(crowd.map(send, range(32)))
    [only] = refunds_of(standin.ledger_path, payment)
    assert answers - {"409"} == {only.refund}


def test_control_refuses_nonsense(standin: StripeStandIn) -> None:
    """What the control can't do is an error that says why, and changes nothing."""
    for attempt in (
        lambda: standin.advance_clock(-1),
        lambda: standin.set_switch("no_such_switch", value=1),
        lambda: standin.set_switch("key_scope", value="galaxy"),
        lambda: standin.hand_refund("pi_unknown", 1),
        lambda: standin.next_refund_status("imaginary"),
        lambda: standin.assign_key("sk_live_local_0000", "acct_1"),
    ):
        with pytest.raises(ControlRefusedError):
            attempt()


def _wait_until_refused(url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    for _ in range(300):
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # it was in the line of a listener that died just then
        time.sleep(0.02)
    pytest.fail("the stand-in outlived its parent")
