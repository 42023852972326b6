"""A worker: `python -m harness.worker JOB.json` carries one case to its end, or dies where its job says.

It is killed with SIGKILL, so nothing of it can clean up, catch or flush.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from harness import trace
from harness.columns import COLUMNS
from harness.columns.job import Job, KillPoint, Reached


def carry(path: Path) -> None:
    """Carry the case of a job file to its end, and write the answer beside it."""
    job = Job.load(path)
    COLUMNS[job.column].standalone.run(job, reached_in(job)).save(job)


def reached_in(job: Job) -> Reached:
    """Return what a column of this job calls where it has come to a point: it notes that, and dies where the job says."""

    def reached(point: KillPoint) -> None:
        trace.note(job.home, point)
        if point is job.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


if __name__ == "__main__":
    carry(Path(sys.argv[1]))
