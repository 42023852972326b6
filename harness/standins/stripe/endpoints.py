"""The endpoints: what each one takes, checks, does and answers.

Refusals are raised, in the order in which Stripe finds them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import refusals
from .params import MAX_AMOUNT_MINOR, Params
from .refusals import invalid_param
from .rendering import Json, charge_json, expand, list_json, payment_json, refund_json
from .state import Card, NewPayment, NewRefund, Payment, Refund, World

REASONS = ("duplicate", "fraudulent", "requested_by_customer")
MAX_PAGE = 100
DEFAULT_PAGE = 10

_CARDS_BY_TOKEN = {
    "pm_card_visa": Card.PLAIN,
    "pm_card_mastercard": Card.PLAIN,
    "pm_card_chargeDeclined": Card.DECLINED,
    "pm_card_createDispute": Card.DISPUTED,
    "pm_card_pendingRefund": Card.REFUND_PENDING,
    "pm_card_refundFail": Card.REFUND_FAILS,
}


@dataclass(frozen=True, slots=True)
class Call:
    """One authenticated request on its way into the world.

    Attributes:
        list_lag_s: Refunds younger than this are left out of lists.
    """

    world: World
    account: str
    params: Params
    object_id: str = ""
    idempotency_key: str | None = None
    api_version: str = ""
    list_lag_s: float = 0.0

    def expanded(self, rendered: Json) -> Json:
        """Return the answer with the requested expansions made."""
        return expand(self.world, rendered, self.params.values("expand"))


Handler = Callable[[Call], Json]


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path with the handler behind it."""

    method: Literal["GET", "POST"]
    pattern: re.Pattern[str]
    handler: Handler


def create_payment(call: Call) -> Json:
    """POST /v1/payment_intents."""
    params = call.params
    params.allow(
        "amount",
        "currency",
        "payment_method",
        "payment_method_data",
        "payment_method_types",
        "allowed_payment_method_types",
        "automatic_payment_methods",
        "confirm",
        "return_url",
        "description",
        "metadata",
    )
    params.required("amount")
    new = NewPayment(
        account=call.account,
        amount=params.integer("amount", at_least=1, at_most=MAX_AMOUNT_MINOR) or 0,
        currency=_currency(params.required("currency")),
        card=_card(params),
        payment_method_types=_method_types(call) or ("card", "link"),
        allows_redirects=_allows_redirects(call),
        description=params.text("description"),
        metadata=params.metadata_over({}),
        idempotency_key=call.idempotency_key,
    )
    confirm = params.boolean("confirm")
    if confirm:
        _check_confirmable(new.card, params, allows_redirects=new.allows_redirects)
    payment = call.world.create_payment(new, confirm=confirm)
    return call.expanded(_charged_or_declined(payment, confirmed=confirm))


def confirm_payment(call: Call) -> Json:
    """POST /v1/payment_intents/{id}/confirm."""
    call.params.allow("payment_method", "payment_method_data", "return_url")
    payment = call.world.payment(call.account, call.object_id)
    if payment.status == "succeeded":
        words = "This PaymentIntent has already succeeded; it can't be confirmed again."
        raise refusals.business(words, "payment_intent_unexpected_state")
    card = _card(call.params) or payment.card
    card = _check_confirmable(card, call.params, allows_redirects=payment.allows_redirects)
    call.world.confirm_payment(payment, card, call.idempotency_key)
    return call.expanded(_charged_or_declined(payment, confirmed=True))


def retrieve_payment(call: Call) -> Json:
    """GET /v1/payment_intents/{id}."""
    call.params.allow()
    return call.expanded(payment_json(call.world.payment(call.account, call.object_id)))


def update_payment(call: Call) -> Json:
    """POST /v1/payment_intents/{id}."""
    call.params.allow("metadata", "description")
    payment = call.world.payment(call.account, call.object_id)
    metadata = call.params.metadata_over(payment.metadata)
    if "description" in call.params.tree:
        payment.description = call.params.text("description")
    call.world.set_payment_metadata(payment, metadata, call.idempotency_key)
    return call.expanded(payment_json(payment))


def retrieve_charge(call: Call) -> Json:
    """GET /v1/charges/{id}."""
    call.params.allow()
    return call.expanded(charge_json(call.world, call.world.charged(call.account, call.object_id)))


def create_refund(call: Call) -> Json:
    """POST /v1/refunds."""
    params = call.params
    params.allow(
        "amount",
        "charge",
        "currency",
        "customer",
        "instructions_email",
        "metadata",
        "origin",
        "payment_intent",
        "reason",
        "refund_application_fee",
        "reverse_transfer",
    )
    new = NewRefund(
        amount=params.integer("amount", at_least=1),
        reason=params.choice("reason", REASONS),
        metadata=params.metadata_over({}),
        idempotency_key=call.idempotency_key,
    )
    payment = _payment_to_refund(call)
    currency = params.text("currency")
    if currency and _currency(currency) != payment.currency:
        raise invalid_param(None, "currency", f"The charge was made in {payment.currency}, not in {currency}.")
    return call.expanded(refund_json(call.world.create_refund(payment, new)))


def list_refunds(call: Call) -> Json:
    """GET /v1/refunds: newest first, consistent at once unless the list is told to lag."""
    params = call.params
    params.allow("charge", "created", "ending_before", "limit", "payment_intent", "starting_after")
    limit = params.integer("limit", at_least=1, at_most=MAX_PAGE) or DEFAULT_PAGE
    after, before = params.text("starting_after"), params.text("ending_before")
    if after and before:
        raise invalid_param(None, "starting_after", "Only one of starting_after and ending_before may be used.")
    low, high = _created_bounds(params)
    chosen = [one for one in _candidates(call) if _visible(call, one) and low <= one.created <= high]
    page, has_more = _page(call, chosen, limit, after=after, before=before)
    return call.expanded(list_json("/v1/refunds", [refund_json(one) for one in page], has_more=has_more))


def retrieve_refund(call: Call) -> Json:
    """GET /v1/refunds/{id}."""
    call.params.allow()
    return call.expanded(refund_json(call.world.refund(call.account, call.object_id)))


def update_refund(call: Call) -> Json:
    """POST /v1/refunds/{id}: metadata only."""
    call.params.allow("metadata")
    refund = call.world.refund(call.account, call.object_id)
    metadata = call.params.metadata_over(refund.metadata)
    call.world.set_refund_metadata(refund, metadata, call.idempotency_key)
    return call.expanded(refund_json(refund))


def cancel_refund(call: Call) -> Json:
    """POST /v1/refunds/{id}/cancel."""
    call.params.allow()
    refund = call.world.refund(call.account, call.object_id)
    call.world.cancel_refund(refund)
    return call.expanded(refund_json(refund))


def retrieve_account(call: Call) -> Json:
    """GET /v1/account: which account the request acts for."""
    call.params.allow()
    return {"id": call.account, "object": "account"}


def _route(method: Literal["GET", "POST"], template: str, handler: Handler) -> Route:
    return Route(method, re.compile(template.replace("{id}", r"(?P<id>[^/]+)")), handler)


ROUTES = (
    _route("GET", "/v1/account", retrieve_account),
    _route("POST", "/v1/payment_intents", create_payment),
    _route("GET", "/v1/payment_intents/{id}", retrieve_payment),
    _route("POST", "/v1/payment_intents/{id}", update_payment),
    _route("POST", "/v1/payment_intents/{id}/confirm", confirm_payment),
    _route("GET", "/v1/charges/{id}", retrieve_charge),
    _route("GET", "/v1/refunds", list_refunds),
    _route("POST", "/v1/refunds", create_refund),
    _route("GET", "/v1/refunds/{id}", retrieve_refund),
    _route("POST", "/v1/refunds/{id}", update_refund),
    _route("POST", "/v1/refunds/{id}/cancel", cancel_refund),
)


def find_route(method: str, path: str) -> tuple[Handler, str]:
    """Return the handler of an endpoint, and the id in its path (empty where there is none).

    Raises:
        Refusal: There is no such endpoint.
    """
    for route in ROUTES:
        if route.method == method and (match := route.pattern.fullmatch(path)):
            return route.handler, match.groupdict().get("id", "")
    raise refusals.unknown_url(method, path)


def _currency(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z]{3}", text):
        raise invalid_param(None, "currency", f"Invalid currency: {text}")
    return text.lower()


def _card(params: Params) -> Card | None:
    token = params.text("payment_method")
    number = params.branch("payment_method_data").branch("card").text("number")
    if number is not None:
        if number not in set(Card):
            raise invalid_param("incorrect_number", "payment_method_data[card][number]", "No test card has this number.")
        return Card(number)
    if token is None:
        return None
    if token not in _CARDS_BY_TOKEN:
        raise refusals.missing("PaymentMethod", token, "payment_method", status=400)
    return _CARDS_BY_TOKEN[token]


def _method_types(call: Call) -> tuple[str, ...]:
    old, new = (call.params.values(name) for name in ("payment_method_types", "allowed_payment_method_types"))
    if old and call.api_version >= "2026-09-30":
        # docs.stripe.com/changelog/endive: the parameter went away with 2026-09-30.endive, the field stayed.
        words = "payment_method_types can't be set any more; use allowed_payment_method_types."
        raise invalid_param("payment_method_types_no_longer_supported", "payment_method_types", words)
    return tuple(old or new)


def _allows_redirects(call: Call) -> bool:
    automatic = call.params.branch("automatic_payment_methods")
    return _method_types(call) != ("card",) and automatic.text("allow_redirects") != "never"


def _check_confirmable(card: Card | None, params: Params, *, allows_redirects: bool) -> Card:
    if card is None:
        raise invalid_param("parameter_missing", "payment_method", "A payment method is needed to confirm.")
    if allows_redirects and params.text("return_url") is None:
        words = "Payment methods that redirect are allowed, so a return_url is needed; or allow cards only."
        raise invalid_param(None, "return_url", words)
    return card


def _charged_or_declined(payment: Payment, *, confirmed: bool) -> Json:
    if confirmed and payment.charge is None:
        raise refusals.declined(payment_json(payment), None)
    return payment_json(payment)


def _payment_to_refund(call: Call) -> Payment:
    charge_id, payment_id = call.params.text("charge"), call.params.text("payment_intent")
    if charge_id and payment_id:
        raise invalid_param(None, "charge", "Only one of charge and payment_intent may be given.")
    if charge_id:
        return call.world.charged(call.account, charge_id)
    if payment_id:
        status = call.world.switches.unknown_payment_status
        return call.world.payment(call.account, payment_id, param="payment_intent", status=status)
    raise invalid_param("parameter_missing", "payment_intent", "One of payment_intent and charge must be given.")


def _visible(call: Call, refund: Refund) -> bool:
    return call.list_lag_s <= 0 or refund.created_at <= call.world.clock.now() - call.list_lag_s


def _candidates(call: Call) -> list[Refund]:
    """Return the refunds of the payment or charge that the list is about, or of the account, newest first."""
    charge_id, payment_id = call.params.text("charge"), call.params.text("payment_intent")
    if charge_id is None and payment_id is None:
        return call.world.refunds(call.account)
    try:
        named = [call.world.payment(call.account, payment_id, param="payment_intent")] if payment_id else []
        named += [call.world.charged(call.account, charge_id, param="charge")] if charge_id else []
    except refusals.Refusal:
        if call.world.switches.unknown_filter == "empty":
            return []
        raise
    same = all(one is named[0] for one in named)
    return named[0].refunds[::-1] if same else []


def _created_bounds(params: Params) -> tuple[float, float]:
    if isinstance(params.tree.get("created"), str):
        exactly = params.integer("created") or 0
        return exactly, exactly
    created = params.branch("created")
    for name in created.tree:
        if name not in ("gt", "gte", "lt", "lte"):
            raise invalid_param("parameter_unknown", f"created[{name}]", f"Received unknown parameter: created[{name}]")
    gt, gte, lt, lte = (created.integer(name) for name in ("gt", "gte", "lt", "lte"))
    lows = [value for value in (None if gt is None else gt + 1, gte) if value is not None]
    highs = [value for value in (None if lt is None else lt - 1, lte) if value is not None]
    return max(lows, default=float("-inf")), min(highs, default=float("inf"))


def _page(call: Call, refunds: list[Refund], limit: int, *, after: str | None, before: str | None) -> tuple[list[Refund], bool]:
    """Return one page of `refunds` (newest first), and whether there is more in the direction of travel."""
    if after:
        anchor = call.world.refund(call.account, after, param="starting_after")
        refunds = [one for one in refunds if one.number < anchor.number]
    elif before:
        anchor = call.world.refund(call.account, before, param="ending_before")
        refunds = [one for one in refunds if one.number > anchor.number]
        return refunds[-limit:], len(refunds) > limit
    return refunds[:limit], len(refunds) > limit
