"""A worker: `python -m harness.temporal.worker JOB.json` serves one case's task queue until SIGTERM, or dies where its job says.

It is killed with SIGKILL, so nothing of it can clean up, catch or flush.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from temporalio.client import Client
from temporalio.worker import Worker

from harness.columns import COLUMNS, Serving
from harness.columns.job import Job
from harness.columns.temporal.options import THREADS, options_of
from harness.worker import reached_in


def main() -> None:
    """Serve the case of the job file."""
    job = Job.load(Path(sys.argv[1]))
    module = COLUMNS[job.column].on_temporal
    with module.serving(job, reached_in(job)) as serving:
        asyncio.run(_serve(job, module.WORKFLOW, serving))
    # The SDK's native threads outlive its worker, and now and then crash an interpreter that takes itself apart.
    os._exit(0)


async def _serve(job: Job, workflow: type[Any], serving: Serving) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    assert job.temporal is not None, "a job of a column on Temporal says where that is"
    client = await Client.connect(job.temporal)
    with ThreadPoolExecutor(THREADS) as executor:
        worker = Worker(
            client,
            task_queue=job.case_id,
            workflows=[workflow],
            activities=serving.activities,
            plugins=serving.plugins,
            activity_executor=executor,
            **options_of(COLUMNS[job.column].engine).worker,
        )
        async with worker:
            await over.wait()


if __name__ == "__main__":
    main()
