"""The transport under the SDK: deadlines that hold, writes that ask first, sockets that a dead sender's kernel gives up."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from interlock.domain.answers import Done, NotSent, SendAnswer, Unknown
from interlock.domain.ports import Deadline
from interlock.infrastructure.clock import WallDeadline
from interlock.infrastructure.transports import DeadlineOver, DeadlineSession, Wire, kernel_s
from interlock.stripe import StripeRefunds
from tests.stripe_case import PATIENCE_S, SHORT_S

ROOT = Path(__file__).resolve().parents[2]
THREADS = 16


pytestmark = pytest.mark.usefixtures("healthy")


def _send(target: StripeRefunds, payment: str, deadline: Deadline) -> SendAnswer:
    effect = target.refund(payment=payment, amount_minor=2000, currency="usd")
    return target.send(effect, action_id=uuid4(), idempotency_key=f"il-{uuid4()}", deadline=deadline)


@pytest.fixture
def deaf() -> Iterator[str]:
    """A host and port that take connections and never say a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class Countdown:
    """A deadline that is over after it was asked a number of times: a sender that is paused at that very point."""

    def __init__(self, asked: int) -> None:
        self.left = asked

    def remaining_s(self) -> float:
        """Return a lot, or nothing any more."""
        self.left -= 1
        return PATIENCE_S if self.left >= 0 else 0.0


class Uncertain:
    """A deadline that is soon, over, and then far again: a clock that was set back."""

    def __init__(self) -> None:
        self._said = iter((0.01, 0.0))

    def remaining_s(self) -> float:
        """Return the next of these."""
        return next(self._said, PATIENCE_S)


def test_a_dripping_answer_ends_at_the_deadline(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Each byte comes in time for the SDK's time-out, and the send ends all the same; it moved money, and says Unknown."""
    target, payment = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base), pay(client).id
    standin.arm(FaultKind.DRIP, seconds=PATIENCE_S)
    assert _send(target, payment, WallDeadline(SHORT_S)) == Unknown("the deadline was over")
    assert len(refunds_of(standin.ledger_path, payment)) == 1


def test_a_request_that_was_given_up_leaves_no_thread(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Its socket is shut, so the thread that reads from it comes to its end."""
    target, payment = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base), pay(client).id
    standin.arm(FaultKind.DRIP, seconds=PATIENCE_S)
    _send(target, payment, WallDeadline(SHORT_S))
    for thread in [one for one in threading.enumerate() if one.name == "interlock-request"]:
        thread.join(PATIENCE_S / 2)
        assert not thread.is_alive()


def test_a_host_that_says_nothing_is_unknown_at_the_deadline(deaf: str) -> None:
    """The request was written, so nobody knows."""
    target = StripeRefunds(LOCAL_API_KEY, api_base=f"http://{deaf}")
    assert isinstance(_send(target, "pi_1", WallDeadline(SHORT_S)), Unknown)


def test_a_tls_handshake_that_hangs_is_not_sent(deaf: str) -> None:
    """Nothing of the request was written, and nothing will be."""
    target = StripeRefunds(LOCAL_API_KEY, api_base=f"https://{deaf}")
    assert isinstance(_send(target, "pi_1", WallDeadline(SHORT_S)), NotSent)


def test_what_the_caller_was_handling_is_no_cause(deaf: str) -> None:
    """A send that is made in an `except` block tells its own failure, and not the one that the caller was handling."""
    target = StripeRefunds(LOCAL_API_KEY, api_base=f"http://{deaf}")
    alone = _send(target, "pi_1", WallDeadline(SHORT_S))
    try:
        raise ConnectionRefusedError
    except ConnectionRefusedError:
        told = _send(target, "pi_1", WallDeadline(SHORT_S))
    assert told == alone
    assert isinstance(told, Unknown)
    assert "ConnectionRefusedError" not in told.why


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_host_that_is_not_there_is_not_sent(scheme: str) -> None:
    """Refused connections and unknown names are provably not sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in (f"127.0.0.1:{port}", "stripe.invalid"):
        target = StripeRefunds(LOCAL_API_KEY, api_base=f"{scheme}://{host}")
        assert isinstance(_send(target, "pi_1", WallDeadline(PATIENCE_S)), NotSent)


def test_a_plain_server_where_tls_is_expected_is_not_sent(standin: StripeStandIn) -> None:
    """A handshake that fails comes before the request."""
    target = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base.replace("http://", "https://"))
    assert isinstance(_send(target, "pi_1", WallDeadline(PATIENCE_S)), NotSent)


@pytest.mark.parametrize("asked", range(12))
def test_a_sender_paused_at_any_point_says_what_is_true(standin: StripeStandIn, client: stripe.StripeClient, asked: int) -> None:
    """Wherever its time runs out, NotSent means that no request arrived, and a refund never goes with NotSent."""
    target, payment = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base), pay(client).id
    before = len(standin.requests())
    answer = _send(target, payment, Countdown(asked))
    arrived, moved = len(standin.requests()) - before, len(refunds_of(standin.ledger_path, payment))
    assert not (isinstance(answer, NotSent) and (arrived or moved))
    assert not (isinstance(answer, Done) and not moved)


def test_a_sender_that_wakes_up_too_late_writes_nothing(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Also on a connection that is open already, the last check is the write's own."""
    target, payment = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base), pay(client).id
    target.observe(payment)
    before = len(standin.requests())
    assert isinstance(_send(target, payment, WallDeadline(-1.0)), NotSent)
    assert len(standin.requests()) == before


def test_a_write_after_the_end_is_refused() -> None:
    """A thread that was left behind can't write any more, whatever the clock says by then."""
    left_behind, ended = threading.Event(), threading.Event()
    refused: list[bool] = []
    wire = Wire(Uncertain())

    def request() -> None:
        left_behind.wait(PATIENCE_S)
        with socket.socket() as sock:
            try:
                wire.before_write(sock)
            except DeadlineOver:
                refused.append(True)
        ended.set()

    with pytest.raises(DeadlineOver):
        wire.run(request)
    left_behind.set()
    assert ended.wait(PATIENCE_S)
    assert refused == [True]
    assert not wire.written


class Watching(Wire):
    """A wire that looks at the socket it is to write on."""

    options: tuple[int, bytes, int]

    def before_write(self, sock: socket.socket) -> None:
        """Note its options."""
        self.options = (
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
            sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8),
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
        )
        super().before_write(sock)


@pytest.mark.skipif(sys.platform != "linux", reason="TCP_USER_TIMEOUT is Linux's")
@pytest.mark.parametrize("by_proxy", [False, True], ids=["direct", "through a proxy"])
def test_the_sockets_that_send_are_given_up_by_the_kernel(standin: StripeStandIn, by_proxy: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The option is on the very socket, also on one that leads to a proxy, and the profile says the same figure."""
    session, wire = DeadlineSession(), Watching(WallDeadline(PATIENCE_S))
    url, proxies = ("http://stripe.invalid", {"http": standin.api_base}) if by_proxy else (standin.api_base, None)
    wire.run(lambda: session.get(url, proxies=proxies))
    session.close()
    timeout_ms, linger, no_delay = wire.options
    assert timeout_ms == kernel_s() * 1000 == 5000
    assert linger == (1).to_bytes(4, sys.byteorder) + (0).to_bytes(4, sys.byteorder)
    assert no_delay


def test_a_proxy_of_the_environment_is_used(deaf: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the SDK does by default; what the proxy does with it is not known."""
    monkeypatch.setenv("http_proxy", f"http://{deaf}")
    target = StripeRefunds(LOCAL_API_KEY, api_base="http://stripe.invalid")
    assert isinstance(_send(target, "pi_1", WallDeadline(SHORT_S)), Unknown)


def test_netrc_does_not_replace_the_key(
    standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `default` entry there would otherwise be sent in the place of the key."""
    payment = pay(client).id
    netrc = tmp_path / "netrc"
    netrc.write_text("default login somebody password something\n")
    monkeypatch.setenv("NETRC", str(netrc))
    target = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base)
    assert isinstance(_send(target, payment, WallDeadline(PATIENCE_S)), Done)


def test_one_target_serves_many_threads(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Each thread gets the answer to its own request."""
    target = StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base)
    payments = [pay(client).id for _ in range(THREADS)]
    answers: dict[str, SendAnswer] = {}

    def send(payment: str) -> None:
        answers[payment] = _send(target, payment, WallDeadline(PATIENCE_S))

    threads = [threading.Thread(target=send, args=(payment,)) for payment in payments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for payment in payments:
        answer, [refund] = answers[payment], refunds_of(standin.ledger_path, payment)
        assert isinstance(answer, Done)
        assert (answer.evidence.reference, answer.evidence.disagreements) == (refund.refund, ())


FORKED = """
import os, sys
import stripe
from interlock.stripe import StripeRefunds
stripe.enable_telemetry = False              # it would write an id under the user's home
api_base, key, parents, childs = sys.argv[1:]
target = StripeRefunds(key, api_base=api_base)
target.observe(parents)                      # a connection is open now, and in the pool
child = os.fork()
mine = parents if child else childs
right = all(target.observe(mine).facts["id"] == mine for _ in range(100))
if not child:
    os._exit(0 if right else 1)
sys.exit(0 if right and os.waitpid(child, 0)[1] == 0 else 1)
"""


def test_a_forked_worker_has_connections_of_its_own(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Parent and child ask at the same time over one target, and neither reads the other's answers."""
    arguments = [standin.api_base, LOCAL_API_KEY, pay(client).id, pay(client).id]
    command = [sys.executable, "-c", FORKED, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 0
