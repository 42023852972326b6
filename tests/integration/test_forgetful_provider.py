"""The proxy that stands for a provider which forgets keys, and the patience with one that limits the rate."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
import requests
import stripe

from harness.forgetful import ForgetfulProvider
from harness.live import EmulatedProvider, LiveProvider
from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from harness.world import connect

LIVE_KEY = "sk" + "_live_local_0000"  # put together here, so that no scanner takes it for one


@pytest.fixture
def forgetful(standin: StripeStandIn) -> Iterator[ForgetfulProvider]:
    """The proxy before the stand-in."""
    with ForgetfulProvider(standin.api_base) as running:
        yield running


def _refund(forgetful: ForgetfulProvider, payment: str, key: str) -> stripe.Refund:
    through = connect(LOCAL_API_KEY, forgetful.address)
    return through.v1.refunds.create({"payment_intent": payment, "amount": 2000}, {"idempotency_key": key})


def test_a_key_is_remembered_until_it_is_forgotten(
    standin: StripeStandIn, client: stripe.StripeClient, forgetful: ForgetfulProvider
) -> None:
    """The same refund is replayed before, and made anew after; one under a new key is none of the proxy's business."""
    payment = pay(client, 10_000).id
    first = _refund(forgetful, payment, "key-1")
    assert _refund(forgetful, payment, "key-1").id == first.id
    assert forgetful.forget_keys() == 1
    second = _refund(forgetful, payment, "key-1")
    assert second.id != first.id
    assert _refund(forgetful, payment, "key-1").id == second.id  # the new one is remembered again
    _refund(forgetful, payment, "key-2")
    keys = [refund.idempotency_key for refund in refunds_of(standin.ledger_path, payment)]
    assert keys == ["key-1", "key-1-forgotten-1", "key-2"]


def test_what_passes_is_the_providers_own(client: stripe.StripeClient, forgetful: ForgetfulProvider) -> None:
    """Reads and refusals come through as they are, with status, code and request id."""
    payment = pay(client, 10_000).id
    through = connect(LOCAL_API_KEY, forgetful.address)
    assert through.v1.payment_intents.retrieve(payment).amount == 10_000
    with pytest.raises(stripe.InvalidRequestError) as caught:
        through.v1.refunds.create({"payment_intent": payment, "amount": 20_000})
    assert (caught.value.http_status, caught.value.param) == (400, "amount")
    assert caught.value.request_id


def test_a_live_key_is_not_passed_on(forgetful: ForgetfulProvider, standin: StripeStandIn) -> None:
    """It ends at the proxy, which does not repeat it."""
    before = len(standin.requests())
    answer = requests.get(f"{forgetful.address}/v1/refunds", headers={"Authorization": f"Bearer {LIVE_KEY}"}, timeout=10)
    assert answer.status_code == 403
    assert LIVE_KEY not in answer.text
    assert len(standin.requests()) == before


def test_a_key_goes_to_no_other_host(forgetful: ForgetfulProvider, standin: StripeStandIn) -> None:
    """What stands in a path's place and is none, such as the name of a host, is passed on to nobody."""
    before = len(standin.requests())
    host, port = urlsplit(forgetful.address).netloc.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    with closing(connection):
        connection.request(
            "GET", f"@{urlsplit(standin.api_base).netloc}/v1/refunds", headers={"Authorization": f"Bearer {LOCAL_API_KEY}"}
        )
        assert connection.getresponse().status == 400
    assert len(standin.requests()) == before


def test_a_provider_that_is_not_there_gives_no_answer() -> None:
    """The connection ends, as it would without the proxy: nobody may take that for a no."""
    with ForgetfulProvider("http://127.0.0.1:1") as forgetful, pytest.raises(stripe.APIConnectionError):
        connect(LOCAL_API_KEY, forgetful.address).v1.refunds.list({"limit": 1})


def test_workers_see_the_proxy_and_the_world_the_provider(standin: StripeStandIn, forgetful: ForgetfulProvider) -> None:
    """A hand refund and the record go past the proxy, and a day makes it forget."""
    provider = EmulatedProvider(LOCAL_API_KEY, standin.api_base, forgetful)
    assert provider.api_base == forgetful.address
    payment = provider.create_payment()
    key = f"of-{payment}"
    provider.hand_refund(payment, 500)
    with pytest.raises(AssertionError):
        provider.forget_keys(payment)  # none has passed
    _refund(forgetful, payment, key)
    provider.pass_time(3600)
    _refund(forgetful, payment, key)
    assert len(provider.record_of(payment).refunds) == 2
    provider.pass_time(25 * 3600)
    _refund(forgetful, payment, key)
    assert len(provider.record_of(payment).refunds) == 3


@pytest.mark.usefixtures("healthy")
def test_a_rate_limit_is_waited_out(standin: StripeStandIn) -> None:
    """The SDK does not repeat a 429 by itself; the parent of a live run does, and nothing happens twice."""
    provider = LiveProvider(LOCAL_API_KEY, standin.api_base)
    payment = provider.create_payment()
    standin.arm(FaultKind.RATE_LIMIT, times=1)
    provider.hand_refund(payment, 500)
    assert [refund.amount_minor for refund in provider.record_of(payment).refunds] == [500]
