"""The calls to Stripe that refunds need, each of them one request that ends at its deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import stripe
from stripe.params import RefundCreateParams, RefundListParams

from interlock.domain.effects import Effect
from interlock.domain.ports import Deadline
from interlock.infrastructure.transports import DeadlineSession, Wire
from interlock.stripe.effect import Refund
from interlock.stripe.evidence import Json, json_object
from interlock.stripe.verdicts import Reply

_PAGE = 100


class UnexpectedAnswer(Exception):
    """Stripe answered something that can't be used; its words say what."""


class Client:
    """Stripe, over the SDK, without the SDK's retries.

    Args:
        api_key: a secret or restricted key.
        account: the connected account to act for, or None.
        api_base: where the API is, if not at Stripe.
        livemode: whether the key is one of live mode.
    """

    def __init__(self, api_key: str, *, account: str | None, api_base: str | None, livemode: bool) -> None:
        self._livemode = livemode
        self._sdk = stripe.StripeClient(
            api_key,
            stripe_account=account,
            base_addresses={"api": api_base} if api_base else {},
            # A retry inside the SDK would be a send without its own Dispatched event (I1).
            max_network_retries=0,
            http_client=stripe.RequestsClient(session=DeadlineSession()),
        )

    def create_refund(self, effect: Effect[Refund], metadata: dict[str, str], idempotency_key: str, wire: Wire) -> Reply:
        """Refund."""
        refund = effect.parameters
        params: RefundCreateParams = {
            "payment_intent": effect.subject,
            "amount": refund.amount_minor,
            "metadata": metadata,
        }
        if refund.reason is not None:
            params["reason"] = refund.reason
        return self._reply(wire, lambda: self._sdk.v1.refunds.create(params, _under(idempotency_key)))

    def mark_payment(self, payment: str, metadata: dict[str, str], idempotency_key: str, wire: Wire) -> Reply:
        """Update a payment's metadata."""
        return self._reply(
            wire,
            lambda: self._sdk.v1.payment_intents.update(payment, {"metadata": metadata}, _under(idempotency_key)),
        )

    def read_refund(self, refund: str, deadline: Deadline) -> Json:
        """Return a refund as it is now."""
        return self._reply(Wire(deadline), lambda: self._sdk.v1.refunds.retrieve(refund)).body

    def read_payment(self, payment: str, deadline: Deadline) -> Json:
        """Return a payment, with its latest charge, if it is one of this account and mode.

        Raises:
            UnexpectedAnswer: it is not. (A payment of another account is not found at all.)
        """
        body = self._reply(
            Wire(deadline),
            lambda: self._sdk.v1.payment_intents.retrieve(payment, {"expand": ["latest_charge"]}),
        ).body
        if body.get("object") != "payment_intent" or body.get("id") != payment:
            raise UnexpectedAnswer("the answer is not the payment that was asked for")
        if body.get("livemode") is not self._livemode:
            raise UnexpectedAnswer(f"{payment} is not a payment of {'live' if self._livemode else 'test'} mode")
        return body

    def read_refunds(self, payment: str | None, deadline: Deadline) -> list[Json]:
        """Return every refund of a payment, or of the account, newest first, to the last page.

        Raises:
            UnexpectedAnswer: a page can't be trusted.
        """
        return list(self._refunds(payment, deadline))

    def _refunds(self, payment: str | None, deadline: Deadline) -> Iterator[Json]:
        last: str | None = None
        while True:
            refunds, has_more = self._page(payment, last, deadline)
            yield from refunds
            if not has_more:
                return
            if not refunds:
                raise UnexpectedAnswer("an empty page that is not the last")
            last = str(refunds[-1]["id"])

    def _page(self, payment: str | None, after: str | None, deadline: Deadline) -> tuple[list[Json], bool]:
        params: RefundListParams = {"limit": _PAGE}
        if payment is not None:
            params["payment_intent"] = payment
        if after is not None:
            params["starting_after"] = after
        page = self._reply(Wire(deadline), lambda: self._sdk.v1.refunds.list(params)).body
        refunds, has_more = page.get("data"), page.get("has_more")
        if page.get("object") != "list" or not isinstance(refunds, list) or not isinstance(has_more, bool):
            raise UnexpectedAnswer("the answer is not a page of a list")
        return cast("list[Json]", refunds), has_more

    def _reply(self, wire: Wire, request: Callable[[], stripe.StripeObject]) -> Reply:
        response = wire.run(request).last_response
        body = None if response is None else json_object(response.data)
        if response is None or body is None:
            raise UnexpectedAnswer("an answer that is not a JSON object")
        return Reply(response.code, response.headers, body)


def _under(idempotency_key: str) -> stripe.RequestOptions:
    # The SDK makes up a random key in the place of an empty one, and under that nothing would be deduped.
    if not idempotency_key:
        raise ValueError("an idempotency key must not be empty")
    return {"idempotency_key": idempotency_key}
