"""A refund as data, and everything about it that can be known to be wrong before anybody is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.domain.effects import Effect, Money, require_unicode
from interlock.errors import InvalidEffect
from interlock.stripe.currencies import CURRENCIES, MAX_AMOUNT_MINOR, step_minor

MAX_REFERENCE_CHARS = 200

_PAYMENT = re.compile(r"pi_[A-Za-z0-9_]{1,250}")
_REASONS = frozenset(("duplicate", "requested_by_customer"))


@dataclass(frozen=True, slots=True)
class Refund:
    """The parameters of a refund; the payment is the effect's subject.

    Args:
        amount_minor: what to give back, in the currency's minor unit.
        currency: the payment's currency.
        reason: Stripe's own word for why, or None.
        reference: the caller's name for what it is refunded for (a case, an approval). It is written on the refund,
            and a refund by others that carries it is a duplicate. It must not be personal data.
    """

    amount_minor: int
    currency: str
    reason: str | None = None
    reference: str | None = None


def refund_effect(target: str, payment: str, refund: Refund) -> Effect[Refund]:
    """Return the effect of refunding a payment.

    Raises:
        InvalidEffect: a payment that is not `pi_…`, an amount that is not an integer from 1 to 99,999,999 or not one
            that the currency allows, an unknown currency, a reason that is refused, a reference that is not printable.
    """
    if type(payment) is not str or not _PAYMENT.fullmatch(payment):
        raise InvalidEffect(f"payment must be the id of a payment intent (pi_…), not {payment!r}")
    money = _require_money(refund.amount_minor, refund.currency)
    _require_reason(refund.reason)
    _require_reference(refund.reference)
    return Effect(target, payment, refund, money)


def _require_money(amount_minor: int, currency: str) -> Money:
    money = Money(amount_minor, currency)
    if currency not in CURRENCIES:
        raise InvalidEffect(f"Stripe takes no currency {currency!r}")
    if amount_minor > MAX_AMOUNT_MINOR:
        raise InvalidEffect(f"amount_minor must be at most {MAX_AMOUNT_MINOR}, not {amount_minor}")
    if amount_minor % step_minor(currency):
        raise InvalidEffect(f"an amount in {currency} must be a multiple of {step_minor(currency)}, not {amount_minor}")
    return money


def _require_reason(reason: str | None) -> None:
    if reason == "fraudulent":
        # docs.stripe.com/api/refunds/create: it puts the card and the e-mail address on the account's block lists.
        raise InvalidEffect(
            "reason 'fraudulent' is refused: Stripe would also block the customer's card and e-mail address, "
            "which no approval of a refund covers. Refund without a reason, and block in the dashboard."
        )
    if reason is not None and reason not in _REASONS:
        raise InvalidEffect(f"reason must be one of {', '.join(sorted(_REASONS))}, or None, not {reason!r}")


def _require_reference(reference: str | None) -> None:
    if reference is None:
        return
    if type(reference) is not str or not reference.strip() or not reference.isprintable():
        raise InvalidEffect("reference must be printable text, and not empty")
    if len(reference) > MAX_REFERENCE_CHARS:
        raise InvalidEffect(f"reference must be at most {MAX_REFERENCE_CHARS} characters, not {len(reference)}")
    require_unicode("reference", reference)
