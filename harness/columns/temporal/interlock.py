"""temporal_interlock: the body of the activity is the gate, and every further try asks it what happened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from temporalio import activity

from harness.agent import Decision, SupportCase
from harness.columns import Serving
from harness.columns.interlock import GateApprovals, open_gate, target_of
from harness.columns.job import Answer, Job, Reached, ask, show_decision
from harness.columns.temporal import interlock_workflow
from harness.columns.temporal.heartbeats import heartbeats
from harness.columns.temporal.interlock_workflow import Decided
from interlock import Premise, Receipts
from interlock.errors import UnknownAction
from interlock.stripe import StripeRefunds
from interlock.temporal import Firing, GatePlugin, gated

APPROVALS = GateApprovals()
WORKFLOW = interlock_workflow.RefundCase


class Activities:
    """The activities of a case.

    Args:
        job: the case's.
        stripe: the target of the worker's gate.
    """

    def __init__(self, job: Job, stripe: StripeRefunds) -> None:
        self._job, self._stripe = job, stripe

    @activity.defn
    def decide(self, case: SupportCase) -> Decided:
        """Let the model decide. Temporal saves the decision, and what it rests on, before anything is sent."""
        del case
        seen: list[Premise] = []

        def get_payment(payment: str) -> dict[str, object]:
            seen.append(self._stripe.observe(payment))
            return dict(seen[-1].facts)

        with heartbeats():
            decision = ask(self._job, get_payment).to_json()
        show_decision(self._job, decision)
        return Decided(decision=decision, premise=seen[-1])

    @gated("refund")
    def refund(self, case: SupportCase, decided: Decided) -> Firing:
        """Refund what was approved, through the gate."""
        return Firing(
            self._stripe.refund(
                payment=case.payment, amount_minor=case.approved_minor, currency=case.currency, reference=case.case_id
            ),
            approval=case.case_id,
            premises=[decided.premise],
            key=_key(case.case_id),
            decision=_for_receipt(Decision.from_json(decided.decision)),
        )


@contextmanager
def serving(job: Job, reached: Reached) -> Iterator[Serving]:
    """Open the gate, and give the activities and the plugin that binds them to it."""
    stripe = target_of(job)
    activities = Activities(job, stripe)
    with open_gate(job, stripe, reached) as gate:
        yield Serving(activities=[activities.decide, activities.refund], plugins=[GatePlugin(gate)])


def told(job: Job, answer: Answer) -> Answer:
    """Return the answer with the receipt, which stays in the journal. Where there is none, the audit says so."""
    with Receipts.open(job.journal_url) as receipts:
        try:
            receipt = receipts.receipt(_key(job.case_id))
        except UnknownAction:
            return answer
    return replace(answer, receipt=receipt.to_dict(), receipt_text=receipt.to_text())


def _for_receipt(decision: Decision) -> dict[str, Any]:
    return {
        "model": decision.model,
        "message": decision.message_id,
        "tool_use": decision.tool_use_id,
        "arguments": decision.arguments_json,
        "wording": decision.wording,
    }


def _key(case_id: str) -> str:
    return f"refund:{case_id}"
