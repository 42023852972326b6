"""From the SIGKILL of a worker in the middle of a send until its workflow is closed: how long. LOCAL: the Stripe stand-in.

python -m harness.temporal.crash_to_close [--runs 5] [--variants recommended,uncached,sticky,default]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from temporalio.client import Client, WorkflowHandle

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay
from harness.temporal.measured import AMOUNT_MINOR, VARIANTS, Case, Measured
from harness.temporal.server import TemporalServer
from interlock import Gate
from interlock.stripe import StripeRefunds

COLUMNS = ("by-hand", "through-the-gate")
_ROOT = Path(__file__).resolve().parents[2]
_LONGEST_S = 120.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")


@dataclass
class Cell:
    """What was measured of one column with one variant of the options: seconds, and attempts."""

    took_s: list[float] = field(default_factory=list[float])
    attempts: list[int] = field(default_factory=list[int])

    def __str__(self) -> str:
        spread = f"{min(self.took_s):.1f} to {max(self.took_s):.1f}"
        return f"{statistics.median(self.took_s):.1f} s ({spread}), {max(self.attempts)} attempts"


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it is measured."""

    server: TemporalServer
    standin: StripeStandIn
    folder: Path

    async def once(self, column: str, variant: str, after_s: float, cell: Cell) -> None:
        """Let one worker die so long after its send began, while another one is there, and wait for the end."""
        queue, journal = f"q-{uuid4().hex}", f"sqlite:///{self.folder / uuid4().hex}.db"
        case = self._case(journal)
        client = await Client.connect(self.server.address)
        with self._worker(queue, journal, variant) as one, self._worker(queue, journal, variant) as other:
            self.standin.arm(FaultKind.HOLD, seconds=_LONGEST_S)
            handle = await client.start_workflow(Measured.run, args=[case, column, variant], id=case.id, task_queue=queue)
            await asyncio.to_thread(self.standin.wait_until_held_back)
            await asyncio.sleep(after_s)
            doomed = one if await _is_at(one, handle) else other
            doomed.kill()
            began_s = time.monotonic()
            self.standin.release()
            async with asyncio.timeout(_LONGEST_S):
                await handle.result()
            cell.took_s.append(time.monotonic() - began_s)
        cell.attempts.append(await _attempts(handle))
        assert [one.amount for one in refunds_of(self.standin.ledger_path, case.payment)] == [AMOUNT_MINOR]

    def _case(self, journal: str) -> Case:
        payment = pay(connect(self.standin)).id
        case = Case(f"case-{payment}", payment, StripeRefunds(LOCAL_API_KEY, api_base=self.standin.api_base).observe(payment))
        with Gate.open(journal) as gate:
            gate.approve(case.id, by="user:17", expires_in_s=3600, cap_minor=AMOUNT_MINOR, currency="usd")
        return case

    @contextmanager
    def _worker(self, queue: str, journal: str, variant: str) -> Iterator[subprocess.Popen[str]]:
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "harness.temporal.measured",
                self.server.address,
                queue,
                journal,
                self.standin.api_base,
                variant,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": str(_ROOT), "NO_PROXY": "127.0.0.1"},
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                yield process
            finally:
                process.kill()


async def _is_at(process: subprocess.Popen[str], handle: WorkflowHandle[Measured, None]) -> bool:
    described = await handle.describe()
    (activity,) = described.raw_description.pending_activities
    return activity.last_worker_identity.startswith(f"{process.pid}@")


async def _attempts(handle: WorkflowHandle[Measured, None]) -> int:
    events = [event async for event in handle.fetch_history_events()]
    return max(event.activity_task_started_event_attributes.attempt for event in events)


def main() -> int:
    """Measure, alternating between the columns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    chosen = parser.parse_args()
    print(f"LOCAL. From SIGKILL to closed, median (least to most) of {chosen.runs}; load {os.getloadavg()[0]:.1f}\n")
    print(f"| options | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    with TemporaryDirectory(prefix="crash-") as name, TemporalServer.start() as server:
        folder = Path(name)
        with StripeStandIn(folder / "ledger.jsonl") as standin:
            bench = Bench(server, standin, folder)
            for variant in chosen.variants.split(","):
                cells = {column: Cell() for column in COLUMNS}
                for _ in range(chosen.runs):
                    # The server looks at heartbeats in a rhythm of its own, so both columns die at the same, changing, beat.
                    after_s = random.uniform(1, 3)
                    for column, cell in cells.items():
                        asyncio.run(bench.once(column, variant, after_s, cell))
                print(f"| {VARIANTS[variant].words} | {' | '.join(map(str, cells.values()))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
