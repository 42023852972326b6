"""Metadata: its limits, its merging, and who may change it (docs.stripe.com/metadata)."""

from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.ledger import MetadataUpdated, read_ledger, refunds_of
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


@pytest.mark.parametrize(
    "metadata",
    [
        {f"key{number}": "v" for number in range(51)},
        {"k" * 41: "v"},
        {"k": "v" * 501},
        {"a[b]": "v"},
        {"a[b": "v"},
    ],
    ids=["51 keys", "long key", "long value", "brackets", "one bracket"],
)
def test_limits(client: stripe.StripeClient, metadata: dict[str, str]) -> None:
    """Too many keys, too long a key or value, and square brackets are refused."""
    payment = pay(client).id
    with pytest.raises(stripe.InvalidRequestError):
        refund(client, payment, 1, metadata=metadata)
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.payment_intents.update(payment, {"metadata": metadata})


def test_at_the_limits(client: stripe.StripeClient) -> None:
    """50 keys of 40 characters with values of 500 are taken."""
    metadata = {f"{number:040d}": "v" * 500 for number in range(50)}
    one = refund(client, pay(client).id, 1, metadata=metadata)
    assert one.metadata is not None
    assert one.metadata.to_dict() == metadata


def test_update_merges_and_empty_deletes(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """An update keeps the other keys, an empty value deletes one, and an empty metadata deletes all."""
    one = refund(client, pay(client).id, 1, metadata={"a": "1", "b": "2"})
    assert _metadata(client.v1.refunds.update(one.id, {"metadata": {"b": "", "c": "3"}})) == {"a": "1", "c": "3"}
    [row] = refunds_of(standin.ledger_path, str(one.payment_intent))
    assert row.metadata == {"a": "1", "c": "3"}
    assert _metadata(client.v1.refunds.update(one.id, {"metadata": ""})) == {}


def test_limit_counts_what_is_left(client: stripe.StripeClient) -> None:
    """Keys that are deleted in the same request make room."""
    one = refund(client, pay(client).id, 1, metadata={f"old{number}": "v" for number in range(50)})
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.update(one.id, {"metadata": {"new": "v"}})
    assert "new" in _metadata(client.v1.refunds.update(one.id, {"metadata": {"new": "v", "old0": ""}}))


def test_refund_update_takes_metadata_only(client: stripe.StripeClient) -> None:
    """A refund's amount can't be changed."""
    one = refund(client, pay(client).id, 1)
    unknown: Any = {"amount": 2}
    with pytest.raises(stripe.InvalidRequestError) as caught:
        client.v1.refunds.update(one.id, unknown)
    assert caught.value.code == "parameter_unknown"


def test_payment_metadata_is_on_the_ledger(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """A metadata update on a payment is an effect, with the key it came under."""
    payment = pay(client).id
    client.v1.payment_intents.update(payment, {"metadata": {"burned": "x"}}, {"idempotency_key": "on-ledger"})
    assert read_ledger(standin.ledger_path)[-1].effect == MetadataUpdated(payment, {"burned": "x"}, "on-ledger")


def _metadata(one: stripe.Refund) -> dict[str, str]:
    assert one.metadata is not None
    return one.metadata.to_dict()
