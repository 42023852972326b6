"""Refunds at Stripe; needs the extra `stripe`."""

from interlock.stripe.effect import Refund
from interlock.stripe.premises import RefundPremises
from interlock.stripe.refunds import StripeRefunds

__all__ = ["Refund", "RefundPremises", "StripeRefunds"]
