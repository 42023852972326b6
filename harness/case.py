"""One case, carried from start to end by the parent: start, kill, what happens meanwhile, start again, read the record."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.columns import COLUMNS
from harness.columns.job import Answer, Job, Status
from harness.scenarios import APPROVED_MINOR, CURRENCY, DAY_AND_AN_HOUR_S, Meanwhile, Money, Scenario
from harness.verdicts import HELD, AnswerVerdict, judge_answer, judge_money, money_of
from harness.world import ROOT, Provider, RefundAtProvider, World

KILLED = -signal.SIGKILL
MAX_STARTS = 8
WORKER_LIMIT_S = 90.0

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
        crash_to_close_s: from the kill, as the parent saw it, until the worker with the final answer had ended.
        problem: what went wrong in the harness itself or in a worker, or None.
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
    crash_to_close_s: float | None
    problem: str | None
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
    """

    def __init__(self, world: World, scenario: Scenario, column: str, folder: Path, repetition: int = 1) -> None:
        self.id = f"case-{secrets.token_hex(6)}"
        self._world, self._scenario, self._column = world, scenario, COLUMNS[column]
        self._provider: Provider = world.provider(scenario)
        self._home = folder / self.id
        self._repetition = repetition
        self._exit_codes: list[int] = []
        self._problem: str | None = None

    def carry(self) -> CaseResult:
        """Carry the case to its end, and compare."""
        self._home.mkdir()
        job = self._begin()
        self._start(job)
        killed_at = time.monotonic()
        # A worker that died in another way than it should leaves no case to go on with.
        answer = self._finish(self._meanwhile(job)) if self._problem is None else None
        return self._result(job, answer, time.monotonic() - killed_at)

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
        )
        self._column.approvals.grant(job)
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
        return job

    def _finish(self, job: Job) -> Answer | None:
        """Start workers until one has an answer."""
        while len(self._exit_codes) < MAX_STARTS and self._problem is None:
            self._start(job)
            answer = Answer.load(job)
            if answer is None or answer.status is not Status.NOT_YET:
                return answer
            time.sleep(answer.retry_after_s)
        return Answer.load(job)

    def _start(self, job: Job) -> None:
        """Start a worker, and wait until it has ended or was killed."""
        command = [sys.executable, "-m", "harness.worker", str(job.save())]
        log = self._home / "worker.log"
        with log.open("ab") as output:
            worker = subprocess.Popen(
                command, cwd=ROOT, env=self._world.worker_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        # Not `wait(timeout)`, which polls, and would be part of the time that is measured.
        limit = threading.Timer(WORKER_LIMIT_S, worker.terminate)
        limit.start()
        exit_code = worker.wait()
        limit.cancel()
        self._exit_codes.append(exit_code)
        if exit_code != (KILLED if job.kill_at else 0):
            said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            self._problem = f"start {len(self._exit_codes)} ended with {exit_code}: {' '.join(said)}"

    def _result(self, job: Job, answer: Answer | None, crash_to_close_s: float) -> CaseResult:
        record = self._provider.record_of(job.payment)
        own = tuple(refund for refund in record.refunds if refund.carries(self.id))
        want, got = self._scenario.want, money_of(record.refunds)
        verdict, answer_verdict = judge_money(want, got), judge_answer(answer, own)
        as_wanted = (
            verdict == HELD
            and answer_verdict is AnswerVerdict.MATCHES
            and answer is not None
            and answer.status is self._scenario.answer
            and self._exit_codes[:1] == [KILLED]
            and self._problem is None
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
            decision=_decision(job),
            exit_codes=tuple(self._exit_codes),
            crash_to_close_s=None if answer_verdict is AnswerVerdict.NONE else crash_to_close_s,
            problem=self._problem,
            lines=record.lines,
        )


def _decision(job: Job) -> dict[str, Any] | None:
    """Return the saved decision, in whichever of the two forms the column saved it."""
    for name in ("decided.json", "decision.json"):
        path = job.home / name
        if path.exists():
            saved: dict[str, Any] = msgspec.json.decode(path.read_bytes())
            decision: dict[str, Any] = saved.get("decision", saved)
            return decision
    return None
