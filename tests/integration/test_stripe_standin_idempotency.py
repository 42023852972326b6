"""Idempotency keys, as docs.stripe.com/api/idempotent_requests and docs.stripe.com/error-low-level describe them."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunded_minor, refunds_of
from harness.standins.stripe.sdk import connect, pay, refund


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module; every test makes payments of its own."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture(scope="module")
def client(standin: StripeStandIn) -> stripe.StripeClient:
    """The real SDK, with the key of one account."""
    return connect(standin)


def test_first_answer_is_no_replay(client: stripe.StripeClient) -> None:
    """The first answer under a key echoes the key and does not carry idempotent-replayed."""
    headers = _headers(refund(client, pay(client).id, 2000, key="first"))
    assert headers["idempotency-key"] == "first"
    assert "idempotent-replayed" not in headers


def test_same_request_is_replayed(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """The same request under the same key returns the same refund, marked as a replay, and moves nothing."""
    payment = pay(client).id
    first, again = (refund(client, payment, 2000, key="replay", metadata={"case": "1"}) for _ in range(2))
    assert again.to_dict() == first.to_dict()
    assert [one.refund for one in refunds_of(standin.ledger_path, payment)] == [first.id]
    assert standin.requests()[-1].disposition == "replayed"


def test_replay_headers(client: stripe.StripeClient) -> None:
    """A replay names the original request and has a request id of its own."""
    payment = pay(client).id
    first, again = (_headers(refund(client, payment, 2000, key="replay-headers")) for _ in range(2))
    assert again["idempotent-replayed"] == "true"
    assert again["original-request"] == first["request-id"]
    assert again["request-id"] != first["request-id"]
    assert again["idempotency-key"] == "replay-headers"


def test_order_of_parameters_does_not_matter(client: stripe.StripeClient) -> None:
    """The parameters are compared, not the order in which they were sent."""
    payment = pay(client).id
    first = client.v1.refunds.create({"payment_intent": payment, "amount": 1}, {"idempotency_key": "order"})
    again = client.v1.refunds.create({"amount": 1, "payment_intent": payment}, {"idempotency_key": "order"})
    assert again.id == first.id


def test_other_parameters_are_an_idempotency_error(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A key used with other parameters is refused with an idempotency_error that has no code, and moves nothing."""
    payment = pay(client).id
    refund(client, payment, 2000, key="params")
    with pytest.raises(stripe.IdempotencyError) as caught:
        refund(client, payment, 2001, key="params")
    assert caught.value.http_status == 400
    assert caught.value.code is None
    assert "same parameters" in str(caught.value)
    assert refunded_minor(standin.ledger_path, payment) == 2000


def test_mismatch_does_not_replace_what_is_saved(client: stripe.StripeClient) -> None:
    """After a mismatch the first request is still replayed."""
    payment = pay(client).id
    first = refund(client, payment, 2000, key="kept")
    with pytest.raises(stripe.IdempotencyError):
        refund(client, payment, 1, key="kept")
    assert refund(client, payment, 2000, key="kept").id == first.id


def test_key_in_progress_is_a_409(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """While the first request is executed, a second one under its key gets 409 and executes nothing."""
    payment = pay(client).id
    standin.arm(FaultKind.HOLD, idempotency_key="busy", seconds=30)
    first = threading.Thread(target=refund, args=(client, payment, 2000), kwargs={"key": "busy"})
    first.start()
    standin.wait_until_held_back()
    with pytest.raises(stripe.APIError) as caught:
        refund(client, payment, 2000, key="busy")
    standin.release()
    first.join()
    assert caught.value.http_status == 409
    assert caught.value.error is not None
    assert (caught.value.error.type, caught.value.error.code) == ("invalid_request_error", "idempotency_key_in_use")
    assert len(refunds_of(standin.ledger_path, payment)) == 1


def test_409_is_not_saved(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """After the first request ended, the key replays its answer and not the 409."""
    payment = pay(client).id
    standin.arm(FaultKind.HOLD, idempotency_key="after-busy", seconds=30)
    first = threading.Thread(target=refund, args=(client, payment, 2000), kwargs={"key": "after-busy"})
    first.start()
    standin.wait_until_held_back()
    with pytest.raises(stripe.APIError):
        refund(client, payment, 2000, key="after-busy")
    standin.release()
    first.join()
    assert _headers(refund(client, payment, 2000, key="after-busy"))["idempotent-replayed"] == "true"


def test_key_lives_for_24_hours(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Just inside 24 hours a key still replays; once they are over the request executes anew."""
    payment = pay(client).id
    first = refund(client, payment, 2000, key="old")
    standin.advance_clock(24 * 3600 - 60)
    assert refund(client, payment, 2000, key="old").id == first.id
    standin.advance_clock(61)
    assert refund(client, payment, 2000, key="old").id != first.id
    assert refunded_minor(standin.ledger_path, payment) == 4000


def test_window_is_counted_from_the_first_receipt(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A replay does not make a key live longer."""
    payment = pay(client).id
    first = refund(client, payment, 2000, key="not-renewed")
    standin.advance_clock(23 * 3600)
    refund(client, payment, 2000, key="not-renewed")
    standin.advance_clock(2 * 3600)
    assert refund(client, payment, 2000, key="not-renewed").id != first.id


def test_forgotten_key_executes_anew(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A key that the provider lost early protects nothing, though no clock moved."""
    payment = pay(client).id
    refund(client, payment, 2000, key="lost")
    assert standin.forget_key("lost") == 1
    refund(client, payment, 2000, key="lost")
    assert refunded_minor(standin.ledger_path, payment) == 4000
    assert standin.forget_key("never used") == 0


def test_business_refusal_is_saved(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund that was too large is refused again under its key, also once there would be room."""
    payment = pay(client, 10_000).id
    blocking = standin.hand_refund(payment, 9_000)["id"]
    with pytest.raises(stripe.InvalidRequestError):
        refund(client, payment, 2000, key="refused")
    standin.fail_refund(blocking)
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment, 2000, key="refused")
    assert "idempotent-replayed" in dict(caught.value.headers or {})
    assert refunded_minor(standin.ledger_path, payment) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 0},
        {"amount": -5},
        {"amount": "20.0"},
        {"amount": "much"},
        {"surprise": "1"},
        {"reason": "boredom"},
        {"metadata": {"k" * 41: "v"}},
        {"payment_intent": None},
        {"payment_intent": "pi_unknown"},
        {"currency": "eur"},
        {"expand": ["nothing"]},
    ],
)
def test_validation_refusal_is_not_saved(client: stripe.StripeClient, wrong: dict[str, Any]) -> None:
    """What was turned away before execution leaves its key free for another request."""
    payment, key = pay(client).id, f"unsaved-{wrong}"
    params: Any = {"payment_intent": payment, "amount": 2000} | wrong
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.create(params, {"idempotency_key": key})
    assert "idempotent-replayed" not in _headers(refund(client, payment, 2000, key=key))


def test_declined_card_is_saved(client: stripe.StripeClient) -> None:
    """A declined card is a 402 that is replayed."""
    params: Any = {
        "amount": 500,
        "currency": "usd",
        "payment_method": "pm_card_chargeDeclined",
        "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        "confirm": True,
    }
    for replayed in (False, True):
        with pytest.raises(stripe.CardError) as caught:
            client.v1.payment_intents.create(params, {"idempotency_key": "declined"})
        assert caught.value.code == "card_declined"
        assert ("idempotent-replayed" in dict(caught.value.headers or {})) is replayed


def test_longest_key(client: stripe.StripeClient) -> None:
    """A key of 255 characters works, one of 256 is refused."""
    payment = pay(client).id
    assert refund(client, payment, 1, key="k" * 255).amount == 1
    with pytest.raises(stripe.InvalidRequestError):
        refund(client, payment, 1, key="k" * 256)


def test_reads_carry_no_key(client: stripe.StripeClient) -> None:
    """A GET under a used key reads, and replays nothing."""
    payment = pay(client).id
    one = refund(client, payment, 2000, key="read")
    read = client.v1.refunds.retrieve(one.id, None, {"idempotency_key": "read"})
    assert "idempotent-replayed" not in _headers(read)


def test_replay_is_a_snapshot(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A replay says succeeded although the refund has failed since; reading it says so."""
    payment = pay(client).id
    one = refund(client, payment, 2000, key="snapshot")
    standin.fail_refund(one.id)
    assert refund(client, payment, 2000, key="snapshot").status == "succeeded"
    assert client.v1.refunds.retrieve(one.id).status == "failed"


def test_replay_of_the_present_state_is_a_switch(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """That a replay is a snapshot is not documented, so it can be switched off."""
    payment = pay(client).id
    one = refund(client, payment, 2000, key="present")
    standin.fail_refund(one.id)
    standin.set_switch("replay_is_snapshot", value=False)
    assert refund(client, payment, 2000, key="present").status == "failed"
    standin.set_switch("replay_is_snapshot", value=True)


def _headers(answered: Any) -> Any:
    return answered.last_response.headers
