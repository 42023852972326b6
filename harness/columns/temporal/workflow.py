"""The workflow of the hand-written columns: one activity asks the model, and another one refunds."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from harness.agent import SupportCase
    from harness.columns import Engine
    from harness.columns.job import Answer
    from harness.columns.temporal.options import options_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """How a case ended, and on which decision, as a JSON document."""

    decision: str
    answer: Answer


@workflow.defn
class RefundCase:
    """Carries a support case to its end."""

    @workflow.run
    async def run(self, case: SupportCase, engine: Engine) -> Closed:
        """Let the model decide, once, and refund. The engine is an argument so that both sets of options can be compared."""
        options = options_of(engine).activity
        decision = await workflow.execute_activity("decide", case, result_type=str, **options)
        answer = await workflow.execute_activity("refund", args=[case, decision], result_type=Answer, **options)
        return Closed(decision=decision, answer=answer)
