"""Server programs of others, each a process of one's own that ends with the process that started it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

LOOPBACK = "127.0.0.1"
DEADLINE_S = 60.0
"""How long a server may take to get ready, and its processes to end."""

_LAUNCHER = Path(__file__).with_name("launcher.py")


class LaunchedServer(ABC):
    """A server with a folder of its own, which is removed when it is closed, or when its starter is gone.

    Args:
        room: the folder; its log is in there.
    """

    FAILED: ClassVar[type[Exception]]
    """What is raised where it does not do what was asked."""
    QUICK_END: ClassVar[signal.Signals]
    """What ends it at once."""
    POLL_S: ClassVar[float]
    """How long to wait between two looks at whether it is ready."""

    def __init__(self, room: Path) -> None:
        self._room = room
        self._launcher: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of its first process."""
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._launcher is not None and self._launcher.poll() is None

    def log(self) -> str:
        """Return what it logged since it was made."""
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Kill the first process with SIGKILL, and wait until all are gone. What it keeps stays for `restart`."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it and remove what it keeps, except what is in a folder that the caller named."""
        try:
            self._end(self.QUICK_END)
        finally:
            shutil.rmtree(self._room, ignore_errors=True)

    @abstractmethod
    def _is_ready(self) -> bool:
        """Say whether it answers."""

    def _launch(self, command: Sequence[str], environment: Mapping[str, str], *, uid: int, gid: int) -> None:
        """Start it, and wait until it is ready."""
        launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(uid), str(gid), str(self._room), *command]
        with self._log_file.open("ab") as log:
            self._launcher = subprocess.Popen(
                launch,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is the starter's to handle
            )
        assert self._launcher.stdout is not None
        self._pid = int(self._launcher.stdout.readline() or 0)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self._is_ready():
            if not self.is_running or time.monotonic() > deadline:
                self._end(self.QUICK_END)
                raise self.FAILED(f"The server did not get ready within {DEADLINE_S:.0f} s. Its log:\n{self.log()}")
            time.sleep(self.POLL_S)

    def _end(self, number: signal.Signals) -> None:
        """Send a signal to the first process, and wait until all are gone."""
        if self._launcher is None:
            return
        if self._launcher.poll() is None:
            os.kill(self._pid, number)
        with self._launcher as launcher:
            assert launcher.stdout is not None
            # It gets readable when the last process has closed it, if none of them says anything there.
            if not select.select([launcher.stdout], [], [], DEADLINE_S)[0]:
                raise self.FAILED(
                    f"Processes of the server still live {DEADLINE_S:.0f} s after {number.name}. Its log:\n{self.log()}"
                )
            # Leaving the block closes its input, at which a launcher that has not ended yet removes everything.
            launcher.wait()
        self._launcher = None

    @property
    def _log_file(self) -> Path:
        return self._room / "log"


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port
