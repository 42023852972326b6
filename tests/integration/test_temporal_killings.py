"""Many workflows at once, whose workers are killed again and again."""

import asyncio
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import stripe

from harness.standins.stripe.client import StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.temporal.server import TemporalServer
from interlock.temporal import RECOMMENDED
from tests.integration.temporal_desk import Desk
from tests.integration.temporal_refunds import Case

ENDS_WITHIN_S = 300.0
THREADS = 2


@dataclass(frozen=True, slots=True)
class Storm:
    """How many workflows there are, and what their workers go through.

    Args:
        workflows: how many, all started at once.
        workers: how many processes.
        send_s: how long the provider takes for a refund, in seconds.
        kill_every_s: how often one of the workers is killed, and replaced, in seconds.
        lasts_s: for how long, in seconds.
    """

    workflows: int
    workers: int
    send_s: float
    kill_every_s: float
    lasts_s: float

    async def run(self, desk: Desk, cases: list[Case]) -> list[str]:
        """Start the workflows, kill workers, leave them alone, and return what the workflows said in the end."""
        desk.standin.arm(FaultKind.HOLD, times=1_000_000, seconds=self.send_s)
        workers = [await asyncio.to_thread(desk.process, THREADS) for _ in range(self.workers)]
        handles = [await desk.start(case) for case in cases]
        await self._kill(desk, workers)
        async with asyncio.timeout(ENDS_WITHIN_S):
            said: list[str] = await asyncio.gather(*(handle.result() for handle in handles))
        return said

    async def _kill(self, desk: Desk, workers: list[subprocess.Popen[str]]) -> None:
        chance, until_s = random.Random(0), asyncio.get_running_loop().time() + self.lasts_s
        while asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(self.kill_every_s)
            doomed = chance.randrange(len(workers))
            workers[doomed].kill()
            workers[doomed] = await asyncio.to_thread(desk.process, THREADS)


SHORT = Storm(workflows=5, workers=2, send_s=1.5, kill_every_s=1, lasts_s=4)
LONG = Storm(workflows=20, workers=3, send_s=10, kill_every_s=2, lasts_s=60)


@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize(
    "storm", [SHORT, pytest.param(LONG, marks=[pytest.mark.long, pytest.mark.timeout(600)])], ids=["short", "long"]
)
def test_every_workflow_ends_and_exactly_what_was_approved_is_refunded(
    storm: Storm, temporal_server: TemporalServer, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path
) -> None:
    """Every fifth approval was revoked before; the others are refunded once each, and no attempt outlasts its deadline."""
    with Desk(temporal_server.address, standin, client, tmp_path) as desk:
        cases = [desk.case() for _ in range(storm.workflows)]
        revoked = cases[::5]
        for case in revoked:
            desk.revoke(case)
        said = asyncio.run(storm.run(desk, cases))
        deadline_s = RECOMMENDED.activity["start_to_close_timeout"].total_seconds()
        durations = [float(line) for line in desk.durations.read_text(encoding="utf-8").split()]
    assert [words.split()[0] for words in said] == ["refused:" if case in revoked else "committed" for case in cases]
    assert [desk.refunded(case) for case in cases] == [[] if case in revoked else [2000] for case in cases]
    recovered = [words for words in said if words.startswith("committed") and not words.endswith("first-send")]
    assert len(recovered) >= storm.workflows // 5, "the workers were killed beside the work, and not in it"
    assert max(durations) <= deadline_s
