"""Recovery as a service: every node runs it, none leads, and a pass is bounded."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.herd import run
from interlock import (
    Answer,
    AsyncGate,
    Committed,
    Done,
    Evidence,
    Gate,
    GateConfig,
    InFlight,
    Money,
    Report,
    Settlement,
    target,
)
from interlock.approvals import ExternalApproval
from interlock.domain.endings import PendingReason
from interlock.domain.ports import ExternalTerms
from interlock.domain.premises import Premise, Strict
from interlock.errors import JournalUnavailable
from interlock.functions import FunctionTarget
from interlock.infrastructure.opening import open_journal

LONGEST_S = 60.0


@dataclass(frozen=True)
class Payout:
    """The parameters of the target under test."""

    to: str


@dataclass
class Provider:
    """Counts what it is asked for, and lets a send wait."""

    sent: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)

    def target(self, *, waits: bool = False) -> FunctionTarget[Payout]:
        """Return the target."""

        @target("payout", effect=Payout)
        def pay_out(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
            del idempotency_key
            self.begun.set()
            if waits:
                assert self.may_end.wait(deadline_s)
            self.sent.append(effect.to)
            return Done(Evidence(reference=f"po_{effect.to}", state="paid", settlement=Settlement.FINAL, json="{}"))

        return pay_out


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a journal can be made, of each kind."""
    given = f"sqlite:///{tmp_path / 'journal.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    assert isinstance(given, str)
    return given


def _propose(gate: Gate, pay_out: FunctionTarget[Payout], many: int) -> None:
    gate.approve("all", by="user:17", expires_in_s=3600, cap_minor=100 * many, currency="usd", uses=many)
    for number in range(many):
        effect = pay_out.effect(Payout(str(number)), subject=str(number), money=Money(100, "usd"))
        gate.propose(f"payout:{number}", effect, approval="all")


class Service:
    """`recover_forever` of a gate on a thread, and the reports of its passes."""

    def __init__(self, gate: Gate, until: Callable[[], bool] = lambda: False) -> None:
        self.reports: list[Report] = []
        self._gate, self._until, self._done = gate, until, threading.Event()
        self._thread = threading.Thread(target=gate.recover_forever, kwargs={"on_pass": self._note}, daemon=True)
        self._thread.start()

    def _note(self, report: Report) -> None:
        self.reports.append(report)
        if self._until():
            self._done.set()

    def await_done(self) -> None:
        """Wait until the condition held after a pass, and for the service to end."""
        assert self._done.wait(LONGEST_S)
        self._gate.stop()
        self.join()

    def join(self) -> None:
        """Wait for the service to end."""
        self._thread.join(LONGEST_S)
        assert not self._thread.is_alive()


def test_a_pass_works_on_no_more_than_its_bound(url: str) -> None:
    """60 actions come to their end in passes of ten at the most, each once."""
    provider = Provider()
    pay_out = provider.target()
    with Gate.open(url, targets=[pay_out], config=GateConfig(recover_batch=10, recover_every_s=0.05)) as gate:
        _propose(gate, pay_out, 60)
        service = Service(gate, lambda: len(provider.sent) >= 60)
        service.await_done()
        assert sorted(provider.sent, key=int) == [str(number) for number in range(60)]
        assert max(len(report.outcomes) for report in service.reports) == 10
        assert not gate.receipts(status="IN_FLIGHT").receipts


def test_a_journal_that_is_down_is_said_once_and_the_service_goes_on(tmp_path: Path) -> None:
    """The first pass that can't use it reports that, those after it do not, and the one that can works on what there is."""
    path = tmp_path / "journal.db"
    provider = Provider()
    pay_out = provider.target()
    with (
        Gate.open(f"sqlite:///{path}", targets=[pay_out], config=GateConfig(recover_every_s=0.01)) as gate,
        closing(sqlite3.connect(path, isolation_level=None, timeout=LONGEST_S)) as editor,
    ):
        _propose(gate, pay_out, 1)
        editor.execute("ALTER TABLE receipts RENAME TO away")
        service = Service(gate, lambda: bool(provider.sent))
        while not service.reports:
            time.sleep(0.001)
        time.sleep(0.1)  # for some more passes
        editor.execute("ALTER TABLE away RENAME TO receipts")
        service.await_done()
        first, *others = service.reports
        assert isinstance(first.failed[""], JournalUnavailable)
        assert [len(report.outcomes) for report in others] == [1]


def test_what_a_living_gate_is_at_work_on_is_left_to_it(url: str) -> None:
    """Another gate's service looks on while a send takes its time, and works on nothing but what is nobody's."""
    slow, other = Provider(), Provider()
    slow_target, pay_out = slow.target(waits=True), other.target()
    config = GateConfig(recover_every_s=0.02)
    with Gate.open(url, targets=[slow_target]) as first, Gate.open(url, targets=[pay_out], config=config) as second:
        first.approve("case", by="user:17", expires_in_s=3600, cap_minor=100, currency="usd")
        effect = slow_target.effect(Payout("slow"), subject="slow", money=Money(100, "usd"))
        firing = threading.Thread(target=first.fire, args=("payout:slow", effect), kwargs={"approval": "case"}, daemon=True)
        firing.start()
        assert slow.begun.wait(LONGEST_S)
        service = Service(second, lambda: len(other.sent) >= 3)
        _propose(second, pay_out, 3)
        service.await_done()
        slow.may_end.set()
        firing.join(LONGEST_S)
        assert first.receipt("payout:slow").via == "first-send"
    assert {outcome.key for report in service.reports for outcome in report.outcomes} == {f"payout:{n}" for n in range(3)}
    assert slow.sent == ["slow"]


def test_stop_ends_what_is_being_sent_and_begins_nothing_more(url: str) -> None:
    """A gate that is stopped in the middle of a send records its outcome, and leaves the rest of the pass to others."""
    provider = Provider()
    pay_out = provider.target(waits=True)
    with Gate.open(url, targets=[pay_out], config=GateConfig(recover_every_s=0.05)) as gate:
        _propose(gate, pay_out, 5)
        service = Service(gate)
        assert provider.begun.wait(LONGEST_S)
        gate.stop()
        provider.may_end.set()
        service.join()
        assert len(provider.sent) == 1
        assert len(gate.receipts(status="COMMITTED").receipts) == 1
        assert len(gate.receipts(status="IN_FLIGHT").receipts) == 4


def test_an_action_without_its_target_rests_and_keeps_nobody_waiting(url: str) -> None:
    """Actions whose target is not registered here are reported, and take no place from those that can be worked on."""
    provider = Provider()
    pay_out = provider.target()

    @target("elsewhere", effect=Payout)
    def elsewhere(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        raise AssertionError(f"{effect}, {idempotency_key}, {deadline_s}")

    config = GateConfig(recover_batch=2, recover_every_s=0.02)
    with Gate.open(url, targets=[pay_out, elsewhere]) as first, Gate.open(url, targets=[pay_out], config=config) as second:
        first.approve("other", by="user:17", expires_in_s=3600, uses=8)
        for number in range(8):
            first.propose(f"other:{number}", elsewhere.effect(Payout("x"), subject="x"), approval="other")
        _propose(first, pay_out, 2)
        service = Service(second, lambda: len(provider.sent) == 2)
        service.await_done()
    skipped = [key for report in service.reports for key in report.skipped]
    assert len(skipped) == len(set(skipped))


def test_what_a_node_lacks_the_approval_source_or_the_policy_for_is_left_to_those_who_have_it(url: str) -> None:
    """Two versions at once: the one that can't re-check an action takes no claim of it, and says what it lacks."""
    provider = Provider()
    pay_out = provider.target()
    effect = pay_out.effect(Payout("1"), subject="1", money=Money(100, "usd"))
    seen = Premise(target="payout", subject="1", policy="ours", facts_json='{"balance":1}', read_at=datetime.now(UTC))
    with Gate.open(url, targets=[pay_out], policies=[Ours()], approval_sources={"desk": Desk()}) as newer:
        newer.propose("by the desk", effect, approval=ExternalApproval(id="1", source="desk"))
        newer.approve("a", by="user:17", expires_in_s=3600, cap_minor=100, currency="usd")
        newer.propose("by our policy", effect, approval="a", premises=[seen])
        with Gate.open(url, targets=[pay_out]) as older:
            report = older.recover()
            assert dict(report.skipped) == {"by the desk": "approval source desk", "by our policy": "policy ours"}
            assert (report.outcomes, dict(report.failed)) == ((), {})
            done, held_up = newer.recover().outcomes
    assert isinstance(done, Committed)
    assert isinstance(held_up, InFlight)
    assert held_up.reason is PendingReason.NOT_SENT, "this target can't be observed; nobody else holds it"
    assert provider.sent == ["1"]


class Ours(Strict):
    """A policy of one's own."""

    name = "ours"


class Desk:
    """An approval source that says yes."""

    def read(self, approval_id: str) -> ExternalTerms:
        """Return what the desk says."""
        del approval_id
        until = datetime.now(UTC) + timedelta(hours=1)
        return ExternalTerms(live=True, cap_minor=100, currency="usd", by="user:17", expires_at=until)


def test_the_service_gives_events_their_positions(postgres_url: str) -> None:
    """On PostgreSQL a pass gives the events that were committed their places in the log, so that `verify` sees them there."""
    provider = Provider()
    pay_out = provider.target()
    with Gate.open(postgres_url, targets=[pay_out], config=GateConfig(recover_every_s=0.05)) as gate:
        _propose(gate, pay_out, 3)
        Service(gate, lambda: len(provider.sent) == 3).await_done()
        gate.recover()
        with open_journal(postgres_url, create=False) as journal:
            assert journal.rows_without_position() == []
            assert journal.rows() != []
        assert gate.verify().valid


def test_the_service_runs_as_a_task(url: str) -> None:
    """`AsyncGate.recover_forever` recovers on the event loop, and ends when the gate is stopped."""
    provider = Provider()
    pay_out = provider.target()

    async def serve() -> list[Report]:
        reports: list[Report] = []
        done, loop = asyncio.Event(), asyncio.get_running_loop()

        def note(report: Report) -> None:
            reports.append(report)
            if len(provider.sent) == 5:
                loop.call_soon_threadsafe(done.set)  # it is called on a thread of the gate's

        async with AsyncGate.open(url, targets=[pay_out], config=GateConfig(recover_every_s=0.05)) as gate:
            service = asyncio.create_task(gate.recover_forever(on_pass=note))
            async with asyncio.timeout(LONGEST_S):
                await done.wait()
            await gate.stop()
            await service
        return reports

    with Gate.open(url, targets=[pay_out]) as gate:
        _propose(gate, pay_out, 5)
    assert sum(len(report.outcomes) for report in asyncio.run(serve())) == 5


@pytest.mark.parametrize("actions", [150, pytest.param(500, marks=pytest.mark.long)])
def test_twenty_gates_share_what_a_dead_one_left(postgres_url: str, actions: int) -> None:
    """One gate is killed with hundreds of sends on their way: each action is taken over once, few appends are in vain.

    The provider's ledger has each payout once. Where every node began with the oldest action, more appends than actions
    were in vain.
    """
    rescue = run(postgres_url, actions=actions, gates=20)
    assert rescue.endings == {"COMMITTED": actions}
    assert len(rescue.payouts) == actions
    assert set(rescue.payouts.values()) == {1}
    assert len(rescue.takeovers) == actions
    assert set(rescue.takeovers.values()) == {1}
    assert rescue.rescuers > 1
    assert rescue.conflicts <= actions // 4
