"""A case's first worker, forked from a process that has imported the model's SDK.

The import takes a second of processor time, more than all else that the worker does, and nothing measures it: the clock runs from
the worker's death. Whoever carries the case on is a process of its own, which imports what it needs.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from functools import cache
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext
from pathlib import Path

from harness import worker
from harness.carrier import Standalone, log_of
from harness.columns.job import Job
from harness.world import ROOT

# To start a process is to read how others have ended, and what is read twice is lost.
_LOCK = threading.Lock()


@cache
def _context() -> ForkServerContext:
    # A fork of this process, which has threads, could inherit a lock that nobody will ever release.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["anthropic", "harness.columns.interlock", "harness.live", "harness.results", "harness.warm"])
    return context


class WarmStandalone(Standalone):
    """Begins a case with a worker that is forked. It is killed as any other, and those after it are started as any other."""

    def crash(self, job: Job) -> None:
        first = _Forked(job.save(), self._world.worker_environment(), log_of(job))
        self._started(first)
        self._wait(first, job)


class _Forked:
    """A worker's process, behind what a carrier calls of `subprocess.Popen`."""

    def __init__(self, job: Path, environment: dict[str, str], log: Path) -> None:
        self._process = _context().Process(target=_begin, args=(job, environment, log), daemon=True)
        with _LOCK:
            self._process.start()
        assert self._process.pid is not None, "it was started"
        self.pid = self._process.pid
        self.kill, self.terminate = self._process.kill, self._process.terminate

    def wait(self) -> int:
        wait([self._process.sentinel])
        with _LOCK:
            self._process.join()
        assert self._process.exitcode is not None, "it has ended"
        return self._process.exitcode


def _begin(job: Path, environment: dict[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    worker.carry(job)
