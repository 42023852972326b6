"""Paging and filters of the refund list, to the last page."""

from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.faults import FaultKind
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


@pytest.fixture(scope="module")
def payment(client: stripe.StripeClient) -> str:
    """A payment with 23 refunds of 1 to 23 cents, oldest first."""
    one = pay(client).id
    for amount in range(1, 24):
        refund(client, one, amount)
    return one


def test_first_page_is_the_newest_ten(client: stripe.StripeClient, payment: str) -> None:
    """Without a limit the ten newest come, newest first, and the list says that there is more."""
    page = client.v1.refunds.list({"payment_intent": payment})
    assert _amounts(page) == list(range(23, 13, -1))
    assert page.has_more is True


def test_paging_to_the_end(client: stripe.StripeClient, payment: str) -> None:
    """Following starting_after until has_more is false shows every refund once."""
    seen: list[int] = []
    page = client.v1.refunds.list({"payment_intent": payment, "limit": 7})
    while True:
        seen += _amounts(page)
        if not page.has_more:
            break
        page = client.v1.refunds.list({"payment_intent": payment, "limit": 7, "starting_after": page.data[-1].id})
    assert seen == list(range(23, 0, -1))


def test_automatic_paging_of_the_sdk(client: stripe.StripeClient, payment: str) -> None:
    """The SDK's own iterator comes to the same end."""
    page = client.v1.refunds.list({"payment_intent": payment, "limit": 5})
    assert [one.amount for one in page.auto_paging_iter()] == list(range(23, 0, -1))


def test_paging_backwards(client: stripe.StripeClient, payment: str) -> None:
    """ending_before returns the page right before a refund, still newest first."""
    anchor = client.v1.refunds.list({"payment_intent": payment, "limit": 10}).data[-1]
    page = client.v1.refunds.list({"payment_intent": payment, "limit": 3, "ending_before": anchor.id})
    assert _amounts(page) == [17, 16, 15]
    assert page.has_more is True


def test_exactly_the_last_page(client: stripe.StripeClient, payment: str) -> None:
    """A page that ends with the oldest refund says that there is no more."""
    page = client.v1.refunds.list({"payment_intent": payment, "limit": 23})
    assert (len(page.data), page.has_more) == (23, False)


def test_filter_by_charge(client: stripe.StripeClient, payment: str) -> None:
    """Refunds of other payments are not in the list."""
    other = pay(client)
    mine = refund(client, other.id, 4242)
    assert [one.id for one in client.v1.refunds.list({"charge": str(other.latest_charge)}).data] == [mine.id]
    assert mine.id not in [one.id for one in client.v1.refunds.list({"payment_intent": payment, "limit": 100}).data]


def test_filter_by_time(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """The filter by creation takes an instant or bounds, inclusive and exclusive."""
    one = pay(client).id
    old = refund(client, one, 1)
    standin.advance_clock(100)
    new = refund(client, one, 2)
    bounds: list[tuple[Any, list[str]]] = [
        ({"gt": old.created}, [new.id]),
        ({"gte": old.created}, [new.id, old.id]),
        ({"lt": new.created}, [old.id]),
        ({"lte": new.created}, [new.id, old.id]),
        ({"gt": old.created, "lt": new.created}, []),
        (old.created, [old.id]),
    ]
    for created, ids in bounds:
        page = client.v1.refunds.list({"payment_intent": one, "created": created})
        assert [each.id for each in page.data] == ids


@pytest.mark.parametrize("limit", [0, 101])
def test_limit_is_bounded(client: stripe.StripeClient, limit: int) -> None:
    """A page has 1 to 100 entries."""
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.list({"limit": limit})


def test_unknown_filter_or_cursor_is_an_error(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A list by an unknown payment is no empty list, unless switched so; an unknown cursor is an error always."""
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.list({"payment_intent": "pi_unknown"})
    standin.set_switch("unknown_filter", "empty")
    assert client.v1.refunds.list({"payment_intent": "pi_unknown"}).data == []
    standin.set_switch("unknown_filter", "error")
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.list({"starting_after": "re_unknown"})


def test_lagging_list(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A list that lags leaves out young refunds and shows them once they are old enough."""
    one = pay(client).id
    young = refund(client, one, 1)
    standin.arm(FaultKind.LIST_LAG, method="GET", times=2, seconds=60)
    assert client.v1.refunds.list({"payment_intent": one}).data == []
    standin.advance_clock(61)
    assert [each.id for each in client.v1.refunds.list({"payment_intent": one}).data] == [young.id]


def _amounts(page: stripe.ListObject[stripe.Refund]) -> list[int]:
    return [one.amount for one in page.data]
