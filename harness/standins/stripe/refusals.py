"""Everything the provider can say no with, as one exception that becomes the answer.

Whether a refusal is saved under the idempotency key is part of it: Stripe saves what came out of an execution, and does
not save what was turned away before one (docs.stripe.com/api/idempotent_requests, docs.stripe.com/error-low-level).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ErrorType(StrEnum):
    """Stripe's error types."""

    INVALID_REQUEST = "invalid_request_error"
    IDEMPOTENCY = "idempotency_error"
    CARD = "card_error"
    API = "api_error"


@dataclass(slots=True, eq=False)
class Refusal(Exception):
    """A definite answer other than success.

    Args:
        status: HTTP status.
        type: Stripe's error type.
        message: Words for a person.
        code: Stripe's error code; many refusals have none.
        param: The parameter at fault.
        saved: Whether the answer is kept and replayed under the request's idempotency key.
        headers: Headers that go with the answer.
        extra: Further members of the error object.
    """

    status: int
    type: ErrorType
    message: str
    code: str | None = None
    param: str | None = None
    saved: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)

    def body(self) -> dict[str, object]:
        """Return the JSON body of the answer."""
        error: dict[str, object] = {"type": self.type.value, "message": self.message}
        if self.code is not None:
            error["code"] = self.code
        if self.param is not None:
            error["param"] = self.param
        return {"error": error | dict(self.extra)}


def invalid_param(code: str | None, param: str, message: str) -> Refusal:
    """A parameter that failed validation: nothing was executed, nothing is saved."""
    return Refusal(400, ErrorType.INVALID_REQUEST, message, code=code, param=param)


def business(message: str, code: str | None = None, param: str | None = None) -> Refusal:
    """A refusal that came out of an execution: it is saved and replayed."""
    return Refusal(400, ErrorType.INVALID_REQUEST, message, code=code, param=param, saved=True)


def unauthenticated(message: str) -> Refusal:
    """No usable key. The message never repeats what was sent."""
    return Refusal(401, ErrorType.INVALID_REQUEST, message)


def account_not_connected(account: str) -> Refusal:
    """The key has no access to the account named in `Stripe-Account`."""
    message = f"The provided key does not have access to account '{account}' (or that account does not exist)."
    return Refusal(403, ErrorType.INVALID_REQUEST, message, code="account_invalid")


def unknown_url(method: str, path: str) -> Refusal:
    """No such endpoint here."""
    return Refusal(404, ErrorType.INVALID_REQUEST, f"Unrecognized request URL ({method}: {path}).")


def missing(kind: str, object_id: str, param: str, *, status: int = 404, in_live_mode: bool = False) -> Refusal:
    """No such object in this account and mode."""
    hint = "; a similar object exists in live mode, but a test mode key was used to make this request."
    message = f"No such {kind}: '{object_id}'" + (hint if in_live_mode else "")
    return Refusal(status, ErrorType.INVALID_REQUEST, message, code="resource_missing", param=param)


def key_too_long(limit: int) -> Refusal:
    """The idempotency key is longer than the provider keeps."""
    return Refusal(400, ErrorType.INVALID_REQUEST, f"Idempotency keys may have at most {limit} characters.")


def key_in_use(key: str) -> Refusal:
    """Another request under the key is still being executed."""
    message = (
        "There is currently another in-progress request using this idempotent key "
        f"(it was probably submitted twice): {key}. Please try again later."
    )
    return Refusal(409, ErrorType.INVALID_REQUEST, message, code="idempotency_key_in_use")


def key_used_with_other_params(key: str) -> Refusal:
    """The key belongs to a request with other parameters."""
    message = (
        "Keys for idempotent requests can only be used with the same parameters they were first used with. "
        f"Try another key than '{key}' if a different request is meant."
    )
    return Refusal(400, ErrorType.IDEMPOTENCY, message)


def key_used_on_other_endpoint(used: str, first: str, key: str) -> Refusal:
    """The key belongs to a request on another endpoint."""
    message = (
        "Keys for idempotent requests can only be used for the same endpoint they were first used for "
        f"('{used}' vs '{first}'). Try another key than '{key}' if a different request is meant."
    )
    return Refusal(400, ErrorType.IDEMPOTENCY, message)


def rate_limited(headers: Mapping[str, str]) -> Refusal:
    """Turned away by the limiter, which runs before the idempotency layer."""
    message = "Too many requests hit the API too quickly. Wait, and send fewer."
    return Refusal(429, ErrorType.INVALID_REQUEST, message, code="rate_limit", headers=headers)


def lock_timeout(headers: Mapping[str, str]) -> Refusal:
    """The object is held by another request."""
    message = (
        "This object cannot be accessed right now because another request or process is accessing it. Retry if this goes on."
    )
    return Refusal(429, ErrorType.INVALID_REQUEST, message, code="lock_timeout", headers=headers)


def internal_error(headers: Mapping[str, str]) -> Refusal:
    """A 500, which is saved like any answer of an execution and proves nothing about the effect."""
    message = "Something went wrong on the provider's side."
    return Refusal(500, ErrorType.API, message, saved=True, headers=headers)


def declined(payment: dict[str, object], charge: str | None) -> Refusal:
    """The card was declined."""
    extra = {"decline_code": "generic_decline", "payment_intent": payment, "charge": charge}
    words = "Your card was declined."
    return Refusal(402, ErrorType.CARD, words, code="card_declined", saved=True, extra=extra)


def charge_disputed(charge: str, code: str) -> Refusal:
    """The charge is disputed."""
    return business(f"Charge {charge} has been charged back; cannot issue a refund.", code)


def charge_already_refunded(charge: str) -> Refusal:
    """Nothing is left to refund."""
    return business(f"Charge {charge} has already been refunded.", "charge_already_refunded")


def refund_too_large(amount: int, left: int, currency: str) -> Refusal:
    """More than what is left. It has no code, only a parameter."""
    asked, rest = (_money(minor, currency) for minor in (amount, left))
    return business(f"Refund amount ({asked}) is greater than unrefunded amount on charge ({rest})", param="amount")


def no_successful_charge(payment: str) -> Refusal:
    """The payment has no charge that could be refunded."""
    message = f"This PaymentIntent ({payment}) does not have a successful charge to refund."
    return business(message, param="payment_intent")


# docs.stripe.com/currencies
ZERO_DECIMAL = frozenset(
    {"bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv", "xaf", "xof", "xpf"}
)


def _money(minor: int, currency: str) -> str:
    if currency in ZERO_DECIMAL:
        return f"{minor} {currency.upper()}"
    amount = f"{minor // 100}.{minor % 100:02d}"
    return f"${amount}" if currency == "usd" else f"{amount} {currency.upper()}"
