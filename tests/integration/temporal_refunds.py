"""Activities of a support desk, as a user writes them: one refund under one approval."""

from __future__ import annotations

from dataclasses import dataclass, replace

from interlock import Premise
from interlock.stripe import StripeRefunds
from interlock.temporal import Firing, gated

APPROVED_MINOR = 2000


@dataclass(frozen=True)
class Case:
    """A case that a person approved; its id is the approval's too."""

    id: str
    payment: str
    seen: Premise


class Refunds:
    """What refunds need; made once in each worker."""

    def __init__(self, stripe: StripeRefunds) -> None:
        self._stripe = stripe

    @gated("refund")
    def refund(self, case: Case) -> Firing:
        """Refund on a thread, through a Gate."""
        return self._firing(case)

    @gated("refund-awaited")
    async def refund_awaited(self, case: Case) -> Firing:
        """Refund on the event loop, through an AsyncGate."""
        return self._firing(case)

    @gated("refund-named")
    def refund_named(self, case: Case) -> Firing:
        """Refund for a workflow that does so for several cases: the key is the case's."""
        return replace(self._firing(case), key=f"refund:{case.id}")

    def _firing(self, case: Case) -> Firing:
        effect = self._stripe.refund(payment=case.payment, amount_minor=APPROVED_MINOR, currency="usd", reference=case.id)
        return Firing(effect, approval=case.id, premises=[case.seen])
