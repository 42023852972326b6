"""A PostgreSQL server of one's own."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.launched import DEADLINE_S, LOOPBACK, LaunchedServer, free_port
from harness.postgres.binaries import Account, Binaries, PostgresFailed, environment, is_reachable
from harness.postgres.databases import Databases, postgres_url

USER = "postgres"
_DEFAULT_PORT = 5432
# After a crash the server syncs its folder once; file by file, as is the default, takes seconds on some disks.
_DEFAULTS: Mapping[str, str] = {"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}
_MEMORY = Path("/dev/shm")  # noqa: S108  # mkdtemp makes a private folder in there
_ROOM_IN_MEMORY_BYTES = 2 * 1024**3
_READY = {"ready", "standby"}
_STATUS_LINE = 7
_LONGEST_TEMPORARY_FOLDER = 70  # the path of a Unix socket has at most 103 bytes, and ours adds /pg-12345678/.s.PGSQL.12345


class PostgresServer(LaunchedServer):
    """A server that ends with the process that started it. Commits are durable, unless the settings say otherwise.

    Made by `start` and by `standby`; as a context manager it is closed at the end.
    """

    FAILED = PostgresFailed
    QUICK_END = signal.SIGQUIT
    POLL_S = 0.005

    def __init__(
        self, binaries: Binaries, room: Path, data: Path, port: int, settings: Mapping[str, str], environment: Mapping[str, str]
    ) -> None:
        super().__init__(room)
        self._binaries = binaries
        self._data = data
        self._port = port
        self._settings = dict(settings)
        self._environment = dict(environment)

    @classmethod
    def start(
        cls,
        *,
        settings: Mapping[str, str] | None = None,
        tcp: bool = False,
        in_memory: bool = False,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> PostgresServer:
        """Start a new, empty server.

        Args:
            settings: of postgresql.conf, over the defaults; they hold for every restart and for a standby.
            tcp: listen on 127.0.0.1 too, at a free port that stays the same over restarts, and not only on a Unix socket.
            in_memory: use a file system in memory, where there is one with room: quicker, and a killed process loses
                nothing there either. What is measured belongs on a disk.
            folder: where its data go, in a new folder in there, which the caller removes; by default they are temporary.
            environment: variables for its processes, on top of a bare environment.

        Raises:
            PostgresUnavailable: there is no PostgreSQL here.
            PostgresFailed: it did not start.
        """
        found = Binaries.find()
        room = _room(found.account, in_memory=in_memory)
        try:
            binaries = found.reachable_from(room)
            data = _private_folder(found.account, folder) if folder else room / "data"
            # Not synced: a new server that is lost before its first start is lost with this test.
            binaries.run(
                "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"
            )
            port = free_port() if tcp else _DEFAULT_PORT
            chosen = {**_DEFAULTS, "listen_addresses": LOOPBACK if tcp else "", **(settings or {})}
            server = cls(binaries, room, data, port, chosen, environment or {})
            server.restart()
            return server
        except BaseException:
            shutil.rmtree(room, ignore_errors=True)
            raise

    @property
    def port(self) -> int:
        """Its TCP port, where it listens on one; it is part of the socket's name in any case."""
        return self._port

    @property
    def socket_folder(self) -> Path:
        """The folder of its Unix socket."""
        return self._room

    @property
    def socket_path(self) -> Path:
        """Its Unix socket."""
        return self._room / f".s.PGSQL.{self._port}"

    @property
    def data_folder(self) -> Path:
        """Its data, pg_hba.conf among them."""
        return self._data

    @property
    def databases(self) -> Databases:
        """The databases in it."""
        return Databases(self.url())

    def url(self, database: str = "postgres", *, host: str | None = None, port: int | None = None, **options: str) -> str:
        """Return a URL of one of its databases: over the Unix socket, or over TCP when a host or a port is given.

        Args:
            database: its name.
            host: 127.0.0.1 by default.
            port: the server's own by default; a proxy's, to go through it.
            options: libpq's parameters, such as `application_name` or `options`.
        """
        if host is None and port is None:
            return postgres_url(f"{USER}@", database, {"host": str(self._room), "port": str(self._port), **options})
        return postgres_url(f"{USER}@{host or LOOPBACK}:{port or self._port}", database, options)

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL, over the Unix socket."""
        return self.databases.create(name)

    def stop(self) -> None:
        """Shut down: clients are disconnected, and nothing is left to recover. Its data stay for `restart`."""
        self._end(signal.SIGINT)

    def restart(self) -> None:
        """Stop it if it is running, and start it on its data.

        Raises:
            PostgresFailed: it did not start.
        """
        self.stop()
        # A stale file of a killed server would be taken for the new one's.
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        account = self._binaries.account
        self._launch(self._command(), {**environment(), **self._environment}, uid=account.uid, gid=account.gid)

    def standby(self) -> PostgresServer:
        """Start a read-only copy that follows this server. It is closed by itself."""
        room = _room(self._binaries.account, in_memory=self._room.parent == _MEMORY)
        try:
            self._binaries.run(
                "pg_basebackup", "-D", room / "data", "-d", self.url(), "-R", "-c", "fast", "-X", "stream", "--no-sync"
            )
            port = free_port() if self._settings["listen_addresses"] else self._port
            copy = PostgresServer(self._binaries, room, room / "data", port, self._settings, self._environment)
            copy.restart()
            return copy
        except BaseException:
            shutil.rmtree(room, ignore_errors=True)
            raise

    def promote(self) -> None:
        """Make a standby a server that writes, as in a failover."""
        self._binaries.run("pg_ctl", "promote", "-D", self._data, "-w", "-t", str(int(DEADLINE_S)))

    def _command(self) -> list[str]:
        server = [str(self._binaries.path("postgres")), "-D", str(self._data), "-k", str(self._room), "-p", str(self._port)]
        return server + [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]

    def _is_ready(self) -> bool:
        """Read the server's own word, the last line of its lock file, as pg_ctl does."""
        try:
            lines = (self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() in _READY


def _room(account: Account, *, in_memory: bool) -> Path:
    """Make a folder for a server: one that it can reach, with a path short enough for a Unix socket."""
    if in_memory and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ROOM_IN_MEMORY_BYTES:
        return _private_folder(account, _MEMORY)
    for parent in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108  # as above
        if len(os.fsencode(parent)) <= _LONGEST_TEMPORARY_FOLDER and is_reachable(parent, account):
            return _private_folder(account, parent)
    raise PostgresFailed(
        "No temporary folder has a short path and can be entered by the user of the server. No server was started."
    )


def _private_folder(account: Account, parent: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=parent))
    if not account.is_own:
        os.chown(folder, account.uid, account.gid)
    return folder
