"""Liveness locks: the operating system drops a gate's lock when the gate dies, within a millisecond.

A lock is a file beside the journal, held with `flock` for the life of the gate. The holder is a gate with a random id and not a
process: pids are used again, and containers share host names or change them with every start. What says whether a lock can be
asked from here is the running kernel, which all containers of a host share. Where there is no `flock` (Windows), a gate has no
lock, and the claim's time to live decides alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import socket
import sys
from functools import cache, partial
from io import FileIO
from pathlib import Path
from typing import Protocol

if sys.platform != "win32":
    import fcntl

from interlock.domain.requests import Liveness
from interlock.errors import JournalUnavailable


@cache
def hostname() -> str:
    """Return this host's name as it was when it was first asked for; for a person to read, nothing is concluded from it."""
    return socket.gethostname()


def _realm() -> str:
    """Return what names this kernel since it was started: within it, a free lock proves that its holder is gone."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        name = socket.gethostname()
    return hashlib.sha256(name.encode()).hexdigest()[:8]


# Files and no bare descriptors: an exception out of a signal's handler may come between any two steps. A file that nobody has any
# more closes itself, and closing one twice closes it once; the number of a descriptor may be somebody else's by then.
_open_ours = partial(os.open, mode=0o600)


def _is_held(file: FileIO) -> Liveness:
    try:
        # Shared, so that two who ask about a dead holder at once don't take each other for it.
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Liveness.ALIVE
    return Liveness.GONE


class Locks(Protocol):
    """The liveness lock of one gate, and a way to ask about those of others; each journal has a kind of its own.

    Attributes:
        holder: the gate's random id.
        handle: the name of its lock, as its claims have it; None where there are no locks.
    """

    holder: str
    handle: str | None

    def probe(self, handle: str) -> Liveness:
        """Say whether the gate with this lock is alive, as far as can be told from here."""
        ...

    def ensure(self) -> None:
        """Return if the lock is held, and take it again where it was lost.

        Raises:
            JournalUnavailable: it was lost and can't be taken again; nothing may be sent.
        """
        ...

    def sweep(self) -> None:
        """Remove what the dead left."""
        ...

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child."""
        ...

    def release(self) -> None:
        """Drop the lock. Releasing twice does nothing."""
        ...

    def lose(self) -> None:
        """Lose the lock as the holder's death loses it, for crash tests."""
        ...


class LeaderLock(Protocol):
    """The lock of whoever signs the log: one process of all that could. It is dropped when its holder dies."""

    def take(self) -> bool:
        """Take it, unless somebody else has it; return whether it is ours, and still is."""
        ...

    def release(self) -> None:
        """Drop it. Releasing twice does nothing."""
        ...

    def forget_after_fork(self) -> None:
        """Leave it to the parent, in a forked child."""
        ...


class FileLeaderLock:
    """A leader's lock on a file, which stays: whoever finds it free takes it.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None

    def take(self) -> bool:
        """Take it, unless somebody else has it; return whether it is ours.

        Raises:
            JournalUnavailable: the file can't be made.
        """
        if self._file is not None or sys.platform == "win32":
            return True  # without locks several leaders are a waste, and no harm: each signs only what continues the last
        try:
            file = FileIO(self._path, "a+", opener=_open_ours)
        except OSError as error:
            raise JournalUnavailable(f"no lock can be made at {self._path}: {error}; nothing was signed") from error
        self._file = file  # before it is locked: a child that is forked in between has to find it, and close it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            return False
        return True

    def release(self) -> None:
        """Drop it. Releasing twice does nothing."""
        self.forget_after_fork()

    def forget_after_fork(self) -> None:
        """Close the descriptor; a parent's lock is not dropped by its child doing so."""
        if self._file is not None:
            self._file.close()
            self._file = None


class FileLocks:
    """Locks that the operating system drops when their holder dies.

    Args:
        folder: where the lock files are; shared by all gates of one journal on this host.

    Attributes:
        holder: the gate's random id.
        handle: the name of its lock file, None where there are no locks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: FileIO | None = None
        self._take()

    def _take(self) -> None:
        self.holder = secrets.token_hex(16)
        self.handle: str | None = None
        if sys.platform == "win32":
            return
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            while not self._lock_new_file():
                # Somebody who sweeps dead locks took the file between our two calls. Ids are cheap.
                self.lose()
                self.holder = secrets.token_hex(16)
        except OSError as error:
            raise JournalUnavailable(f"no lock can be made in {self._folder}: {error}; nothing was written") from error
        self.handle = f"{_realm()}-{self.holder}"

    def _lock_new_file(self) -> bool:
        path = self._path(f"{_realm()}-{self.holder}")
        self._file = FileIO(path, "x+", opener=_open_ours)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return os.fstat(self._file.fileno()).st_nlink > 0  # a lock on a file that has no name any more would be seen by nobody

    def probe(self, handle: str) -> Liveness:
        """Say whether the gate with this lock is alive.

        Args:
            handle: the name of its lock file, as its claim has it.

        Returns:
            ALIVE, GONE, or UNKNOWN where there are no locks or the lock is another kernel's. A file that is missing was
            removed by its holder's `close`, or by somebody who found it free: its holder is gone.
        """
        if sys.platform == "win32" or not handle.startswith(f"{_realm()}-"):
            return Liveness.UNKNOWN
        if handle == self.handle:
            return Liveness.ALIVE
        try:
            with FileIO(self._path(handle), "r+") as file:
                return _is_held(file)
        except FileNotFoundError:
            return Liveness.GONE
        except OSError:
            return Liveness.UNKNOWN

    def ensure(self) -> None:
        """Do nothing: an operating-system lock is lost by death alone."""

    def sweep(self) -> None:
        """Remove the lock files of the dead, so that they do not pile up."""
        if sys.platform == "win32":
            return
        for path in self._folder.glob("*.lock"):
            with contextlib.suppress(OSError), FileIO(path, "r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()

    def renew_after_fork(self) -> None:
        """Become another holder in a forked child.

        The inherited descriptor is closed and *not* unlocked: an unlock would drop the parent's lock, and keeping it open would
        hide the parent's death.
        """
        self.lose()
        self._take()

    def release(self) -> None:
        """Remove the lock, and drop it. Releasing twice does nothing."""
        if self._file is not None and self.handle is not None:
            self._path(self.handle).unlink(missing_ok=True)
        self.lose()
        self.handle = None

    def lose(self) -> None:
        """Close the descriptor, as the holder's death does, and leave the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _path(self, handle: str) -> Path:
        return self._folder / f"{handle}.lock"
