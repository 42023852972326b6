"""The conductor: starts the workers, kills them, cuts connections, kills the database, and lets everything end."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryDirectory

import psycopg

from harness.postgres.server import PostgresServer
from harness.proxy import Proxy
from harness.soak import provider, worker
from harness.soak.judge import Record, record_of, violations
from harness.soak.plan import IMMORTAL, Plan
from harness.soak.samples import Samples

_SAMPLE_S = 2.0
_STEP_S = 0.05
_STOP_S = 60.0
_FINISH_S = 180.0
_OVERTIME = 3
"""How often the duration may pass on a machine that is too slow for the number of actions."""

# Forked from a server with one thread that has imported everything: no lock of this process is inherited, and a start is quick.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["interlock.gate", "interlock.infrastructure.postgres.journal", "harness.soak.worker"])


@dataclass(slots=True)
class Result:
    """What a soak came to.

    Args:
        record: what it left.
        violations: what must never be.
        happened: how often what was done to it.
        samples: what had to stay flat.
        fired_s: for how long actions were fired.
        finished_s: how long it took to end what was in flight then.
    """

    record: Record
    violations: list[str]
    happened: Counter[str]
    samples: Samples
    fired_s: float
    finished_s: float


def play(plan: Plan, folder: Path | None = None) -> Result:
    """Play a soak on a server of its own, and judge it.

    Args:
        plan: what it is made of.
        folder: where its files go; a temporary one by default.
    """
    with TemporaryDirectory(prefix="soak-", dir=folder) as name, PostgresServer.start(tcp=True) as server:
        server.create_database("soak")
        with Proxy(("127.0.0.1", server.port)) as proxy:
            conductor = _Conductor(plan, Path(name), server, proxy)
            try:
                conductor.start()
                fired_s = conductor.conduct()
                conductor.stop()
                finished_s = conductor.finish()
                record = record_of(conductor.url, conductor.ledger, conductor.folder)
            finally:
                conductor.end()
        found = [*conductor.findings, *violations(record), *conductor.samples.growth()]
        return Result(record, found, conductor.happened, conductor.samples, fired_s, finished_s)


@dataclass(slots=True)
class _Worker:
    process: ForkServerProcess
    life: int


@dataclass
class _Conductor:
    plan: Plan
    folder: Path
    server: PostgresServer
    proxy: Proxy
    findings: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    samples: Samples = field(default_factory=Samples)
    workers: dict[int, _Worker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random, self._cuts = random.Random(self.plan.seed), 0
        self._actions = 0
        self.url, self.ledger = self.server.url("soak"), self.folder / "ledger.jsonl"

    def start(self) -> None:
        """Start the provider and the workers."""
        self._line, theirs = multiprocessing.Pipe()
        self._provider = _CONTEXT.Process(target=provider.serve, args=(self.ledger, self.plan.seed, theirs), daemon=True)
        self._provider.start()
        theirs.close()
        self._port = int(self._line.recv())
        for slot in range(self.plan.workers):
            self._start(slot, life=0)

    def conduct(self) -> float:
        """Let them work, and do to them what the plan says; return for how long."""
        began_s = time.monotonic()
        due = {
            self._kill_a_worker: self.plan.kill_every_s,
            self._restart_the_database: self.plan.restart_every_s,
            self._cut_connections: self.plan.cut_every_s,
            self._sample: _SAMPLE_S,
        }
        at_s = {what: began_s + self._soon(what, every_s) for what, every_s in due.items()}
        while self._goes_on(time.monotonic() - began_s):
            self._start_again_who_died()
            for what in [what for what, when_s in at_s.items() if time.monotonic() >= when_s]:
                what()
                at_s[what] = time.monotonic() + self._soon(what, due[what])
            time.sleep(_STEP_S)
        return time.monotonic() - began_s

    def _goes_on(self, passed_s: float) -> bool:
        plan = self.plan
        return passed_s < plan.duration_s or (self._actions < plan.least_actions and passed_s < _OVERTIME * plan.duration_s)

    def stop(self) -> None:
        """Ask all workers to stop, and wait until they have."""
        for one in self.workers.values():
            one.process.terminate()
        for slot, one in self.workers.items():
            one.process.join(_STOP_S)
            if one.process.exitcode is None:
                self.findings.append(f"worker {slot} did not stop within {_STOP_S:g} s")
                one.process.kill()
                one.process.join()
            elif one.process.exitcode not in (0, -SIGKILL):
                self.findings.append(f"worker {slot} ended with exit code {one.process.exitcode}")

    def finish(self) -> float:
        """Recover until nothing is in flight; return how long that took."""
        began_s = time.monotonic()
        with worker.Site(self.url, self._port, self.folder, 0, 0, 0).gate() as gate:
            while gate.receipts(status="IN_FLIGHT", limit=1).receipts and time.monotonic() < began_s + _FINISH_S:
                failed = gate.recover().failed
                self.findings += [f"the last recovery met {error!r} at {key}" for key, error in failed.items()]
                time.sleep(_STEP_S)
        return time.monotonic() - began_s

    def end(self) -> None:
        """End every process."""
        for one in (*(one.process for one in self.workers.values()), self._provider):
            one.kill()
            one.join()
        self._line.close()

    def _start(self, slot: int, life: int) -> None:
        # Half of them reach the database through a proxy, which cuts their connections in the middle of whatever it is.
        url = self.server.url("soak", port=self.proxy.port) if slot % 2 else self.url
        site = worker.Site(url, self._port, self.folder, slot, life, self.plan.workers / self.plan.actions_per_s)
        process = _CONTEXT.Process(target=worker.live, args=(site,), daemon=True)
        process.start()
        self.workers[slot] = _Worker(process, life)

    def _start_again_who_died(self) -> None:
        for slot, one in list(self.workers.items()):
            if one.process.exitcode is not None:
                if one.process.exitcode != -SIGKILL:
                    self.findings.append(f"worker {slot} ended with exit code {one.process.exitcode}")
                one.process.join()
                self._start(slot, one.life + 1)

    def _soon(self, what: Callable[[], None], mean_s: float) -> float:
        return mean_s if what == self._sample else min(self.random.expovariate(1 / mean_s), 3 * mean_s)

    def _kill_a_worker(self) -> None:
        self.workers[self.random.randrange(IMMORTAL, self.plan.workers)].process.kill()
        self.happened["workers killed"] += 1

    def _restart_the_database(self) -> None:
        self.server.kill()
        self.server.restart()
        self.happened["databases killed"] += 1

    def _cut_connections(self) -> None:
        """Cut connections in the network and in the server, by turns."""
        self._cuts += 1
        if self._cuts % 2:
            links = self.proxy.links
            chosen = self.random.sample(links, (len(links) + 1) // 2)
            for link in chosen:
                link.cut()
            self.happened["connections cut"] += len(chosen)
        else:
            self.happened["sessions terminated"] += self._terminate_sessions()

    def _terminate_sessions(self) -> int:
        ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'interlock' AND random() < 0.5"
        try:
            with psycopg.connect(self.url, application_name="soak") as connection:
                return len(connection.execute(ending).fetchall())
        except psycopg.Error:
            return 0

    def _sample(self) -> None:
        for slot in range(IMMORTAL):
            self.samples.take_memory(f"worker {slot}", self.workers[slot].process.pid or 0)
        self._actions = max(self._actions, self.samples.take_connections(self.url))
