"""Keys, accounts and connected accounts: who sees what, and whose idempotency keys are whose."""

import http.client
from collections.abc import Iterator

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.ledger import read_ledger, refunded_minor
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


@pytest.mark.parametrize("key", ["sk_live_local_0000", "rk_live_local_0000", "pk_test_local_0000", "nonsense"])
def test_only_test_keys(standin: StripeStandIn, key: str) -> None:
    """A live key, or anything that is no secret test key, gets 401, and neither it nor its request is kept."""
    before = len(read_ledger(standin.ledger_path))
    with pytest.raises(stripe.AuthenticationError) as caught:
        refund(connect(standin, key), "pi_of_a_live_account", 2000, key="live-key")
    assert key not in str(caught.value)
    last = standin.requests()[-1]
    assert (last.path, last.idempotency_key, last.account, last.status) == ("", None, None, 401)
    assert len(read_ledger(standin.ledger_path)) == before


def test_key_is_required(standin: StripeStandIn) -> None:
    """A request without a key is 401."""
    connection = http.client.HTTPConnection(standin.api_base.removeprefix("http://"))
    connection.request("GET", "/v1/refunds")
    assert connection.getresponse().status == 401
    connection.close()


def test_accounts_do_not_see_each_other(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Objects of another account are not found, and not listed."""
    stranger = connect(standin, "sk_test_local_other")
    payment = pay(client)
    one = refund(client, payment.id, 1)
    for attempt in (
        lambda: stranger.v1.payment_intents.retrieve(payment.id),
        lambda: stranger.v1.charges.retrieve(str(payment.latest_charge)),
        lambda: stranger.v1.refunds.retrieve(one.id),
        lambda: refund(stranger, payment.id, 1),
        lambda: stranger.v1.refunds.list({"payment_intent": payment.id}),
    ):
        with pytest.raises(stripe.InvalidRequestError) as caught:
            attempt()
        assert caught.value.code == "resource_missing"
    assert one.id not in [each.id for each in stranger.v1.refunds.list({"limit": 100}).data]


def test_keys_with_one_secret_share_an_account(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """The secret and the restricted key of an account see the same objects and share idempotency keys."""
    restricted = connect(standin, "rk_test_local_0000")
    payment = pay(client).id
    first, again = (refund(each, payment, 5, key="shared") for each in (client, restricted))
    assert again.id == first.id


def test_assigned_key(standin: StripeStandIn) -> None:
    """A key can be put on a named account, and the API says which one that is."""
    standin.assign_key("rkcs_test_local_named", "acct_named")
    assert connect(standin, "rkcs_test_local_named").v1.accounts.retrieve_current().id == "acct_named"


def test_connected_account(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Acting for a connected account, a platform sees that account's objects and not its own."""
    standin.connect_account("acct_connected")
    acting = connect(standin, stripe_account="acct_connected")
    theirs, ours = pay(acting).id, pay(client).id
    assert acting.v1.payment_intents.retrieve(theirs).id == theirs
    for each, foreign in ((acting, ours), (client, theirs)):
        with pytest.raises(stripe.InvalidRequestError):
            each.v1.payment_intents.retrieve(foreign)


def test_account_that_is_not_connected(standin: StripeStandIn) -> None:
    """Acting for an account without being connected to it is 403."""
    with pytest.raises(stripe.PermissionError) as caught:
        pay(connect(standin, stripe_account="acct_stranger"))
    assert caught.value.error is not None
    assert caught.value.error.code == "account_invalid"


def test_idempotency_keys_belong_to_the_acting_account(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """One key, used for the platform and for a connected account, is two keys."""
    standin.connect_account("acct_scope")
    acting = connect(standin, stripe_account="acct_scope")
    theirs, ours = pay(acting).id, pay(client).id
    refund(client, ours, 2000, key="scope")
    refund(acting, theirs, 2000, key="scope")
    assert [refunded_minor(standin.ledger_path, each) for each in (ours, theirs)] == [2000, 2000]


def test_other_scope_is_a_switch(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """That keys belong to the acting account is not documented, so it can be switched off."""
    standin.connect_account("acct_switch")
    acting = connect(standin, stripe_account="acct_switch")
    theirs, ours = pay(acting).id, pay(client).id
    standin.set_switch("key_scope", "platform")
    refund(client, ours, 2000, key="scope-switch")
    with pytest.raises(stripe.IdempotencyError):
        refund(acting, theirs, 2000, key="scope-switch")
    standin.set_switch("key_scope", "acting")
