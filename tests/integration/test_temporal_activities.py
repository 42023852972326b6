"""Gated activities in Temporal's own activity environment: what they return and raise, and how they take being cancelled."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import ActivityEnvironment

from interlock import Answer, AsyncGate, Committed, Declined, Done, Evidence, Gate, Settlement, Target, target
from interlock.errors import InvalidConfiguration, InvalidEffect, JournalUnavailable, OutcomeNotRecorded, PremiseUnreadable
from interlock.temporal import (
    RECOMMENDED,
    AmbiguousResult,
    CommittedResult,
    Firing,
    GatePlugin,
    GateResult,
    Recommended,
    RefusedResult,
    bound_to,
    gated,
    recovery_activity,
)
from interlock.temporal.failures import failure_of

PATIENCE_S = 20.0
WORKFLOW = "case-1"


@dataclass(frozen=True)
class Payout:
    """What is paid out, and how the provider takes it."""

    to: str


@dataclass
class Provider:
    """A provider in memory, which can be made to wait in the middle of a send."""

    ledger: list[str] = field(default_factory=list[str])
    entered: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def pay(self, effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        """Pay out: at once, not at all, without an answer, or when it is let go on."""
        del idempotency_key, deadline_s
        if effect.to == "closed":
            return Declined("account_closed", "the account is closed")
        self.entered.set()
        if effect.to == "slow":
            assert self.go_on.wait(PATIENCE_S)
        self.ledger.append(effect.to)
        if effect.to == "silent":
            raise TimeoutError
        return Done(Evidence(reference="po-1", state="paid", settlement=Settlement.FINAL, json="{}"))

    async def pay_awaited(self, effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        """Pay out, from an event loop."""
        return await asyncio.to_thread(self.pay, effect, idempotency_key=idempotency_key, deadline_s=deadline_s)


def firing(to: str) -> Firing:
    """Say what is to be fired."""
    anything: Any = target("payout", effect=Payout)(Provider().pay)
    return Firing(anything.effect(Payout(to), subject="customer-1"), approval="approval-1")


@gated("payout", wait_s=PATIENCE_S)
def pay_out(to: str) -> Firing:
    """Pay out."""
    return firing(to)


@gated("payout", wait_s=0.2)
def pay_out_in_a_hurry(to: str) -> Firing:
    """Pay out, and wait for nobody."""
    return firing(to)


@gated("payout", wait_s=PATIENCE_S)
async def pay_out_awaited(to: str) -> Firing:
    """Pay out, on an event loop."""
    return firing(to)


@dataclass
class Stage:
    """A journal with one approval for several actions, and a provider."""

    url: str
    provider: Provider

    def target(self) -> Target[Payout]:
        """Return the target."""
        return target("payout", effect=Payout)(self.provider.pay)

    def gate(self) -> Gate:
        """Open a gate."""
        return Gate.open(self.url, targets=[self.target()])

    def run(self, activity: Callable[[str], GateResult], to: str, environment: ActivityEnvironment | None = None) -> GateResult:
        """Run an activity, through a gate of its own."""
        with self.gate() as gate, bound_to(gate):
            return (environment or of_workflow(WORKFLOW)).run(activity, to)

    async def run_awaited(self, activity: Callable[[str], Awaitable[GateResult]], to: str, environment: Any = None) -> GateResult:
        """Run an activity on the event loop, through a gate of its own."""
        awaited = target("payout", effect=Payout)(self.provider.pay_awaited)
        async with AsyncGate.open(self.url, targets=[awaited]) as gate:
            with bound_to(gate):
                return await (environment or of_workflow(WORKFLOW)).run(activity, to)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A journal of one's own."""
    one = Stage(f"sqlite:///{tmp_path / 'journal.db'}", Provider())
    with one.gate() as gate:
        gate.approve("approval-1", by="user:1", expires_in_s=3600, uses=10)
    return one


def of_workflow(workflow_id: str | None, **info: Any) -> ActivityEnvironment:
    """Return the environment of an activity that this workflow started."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, workflow_id=workflow_id, **info)
    return environment


@contextmanager
def sending(stage: Stage) -> Iterator[None]:
    """Keep another gate in the middle of the send of the action."""
    with stage.gate() as gate:
        thread = threading.Thread(
            target=gate.fire, args=(f"payout:{WORKFLOW}", firing("slow").effect), kwargs={"approval": "approval-1"}
        )
        thread.start()
        assert stage.provider.entered.wait(PATIENCE_S)
        try:
            yield
        finally:
            stage.provider.go_on.set()
            thread.join()


def test_an_activity_commits_once_whatever_its_attempt_and_run(stage: Stage) -> None:
    """Another attempt, and another run of the same workflow, return what the first one brought about, and send nothing."""
    first = stage.run(pay_out, "customer-1", of_workflow(WORKFLOW, attempt=1, workflow_run_id="run-1", activity_id="1"))
    again = stage.run(pay_out, "customer-1", of_workflow(WORKFLOW, attempt=7, workflow_run_id="run-2", activity_id="9"))
    assert isinstance(first, CommittedResult)
    assert (first.key, first.happened, first.via, first.reference) == ("payout:case-1", "yes", "first-send", "po-1")
    assert again == first
    assert stage.provider.ledger == ["customer-1"]


def test_an_activity_on_an_event_loop_commits_once(stage: Stage) -> None:
    """The same with `async def`, through an AsyncGate."""
    first = asyncio.run(stage.run_awaited(pay_out_awaited, "customer-1"))
    again = asyncio.run(stage.run_awaited(pay_out_awaited, "customer-1"))
    assert isinstance(first, CommittedResult)
    assert again == first
    assert stage.provider.ledger == ["customer-1"]


def test_every_workflow_is_an_action_of_its_own(stage: Stage) -> None:
    """Two workflows pay out twice; an activity that no workflow started is named by its own id."""
    results = [stage.run(pay_out, "customer-1", of_workflow(name, activity_id="mine")) for name in ("case-1", "case-2", None)]
    assert [result.key for result in results] == ["payout:case-1", "payout:case-2", "payout:mine"]
    assert len(stage.provider.ledger) == 3


def test_a_refusal_is_a_result(stage: Stage) -> None:
    """A definite no comes back as data with its reason, and not as an error that is retried."""
    result = stage.run(pay_out, "closed")
    assert isinstance(result, RefusedResult)
    assert (result.happened, result.code, result.words) == ("no", "declined:account_closed", "the account is closed")


def test_an_action_that_nobody_can_know_about_is_a_result(stage: Stage) -> None:
    """Ambiguous comes back as data too, and another attempt sends nothing."""
    results = [stage.run(pay_out, "silent") for _ in range(2)]
    assert all(isinstance(result, AmbiguousResult) and result.happened == "unknown" for result in results)
    assert stage.provider.ledger == ["silent"]


def test_an_action_in_flight_is_waited_for(stage: Stage) -> None:
    """While another gate is at it the attempt waits, and returns what that one brought about."""
    with sending(stage):
        threading.Timer(0.3, stage.provider.go_on.set).start()
        result = stage.run(pay_out, "slow")
    assert isinstance(result, CommittedResult)
    assert stage.provider.ledger == ["slow"]


def test_an_action_that_stays_in_flight_is_left_to_the_next_attempt(stage: Stage) -> None:
    """The error says when to ask again, is retried, and is no failure in the metrics."""
    with sending(stage), pytest.raises(ApplicationError) as raised:
        stage.run(pay_out_in_a_hurry, "slow")
    assert (raised.value.type, raised.value.details, raised.value.non_retryable) == ("InFlight", ("held",), False)
    assert raised.value.next_retry_delay is not None
    assert raised.value.next_retry_delay >= timedelta(seconds=0.2)
    assert raised.value.category.name == "BENIGN"


def when_it_waits(act: Callable[[], None]) -> threading.Timer:
    """Do something a moment after the activity has begun to wait."""
    timer = threading.Timer(0.3, act)
    timer.start()
    return timer


def test_a_wait_ends_when_the_activity_is_cancelled(stage: Stage) -> None:
    """Nobody waits for the answer any more; the action goes on with whoever holds it."""
    environment = of_workflow(WORKFLOW)
    with sending(stage):
        when_it_waits(environment.cancel)
        with pytest.raises(CancelledError):
            stage.run(pay_out, "slow", environment)
    assert stage.provider.ledger == ["slow"]


def test_a_wait_ends_when_its_worker_does(stage: Stage) -> None:
    """A worker that is told to stop does not wait: another one asks, and soon. It is not taken for a cancellation."""
    environment = of_workflow(WORKFLOW)

    def shut_down() -> None:
        environment.worker_shutdown()
        environment.cancel(ActivityCancellationDetails(worker_shutdown=True))

    with sending(stage):
        when_it_waits(shut_down)
        with pytest.raises(ApplicationError) as raised:
            stage.run(pay_out, "slow", environment)
    assert raised.value.type == "InFlight"
    assert raised.value.next_retry_delay is not None
    assert raised.value.next_retry_delay < timedelta(seconds=1)


def test_a_wait_on_an_event_loop_ends_like_one_on_a_thread(stage: Stage) -> None:
    """Cancelled, or with its worker."""

    async def ends_by(end: Callable[[ActivityEnvironment], None]) -> None:
        environment = of_workflow(WORKFLOW)
        asyncio.get_running_loop().call_later(0.3, end, environment)
        await stage.run_awaited(pay_out_awaited, "slow", environment)

    with sending(stage):
        with pytest.raises((CancelledError, asyncio.CancelledError)):
            asyncio.run(ends_by(ActivityEnvironment.cancel))
        with pytest.raises(ApplicationError, match="in flight"):
            asyncio.run(ends_by(ActivityEnvironment.worker_shutdown))


def test_a_send_is_not_interrupted_by_a_cancellation(stage: Stage) -> None:
    """What was begun is finished and recorded, and the workflow hears of it."""
    environment = of_workflow(WORKFLOW)

    def cancel_it() -> None:
        assert stage.provider.entered.wait(PATIENCE_S)
        environment.cancel()
        stage.provider.go_on.set()

    threading.Thread(target=cancel_it).start()
    result = stage.run(pay_out, "slow", environment)
    assert isinstance(result, CommittedResult)
    assert stage.provider.ledger == ["slow"]


def test_a_send_on_an_event_loop_is_not_interrupted_by_a_cancellation(stage: Stage) -> None:
    """The same with `async def`, however often: the cancellations wait for the send."""

    async def run() -> GateResult:
        environment = of_workflow(WORKFLOW)
        running = asyncio.create_task(stage.run_awaited(pay_out_awaited, "slow", environment))
        assert await asyncio.to_thread(stage.provider.entered.wait, PATIENCE_S)
        environment.cancel()
        for _ in range(2):  # more of them, as from a worker that ends while it waits for a cancelled one
            await asyncio.sleep(0.1)
            running.cancel()
        await asyncio.sleep(0.1)
        stage.provider.go_on.set()
        return await running

    assert isinstance(asyncio.run(run()), CommittedResult)
    assert stage.provider.ledger == ["slow"]


def test_an_activity_that_was_cancelled_before_it_began_does_nothing(stage: Stage) -> None:
    """Nothing is written and nothing is sent."""
    environment = of_workflow(WORKFLOW)
    environment.cancel()
    with pytest.raises(CancelledError):
        stage.run(pay_out, "customer-1", environment)
    with stage.gate() as gate:
        assert gate.receipts().receipts == ()
    assert stage.provider.ledger == []


def test_another_effect_under_the_same_workflow_is_an_error_that_is_not_retried(stage: Stage) -> None:
    """A function whose answer does not follow from its arguments is found out, and nothing is sent for it."""
    stage.run(pay_out, "customer-1")
    with pytest.raises(ApplicationError) as raised:
        stage.run(pay_out, "customer-2")
    assert (raised.value.type, raised.value.non_retryable) == ("ActionMismatch", True)
    assert stage.provider.ledger == ["customer-1"]


def test_what_can_not_be_fired_at_all_is_not_retried(stage: Stage) -> None:
    """An effect that is wrong already where the function makes it fails the activity for good."""

    @gated("payout")
    def wrong(to: str) -> Firing:
        raise InvalidEffect(f"{to} is none")

    with pytest.raises(ApplicationError) as raised:
        stage.run(wrong, "customer-1")
    assert (raised.value.type, raised.value.non_retryable) == ("InvalidEffect", True)


def test_a_worker_without_the_gate_or_the_target_leaves_it_to_another(stage: Stage) -> None:
    """It says what it lacks, and the error is retried: in a deployment that is under way, another worker has it."""
    with pytest.raises(ApplicationError, match=r"plugins=\[GatePlugin\(gate\)\]") as raised:
        of_workflow(WORKFLOW).run(pay_out, "customer-1")
    assert not raised.value.non_retryable
    with Gate.open(stage.url) as gate, bound_to(gate), pytest.raises(ApplicationError) as raised:
        of_workflow(WORKFLOW).run(pay_out, "customer-1")
    assert (raised.value.type, raised.value.non_retryable) == ("UnknownTarget", False)


def test_the_wrong_kind_of_gate_is_named(stage: Stage) -> None:
    """An activity with `def` needs a Gate, and one with `async def` an AsyncGate."""

    async def run() -> None:
        async with AsyncGate.open(stage.url) as awaited:
            with bound_to(awaited), pytest.raises(ApplicationError, match="a Gate, and this worker has none"):
                of_workflow(WORKFLOW).run(pay_out, "customer-1")
        with (
            stage.gate() as gate,
            bound_to(gate),
            pytest.raises(ApplicationError, match="an AsyncGate, and this worker has none"),
        ):
            await of_workflow(WORKFLOW).run(pay_out_awaited, "customer-1")

    asyncio.run(run())


def test_a_worker_has_one_gate_of_a_kind(stage: Stage) -> None:
    """Two of a kind are refused where the worker is made."""
    with stage.gate() as one, stage.gate() as other, pytest.raises(InvalidConfiguration):
        GatePlugin(one, other)


@pytest.mark.parametrize(
    "error",
    [
        JournalUnavailable("down"),
        PremiseUnreadable("unreadable"),
        OutcomeNotRecorded("k", Evidence(reference="r", state="s", settlement=Settlement.FINAL, json="{}"), "why"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_be_mended_is_retried_under_its_own_name(error: Exception) -> None:
    """A journal that is down, a fact that can't be read, an answer that could not be recorded: the same key is fired again."""
    assert isinstance(error, (JournalUnavailable, PremiseUnreadable, OutcomeNotRecorded))
    failure = failure_of(error)
    assert (failure.type, failure.non_retryable) == (type(error).__name__, False)


def test_a_failure_carries_no_cause(stage: Stage) -> None:
    """What the journal's driver says may name hosts and users, and a workflow's history keeps it."""
    with pytest.raises(ApplicationError) as raised:
        of_workflow(WORKFLOW).run(pay_out, "customer-1")
    assert raised.value.__cause__ is None
    assert stage.provider.ledger == []


def test_the_recovery_activity_ends_what_nobody_asks_about(stage: Stage) -> None:
    """Through a Gate or an AsyncGate, it brings an intent to its end that was made durable and left alone."""
    with stage.gate() as gate:
        gate.propose("payout:left", firing("customer-1").effect, approval="approval-1")

    async def recover() -> list[Any]:
        reports = []
        with stage.gate() as gate, bound_to(gate):
            reports.append(await ActivityEnvironment().run(recovery_activity))
            gate.propose("payout:left-too", firing("closed").effect, approval="approval-1")
        async with AsyncGate.open(stage.url, targets=[stage.target()]) as awaited:
            with bound_to(awaited):
                reports.append(await ActivityEnvironment().run(recovery_activity))
        return reports

    reports = asyncio.run(recover())
    assert [(report.ended, report.in_flight, report.skipped, report.failed) for report in reports] == [(1, 0, {}, {})] * 2
    with stage.gate() as gate:
        assert isinstance(gate.fire("payout:left", firing("customer-1").effect, approval="approval-1"), Committed)
    assert stage.provider.ledger == ["customer-1"]


def test_every_recommended_option_has_its_reason() -> None:
    """Options and reasons are the same set, and each reason names where it is written."""
    assert {*RECOMMENDED.activity, *RECOMMENDED.worker} == set(RECOMMENDED.reasons)
    assert all("temporal.io" in reason for reason in RECOMMENDED.reasons.values())


def test_an_attempt_may_take_as_long_as_the_gate_does() -> None:
    """The start-to-close time-out is longer than the wait and the sends of a pass together."""
    options = Recommended(send_deadline_s=50, wait_s=25)
    assert options.activity["start_to_close_timeout"] > timedelta(seconds=25 + 2 * 50)
