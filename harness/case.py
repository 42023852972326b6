"""One case, carried from start to end by the parent: start, kill, what happens meanwhile, start again, read the record."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.carrier import KILLED, Carrier, Standalone, WorkflowRecord
from harness.columns import COLUMNS, Column, Engine
from harness.columns.job import Answer, Job, Status
from harness.moments import Began, Closed, MeanwhileOver, Tell, ignore
from harness.scenarios import APPROVED_MINOR, CURRENCY, DAY_AND_AN_HOUR_S, Meanwhile, Money, Scenario
from harness.verdicts import HELD, AnswerVerdict, judge_answer, judge_money, money_of
from harness.world import Provider, RefundAtProvider, World

_COMPLAINTS = (
    "The lamp arrived with a cracked shade.",
    "One of the two mugs in the box is broken.",
    "The blanket has a hole near the edge.",
    "I was charged for express and it came a week late.",
    "The headphones crackle on the left side.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """Everything that is known of a case after its end.

    Attributes:
        exit_codes: of each start, in order; -9 is SIGKILL.
        killed_at: when the parent saw that the first worker was dead, in UTC.
        crash_to_close_s: from then until the worker with the final answer had ended, or, on
            Temporal, until the parent had the result of the workflow.
        problem: what went wrong in the harness itself or in a worker, or None.
        workflow: what Temporal's history says; None where it took no part.
    """

    case_id: str
    scenario: str
    column: str
    repetition: int
    live: bool
    payment: str
    want: Money
    want_answer: Status
    got: Money
    refunds: tuple[RefundAtProvider, ...]
    own_refunds: tuple[str, ...]
    verdict: str
    answer: Answer | None
    answer_verdict: AnswerVerdict
    as_wanted: bool
    decision: dict[str, Any] | None
    exit_codes: tuple[int, ...]
    killed_at: datetime
    crash_to_close_s: float | None
    problem: str | None
    workflow: WorkflowRecord | None = None
    lines: tuple[str, ...] = field(repr=False)

    @property
    def starts(self) -> int:
        """How many workers were started."""
        return len(self.exit_codes)


class Case:
    """One support case in one scenario and one column.

    Args:
        world: where it takes place.
        scenario: the row.
        column: the column's name.
        folder: where cases keep their files; this one gets a folder of its own there.
        repetition: which repetition of the cell it is.
        tell: is told what happens, when it happens.
        journal: the URL of a journal that cases share; None for one of the case's own.
        carrier: what carries it; None for what its column is carried by.
    """

    def __init__(
        self,
        world: World,
        scenario: Scenario,
        column: str,
        folder: Path,
        repetition: int = 1,
        *,
        tell: Tell = ignore,
        journal: str | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        self.id = f"case-{secrets.token_hex(6)}"
        self._world, self._scenario, self._column = world, scenario, COLUMNS[column]
        self._provider: Provider = world.provider(scenario)
        self._home = folder / self.id
        self._repetition = repetition
        self._tell, self._journal = tell, journal
        self._carrier = carrier or _carrier_of(self._column, world, tell)

    def carry(self) -> CaseResult:
        """Carry the case to its end, and compare."""
        self._home.mkdir()
        job = self._begin()
        self._carrier.crash(job)
        killed_at, killed_at_s = datetime.now(UTC), time.monotonic()
        # A worker that died in another way than it should leaves no case to go on with.
        answer = self._carrier.finish(self._meanwhile(job)) if self._carrier.problem is None else None
        crash_to_close_s = time.monotonic() - killed_at_s
        result = self._result(job, self._carrier.wind_up(answer), killed_at, crash_to_close_s)
        self._tell(Closed(result))
        return result

    def stop(self) -> None:
        """End the case from another thread: kill its worker, and start no other one."""
        self._carrier.stop()

    def _begin(self) -> Job:
        payment = self._provider.create_payment()
        if self._scenario.by_hand_before_minor:
            self._provider.hand_refund(payment, self._scenario.by_hand_before_minor)
        job = Job(
            case_id=self.id,
            column=self._column.name,
            folder=str(self._home),
            live=self._world.live,
            payment=payment,
            approved_minor=APPROVED_MINOR,
            currency=CURRENCY,
            complaint=secrets.choice(_COMPLAINTS),
            model=self._world.model,
            stripe_api_base=self._provider.api_base,
            anthropic_base_url=self._world.anthropic_base_url,
            kill_at=self._scenario.dies,
            settings=self._scenario.settings,
            database=self._world.database,
            journal=self._journal,
            temporal=self._world.temporal,
            emulated=self._world.live and self._scenario.emulated,
        )
        self._column.approvals.grant(job)
        self._tell(Began(job))
        return job

    def _meanwhile(self, job: Job) -> Job:
        """Let happen what happens, and return the job as the next worker gets it: without the kill."""
        job = replace(job, kill_at=None)
        match self._scenario.meanwhile:
            case Meanwhile.NOTHING:
                pass
            case Meanwhile.HAND_REFUND:
                self._provider.hand_refund(job.payment, self._scenario.by_hand_meanwhile_minor)
            case Meanwhile.REVOKED:
                self._column.approvals.revoke(job)
            case Meanwhile.KEY_FORGOTTEN:
                self._provider.forget_keys(job.payment)
            case Meanwhile.DAY_PASSED:
                self._provider.pass_time(DAY_AND_AN_HOUR_S)
                job = replace(job, clock_ahead_s=DAY_AND_AN_HOUR_S)
        self._tell(MeanwhileOver(job))
        return job

    def _result(self, job: Job, answer: Answer | None, killed_at: datetime, crash_to_close_s: float) -> CaseResult:
        record = self._provider.record_of(job.payment)
        own = tuple(refund for refund in record.refunds if refund.carries(self.id))
        want, got = self._scenario.want, money_of(record.refunds)
        verdict, answer_verdict = judge_money(want, got), judge_answer(answer, own)
        as_wanted = (
            verdict == HELD
            and answer_verdict is AnswerVerdict.MATCHES
            and answer is not None
            and answer.status is self._scenario.answer
            and self._carrier.exit_codes[:1] == [KILLED]
            and self._carrier.problem is None
        )
        return CaseResult(
            case_id=self.id,
            scenario=self._scenario.name,
            column=self._column.name,
            repetition=self._repetition,
            live=self._world.live,
            payment=job.payment,
            want=want,
            want_answer=self._scenario.answer,
            got=got,
            refunds=record.refunds,
            own_refunds=tuple(refund.id for refund in own),
            verdict=verdict,
            answer=answer,
            answer_verdict=answer_verdict,
            as_wanted=as_wanted,
            decision=self._carrier.decision(job),
            exit_codes=tuple(self._carrier.exit_codes),
            killed_at=killed_at,
            crash_to_close_s=None if answer_verdict is AnswerVerdict.NONE else crash_to_close_s,
            problem=self._carrier.problem,
            workflow=self._carrier.workflow,
            lines=record.lines,
        )


def _carrier_of(column: Column, world: World, tell: Tell) -> Carrier:
    if column.engine is Engine.NONE:
        return Standalone(world, tell)
    from harness.temporal.carrier import OnTemporal

    return OnTemporal(world, tell)
