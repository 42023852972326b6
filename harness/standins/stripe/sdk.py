"""The real Stripe SDK, pointed at a stand-in: for setting up a case and for looking at it from outside."""

import stripe

from .client import LOCAL_API_KEY, StripeControl

_TIMEOUT_S = 10.0


def connect(
    standin: StripeControl,
    api_key: str = LOCAL_API_KEY,
    *,
    stripe_account: str | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> stripe.StripeClient:
    """Return an SDK client of the stand-in that retries nothing.

    Args:
        standin: The stand-in to talk to.
        api_key: A test key; keys with the same secret share an account.
        stripe_account: A connected account to act for.
        timeout_s: For each socket operation, as in the SDK.
    """
    # Telemetry writes an id under the user's home.
    stripe.enable_telemetry = False
    return stripe.StripeClient(
        api_key,
        stripe_account=stripe_account,
        base_addresses={"api": standin.api_base},
        http_client=stripe.RequestsClient(timeout=timeout_s),
        max_network_retries=0,
    )


def pay(
    client: stripe.StripeClient,
    amount_minor: int = 10_000,
    currency: str = "usd",
    payment_method: str = "pm_card_visa",
) -> stripe.PaymentIntent:
    """Create a card payment and confirm it."""
    return client.v1.payment_intents.create(
        {
            "amount": amount_minor,
            "currency": currency,
            "payment_method": payment_method,
            "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
            "confirm": True,
        }
    )


def refund(
    client: stripe.StripeClient,
    payment: str,
    amount_minor: int | None = None,
    *,
    key: str | None = None,
    metadata: dict[str, str] | None = None,
) -> stripe.Refund:
    """Refund a payment, or what is left of it where no amount is given, under an idempotency key."""
    params: stripe.params.RefundCreateParams = {"payment_intent": payment}
    if amount_minor is not None:
        params["amount"] = amount_minor
    if metadata is not None:
        params["metadata"] = metadata
    return client.v1.refunds.create(params, {"idempotency_key": key} if key else {})
