"""Plays one schedule: the parent starts the workers again after every death, and moves the world meanwhile."""

from __future__ import annotations

import multiprocessing
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryDirectory

from harness.postgres.journals import fresh_schema
from harness.sigkill import worker
from harness.sigkill.counts import Counts
from harness.sigkill.gates import GateKind
from harness.sigkill.judge import Record, record_of, violations
from harness.sigkill.schedule import CURRENCY, PAYMENT_MINOR, WORKERS, Case, Fault, HandRefund, Happening, Schedule, draw
from harness.standins.stripe.client import ControlRefusedError, StripeControl, StripeStandIn
from harness.standins.stripe.ledger import RefundCreated, read_ledger
from harness.standins.stripe.sdk import connect, pay
from interlock import Gate

_LONGEST_S = 90.0
"""No process of a schedule has anything to do for so long: its deadlines are seconds."""

# Forked from a server with one thread that has imported everything: no lock of this process is inherited, and a start is quick.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "interlock.gate",
        "interlock.async_gate",
        "interlock.stripe",
        "stripe",
        "interlock.infrastructure.postgres.journal",
        "harness.sigkill.worker",
    ]
)


class ScheduleFailed(AssertionError):
    """A schedule showed something that must never be. The message has its seed, its steps and what every process did."""


def play(schedule: Schedule, database: str | None = None, gates: GateKind = GateKind.SYNC) -> Counts:
    """Play a schedule in a folder of its own, and judge it.

    Args:
        schedule: what happens.
        database: a PostgreSQL database, in which the journal gets a schema of its own; None for a file in the folder.
        gates: which gate the workers have.

    Raises:
        ScheduleFailed: something that must never be was seen.
    """
    with (
        TemporaryDirectory(prefix="sigkill-") as name,
        StripeStandIn(Path(name) / "ledger.jsonl") as standin,
        _journal(database) as journal_url,
    ):
        site = replace(open_cases(schedule, Path(name), standin, journal_url), gates=gates)
        troupe = _Troupe(schedule, site)
        troupe.play(standin)
        quiet(standin)
        troupe.finish()
        record = record_of(site, WORKERS)
        found = [*troupe.findings, *violations(record)]
        if found:
            raise ScheduleFailed("\n".join(_told(schedule, record, found)))
        return _counts(troupe, record, standin)


def _journal(database: str | None) -> AbstractContextManager[str | None]:
    return nullcontext() if database is None else fresh_schema(database, f"sigkill_{secrets.token_hex(8)}")


def play_seed(seed: int, database: str | None = None, gates: GateKind = GateKind.SYNC) -> Counts | str:
    """Play the schedule of a seed; return its counts, or what it showed."""
    try:
        return play(draw(seed), database, gates)
    except ScheduleFailed as failure:
        return str(failure)


def quiet(standin: StripeControl) -> None:
    """Stop the faults, and wait until nothing is on its way any more: only then may a clock be moved past a horizon."""
    standin.reset_faults()
    calm = 0
    while calm < 3:
        standin.release()
        waiting = standin.held_back() or any(one.disposition == "received" for one in standin.requests())
        calm = 0 if waiting else calm + 1
        time.sleep(0.03)


def open_cases(schedule: Schedule, folder: Path, standin: StripeControl, journal_url: str | None = None) -> worker.Site:
    """Let customers pay, decide on what was read of the payments, and approve the refunds."""
    site = worker.Site(folder, standin.handshake, schedule.profile, journal_url=journal_url)
    target, client = site.refunds(), connect(standin)
    with site.gate(target) as gate:
        opened = []
        for number, case in enumerate(schedule.cases):
            _approve(gate, number, case)
            payment = pay(client, PAYMENT_MINOR, CURRENCY).id
            opened.append(worker.OpenCase(case, payment, target.observe(payment)))
    return replace(site, cases=tuple(opened))


def _approve(gate: Gate, number: int, case: Case) -> None:
    gate.approve(
        f"case-{number}", by="user:1", expires_in_s=case.expires_in_s, cap_minor=case.cap_minor, currency=CURRENCY, uses=case.uses
    )


class _Troupe:
    """The workers of one schedule."""

    def __init__(self, schedule: Schedule, site: worker.Site) -> None:
        self._schedule, self._site = schedule, site
        self._living: dict[int, ForkServerProcess] = {}
        self.lives = [0] * len(schedule.workers)
        self.killed = 0
        self.findings: list[str] = []

    def play(self, standin: StripeControl) -> None:
        """Start every worker, and again after every death, until all have done their jobs."""
        due = list(self._schedule.happenings)
        self._happen(standin, due, 0.0)  # what is there from the start strikes the first requests
        began_s = time.monotonic()
        for slot in range(len(self._schedule.workers)):
            self._start(slot)
        while self._living:
            passed_s = time.monotonic() - began_s
            self._happen(standin, due, passed_s)
            if passed_s > _LONGEST_S:
                self._give_up()
            next_s = due[0].at_s - passed_s if due else 1.0
            ended = wait([one.sentinel for one in self._living.values()], timeout=max(0.0, next_s))
            for slot in [slot for slot, one in self._living.items() if one.sentinel in ended]:
                self._ended(slot)

    def finish(self) -> None:
        """Let one more process bring everything to its end."""
        process = _CONTEXT.Process(target=worker.finish, args=(self._site, self._schedule.jump_s))
        process.start()
        process.join(_LONGEST_S)
        if process.exitcode is None:
            process.kill()
            process.join()
        if process.exitcode != 0:
            self.findings.append(f"the last recovery ended with exit code {process.exitcode}")

    def _start(self, slot: int) -> None:
        plan, life = self._schedule.workers[slot], self.lives[slot]
        death = plan.deaths[life] if life < len(plan.deaths) else None
        self.lives[slot] += 1
        process = _CONTEXT.Process(target=worker.live, args=(self._site, slot, plan.jobs, death))
        process.start()
        self._living[slot] = process

    def _ended(self, slot: int) -> None:
        process = self._living.pop(slot)
        process.join()
        if process.exitcode == -SIGKILL:
            self.killed += 1
            self._start(slot)
        elif process.exitcode != 0:
            self.findings.append(f"worker {slot} ended with exit code {process.exitcode}")

    def _happen(self, standin: StripeControl, due: list[Happening], passed_s: float) -> None:
        while due and due[0].at_s <= passed_s:
            match due.pop(0).what:
                case Fault() as fault:
                    standin.arm(**asdict(fault))
                case HandRefund(case, amount_minor):
                    _refund_by_hand(standin, self._site.cases[case].payment, amount_minor)

    def _give_up(self) -> None:
        for slot, process in self._living.items():
            process.kill()
            process.join()
            self.findings.append(f"worker {slot} did not end within {_LONGEST_S:g} s")
        self._living.clear()


def _refund_by_hand(standin: StripeControl, payment: str, amount_minor: int) -> None:
    try:
        standin.hand_refund(payment, amount_minor)
    except ControlRefusedError:
        return  # the dashboard says that so much is not left; the person gives up


def _counts(troupe: _Troupe, record: Record, standin: StripeControl) -> Counts:
    counts = Counts(schedules=1, starts=sum(troupe.lives))
    requests = standin.requests()
    counts.requests = len(requests)
    counts.refunds = sum(map(len, record.refunds.values()))
    counts.hand_refunds = sum(
        isinstance(row.effect, RefundCreated) and row.effect.by == "hand" for row in read_ledger(standin.ledger_path)
    )
    counts.faults.update(one.fault for one in requests if one.fault)
    deaths = [line["death"].split(" ")[0] for line in record.log if line["what"] == "dying"]
    assert len(deaths) == troupe.killed, "nobody kills a worker but itself, and it says so first"
    counts.kills.update(deaths)
    counts.endings.update(receipt.status for receipt in record.receipts.values())
    begun = {line["key"] for line in record.log if line["what"] == "begin" and line["key"]}
    counts.endings["never came to be"] += len(begun - record.receipts.keys())
    workers = [line for line in record.log if line["who"] != worker.FINISHER]
    counts.told.update(line.get("status") or line["error"] for line in workers if line["what"] in ("outcome", "raised"))
    return counts


def _told(schedule: Schedule, record: Record, found: list[str]) -> Iterator[str]:
    yield from found
    yield f"\nRepeat it, more than once if need be: python -m harness.sigkill --schedules 1 --seed {schedule.seed}"
    yield "\nThe schedule:"
    yield from schedule.steps()
    yield "\nWhat happened:"
    began = float(record.log[0]["at"]) if record.log else 0.0
    for line in record.log:
        about = ", ".join(f"{name} {value}" for name, value in line.items() if name not in ("at", "who", "what"))
        yield f"{float(line['at']) - began:8.3f} s  {line['who']:<9} {line['what']}: {about}"
    yield "\nThe ledger:"
    yield from (f"{mark}: {refund}" for mark, refunds in record.refunds.items() for refund in refunds)
    yield "\nThe receipts:"
    yield from (receipt.to_text() for receipt in record.receipts.values())
