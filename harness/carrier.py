"""How a case is carried: in worker processes, which are started, die where they were told to, and are started again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from harness.columns.job import Answer, Job, Status
from harness.moments import Tell, WorkerEnded, WorkerStarted, ignore
from harness.world import ROOT, World

KILLED = -signal.SIGKILL
MAX_STARTS = 8
WORKER_LIMIT_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRecord:
    """What Temporal's own history says of a case.

    Attributes:
        workflow_id: its id.
        run_id: the run's id.
        attempts: how often the refund activity was started.
        closed_at: when the workflow was closed, RFC 3339 in UTC; None where it was not.
        lines: the history, an event a JSON line, for whoever wants to read it again.
    """

    workflow_id: str
    run_id: str
    attempts: int
    closed_at: str | None
    lines: tuple[str, ...]


class Worker(Protocol):
    """A worker's process; see `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...

    def terminate(self) -> None: ...

    def wait(self) -> int: ...


class Carrier(ABC):
    """Carries one case.

    Args:
        world: where it takes place.
        tell: is told of each worker process.

    Attributes:
        exit_codes: of each start, in order; -9 is SIGKILL.
        problem: what went wrong in a worker or here, or None.
        workflow: what Temporal's history says once the case was wound up; None where it took no part.
    """

    _module: str

    def __init__(self, world: World, tell: Tell = ignore) -> None:
        self._world, self._tell = world, tell
        self.exit_codes: list[int] = []
        self.problem: str | None = None
        self.workflow: WorkflowRecord | None = None
        self._stopped = threading.Event()
        self._worker: Worker | None = None

    @abstractmethod
    def crash(self, job: Job) -> None:
        """Begin the case with a worker that dies where the job says, and return when it is dead."""

    @abstractmethod
    def finish(self, job: Job) -> Answer | None:
        """Carry the case on, with a job that arms nothing, until there is an answer; None where there is none."""

    @abstractmethod
    def decision(self, job: Job) -> dict[str, Any] | None:
        """Return the decision that the case was carried with; None where there was none."""

    def wind_up(self, answer: Answer | None) -> Answer | None:
        """End what still runs after the case is over, read what was recorded of it, and return the answer with that."""
        return answer

    def stop(self) -> None:
        """End the case from another thread: kill its worker, and start no other one."""
        self._stopped.set()
        worker = self._worker
        if worker is not None:
            worker.kill()

    def _start(self, job: Job) -> subprocess.Popen[bytes]:
        """Start a worker."""
        command = [sys.executable, "-m", self._module, str(job.save())]
        with log_of(job).open("ab") as output:
            worker = subprocess.Popen(
                command, cwd=ROOT, env=self._world.worker_environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._started(worker)
        return worker

    def _started(self, worker: Worker) -> None:
        self._worker = worker
        if self._stopped.is_set():
            worker.kill()
        self._tell(WorkerStarted(worker.pid))

    def _wait(self, worker: Worker, job: Job) -> None:
        """Wait until a worker has ended, and note how."""
        # Not `wait(timeout)`, which polls, and would be part of the time that is measured.
        limit = threading.Timer(WORKER_LIMIT_S, worker.terminate)
        limit.start()
        exit_code = worker.wait()
        limit.cancel()
        self.exit_codes.append(exit_code)
        self._tell(WorkerEnded(worker.pid, exit_code))
        if exit_code != (KILLED if job.kill_at else 0):
            self.problem = f"start {len(self.exit_codes)} ended with {exit_code}: {last_words(job)}"


class Standalone(Carrier):
    """A worker is a process that carries the case as far as it can, and ends."""

    _module = "harness.worker"

    def crash(self, job: Job) -> None:
        self._wait(self._start(job), job)

    def finish(self, job: Job) -> Answer | None:
        """Start workers until one has an answer."""
        while len(self.exit_codes) < MAX_STARTS and self.problem is None:
            self._wait(self._start(job), job)
            answer = Answer.load(job)
            if answer is None or answer.status is not Status.NOT_YET:
                return answer
            self._stopped.wait(answer.retry_after_s)
        return Answer.load(job)

    def decision(self, job: Job) -> dict[str, Any] | None:
        """Return the saved decision, in whichever of the two forms the column saved it."""
        for name in ("decided.json", "decision.json"):
            path = job.home / name
            if path.exists():
                saved: dict[str, Any] = msgspec.json.decode(path.read_bytes())
                decision: dict[str, Any] = saved.get("decision", saved)
                return decision
        return None


def last_words(job: Job) -> str:
    """Return the last line that a case's workers wrote."""
    return " ".join(log_of(job).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:])


def log_of(job: Job) -> Path:
    """Return the file that a case's workers write to."""
    return job.home / "worker.log"
