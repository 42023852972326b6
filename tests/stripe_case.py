"""One refund case at the Stripe stand-in: a payment, a refund of a part of it, and the target that makes it."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from interlock.domain.answers import BurnAnswer, LookupAnswer, SendAnswer
from interlock.domain.effects import Effect
from interlock.infrastructure.clock import WallDeadline
from interlock.stripe import Refund, StripeRefunds

PATIENCE_S = 20.0
SHORT_S = 0.5


class Case:
    """A payment and a refund of 20.00 of it under one action, at a target.

    Args:
        standin: where it is paid.
        client: what it is paid with.
        target: who refunds; one of its own where none is given.
        paid_minor: how much was paid.
        reference: what the refund names.
        options: of its own target.
    """

    def __init__(
        self,
        standin: StripeStandIn,
        client: stripe.StripeClient,
        target: StripeRefunds | None = None,
        *,
        paid_minor: int = 10_000,
        reference: str | None = None,
        **options: Any,
    ) -> None:
        self.standin, self.client = standin, client
        self.target = target or StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base, **options)
        self.payment = pay(client, paid_minor).id
        self.action_id: UUID = uuid4()
        self.key = f"il-{self.action_id.hex}-1"
        self.effect: Effect[Refund] = self.target.refund(
            payment=self.payment, amount_minor=2000, currency="usd", reference=reference
        )

    def send(self, *, key: str | None = None, seconds: float = PATIENCE_S) -> SendAnswer:
        """Send once."""
        return self.target.send(
            self.effect, action_id=self.action_id, idempotency_key=key or self.key, deadline=WallDeadline(seconds)
        )

    def lookup(self, seconds: float = PATIENCE_S) -> LookupAnswer:
        """Look it up."""
        return self.target.lookup(self.effect, action_id=self.action_id, deadline=WallDeadline(seconds))

    def burn(self, seconds: float = PATIENCE_S) -> BurnAnswer:
        """Use its key up."""
        return self.target.burn(self.effect, action_id=self.action_id, idempotency_key=self.key, deadline=WallDeadline(seconds))

    def moved(self) -> list[int]:
        """Return the refunds in the provider's own ledger."""
        return [one.amount for one in refunds_of(self.standin.ledger_path, self.payment)]
