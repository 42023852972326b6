"""Says every minute which long test is still at work: minutes without a word look like a test that hangs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator

import pytest


class Heartbeat:
    """A plugin of pytest.

    Args:
        out: the file descriptor to say it on; what tests write is captured, and this is not.
        every_s: how often to say it, in seconds.
    """

    def __init__(self, out: int, every_s: float = 60.0) -> None:
        self._out, self._every_s = out, every_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test, and say that it is at work for as long as it is, if it is a long one."""
        if item.get_closest_marker("long") is None:
            return (yield)
        over = threading.Event()
        beating = threading.Thread(target=self._beat, args=(item.name, over), daemon=True)
        beating.start()
        try:
            return (yield)
        finally:
            over.set()
            beating.join()

    def _beat(self, name: str, over: threading.Event) -> None:
        began_s = time.monotonic()
        while not over.wait(self._every_s):
            os.write(self._out, f"\n  {name} is at work for {time.monotonic() - began_s:,.0f} s ".encode())
