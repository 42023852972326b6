"""Every fault, as the real SDK meets it, judged by the ledger: what it looked like and what had happened."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunded_minor
from harness.standins.stripe.request_log import LoggedRequest
from harness.standins.stripe.sdk import connect, pay, refund


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module; every test makes payments of its own."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture
def standin(running: StripeStandIn) -> Iterator[StripeStandIn]:
    """The stand-in; a test that leaves a fault armed has not tested it."""
    yield running
    assert running.reset_faults() == 0


@pytest.fixture(scope="module")
def client(running: StripeStandIn) -> stripe.StripeClient:
    """The real SDK, with the key of one account."""
    return connect(running)


@pytest.fixture
def payment(client: stripe.StripeClient) -> str:
    """A payment of its own for every test; its id serves as the idempotency key too."""
    return pay(client).id


@pytest.fixture
def moved(standin: StripeStandIn, payment: str) -> Callable[[], int]:
    """What the ledger says was refunded."""
    return lambda: refunded_minor(standin.ledger_path, payment)


# ── connections that break ──────────────────────────────────────────────────


def test_drop_before_commit(standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]) -> None:
    """The connection breaks and nothing happened; the key is free."""
    standin.arm(FaultKind.DROP_BEFORE_COMMIT)
    with pytest.raises(stripe.APIConnectionError):
        refund(client, payment, 2000, key=payment)
    assert moved() == 0
    assert _last(standin).disposition == "not_executed"
    assert _is_replay(refund(client, payment, 2000, key=payment)) is False


@pytest.mark.parametrize("kind", [FaultKind.DROP_AFTER_COMMIT, FaultKind.RESET_BEFORE_ANSWER, FaultKind.TRUNCATE])
def test_answer_lost_after_commit(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int], kind: FaultKind
) -> None:
    """The same to the client as a break before the commit, but the money moved; a retry replays."""
    standin.arm(kind)
    with pytest.raises(stripe.APIConnectionError):
        refund(client, payment, 2000, key=payment)
    assert moved() == 2000
    assert _is_replay(refund(client, payment, 2000, key=payment)) is True
    assert moved() == 2000


def test_truncated_answer_is_not_flagged_for_retry(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """The SDK's should_retry is false for a truncated 200, which does not mean that nothing was sent."""
    standin.arm(FaultKind.TRUNCATE)
    with pytest.raises(stripe.APIConnectionError) as caught:
        refund(client, payment, 2000, key=payment)
    assert (caught.value.should_retry, moved()) == (False, 2000)


def test_reset_is_a_reset(standin: StripeStandIn, payment: str) -> None:
    """On the wire a reset is an RST, where a drop is an end of file."""
    heard: list[bytes | None] = []
    for kind in (FaultKind.DROP_AFTER_COMMIT, FaultKind.RESET_BEFORE_ANSWER):
        standin.arm(kind, method="GET", path_prefix=f"/v1/payment_intents/{payment}")
        host, _, port = standin.api_base.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(f"GET /v1/payment_intents/{payment} HTTP/1.1\r\n\r\n".encode())
            try:
                heard.append(raw.recv(1))
            except ConnectionResetError:
                heard.append(None)
    assert heard == [b"", None]


def test_reset_without_effect(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """A reset can also come before the execution."""
    standin.arm(FaultKind.RESET_BEFORE_ANSWER, with_effect=False)
    with pytest.raises(stripe.APIConnectionError):
        refund(client, payment, 2000, key=payment)
    assert moved() == 0


def test_dripped_answer_outlives_the_timeout(standin: StripeStandIn, payment: str, moved: Callable[[], int]) -> None:
    """A body that drips is read to its end although it takes longer than the SDK's timeout."""
    # The SDK's timeout is of each read: a machine that stands still for most of a second is no failure yet.
    standin.arm(FaultKind.DRIP, seconds=1.6)
    impatient = connect(standin, timeout_s=1)
    assert refund(impatient, payment, 2000, key=payment).amount == 2000
    assert moved() == 2000


# ── requests that are held back ─────────────────────────────────────────────


def test_held_request_executes_without_its_client(standin: StripeStandIn, payment: str, moved: Callable[[], int]) -> None:
    """A client that gave up does not undo the request that it sent."""
    standin.arm(FaultKind.HOLD, seconds=30)
    with pytest.raises(stripe.APIConnectionError):
        refund(connect(standin, timeout_s=0.1), payment, 2000, key=payment)
    assert (moved(), _last(standin).disposition) == (0, "received")
    _release_and_wait(standin)
    assert moved() == 2000


def test_hold_ends_by_itself(standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]) -> None:
    """Without a release a held request executes after its time, and its client gets the answer."""
    standin.arm(FaultKind.HOLD, seconds=0.05)
    assert refund(client, payment, 2000, key=payment).amount == 2000
    assert moved() == 2000


def test_delayed_request_lands_without_its_client(standin: StripeStandIn, payment: str, moved: Callable[[], int]) -> None:
    """A request that is still on its way lands after its client is gone."""
    standin.arm(FaultKind.DELAY_LANDING, seconds=30)
    with pytest.raises(stripe.APIConnectionError):
        refund(connect(standin, timeout_s=0.1), payment, 2000, key=payment)
    assert moved() == 0
    _release_and_wait(standin)
    assert moved() == 2000


def test_delayed_request_holds_no_key(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """Until it lands its key is free, so a retry executes, and the late original replays."""
    standin.arm(FaultKind.DELAY_LANDING, seconds=30)
    with pytest.raises(stripe.APIConnectionError):
        refund(connect(standin, timeout_s=0.1), payment, 2000, key=payment)
    assert _is_replay(refund(client, payment, 2000, key=payment)) is False
    _release_and_wait(standin)
    assert moved() == 2000
    assert [one.disposition for one in standin.requests() if one.idempotency_key == payment] == ["replayed", "executed"]


# ── 500 ─────────────────────────────────────────────────────────────────────


def test_500_without_effect_is_stored(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """A 500 that changed nothing is replayed for ever: its key can no longer refund."""
    standin.arm(FaultKind.ERROR_500_NO_EFFECT)
    assert _error(client, payment).http_status == 500
    again = _error(client, payment)
    assert (again.http_status, dict(again.headers or {}).get("idempotent-replayed")) == (500, "true")
    assert moved() == 0


def test_500_with_effect_is_stored(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """A 500 can hide a refund that happened."""
    standin.arm(FaultKind.ERROR_500_WITH_EFFECT)
    assert [_error(client, payment).http_status for _ in range(2)] == [500, 500]
    assert moved() == 2000


def test_500_rolls_forward_on_the_clock(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """A 500 that had no effect gets one later, while the 500 keeps replaying."""
    standin.arm(FaultKind.ERROR_500_ROLL_FORWARD, seconds=600)
    _error(client, payment)
    assert moved() == 0
    standin.advance_clock(599)
    assert moved() == 0
    standin.advance_clock(1)
    assert moved() == 2000
    assert _error(client, payment).http_status == 500


def test_500_rolls_forward_when_told(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """The control can bring it about at once, for one key."""
    standin.arm(FaultKind.ERROR_500_ROLL_FORWARD, seconds=600)
    _error(client, payment)
    assert standin.roll_forward("another key") == 0
    assert standin.roll_forward(payment) == 1
    assert moved() == 2000


def test_roll_forward_needs_no_request(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """It happens when its time has come, though nobody asks the provider anything."""
    standin.arm(FaultKind.ERROR_500_ROLL_FORWARD, seconds=0.1)
    _error(client, payment)
    _wait_for(lambda: moved() == 2000)


# ── 429 ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [FaultKind.RATE_LIMIT, FaultKind.LOCK_TIMEOUT])
@pytest.mark.parametrize("should_retry", [True, False, None])
def test_429_is_not_executed_and_not_saved(
    standin: StripeStandIn,
    client: stripe.StripeClient,
    payment: str,
    moved: Callable[[], int],
    *,
    kind: FaultKind,
    should_retry: bool | None,
) -> None:
    """A 429 changed nothing and leaves the key free; Stripe-Should-Retry is true, false or absent."""
    standin.arm(kind, should_retry=should_retry)
    with pytest.raises(stripe.RateLimitError) as caught:
        refund(client, payment, 2000, key=payment)
    headers = dict(caught.value.headers or {})
    assert headers.get("stripe-should-retry") == {True: "true", False: "false", None: None}[should_retry]
    assert ("stripe-rate-limited-reason" in headers) is (kind is FaultKind.RATE_LIMIT)
    assert caught.value.error is not None
    assert caught.value.error.code == kind.value
    assert moved() == 0
    assert _is_replay(refund(client, payment, 2000, key=payment)) is False


def test_sdk_retries_a_429_that_says_so(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """With retries on and Stripe-Should-Retry the SDK sends the same key again."""
    standin.arm(FaultKind.RATE_LIMIT, should_retry=True)
    client.v1.refunds.create({"payment_intent": payment, "amount": 2000}, {"idempotency_key": payment, "max_network_retries": 1})
    assert moved() == 2000
    assert [one.status for one in standin.requests() if one.idempotency_key == payment] == [429, 200]


# ── answers that mislead ────────────────────────────────────────────────────


def test_302_is_followed_as_a_read(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """The SDK follows a 302 with a GET and returns what it finds there as a success."""
    standin.arm(FaultKind.REDIRECT_302)
    assert str(refund(client, payment, 2000, key=payment).object) == "list"
    assert moved() == 0


def test_307_is_followed_with_the_key(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]
) -> None:
    """The SDK follows a 307 with the same POST under the same key."""
    standin.arm(FaultKind.REDIRECT_307)
    assert refund(client, payment, 2000, key=payment).amount == 2000
    assert moved() == 2000
    assert [one.idempotency_key for one in standin.requests()][-2:] == [payment, payment]


def test_redirect_elsewhere(standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]) -> None:
    """A redirect can lead anywhere, also after the execution."""
    standin.arm(FaultKind.REDIRECT_302, location="/v1/account", with_effect=True)
    answered = refund(client, payment, 2000, key=payment)
    assert "amount" not in answered
    assert moved() == 2000


@pytest.mark.parametrize("with_effect", [False, True])
def test_html_502(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int], *, with_effect: bool
) -> None:
    """A proxy's page is an APIError without an error object, whether or not the request got through."""
    standin.arm(FaultKind.HTML_502, with_effect=with_effect)
    error = _error(client, payment)
    assert (error.http_status, error.error) == (502, None)
    assert moved() == (2000 if with_effect else 0)


@pytest.mark.parametrize("with_effect", [False, True])
def test_empty_object(
    standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int], *, with_effect: bool
) -> None:
    """200 with an empty object is a success to the SDK, and says nothing of what happened."""
    standin.arm(FaultKind.EMPTY_OBJECT, with_effect=with_effect)
    assert "id" not in refund(client, payment, 2000, key=payment)
    assert moved() == (2000 if with_effect else 0)


def test_wrong_amount(standin: StripeStandIn, client: stripe.StripeClient, payment: str, moved: Callable[[], int]) -> None:
    """The answer claims another amount than was refunded; what is saved is the truth."""
    standin.arm(FaultKind.WRONG_AMOUNT, amount_minor=9999)
    assert refund(client, payment, 2000, key=payment).amount == 9999
    assert moved() == 2000
    assert refund(client, payment, 2000, key=payment).amount == 2000


# ── arming ──────────────────────────────────────────────────────────────────


def test_fault_strikes_only_what_it_is_armed_for(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A fault waits for its method, path and key, strikes as often as it was told, and is then gone."""
    mine, other = pay(client).id, pay(client).id
    standin.arm(FaultKind.DROP_BEFORE_COMMIT, path_prefix=f"/v1/payment_intents/{mine}", method="GET")
    standin.arm(FaultKind.RATE_LIMIT, idempotency_key=mine, times=2)
    refund(client, other, 1, key=other)
    client.v1.payment_intents.retrieve(other)
    with pytest.raises(stripe.APIConnectionError):
        client.v1.payment_intents.retrieve(mine)
    for _ in range(2):
        with pytest.raises(stripe.RateLimitError):
            refund(client, mine, 1, key=mine)
    refund(client, mine, 1, key=mine)


def test_reset_disarms(running: StripeStandIn, client: stripe.StripeClient, payment: str) -> None:
    """After a reset nothing strikes any more."""
    running.arm(FaultKind.HTML_502, times=5)
    assert running.reset_faults() == 1
    assert refund(client, payment, 1).amount == 1


def _error(client: stripe.StripeClient, payment: str) -> stripe.APIError:
    with pytest.raises(stripe.APIError) as caught:
        refund(client, payment, 2000, key=payment)
    return caught.value


def _is_replay(answered: stripe.Refund) -> bool:
    assert answered.last_response is not None
    return "idempotent-replayed" in answered.last_response.headers


def _last(standin: StripeStandIn) -> LoggedRequest:
    return standin.requests()[-1]


def _release_and_wait(standin: StripeStandIn) -> None:
    assert standin.release() == 1
    _wait_for(lambda: all(one.disposition != "received" for one in standin.requests()))


def _wait_for(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(6000):
        if condition():
            return
        waiting.wait(0.01)
    pytest.fail("it never happened")
