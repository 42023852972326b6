"""The life of payments and refunds, and every refusal, as the real SDK sees them."""

from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.ledger import read_ledger, refunded_minor, refunds_of
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


CARD_ONLY: Any = {"automatic_payment_methods": {"enabled": True, "allow_redirects": "never"}}


def test_payment_is_created_and_confirmed(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A confirmed payment has succeeded, has a latest charge and is in test mode."""
    payment = pay(client, 10_000)
    assert (payment.status, payment.amount_received, payment.livemode) == ("succeeded", 10_000, False)
    charge = client.v1.charges.retrieve(str(payment.latest_charge))
    assert (charge.payment_intent, charge.amount, charge.livemode) == (payment.id, 10_000, False)
    assert (charge.amount_refunded, charge.refunded, charge.disputed) == (0, False, False)
    assert "refunds" not in charge
    assert [row.effect.KIND for row in read_ledger(standin.ledger_path)][-1] == "payment_created"


def test_answers_say_that_they_are_local(client: stripe.StripeClient) -> None:
    """Every answer carries x-standin, refusals too, so no result of it passes for a live one."""
    answered = pay(client).last_response
    assert answered is not None
    assert answered.headers["x-standin"] == "local"
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.refunds.retrieve("re_unknown")
    assert dict(caught.value.headers or {})["x-standin"] == "local"


def test_payment_is_confirmed_later(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A payment can be created first and confirmed afterwards, once."""
    created = _unconfirmed(client)
    assert (created.status, created.latest_charge) == ("requires_payment_method", None)
    confirmed = client.v1.payment_intents.confirm(created.id, {"payment_method": "pm_card_visa"})
    assert confirmed.status == "succeeded"
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.payment_intents.confirm(created.id, {"payment_method": "pm_card_visa"})
    assert [row.effect.KIND for row in read_ledger(standin.ledger_path)][-1] == "payment_confirmed"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"automatic_payment_methods": {"enabled": True}}, None),
        ({"payment_method": None}, "parameter_missing"),
        ({"payment_method": "pm_unknown"}, "resource_missing"),
        ({"amount": None}, "parameter_missing"),
        ({"amount": 100_000_000}, "parameter_invalid_integer"),
        ({"currency": "dollars"}, None),
        ({"confirm": "perhaps"}, None),
        ({"payment_method_types": ["card"]}, "payment_method_types_no_longer_supported"),
    ],
)
def test_payment_is_refused(client: stripe.StripeClient, change: dict[str, Any], code: str | None) -> None:
    """A payment is refused for a wrong parameter, and for the old way to name payment methods, gone since endive."""
    params: Any = {"amount": 500, "currency": "usd", "payment_method": "pm_card_visa", "confirm": True, **CARD_ONLY}
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.payment_intents.create(params | change)
    assert (caught.value.http_status, caught.value.code) == (400, code)


def test_card_number_instead_of_token(client: stripe.StripeClient) -> None:
    """A test card can be given by its number; a number that is no test card's is refused."""
    params: Any = {"amount": 500, "currency": "usd", "confirm": True, **CARD_ONLY}
    card = {"type": "card", "card": {"number": "4000000000007726", "exp_month": 1, "exp_year": 2040, "cvc": "123"}}
    payment = client.v1.payment_intents.create(params | {"payment_method_data": card})
    assert refund(client, payment.id).status == "pending"
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.payment_intents.create(params | {"payment_method_data": {"card": {"number": "4929000000006"}}})


def test_refund_of_a_part(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund of a part shows on the charge, and has no livemode."""
    payment = pay(client, 10_000)
    one = refund(client, payment.id, 2000, metadata={"case": "4471"})
    assert (one.amount, one.currency, one.status, one.payment_intent) == (2000, "usd", "succeeded", payment.id)
    assert "livemode" not in one
    charge = client.v1.charges.retrieve(str(payment.latest_charge))
    assert (charge.amount_refunded, charge.refunded) == (2000, False)
    [row] = refunds_of(standin.ledger_path, payment.id)
    assert (row.refund, row.amount, row.currency, row.metadata) == (one.id, 2000, "usd", {"case": "4471"})
    assert row.by == "api"


def test_refund_of_what_is_left(client: stripe.StripeClient) -> None:
    """Without an amount the remainder is refunded, and only then is the charge refunded."""
    payment = pay(client, 10_000)
    refund(client, payment.id, 2000)
    assert refund(client, payment.id).amount == 8000
    assert client.v1.charges.retrieve(str(payment.latest_charge)).refunded is True


def test_refund_by_charge(client: stripe.StripeClient) -> None:
    """A refund can name the charge instead of the payment."""
    payment = pay(client)
    one = client.v1.refunds.create({"charge": str(payment.latest_charge), "amount": 5})
    assert one.payment_intent == payment.id


def test_zero_decimal_currency(client: stripe.StripeClient) -> None:
    """An amount in yen is a whole number of yen, in refusals too."""
    payment = pay(client, 500, "jpy")
    with pytest.raises(stripe.InvalidRequestError, match=r"501 JPY.*500 JPY"):
        refund(client, payment.id, 501)


def test_expansion(client: stripe.StripeClient) -> None:
    """Ids can be expanded along dotted paths, also in lists."""
    payment = pay(client)
    one = refund(client, payment.id, 2000)
    read = client.v1.payment_intents.retrieve(payment.id, {"expand": ["latest_charge.refunds"]})
    assert isinstance(read.latest_charge, stripe.Charge)
    assert read.latest_charge.refunds is not None
    assert [each.id for each in read.latest_charge.refunds.data] == [one.id]
    [listed] = client.v1.refunds.list({"payment_intent": payment.id, "expand": ["data.payment_intent"]}).data
    assert isinstance(listed.payment_intent, stripe.PaymentIntent)


# ── refusals, in Stripe's order ─────────────────────────────────────────────


def test_disputed_comes_before_fully_refunded(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A charge that is disputed and fully refunded is refused as disputed."""
    payment = pay(client)
    refund(client, payment.id)
    standin.dispute(payment.id)
    error = _refused(client, payment.id, 1)
    assert (error.http_status, error.code) == (400, "charge_disputed")
    assert client.v1.charges.retrieve(str(payment.latest_charge)).disputed is True


def test_fully_refunded_comes_before_too_large(client: stripe.StripeClient) -> None:
    """A charge with nothing left is refused as refunded, however much is asked for."""
    payment = pay(client)
    refund(client, payment.id)
    error = _refused(client, payment.id, 99_999)
    assert (error.http_status, error.code) == (400, "charge_already_refunded")


def test_too_large_has_no_code(client: stripe.StripeClient) -> None:
    """More than what is left is refused without a code; the parameter and the amounts say it."""
    payment = pay(client, 10_000)
    refund(client, payment.id, 9_500)
    error = _refused(client, payment.id, 2000)
    assert (error.code, error.param) == (None, "amount")
    assert "Refund amount ($20.00) is greater than unrefunded amount on charge ($5.00)" in str(error)


def test_payment_without_a_charge(client: stripe.StripeClient) -> None:
    """A payment that was never charged can't be refunded."""
    payment = _unconfirmed(client)
    error = _refused(client, payment.id, 1)
    assert (error.code, error.param) == (None, "payment_intent")


def test_unknown_payment(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """An unknown payment is 400 resource_missing on payment_intent; the status is a switch."""
    error = _refused(client, "pi_unknown", 1)
    assert (error.http_status, error.code, error.param) == (400, "resource_missing", "payment_intent")
    standin.set_switch("unknown_payment_status", 404)
    assert _refused(client, "pi_unknown", 1).http_status == 404
    standin.set_switch("unknown_payment_status", 400)


def test_unknown_ids_are_404(client: stripe.StripeClient) -> None:
    """An unknown charge on creation, and any unknown id on a read, is 404 resource_missing on id."""
    for attempt in (
        lambda: client.v1.refunds.create({"charge": "ch_unknown"}),
        lambda: client.v1.charges.retrieve("ch_unknown"),
        lambda: client.v1.payment_intents.retrieve("pi_unknown"),
        lambda: client.v1.refunds.retrieve("re_unknown"),
    ):
        with pytest.raises(stripe.InvalidRequestError) as caught:
            attempt()
        assert (caught.value.http_status, caught.value.code, caught.value.param) == (404, "resource_missing", "id")


def test_object_of_live_mode(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """An id that exists in live mode is not found, with a hint."""
    standin.add_live_object("pi_live")
    with pytest.raises(stripe.InvalidRequestError, match="a similar object exists in live mode"):
        client.v1.payment_intents.retrieve("pi_live")


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"amount": 0}, "parameter_invalid_integer", "amount"),
        ({"amount": "20.0"}, "parameter_invalid_integer", "amount"),
        ({"colour": "red"}, "parameter_unknown", "colour"),
        ({"payment_intent": None}, "parameter_missing", "payment_intent"),
    ],
)
def test_parameters_are_validated(client: stripe.StripeClient, change: dict[str, Any], code: str, param: str) -> None:
    """A parameter that is wrong, unknown or missing is named."""
    params: Any = {"payment_intent": pay(client).id, "amount": 5} | change
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.refunds.create(params)
    assert (caught.value.code, caught.value.param) == (code, param)


def test_unknown_endpoint(client: stripe.StripeClient) -> None:
    """What the stand-in does not have is a 404, never a made-up answer."""
    with pytest.raises(stripe.InvalidRequestError, match="Unrecognized request URL"):
        client.v1.customers.create({})


# ── states ──────────────────────────────────────────────────────────────────


def test_pending_refund_counts_and_completes(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """The pending card's refund takes its room at once, and succeeds when told."""
    payment = pay(client, payment_method="pm_card_pendingRefund")
    one = refund(client, payment.id, 2000)
    assert (one.status, one.pending_reason) == ("pending", "processing")
    assert client.v1.charges.retrieve(str(payment.latest_charge)).amount_refunded == 2000
    standin.complete_refund(one.id)
    assert client.v1.refunds.retrieve(one.id).status == "succeeded"


def test_special_cards_settle_on_the_clock(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Left alone, the pending card's refund succeeds within an hour and the failing card's fails."""
    pending = refund(client, pay(client, payment_method="pm_card_pendingRefund").id)
    failing = refund(client, pay(client, payment_method="pm_card_refundFail").id)
    assert (pending.status, failing.status) == ("pending", "succeeded")
    standin.advance_clock(3600)
    assert client.v1.refunds.retrieve(pending.id).status == "succeeded"
    assert client.v1.refunds.retrieve(failing.id).status == "failed"


def test_late_failure_gives_the_room_back(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund that fails after it succeeded names its balance transaction and no longer counts."""
    payment = pay(client, 10_000)
    one = refund(client, payment.id)
    standin.fail_refund(one.id, "insufficient_funds")
    failed = client.v1.refunds.retrieve(one.id)
    assert (failed.status, failed.failure_reason) == ("failed", "insufficient_funds")
    assert failed.failure_balance_transaction is not None
    charge = client.v1.charges.retrieve(str(payment.latest_charge))
    assert (charge.amount_refunded, charge.refunded) == (0, False)
    assert refunded_minor(standin.ledger_path, payment.id) == 0
    assert refund(client, payment.id, 10_000).status == "succeeded"


def test_refund_that_needs_an_action_can_be_canceled(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Only a refund in requires_action can be canceled, and then it no longer counts."""
    payment = pay(client, 10_000)
    standin.next_refund_status("requires_action")
    waiting, done = refund(client, payment.id, 2000), refund(client, payment.id, 3000)
    assert (waiting.status, done.status) == ("requires_action", "succeeded")
    assert client.v1.refunds.cancel(waiting.id).status == "canceled"
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.cancel(done.id)
    assert refunded_minor(standin.ledger_path, payment.id) == 3000
    [voided, _] = refunds_of(standin.ledger_path, payment.id, include_void=True)
    assert (voided.refund, voided.status) == (waiting.id, "canceled")


def test_insufficient_balance(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A balance that does not cover the refund leaves it pending, or is an error: a switch."""
    payment = pay(client)
    standin.set_switch("insufficient_balance", "pending")
    one = refund(client, payment.id, 1)
    assert (one.status, one.pending_reason) == ("pending", "insufficient_funds")
    standin.set_switch("insufficient_balance", "error")
    assert _refused(client, payment.id, 1).code == "balance_insufficient"
    standin.set_switch("insufficient_balance", "covered")


def test_refund_under_an_inquiry_fails_later(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund sent while an inquiry escalates is accepted, and then fails."""
    payment = pay(client)
    standin.dispute(payment.id, inquiry=True)
    one = refund(client, payment.id, 2000)
    assert one.status == "succeeded"
    standin.advance_clock(3600)
    assert client.v1.refunds.retrieve(one.id).failure_reason == "charge_for_pending_refund_disputed"


def test_hand_refund_is_plain(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A refund by hand has no key and no mark, and the API shows it like any other."""
    payment = pay(client)
    by_hand = standin.hand_refund(payment.id, 500)
    [listed] = client.v1.refunds.list({"payment_intent": payment.id}).data
    assert (listed.id, listed.amount, listed.to_dict()["metadata"]) == (by_hand["id"], 500, {})
    [row] = refunds_of(standin.ledger_path, payment.id)
    assert (row.by, row.idempotency_key, row.metadata) == ("hand", None, {})


def _unconfirmed(client: stripe.StripeClient) -> stripe.PaymentIntent:
    params: Any = {"amount": 700, "currency": "eur", **CARD_ONLY}
    return client.v1.payment_intents.create(params)


def _refused(client: stripe.StripeClient, payment: str, amount_minor: int) -> stripe.InvalidRequestError:
    with pytest.raises(stripe.InvalidRequestError) as caught:
        refund(client, payment, amount_minor)
    return caught.value
