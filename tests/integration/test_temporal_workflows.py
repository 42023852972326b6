"""Workflows on a real Temporal server, with the gate as the body of their activity: what they are told, and what was refunded."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import stripe
from temporalio.worker import Replayer

from harness.postgres.server import PostgresServer
from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.temporal.server import TemporalServer
from interlock.temporal import RECOMMENDED, CommittedResult, GatePlugin, ensure_recovery_schedule
from tests.integration.temporal_desk import LONGEST_S, ROOT, Desk, attempts, pending, result_of
from tests.integration.temporal_workflows import RefundCase, SayHowItEnded

TWO_HEARTBEAT_TIMEOUTS_S = 2 * RECOMMENDED.heartbeat_timeout_s


async def until(is_so: Any) -> None:
    """Wait until something is so; a time-out, where it never is."""
    async with asyncio.timeout(LONGEST_S):
        while not await is_so():  # noqa: ASYNC110 - it is so elsewhere, in another process
            await asyncio.sleep(0.05)


def test_a_workflow_matches_on_what_became_of_its_action(desk: Desk) -> None:
    """Committed and refused are told apart in the sandbox, and the ledger has the one that was said to be committed."""
    to_refund, revoked = desk.case(), desk.case()
    desk.revoke(revoked)

    async def run() -> list[str]:
        async with desk.worker():
            return [await result_of(await desk.start(case)) for case in (to_refund, revoked)]

    assert asyncio.run(run()) == ["committed 2000 usd by first-send", "refused: approval_revoked"]
    assert (desk.refunded(to_refund), desk.refunded(revoked)) == ([2000], [])


def test_the_workflow_file_passes_nothing_through_the_sandbox_by_hand() -> None:
    """The file that the other tests run imports the gate and the provider like anything else."""
    text = (ROOT / "tests/integration/temporal_workflows.py").read_text(encoding="utf-8")
    assert "imports_passed_through" not in text
    assert re.search(r"^from interlock.stripe import", text, re.MULTILINE)
    assert re.search(r"^from interlock.temporal import", text, re.MULTILINE)


def test_both_kinds_of_activity_return_a_typed_result(desk: Desk) -> None:
    """Through a Gate on a thread and through an AsyncGate on the event loop: the same result, once converted."""
    cases = {False: desk.case(), True: desk.case()}

    async def run() -> list[Any]:
        async with desk.worker():
            client = await desk.connect()
            ended = []
            for awaited, case in cases.items():
                handle = await client.start_workflow(RefundCase.run, args=[case, awaited], id=case.id, task_queue=desk.queue)
                ended.append(await result_of(handle))
            return ended

    results = asyncio.run(run())
    assert all(isinstance(result, CommittedResult) for result in results)
    assert [(result.happened, result.amount_minor) for result in results] == [("yes", 2000)] * 2
    assert [desk.refunded(case) for case in cases.values()] == [[2000], [2000]]


def test_a_replayer_needs_no_gate(desk: Desk) -> None:
    """A history is replayed in the sandbox, as in a check before a deployment, without a journal or a provider."""

    async def run() -> Exception | None:
        async with desk.worker():
            handle = await desk.start(desk.case())
            await result_of(handle)
        replayer = Replayer(workflows=[SayHowItEnded], plugins=[GatePlugin()])
        replayed = await replayer.replay_workflow(await handle.fetch_history(), raise_on_replay_failure=False)
        return replayed.replay_failure

    assert asyncio.run(run()) is None


def test_a_worker_that_is_told_to_stop_finishes_its_send(desk: Desk) -> None:
    """The first attempt is the only one, and another worker goes on with the workflow."""
    case = desk.case()
    desk.standin.arm(FaultKind.HOLD, seconds=LONGEST_S)

    async def run() -> tuple[str, list[int]]:
        async with desk.worker():
            handle = await desk.start(case)
            await asyncio.to_thread(desk.standin.wait_until_held_back)
            threading.Timer(1, desk.standin.release).start()
        async with desk.worker():
            return await result_of(handle), await attempts(handle)

    assert asyncio.run(run()) == ("committed 2000 usd by first-send", [1])
    assert desk.refunded(case) == [2000]


@pytest.mark.usefixtures("healthy")
def test_what_nobody_can_know_ends_the_workflow_as_ambiguous(
    temporal_server: TemporalServer, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path
) -> None:
    """An answer is lost, and the provider can be asked nothing: the workflow hears that nobody knows, and sends nothing again."""
    mute: dict[str, Any] = {"lookup": False, "burn": False, "dedupe_window_s": None}
    with Desk(temporal_server.address, standin, client, tmp_path, **mute) as desk:
        case = desk.case()
        desk.standin.arm(FaultKind.DROP_AFTER_COMMIT)

        async def run() -> str:
            async with desk.worker():
                said: str = await result_of(await desk.start(case))
                return said

        assert asyncio.run(run()).startswith("ambiguous: ")
        assert desk.refunded(case) == [2000]


def test_a_send_that_blocks_is_not_taken_for_a_crash(desk: Desk) -> None:
    """Heartbeats go on beside a call that blocks for longer than their time-out: one attempt, of either kind of activity."""
    cases = {False: desk.case(), True: desk.case()}
    desk.standin.arm(FaultKind.HOLD, times=2, seconds=LONGEST_S)

    async def run() -> list[list[int]]:
        async with desk.worker():
            handles = [await desk.start(case, RefundCase.run, awaited) for awaited, case in cases.items()]
            await asyncio.to_thread(desk.standin.wait_until_held_back, 2)
            await asyncio.sleep(TWO_HEARTBEAT_TIMEOUTS_S)
            desk.standin.release()
            for handle in handles:
                await result_of(handle)
            return [await attempts(handle) for handle in handles]

    assert asyncio.run(run()) == [[1], [1]]
    assert [desk.refunded(case) for case in cases.values()] == [[2000], [2000]]


def test_a_cancelled_workflow_hears_what_became_of_its_send(desk: Desk) -> None:
    """The cancellation waits for the send that was begun; its result is the workflow's, and it is sent once."""
    case = desk.case()
    desk.standin.arm(FaultKind.HOLD, seconds=LONGEST_S)

    async def run() -> str:
        async with desk.worker():
            handle = await desk.start(case)
            await asyncio.to_thread(desk.standin.wait_until_held_back)
            await handle.cancel()
            await asyncio.sleep(1)
            desk.standin.release()
            said: str = await result_of(handle)
            return said

    assert asyncio.run(run()) == "committed 2000 usd by first-send"
    assert desk.refunded(case) == [2000]


def test_a_worker_killed_in_the_middle_of_a_send_is_closed_by_another(desk: Desk) -> None:
    """The other one waits while the provider is still at work on it, and commits at the third attempt at the latest."""
    case = desk.case()
    desk.standin.arm(FaultKind.HOLD, seconds=LONGEST_S)

    async def run() -> tuple[str, list[int]]:
        doomed = await asyncio.to_thread(desk.process)
        handle = await desk.start(case)
        await asyncio.to_thread(desk.standin.wait_until_held_back)
        async with desk.worker():
            doomed.send_signal(signal.SIGKILL)

            async def another_is_at_it() -> bool:
                activity = await pending(handle)
                return activity is not None and activity.attempt > 1 and activity.state == _STARTED

            await until(another_is_at_it)
            await asyncio.sleep(1)
            assert desk.status(case) == "IN_FLIGHT"
            desk.standin.release()
            return await result_of(handle), await attempts(handle)

    said, ended_at = asyncio.run(run())
    assert said.startswith("committed 2000 usd by ")
    assert ended_at[0] <= 3
    assert desk.refunded(case) == [2000]


_STARTED = 2
"""PendingActivityState.STARTED of Temporal's API."""


def test_a_schedule_recovers_what_no_workflow_asks_about(desk: Desk) -> None:
    """An intent that its program left behind is carried out by whichever worker is free; the schedule may be made again."""
    case = desk.case()
    effect = desk.stripe.refund(payment=case.payment, amount_minor=2000, currency="usd", reference=case.id)

    def propose() -> None:
        with desk.gate() as gate:
            gate.propose(f"refund:{case.id}", effect, approval=case.id, premises=[case.seen])

    async def recovered() -> bool:
        return await asyncio.to_thread(desk.status, case) == "COMMITTED"

    async def run() -> None:
        async with desk.worker():
            client = await desk.connect()
            await result_of(await desk.start(desk.case()))  # what the worker does at its start is over
            await asyncio.to_thread(propose)
            await ensure_recovery_schedule(client, task_queue=desk.queue, every_s=3600)
            schedule_id = await ensure_recovery_schedule(client, task_queue=desk.queue, every_s=1)
            await until(recovered)
            await client.get_schedule_handle(schedule_id).delete()

    asyncio.run(run())
    assert desk.refunded(case) == [2000]


@contextmanager
def killed(server: PostgresServer | TemporalServer) -> Iterator[None]:
    """Kill a server, and start it again on what it had written."""
    server.kill()
    try:
        yield
    finally:
        server.restart()


@pytest.mark.usefixtures("healthy")
def test_a_worker_whose_journal_is_unreachable_sends_nothing_and_goes_on_when_it_is_back(
    temporal_server: TemporalServer, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path
) -> None:
    """Each attempt fails under the name of what is wrong; nothing is refunded meanwhile, and once afterwards."""
    with PostgresServer.start(in_memory=True) as postgres:
        journal = postgres.create_database("journal")
        with Desk(temporal_server.address, standin, client, tmp_path, journal) as desk:
            case = desk.case()

            async def run() -> tuple[str, str]:
                async with desk.worker():
                    with killed(postgres):
                        handle = await desk.start(case)

                        async def says_so() -> bool:
                            activity = await pending(handle)
                            return activity is not None and activity.attempt > 1 and activity.HasField("last_failure")

                        await until(says_so)
                        failure = (await pending(handle)).last_failure
                        assert desk.refunded(case) == []
                    return failure.application_failure_info.type, await result_of(handle)

            assert asyncio.run(run()) == ("JournalUnavailable", "committed 2000 usd by first-send")
            assert desk.refunded(case) == [2000]


@pytest.mark.usefixtures("healthy")
def test_a_temporal_server_that_is_killed_loses_nothing(
    standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path
) -> None:
    """It dies while an activity is in the middle of its send, and ends the workflow when it is back; it is refunded once."""
    with TemporalServer.start() as server, Desk(server.address, standin, client, tmp_path) as desk:
        case = desk.case()
        desk.standin.arm(FaultKind.HOLD, seconds=LONGEST_S)

        async def run() -> str:
            async with desk.worker():
                handle = await desk.start(case)
                await asyncio.to_thread(desk.standin.wait_until_held_back)
                with killed(server):
                    desk.standin.release()
                    await asyncio.sleep(1)
                said: str = await result_of(handle)
                return said

        assert asyncio.run(run()).startswith("committed 2000 usd by ")
        assert desk.refunded(case) == [2000]


def test_a_server_ends_with_the_process_that_started_it() -> None:
    """Also where that process is killed, and leaves nothing of it behind."""
    program = "import time; from harness.temporal.server import TemporalServer; server = TemporalServer.start(); "
    program += "print(server.pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        starter.kill()
    until_s = time.monotonic() + LONGEST_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until_s
        time.sleep(0.05)
