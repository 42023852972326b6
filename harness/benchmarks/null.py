"""The null target: it answers Done at once, so that what is left of an action's time is the gate's."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.benchmarks.timing import BenchmarkFailed
from interlock import Answer, Done, Effect, Evidence, Gate, Money, Settlement, target
from interlock.outcomes import Committed
from interlock.projections.receipts import Receipt

PAYMENT = "pi_local_0123456789abcdefghij"
AMOUNT_MINOR = 2000
CURRENCY = "usd"

_REFUND = "re_local_0123456789abcdefghij"

EVIDENCE_JSON = json.dumps(
    {
        "id": _REFUND,
        "object": "refund",
        "amount": AMOUNT_MINOR,
        "currency": CURRENCY,
        "payment_intent": PAYMENT,
        "status": "succeeded",
    }
)
"""What the provider says, made beforehand: a target's own work is not the gate's."""


@dataclass(frozen=True, slots=True)
class NullRefund:
    """Parameters of the size of a real refund's."""

    payment: str
    amount_minor: int
    currency: str


@target("null", effect=NullRefund)
def null_target(effect: NullRefund, /, *, idempotency_key: str, deadline_s: float) -> Answer:
    """Answer Done at once, with evidence of the size of a real refund's."""
    del effect, idempotency_key, deadline_s
    return Done(Evidence(reference=_REFUND, state="succeeded", settlement=Settlement.FINAL, json=EVIDENCE_JSON))


def refund() -> Effect[NullRefund]:
    """Return the effect that every benchmark fires."""
    parameters = NullRefund(PAYMENT, AMOUNT_MINOR, CURRENCY)
    return null_target.effect(parameters, subject=PAYMENT, money=Money(AMOUNT_MINOR, CURRENCY))


def grant(gate: Gate, approval_id: str) -> None:
    """Approve one refund, so that no benchmark times it."""
    gate.approve(approval_id, by="user:1", expires_in_s=86_400, cap_minor=AMOUNT_MINOR, currency=CURRENCY)


def fire(gate: Gate, name: str) -> Receipt:
    """Carry out the refund that was granted under this name.

    Raises:
        BenchmarkFailed: it did not end as Committed, so its time says nothing.
    """
    outcome = gate.fire(name, refund(), approval=name)
    if not isinstance(outcome, Committed):
        raise BenchmarkFailed(f"{name} ended as {type(outcome).__name__}, not as Committed")
    return outcome.receipt


def grant_and_fire(url: str, name: str) -> None:
    """Carry one action out in a journal, which is made where there is none."""
    with Gate.open(url, targets=[null_target]) as gate:
        grant(gate, name)
        fire(gate, name)
