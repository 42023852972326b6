"""A key that was used on one endpoint can no longer carry out a request on another: what closing the door rests on."""

import threading
from collections.abc import Iterator

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


def _burn(client: stripe.StripeClient, payment: str, key: str) -> stripe.PaymentIntent:
    return client.v1.payment_intents.update(payment, {"metadata": {"burned": key}}, {"idempotency_key": key})


def test_burned_key_cannot_refund(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund under a key that a metadata update used first is an idempotency_error, and moves nothing."""
    payment = pay(client).id
    assert _burn(client, payment, "burned").metadata["burned"] == "burned"
    with pytest.raises(stripe.IdempotencyError) as caught:
        refund(client, payment, 2000, key="burned")
    assert "same endpoint" in str(caught.value)
    assert refunds_of(standin.ledger_path, payment) == []


def test_used_key_cannot_be_burned(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A burn that comes after the refund is an idempotency_error, and changes no metadata."""
    payment = pay(client).id
    refund(client, payment, 2000, key="used")
    with pytest.raises(stripe.IdempotencyError):
        _burn(client, payment, "used")
    assert client.v1.payment_intents.retrieve(payment).metadata.to_dict() == {}
    assert refunded_minor(standin.ledger_path, payment) == 2000


def test_burning_twice_replays(client: stripe.StripeClient) -> None:
    """Two recoverers that burn the same key send the same bytes: the second burn is a replay."""
    payment = pay(client).id
    _burn(client, payment, "twice")
    again = _burn(client, payment, "twice").last_response
    assert again is not None
    assert again.headers["idempotent-replayed"] == "true"


def test_refused_refund_has_used_its_key(client: stripe.StripeClient) -> None:
    """A saved refusal holds the key too."""
    payment = pay(client, 1000).id
    with pytest.raises(stripe.InvalidRequestError):
        refund(client, payment, 2000, key="refused")
    with pytest.raises(stripe.IdempotencyError):
        _burn(client, payment, "refused")


def test_burn_meets_a_refund_in_progress(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A burn while the refund executes gets 409, and the refund then happens."""
    payment = pay(client).id
    standin.arm(FaultKind.HOLD, idempotency_key="progress", seconds=30)
    refunding = threading.Thread(target=refund, args=(client, payment, 2000), kwargs={"key": "progress"})
    refunding.start()
    standin.wait_until_held_back()
    with pytest.raises(stripe.APIError) as caught:
        _burn(client, payment, "progress")
    standin.release()
    refunding.join()
    assert caught.value.http_status == 409
    assert refunded_minor(standin.ledger_path, payment) == 2000


def test_burn_beats_a_refund_on_its_way(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund that lands after its key was burned moves nothing."""
    payment = pay(client).id
    standin.arm(FaultKind.DELAY_LANDING, idempotency_key="late", seconds=30)
    sender = threading.Thread(target=_refund_into_the_void, args=(client, payment, "late"))
    sender.start()
    standin.wait_until_held_back()
    _burn(client, payment, "late")
    standin.release()
    sender.join()
    assert refunds_of(standin.ledger_path, payment) == []
    assert [one.disposition for one in standin.requests() if one.fault == "delay_landing"] == ["refused"]


def test_expired_burn_protects_nothing(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Once the window is over, a burned key refunds: a burn counts only inside it."""
    payment = pay(client).id
    _burn(client, payment, "expired")
    standin.advance_clock(25 * 3600)
    refund(client, payment, 2000, key="expired")
    assert refunded_minor(standin.ledger_path, payment) == 2000


def _refund_into_the_void(client: stripe.StripeClient, payment: str, key: str) -> None:
    with pytest.raises(stripe.APIConnectionError):
        refund(client, payment, 2000, key=key)
