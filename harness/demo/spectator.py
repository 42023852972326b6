"""A spectator of one column: turns what happens to its case into the events that a page shows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from harness import trace
from harness.case import CaseResult
from harness.columns.job import Job
from harness.demo import captions
from harness.demo.captions import Step
from harness.demo.journal import JournalTail
from harness.demo.runs import ReceiptPlace, Run
from harness.demo.stories import Track, Way
from harness.moments import Began, Closed, MeanwhileOver, Moment, WorkerEnded, WorkerStarted
from harness.scenarios import PAYMENT_MINOR, Meanwhile, Scenario
from harness.verdicts import HELD, AnswerVerdict, dollars
from harness.world import RefundAtProvider

_LOOK_EVERY_S = 0.08

_TRACED = {
    ("before_send", None): "calls Stripe: refund",
    ("after_answer", None): "Stripe has answered",
    ("read", None): "reads the payment at Stripe",
    ("looked_up", "Found"): "asks Stripe for the refund: found",
    ("looked_up", "Absent"): "asks Stripe for the refund: not there",
    ("looked_up", "CannotTell"): "asks Stripe for the refund: can't tell",
    ("burned", "Burned"): "uses the key up, so nothing lands late",
    ("burned", "AlreadyUsed"): "uses the key up: it was used already",
    ("burned", "InProgress"): "uses the key up: still in progress",
    ("burned", "CannotTell"): "uses the key up: can't tell",
}


class Spectator:
    """Looks on at one column of a run.

    Args:
        run: is told.
        track: the column.
        scenario: the row.
        journal: the journal that the column's case is recorded in; None where it has none.
    """

    def __init__(self, run: Run, track: Track, scenario: Scenario, journal: JournalTail | None) -> None:
        self._run, self._track, self._scenario, self._journal = run, track, scenario, journal
        self._on_temporal = run.page == "temporal"
        self._lock = threading.Lock()
        self._step = Step.CASE
        self._job: Job | None = None
        self._traced, self._decided, self._starts = 0, False, 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look again and again at what the workers write, until the end of the context."""
        over = threading.Event()

        def look() -> None:
            while not over.wait(_LOOK_EVERY_S):
                with self._lock:
                    self._look()

        thread = threading.Thread(target=look, name=f"spectator-{self._track.column}")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def tell(self, moment: Moment) -> None:
        """Be told what happens: what was written before it is shown before it."""
        with self._lock:
            if isinstance(moment, Began):
                self._begin(moment.job)
            self._look()
            match moment:
                case Began(job=job):
                    self._began(job)
                case WorkerStarted(pid=pid):
                    self._started(pid)
                case WorkerEnded(pid=pid, exit_code=exit_code):
                    self._ended(pid, exit_code)
                case MeanwhileOver(job=job):
                    self._meanwhile(job)
                case Closed(result=result):
                    self._closed(result)

    # --- what is written while a worker works

    def _look(self) -> None:
        if self._job is None:
            return
        self._look_for_decision(self._job)
        # Two files tell of one process, each in its own order: together they are told in the order of time.
        told = [*self._traced_lines(self._job), *self._journal_lines(self._job)]
        for _, source, words in sorted(told, key=lambda one: one[0]):
            self._line(source, words)

    def _look_for_decision(self, job: Job) -> None:
        if self._decided or (decision := _saved_decision(job.home)) is None:
            return
        self._decided = True
        before = self._step
        self._step = Step.DECISION
        self._line("model", f"read: {_seen(decision['seen'])}")
        self._line("model", f"decided: refund {dollars(decision['amount_minor'])}")
        self._line("model", f"“{decision['wording']}”", long=True)
        self._caption(captions.decision(self._track.way))
        self._step = before
        if before is Step.FIRST:
            self._caption(captions.first(self._track.way))

    def _traced_lines(self, job: Job) -> Iterator[tuple[float, str, str]]:
        for line in trace.read(job.home, self._traced):
            self._traced += 1
            words = _TRACED.get((line["what"], line.get("answer")))
            # The first reading is the model's own, and is shown with the decision.
            if words is not None and not (line["what"] == "read" and self._step is Step.FIRST):
                yield line["at"], "worker", words

    def _journal_lines(self, job: Job) -> Iterator[tuple[float, str, str]]:
        for written_at, words in self._journal.lines() if self._journal else ():
            yield written_at.timestamp() - job.clock_ahead_s, "journal", words

    # --- what happens to the case

    def _begin(self, job: Job) -> None:
        self._job = job
        if self._journal is not None:
            self._journal.begin(job.case_id)
        self._line("world", f"a customer paid {dollars(PAYMENT_MINOR)}: {_short(job.payment)}")
        if self._scenario.by_hand_before_minor:
            self._line("world", f"support refunded {dollars(self._scenario.by_hand_before_minor)} by hand")
        self._line("world", f"a person approved a refund of {dollars(job.approved_minor)}")

    def _began(self, job: Job) -> None:
        self._emit("case", case=job.case_id, payment=job.payment)
        self._caption(captions.case(self._track.way))

    def _started(self, pid: int) -> None:
        self._starts += 1
        self._step = Step.FIRST if self._starts == 1 else Step.SECOND
        self._line("worker", f"worker {self._starts} starts, {_process(pid)}")
        self._emit("worker", pid=pid, nth=self._starts, alive=True)

    def _ended(self, pid: int, exit_code: int) -> None:
        self._emit("worker", pid=pid, nth=self._starts, alive=False, exit_code=exit_code)
        if self._starts > 1:
            return
        self._step = Step.KILL
        self._line("kill", f"SIGKILL, {_process(pid)}, exit code {exit_code}", tone="bad")
        self._caption(captions.kill(self._scenario.dies))
        self._emit("crash")
        self._step = Step.MEANWHILE

    def _meanwhile(self, job: Job) -> None:
        self._job = job
        self._line("world", _meanwhile_words(self._scenario))
        self._caption(captions.meanwhile(self._scenario))

    def _closed(self, result: CaseResult) -> None:
        way, answer = self._track.way, result.answer
        if answer is not None:
            self._step = Step.SECOND
            self._line("worker", f"reports: {answer.status}{_of(answer.refund)}", tone="strong")
        elif result.problem is not None:
            self._line("worker", result.problem, tone="bad")
        self._caption(captions.second(way, result, on_temporal=self._on_temporal))
        self._emit("closed", crash_to_close_s=result.crash_to_close_s)
        self._step = Step.RECORD
        for refund in result.refunds:
            self._line("record", _refund_words(refund, own=refund.id in result.own_refunds))
        self._line("record", f"in all {captions.amount(result.got)}, right is {captions.amount(result.want)}", tone="strong")
        self._caption(captions.record(result.want))
        self._emit("verdict", **_verdict_json(way, result))
        if way is Way.GATE and answer is not None and answer.receipt is not None and self._job is not None:
            self._run.receipt = ReceiptPlace(self._job.journal_url, answer.receipt["key"])
            self._emit("receipt", receipt=answer.receipt)

    # --- how it is told

    def _line(self, source: str, words: str, *, tone: str = "plain", long: bool = False) -> None:
        self._emit("line", step=self._step, source=source, words=words, tone=tone, long=long)

    def _caption(self, words: str) -> None:
        self._emit("caption", step=self._step, words=words)

    def _emit(self, kind: str, **facts: Any) -> None:
        self._run.emit(kind, column=self._track.column, **facts)


def _saved_decision(home: Path) -> dict[str, Any] | None:
    """Return the saved decision, in whichever form the column saved it."""
    for name in ("decided.json", "decision.json"):
        path = home / name
        if path.exists():
            saved: dict[str, Any] = msgspec.json.decode(path.read_bytes())
            return dict(saved.get("decision", saved))
    return None


def _seen(seen: dict[str, Any]) -> str:
    refunds = seen.get("refunds", [])
    told = ", ".join(dollars(one["amount"]) for one in refunds) if refunds else "nothing"
    return f"{dollars(seen['amount'])} paid, {told} refunded"


def _process(pid: int) -> str:
    return f"pid {pid}" if pid else "simulated"


def _short(reference: str) -> str:
    """Return an id that is still recognised, and leaves room on a narrow page."""
    return reference if len(reference) <= 14 else f"{reference[:3]}…{reference[-6:]}"


def _of(refund: str | None) -> str:
    return f" {_short(refund)}" if refund else ""


def _refund_words(refund: RefundAtProvider, *, own: bool) -> str:
    whose = "by this case" if own else "by hand"
    return f"{_short(refund.id)}: {dollars(refund.amount_minor)} {whose}"


def _meanwhile_words(scenario: Scenario) -> str:
    match scenario.meanwhile:
        case Meanwhile.NOTHING:
            return "nothing happens"
        case Meanwhile.HAND_REFUND:
            return f"support refunds {dollars(scenario.by_hand_meanwhile_minor)} by hand"
        case Meanwhile.REVOKED:
            return "the approval is revoked"
        case Meanwhile.KEY_FORGOTTEN:
            return "Stripe forgets the idempotency key"
        case Meanwhile.DAY_PASSED:
            return "25 hours pass, on moved clocks"


def _verdict_json(way: Way, result: CaseResult) -> dict[str, Any]:
    answer = result.answer
    return {
        "verdict": result.verdict,
        "held": result.verdict == HELD,
        "got": captions.amount(result.got),
        "want": captions.amount(result.want),
        "answer": answer.status if answer else None,
        "contradicts": result.answer_verdict is AnswerVerdict.CONTRADICTS,
        "ambiguous": bool(answer and answer.status == "ambiguous"),
        "crash_to_close_s": result.crash_to_close_s,
        "payment": result.payment,
        "words": captions.verdict(way, result),
    }
