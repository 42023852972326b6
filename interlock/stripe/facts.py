"""Facts about a payment: what the model is shown and a decision rests on, as integers and strings."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from interlock.domain.premises import Facts
from interlock.stripe import marks
from interlock.stripe.evidence import Json, metadata_of

VOID = frozenset(("failed", "canceled"))
"""The states of a refund that moved no money, or gave it back (docs.stripe.com/refunds)."""


class RefundFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One refund of a payment.

    Args:
        id: Stripe's id.
        amount: in the minor unit.
        status: Stripe's word.
        action: the id of the action that it is marked with, or the empty string.
        names: digests of what it names in its metadata.
    """

    id: str
    amount: int
    status: str
    action: str
    names: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether it takes away from what can be refunded."""
        return self.status not in VOID


class PaymentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A payment and all its refunds; amounts in the minor unit."""

    id: str
    amount: int
    currency: str
    status: str
    livemode: bool
    disputed: bool
    refunded_minor: int
    refunds: tuple[RefundFacts, ...]


def facts_of(payment: Json, refunds: Iterable[Json]) -> PaymentFacts:
    """Return the facts of a payment intent, read with its latest charge expanded, and of all its refunds.

    Raises:
        LookupError: something is missing in Stripe's answer.
        msgspec.ValidationError: something in it is not what it should be.
    """
    shown = [_refund_facts(one) for one in refunds]
    charge = payment["latest_charge"]
    succeeded = payment["status"] == "succeeded"
    facts = {
        "id": payment["id"],
        # What was received can be given back; what is only authorised can't (docs.stripe.com/api/payment_intents).
        "amount": payment["amount_received" if succeeded else "amount"],
        "currency": payment["currency"],
        "status": payment["status"],
        "livemode": payment["livemode"],
        "disputed": charge is not None and charge["disputed"],
        "refunded_minor": sum(one.amount for one in shown if one.counts),
        "refunds": shown,
    }
    return msgspec.convert(facts, PaymentFacts)


def as_json(facts: PaymentFacts) -> Facts:
    """Return facts as JSON."""
    built: Facts = msgspec.to_builtins(facts)
    return built


def parse(facts: Facts) -> PaymentFacts:
    """Return facts from JSON.

    Raises:
        msgspec.ValidationError: they are not what `as_json` makes.
    """
    return msgspec.convert(facts, PaymentFacts)


def _refund_facts(refund: Json) -> RefundFacts:
    metadata = metadata_of(refund)
    facts = {
        "id": refund["id"],
        "amount": refund["amount"],
        # The API may leave the status out; such a refund is not known to be void, so it counts.
        "status": refund["status"] or "unknown",
        "action": marks.action_of(metadata),
        "names": marks.names_of(metadata),
    }
    return msgspec.convert(facts, RefundFacts)
