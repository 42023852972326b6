"""How the world's objects look in an answer, and the expansion of ids into objects.

A refund has no `livemode`; charges and payment intents do. `charge.refunds` is absent until it is expanded, and a
payment intent has `latest_charge` and no `charges` (both since API version 2022-11-15).
"""

from collections.abc import Iterable

from .refusals import Refusal, invalid_param
from .state import Payment, Refund, World

Json = dict[str, object]


def payment_json(payment: Payment) -> Json:
    """Render a payment intent."""
    succeeded = payment.status == "succeeded"
    return {
        "id": payment.id,
        "object": "payment_intent",
        "amount": payment.amount,
        "amount_capturable": 0,
        "amount_received": payment.amount if succeeded else 0,
        "canceled_at": None,
        "cancellation_reason": None,
        "capture_method": "automatic",
        "confirmation_method": "automatic",
        "created": payment.created,
        "currency": payment.currency,
        "customer": None,
        "description": payment.description,
        "last_payment_error": None,
        "latest_charge": payment.charge.id if payment.charge else None,
        "livemode": False,
        "metadata": dict(payment.metadata),
        "next_action": None,
        "payment_method": f"pm_LOCAL{payment.card.name}" if payment.card else None,
        "payment_method_types": list(payment.payment_method_types),
        "status": payment.status,
    }


def charge_json(world: World, payment: Payment) -> Json:
    """Render the charge of a payment; what was refunded is summed up anew each time."""
    charge = payment.charge
    if charge is None:
        raise ValueError(f"{payment.id} has no charge")
    refunded = world.refunded_minor(payment)
    return {
        "id": charge.id,
        "object": "charge",
        "amount": payment.amount,
        "amount_captured": payment.amount,
        "amount_refunded": refunded,
        "captured": True,
        "created": payment.created,
        "currency": payment.currency,
        "customer": None,
        "description": payment.description,
        "disputed": charge.disputed,
        "failure_code": None,
        "failure_message": None,
        "livemode": False,
        "metadata": dict(payment.metadata),
        "paid": True,
        "payment_intent": payment.id,
        "refunded": refunded == payment.amount,
        "status": "succeeded",
    }


def refund_json(refund: Refund) -> Json:
    """Render a refund; the fields about pending and failing are there only where they say something."""
    rendered: Json = {
        "id": refund.id,
        "object": "refund",
        "amount": refund.amount,
        "balance_transaction": "txn_" + refund.id.partition("_")[2],
        "charge": refund.charge,
        "created": refund.created,
        "currency": refund.currency,
        "destination_details": {"card": {"type": "refund"}, "type": "card"},
        "metadata": dict(refund.metadata),
        "payment_intent": refund.payment,
        "reason": refund.reason,
        "receipt_number": None,
        "source_transfer_reversal": None,
        "status": refund.status.value,
        "transfer_reversal": None,
    }
    for name in ("pending_reason", "failure_reason", "failure_balance_transaction"):
        if (value := getattr(refund, name)) is not None:
            rendered[name] = value
    return rendered


def list_json(url: str, items: list[Json], *, has_more: bool) -> Json:
    """Render one page of a list."""
    return {"object": "list", "data": items, "has_more": has_more, "url": url}


def expand(world: World, rendered: Json, paths: Iterable[str]) -> Json:
    """Replace ids by objects along dotted paths such as `latest_charge.refunds`.

    Raises:
        Refusal: A path leads nowhere.
    """
    for path in paths:
        _expand(world, rendered, path.split("."), path)
    return rendered


def _expand(world: World, node: Json, steps: list[str], path: str) -> None:
    if not steps:
        return
    head, rest = steps[0], steps[1:]
    if head == "data" and isinstance(node.get("data"), list):
        children = node["data"]
    else:
        node[head] = _resolved(world, node, head, path)
        children = [node[head]]
    for child in children if isinstance(children, list) else []:
        if isinstance(child, dict):
            _expand(world, child, rest, path)


def _resolved(world: World, node: Json, name: str, path: str) -> object:
    value = node.get(name)
    if isinstance(value, dict) or (value is None and name in node):
        return value
    if name == "refunds" and node.get("object") == "charge":
        refunds = [refund_json(one) for one in reversed(world.charged(None, str(node["id"])).refunds)]
        return list_json(f"/v1/charges/{node['id']}/refunds", refunds, has_more=False)
    if name == "payment_intent" and isinstance(value, str):
        return payment_json(world.payment(None, value))
    if name in ("charge", "latest_charge") and isinstance(value, str):
        return charge_json(world, world.charged(None, value))
    raise _not_expandable(path)


def _not_expandable(path: str) -> Refusal:
    return invalid_param(None, "expand", f"This property cannot be expanded ({path}).")
