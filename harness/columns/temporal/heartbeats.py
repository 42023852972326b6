"""Heartbeats beside a call that blocks."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity

BEATS_PER_TIMEOUT = 4


@contextmanager
def heartbeats() -> Iterator[None]:
    """Send heartbeats beside a call that blocks, where the activity has a heartbeat timeout."""
    timeout = activity.info().heartbeat_timeout
    if timeout is None:
        yield
        return
    over = threading.Event()

    def beat() -> None:
        while not over.is_set():
            activity.heartbeat()
            over.wait(timeout.total_seconds() / BEATS_PER_TIMEOUT)

    context = contextvars.copy_context()
    beside = threading.Thread(target=context.run, args=(beat,), daemon=True)
    beside.start()
    try:
        yield
    finally:
        over.set()
        beside.join()
