"""A worker: `python -m harness.worker JOB.json` carries one case to its end, or dies where its job says.

It is killed with SIGKILL, so nothing of it can clean up, catch or flush.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from harness.columns import COLUMNS
from harness.columns.job import Job, KillPoint


def main() -> None:
    """Carry the case of the job file to its end, and write the answer beside it."""
    job = Job.load(Path(sys.argv[1]))

    def reached(point: KillPoint) -> None:
        if point is job.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    COLUMNS[job.column].run(job, reached).save(job)


if __name__ == "__main__":
    main()
