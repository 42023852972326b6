"""What a dead worker left is finished by the next one at its start, and Temporal is told without having noticed the death."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import stripe
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle

from harness.standins.stripe.faults import FaultKind
from interlock import Receipts
from interlock.temporal import CommittedResult, RefusedResult
from interlock.temporal.abandoned import finishing_abandoned
from tests.integration.temporal_desk import LONGEST_S, Desk, attempts, pending, result_of
from tests.integration.temporal_refunds import Case
from tests.integration.temporal_workflows import InNoHurry, OneIdTwice, RefundCase

_ON_A_THREAD = False


async def _left_in_the_middle(desk: Desk, fault: FaultKind, *cases: Case) -> list[WorkflowHandle[Any, Any]]:
    """Start workflows, and kill their worker while its requests are at the provider, or on their way there."""
    desk.standin.arm(fault, times=len(cases), seconds=LONGEST_S)
    doomed = await asyncio.to_thread(desk.process)
    handles = []
    for count, case in enumerate(cases, 1):
        handles.append(await desk.start(case, InNoHurry.run))
        await asyncio.to_thread(desk.standin.wait_until_held_back, count)
    doomed.kill()
    await asyncio.to_thread(doomed.wait)
    return handles


def test_the_next_worker_answers_for_the_attempt_that_the_last_one_died_in(desk: Desk) -> None:
    """With time-outs of ten minutes the workflow goes on at once, at its first attempt, and the money moved once.

    Nor does it wait for the dead worker's sticky queue, whose time-out would be in its history.
    """
    case = desk.case()

    async def run() -> tuple[Any, list[int], set[Any]]:
        (handle,) = await _left_in_the_middle(desk, FaultKind.HOLD, case)
        desk.standin.release()
        async with desk.worker():
            result = await result_of(handle)
            kinds = {event.event_type async for event in handle.fetch_history_events()}
            return result, await attempts(handle), kinds

    result, ended_at, kinds = asyncio.run(run())
    assert isinstance(result, CommittedResult)
    assert result.amount_minor == 2000
    assert ended_at == [1]
    assert EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT not in kinds
    assert desk.refunded(case) == [2000]


def test_a_refusal_is_told_as_well(desk: Desk) -> None:
    """The request was still on its way, and the approval was revoked: the key is burned, and what arrives later moves nothing."""
    case = desk.case()

    async def run() -> Any:
        (handle,) = await _left_in_the_middle(desk, FaultKind.DELAY_LANDING, case)
        desk.revoke(case)
        async with desk.worker():
            result = await result_of(handle)
        desk.standin.release()
        return result

    result = asyncio.run(run())
    assert isinstance(result, RefusedResult)
    assert (result.code, result.door) == ("approval_revoked", "burned")
    assert desk.refunded(case) == []


def test_a_workflow_that_is_over_is_left_alone(desk: Desk) -> None:
    """It was terminated meanwhile: its action is finished all the same, and the next workflow is told of its own."""
    over, waiting = desk.case(), desk.case()

    async def run() -> tuple[Any, list[int]]:
        terminated, handle = await _left_in_the_middle(desk, FaultKind.HOLD, over, waiting)
        desk.standin.release()
        await terminated.terminate()
        async with desk.worker():
            return await result_of(handle), await attempts(handle)

    result, ended_at = asyncio.run(run())
    assert isinstance(result, CommittedResult)
    assert ended_at == [1]
    assert desk.status(over) == "COMMITTED"
    assert [desk.refunded(case) for case in (over, waiting)] == [[2000], [2000]]


def test_an_attempt_that_already_runs_is_left_alone(desk: Desk) -> None:
    """A second worker that starts while the first one is at work takes nothing from it, and completes nothing."""
    case = desk.case()
    desk.standin.arm(FaultKind.HOLD, seconds=LONGEST_S)

    async def run() -> tuple[Any, list[int]]:
        async with desk.worker():
            handle = await desk.start(case, InNoHurry.run)
            await asyncio.to_thread(desk.standin.wait_until_held_back)
            await asyncio.to_thread(desk.process)
            desk.standin.release()
            return await result_of(handle), await attempts(handle)

    result, ended_at = asyncio.run(run())
    assert (result.via, ended_at) == ("first-send", [1])
    assert desk.refunded(case) == [2000]


def test_a_later_activity_of_the_same_id_is_left_alone(desk: Desk, client: stripe.StripeClient, tmp_path: Path) -> None:
    """A workflow gave up on one, and gave its id to the next: that one is not told what became of the first one's action."""
    first, second = desk.case(), desk.case()
    elsewhere = Desk(desk.address, desk.standin, client, tmp_path, desk.journal)

    async def run() -> tuple[bool, Any]:
        async with desk.worker():
            doomed = await asyncio.to_thread(elsewhere.process)
            desk.standin.arm(FaultKind.DELAY_LANDING, seconds=LONGEST_S)
            handle = await desk.start(first, OneIdTwice.run, second, elsewhere.queue)
            await asyncio.to_thread(desk.standin.wait_until_held_back, 1)
            desk.standin.arm(FaultKind.HOLD, seconds=LONGEST_S)
            doomed.kill()
            await asyncio.to_thread(doomed.wait)
            await asyncio.to_thread(desk.standin.wait_until_held_back, 2)
            with desk.gate() as gate:
                async with finishing_abandoned(await desk.connect(), gate), asyncio.timeout(LONGEST_S):
                    while desk.status(first) != "COMMITTED":  # noqa: ASYNC110 - written by a task of the adapter's own
                        await asyncio.sleep(0.05)
                    await asyncio.sleep(1)
            waits = await pending(handle) is not None
            desk.standin.release()
            return waits, await result_of(handle)

    with elsewhere:
        waits, result = asyncio.run(run())
    assert waits
    assert result.key == f"refund:{second.id}"
    assert [desk.refunded(case) for case in (first, second)] == [[2000], [2000]]


def test_the_receipt_names_the_activity(desk: Desk) -> None:
    """Workflow, run, activity and when it was scheduled stand beside the decision: so the next worker knows whom to tell."""
    case = desk.case()

    async def run() -> WorkflowHandle[Any, Any]:
        async with desk.worker():
            handle = await desk.start(case, RefundCase.run, _ON_A_THREAD)
            await result_of(handle)
            return handle

    handle = asyncio.run(run())
    with Receipts.open(desk.journal) as receipts:
        said = receipts.receipt(f"refund:{case.id}").decision_json or ""
    place = json.loads(said)["temporal"]
    assert datetime.fromisoformat(place.pop("scheduled")).tzinfo is UTC
    assert place == {"workflow": case.id, "run": handle.result_run_id, "activity": "1"}


def test_a_journal_that_can_not_be_used_does_not_end_the_worker(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """It is said in the log, and the worker works; what was left is left to the attempts."""
    gate = desk.gate()
    gate.close()

    async def run() -> None:
        async with finishing_abandoned(await desk.connect(), gate):
            async with asyncio.timeout(LONGEST_S):
                while not caplog.records:  # noqa: ASYNC110 - it is written by a task of the adapter's own
                    await asyncio.sleep(0.01)

    asyncio.run(run())
    assert "is left to the next attempts: GateClosed" in caplog.text
