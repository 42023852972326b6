"""The demo in a process of its own, for tests and for the check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from harness.world import ROOT

_END_WITHIN_S = 30.0


class DemoProcess:
    """Starts the demo, and waits until it listens; as a context manager it ends it as Ctrl-C does.

    Args:
        data: where it keeps its journal and its ledgers.
        options: further options of its command line.
        environment: what it inherits besides this process' own environment.

    Attributes:
        mode: what its real runs are made of, as it says itself.
        url: where it is, without a slash at the end.

    Raises:
        RuntimeError: it ended before it listened.
    """

    def __init__(self, data: Path, options: Sequence[str] = ("--local",), environment: Mapping[str, str] | None = None) -> None:
        self.data = data
        command = [sys.executable, "-m", "harness.demo", "--port", "0", "--data", str(data), "--end-with-input", *options]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdin=subprocess.PIPE,  # closed when this process is gone, however it went
            stdout=subprocess.PIPE,
            text=True,
        )
        said = self._out.readline()
        if not said:
            self.process.wait()
            self._close_pipes()
            raise RuntimeError("the demo ended before it listened; its error is on standard error")
        self.mode, self.url = said.split()[0].rstrip(":"), said.split()[1].rstrip("/")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    def interrupt(self) -> int:
        """End it as Ctrl-C does; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(_END_WITHIN_S)
        finally:
            self.process.kill()
            self._close_pipes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.interrupt()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    @property
    def _out(self) -> IO[str]:
        assert self.process.stdout is not None, "it is a pipe"
        return self.process.stdout
