"""The workflow of the column whose activity is the gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from temporalio import workflow

from interlock import Premise
from interlock.temporal import AmbiguousResult, CommittedResult, GateResult, RefusedResult

with workflow.unsafe.imports_passed_through():
    from harness.agent import SupportCase
    from harness.columns import Engine
    from harness.columns.job import Answer, Status
    from harness.columns.temporal.options import options_of
    from harness.columns.temporal.workflow import Closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision, as a JSON document, with the premise that it rests on."""

    decision: str
    premise: Premise


@workflow.defn(name="GatedRefundCase")
class RefundCase:
    """Carries a support case to its end."""

    @workflow.run
    async def run(self, case: SupportCase, engine: Engine) -> Closed:
        """Let the model decide, once, and refund through the gate."""
        options = options_of(engine).activity
        decided = await workflow.execute_activity("decide", case, result_type=Decided, **options)
        # A union is a type to Temporal's converters and none to a type checker.
        union = cast("type", GateResult)
        result: GateResult = await workflow.execute_activity("refund", args=[case, decided], result_type=union, **options)
        return Closed(decision=decided.decision, answer=_answer(result))


def _answer(result: GateResult) -> Answer:
    match result:
        case CommittedResult():
            words = f"{result.reference}, {result.amount_minor} {result.currency}, {result.state}"
            return Answer(
                status=Status.REFUNDED, via=result.via, words=words, refund=result.reference, amount_minor=result.amount_minor
            )
        case RefusedResult():
            return Answer(status=Status.REFUSED, via=f"{result.code}, door {result.door}", words=result.words)
        case AmbiguousResult():
            return Answer(status=Status.AMBIGUOUS, via="nobody can know", words=result.words)
