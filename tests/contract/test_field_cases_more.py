"""Public reports that concern Stripe, tried on the real gate with the real SDK; the judge is the stand-in's own ledger.

Elsewhere, of the integration tests: case 14 (advisory locks behind a pooling proxy) in `test_postgres_claims`, case 17 (names
that are cut off at 63 characters) in `test_postgres_url`, and case 19 (a body that was written anew before its signature was
checked) in `test_receipt_export`: receipts are the signed bodies that are taken in here.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay
from interlock import Gate, Outcome
from interlock.domain import protocol, requests
from interlock.errors import InvalidEffect
from interlock.infrastructure.sqlite.journal import SQLiteJournal
from interlock.operations import Proposal
from interlock.stripe import StripeRefunds
from tests.crashing import Crash, abandon

AMOUNT = 2000
APPROVAL = "case-4471"
KEY = f"refund:{APPROVAL}"


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module; every test makes payments of its own."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture(scope="module")
def client(standin: StripeStandIn) -> stripe.StripeClient:
    """The SDK, to set up and to look from outside."""
    return connect(standin)


class Shop:
    """A payment, a journal, and gates on it."""

    def __init__(self, folder: Path, standin: StripeStandIn, client: stripe.StripeClient) -> None:
        self.file, self.standin, self.client = folder / "journal.db", standin, client
        self.payment = self.pay()
        self.gates: list[Gate] = []

    def pay(self, amount_minor: int = 10_000, currency: str = "usd") -> str:
        """Make a payment."""
        return pay(self.client, amount_minor, currency).id

    def target(self, **options: Any) -> StripeRefunds:
        """Return the target under test."""
        return StripeRefunds(LOCAL_API_KEY, api_base=self.standin.api_base, **options)

    def gate(self, *targets: StripeRefunds) -> Gate:
        """Open a gate, which is closed with the shop."""
        gate = Gate.open(f"sqlite:///{self.file}", targets=targets)
        self.gates.append(gate)
        return gate

    def approve(self, gate: Gate, approval: str = APPROVAL, cap_minor: int = AMOUNT, currency: str = "usd") -> None:
        """Approve a refund."""
        gate.approve(approval, by="user:17", expires_in_s=3600, cap_minor=cap_minor, currency=currency)

    def fire(self, gate: Gate, target: StripeRefunds, approval: str = APPROVAL, **options: Any) -> Outcome:
        """Refund what was approved, on the payment as it is now."""
        self.approve(gate, approval)
        effect = target.refund(payment=self.payment, amount_minor=AMOUNT, currency="usd")
        return gate.fire(f"refund:{approval}", effect, approval=approval, premises=[target.observe(self.payment)], **options)

    def refunded(self) -> list[int]:
        """Return the refunds in the provider's own ledger."""
        return [one.amount for one in refunds_of(self.standin.ledger_path, self.payment)]

    def posted(self) -> list[str | None]:
        """Return the key of each request to refund that reached the stand-in since the test began."""
        return [
            one.idempotency_key
            for one in self.standin.requests()
            if one.method == "POST" and one.path == "/v1/refunds" and one.sequence >= self.since
        ]

    @property
    def announced(self) -> list[str]:
        """The key of each send that the journal has."""
        with SQLiteJournal(f"sqlite:///{self.file}") as journal:
            action = journal.find_action(KEY)
            assert action is not None
            return [dispatch.idempotency_key for dispatch in action.dispatches]

    since = 0


@pytest.fixture
def shop(folder: Path, standin: StripeStandIn, client: stripe.StripeClient) -> Iterator[Shop]:
    """A new shop on a stand-in that behaves."""
    shop = Shop(folder, standin, client)
    shop.since = len(standin.requests())
    yield shop
    standin.release()
    standin.reset_faults()
    for gate in shop.gates:
        gate.close()


@pytest.mark.parametrize("looks", [False, True], ids=["by its key", "by a lookup"])
def test_a_retry_of_a_refund_whose_answer_was_dropped_is_the_same_refund(looks: bool, shop: Shop) -> None:  # noqa: FBT001 - a parameter of the test
    """Field case 1, medusajs/medusa#16681: the local refund was deleted on an error, so the retry had a new id and key."""
    target = shop.target(lookup=looks)
    shop.standin.arm(FaultKind.DROP_AFTER_COMMIT)
    outcome = shop.fire(shop.gate(target), target)
    assert (outcome.receipt.status, outcome.receipt.via) == ("COMMITTED", "recovery-query" if looks else "retry-idempotent")
    assert len(set(shop.posted())) == 1
    assert shop.refunded() == [AMOUNT]


def test_a_webhook_that_comes_twice_refunds_once_and_a_twin_refunds_too(shop: Shop) -> None:
    """Field case 2, saleor/apps#2446: a repeated webhook refunded again; a key of payment and amount blocks a real twin."""
    target = shop.target()
    gate = shop.gate(target)
    for approval in (APPROVAL, APPROVAL, "case-4472", "case-4472"):
        assert shop.fire(gate, target, approval).receipt.status == "COMMITTED"
    assert shop.refunded() == [AMOUNT, AMOUNT]
    assert len(set(shop.posted())) == len(shop.posted()) == 2


def test_every_request_to_stripe_carries_the_key_that_was_journaled_for_it(shop: Shop) -> None:
    """Field case 3, stripe/stripe-php#637: a retry inside the SDK replaced the caller's key."""
    target = shop.target(lookup=False)
    shop.standin.arm(FaultKind.RATE_LIMIT, should_retry=True)
    shop.standin.arm(FaultKind.DROP_AFTER_COMMIT)
    assert shop.fire(shop.gate(target), target).receipt.status == "COMMITTED"
    assert len(shop.posted()) == 3
    assert shop.posted() == shop.announced
    assert shop.refunded() == [AMOUNT]


def test_a_409_while_the_first_request_is_worked_on_is_no_failure(shop: Shop) -> None:
    """Field case 4, stripe/stripe-ruby#431: the retry after a time-out got a 409, which was reported as a failure."""
    target = shop.target(send_deadline_s=0.5, lookup=False)
    gate = shop.gate(target)
    shop.standin.arm(FaultKind.HOLD, seconds=60)
    outcome = shop.fire(gate, target)
    assert getattr(outcome, "reason", None) == "provider_busy"
    assert outcome.receipt.happened == "unknown"
    shop.standin.release()
    assert shop.fire(gate, target, wait_s=20).receipt.status == "COMMITTED"
    assert shop.refunded() == [AMOUNT]


def test_one_business_id_at_two_stripe_targets_has_two_keys(shop: Shop) -> None:
    """Field case 5, odoo/odoo#101243: one key made from the business id was used on two endpoints, and rejected."""
    first, second = shop.target(name="stripe-shop"), shop.target(name="stripe-fees")
    gate = shop.gate(first, second)
    for target in (first, second):
        approval = f"order-7:{target.name}"
        assert shop.fire(gate, target, approval).receipt.status == "COMMITTED"
    assert len(set(shop.posted())) == 2
    assert not [key for key in shop.posted() if key is None or "order-7" in key]
    assert shop.refunded() == [AMOUNT, AMOUNT]


def test_a_refund_that_fails_after_it_succeeded_is_not_shown_as_done(shop: Shop) -> None:
    """Field case 6, woocommerce/woocommerce-gateway-stripe#4405: shown as refunded though the refund failed later."""
    target = shop.target()
    gate = shop.gate(target)
    receipt = shop.fire(gate, target).receipt
    assert receipt.happened == "yes"
    assert receipt.evidence is not None
    shop.standin.fail_refund(receipt.evidence.reference)
    assert gate.reconcile(KEY).outcomes[0].receipt.happened == "no"
    now = gate.receipt(KEY)
    assert now.evidence is not None
    assert (now.happened, now.evidence.state) == ("no", "failed")
    assert [one.key for one in gate.attention()] == [KEY]
    assert shop.refunded() == []


@pytest.mark.parametrize("amount_minor", [9899, 5800])
def test_yen_reach_stripe_as_approved(amount_minor: int, shop: Shop) -> None:
    """Field cases 7 and 8, woocommerce/woocommerce-gateway-stripe#435 and antiwork/gumroad#3749: yen times and by a hundred."""
    target = shop.target()
    gate, payment = shop.gate(target), shop.pay(12_000, "jpy")
    shop.approve(gate, cap_minor=amount_minor, currency="jpy")
    float_amount: Any = amount_minor / 100
    with pytest.raises(InvalidEffect):
        target.refund(payment=payment, amount_minor=float_amount, currency="jpy")
    effect = target.refund(payment=payment, amount_minor=amount_minor, currency="jpy")
    outcome = gate.fire(KEY, effect, approval=APPROVAL, premises=[target.observe(payment)])
    assert outcome.receipt.status == "COMMITTED"
    refunds = refunds_of(shop.standin.ledger_path, payment)
    assert [(one.amount, one.currency) for one in refunds] == [(amount_minor, "jpy")]


def test_a_second_copy_of_a_slow_task_posts_nothing(shop: Shop) -> None:
    """Field case 9, celery/celery#5935: a broker redelivered a long task, and two copies ran at once."""
    target = shop.target()
    slow, copy, outcomes = shop.gate(target), shop.gate(target), []
    shop.standin.arm(FaultKind.HOLD, seconds=60)
    thread = threading.Thread(target=lambda: outcomes.append(shop.fire(slow, target)))
    thread.start()
    shop.standin.wait_until_held_back()
    assert getattr(shop.fire(copy, target), "reason", None) == "held"
    shop.standin.release()
    thread.join()
    assert [outcome.receipt.status for outcome in outcomes] == ["COMMITTED"]
    assert len(shop.posted()) == 1
    assert shop.refunded() == [AMOUNT]


def _die_before_recording(shop: Shop, target: StripeRefunds) -> None:
    """Refund, and die with Stripe's answer at hand."""
    gate = shop.gate(target)
    shop.approve(gate)
    effect = target.refund(payment=shop.payment, amount_minor=AMOUNT, currency="usd")
    intent = gate._operations.intent(Proposal(KEY, effect, APPROVAL, [target.observe(shop.payment)]))

    def perform(request: requests.Request[Any]) -> Any:
        answer = gate._driver.perform(request)
        if isinstance(request, requests.Send):
            raise Crash
        return answer

    with pytest.raises(Crash):
        gate._driver.drive(protocol.fire(intent, gate._operations.sender(target.capabilities)), perform)
    abandon(gate)


@pytest.mark.parametrize("looks", [False, True], ids=["by its key", "by a lookup"])
def test_a_death_between_stripes_answer_and_its_record_is_found_out(looks: bool, shop: Shop) -> None:  # noqa: FBT001 - a parameter of the test
    """Field cases 10 and 12, dbos-inc/dbos-transact-py#770 and restatedev/sdk-java#156: a step ran again until journaled."""
    target = shop.target(lookup=looks)
    _die_before_recording(shop, target)
    report = shop.gate(target).recover()
    assert [outcome.receipt.status for outcome in report.outcomes] == ["COMMITTED"]
    assert report.outcomes[0].receipt.via == ("recovery-query" if looks else "retry-idempotent")
    assert shop.refunded() == [AMOUNT]


@pytest.mark.parametrize("dropped", ["the last two", "all"])
def test_a_dropped_tail_shows_in_the_rows_or_leaves_completeness_unknown(dropped: str, shop: Shop) -> None:
    """Field case 18, flare19/payment-reconciliation-agent-platform#18: a log that was cut off, or emptied, verified as valid."""
    target = shop.target()
    gate = shop.gate(target)
    shop.fire(gate, target)
    assert gate.verify().valid
    with closing(sqlite3.connect(shop.file)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        kept = "(SELECT max(position) - 2 FROM stored_events)" if dropped == "the last two" else "0"
        connection.execute(f"DELETE FROM stored_events WHERE position > {kept}")  # noqa: S608 - one of two texts above
    found = gate.verify()
    assert not found.valid
    assert "row" in {finding.kind for finding in found.findings}
    assert found.completeness == "unknown"
    assert shop.refunded() == [AMOUNT]
