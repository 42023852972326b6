"""The high-water mark: the last checkpoint that was signed here, in a file that no restore of the database brings back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

from interlock.errors import EpochNeeded, InvalidConfiguration, JournalUnavailable, MalformedEvidence
from interlock.evidence.checkpoints import Checkpoint, Origin
from interlock.evidence.notes import SignedNote


class HighWaterMark:
    """The last signed checkpoint, and the last one that witnesses had cosigned, each in a file of its own.

    Args:
        path: the file; that of the cosigned one has `.witnessed` after its name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._witnessed = path.with_name(f"{path.name}.witnessed")

    def read(self) -> SignedNote | None:
        """Return the last signed checkpoint; None before the first.

        Raises:
            InvalidConfiguration: the file is no checkpoint, or can't be read.
        """
        return _read(self.path)

    def witnessed(self) -> SignedNote | None:
        """Return the last checkpoint that witnesses had cosigned, with their lines; None before the first."""
        return _read(self._witnessed)

    def raise_to(self, note: SignedNote, *, after: SignedNote | None) -> None:
        """Put a later checkpoint in the place of the last one, durably, before this returns.

        Args:
            note: the later one.
            after: the one that was read, and that the later one was found to continue.

        Raises:
            EpochNeeded: a later epoch was begun here.
            InvalidConfiguration: the file can't be written.
            JournalUnavailable: another process has put another one there meanwhile; nothing was changed.
        """
        _raise(self.path, note, lambda there: _require_unmoved(there, after, note))

    def note_witnessed(self, note: SignedNote) -> None:
        """The same for the last one that witnesses had cosigned."""
        _raise(self._witnessed, note, lambda _: None)


def _read(path: Path) -> SignedNote | None:
    try:
        note = SignedNote.parse(path.read_bytes())
        Origin.parse(Checkpoint.parse(note.text).origin)
    except FileNotFoundError:
        return None
    except (OSError, MalformedEvidence) as error:
        raise InvalidConfiguration(
            f"the high-water mark {path} can't be read: {error}; nothing was signed. Put back what stood there, and don't "
            "remove it: without it a journal that was set back would go unnoticed here"
        ) from error
    return note


def _raise(path: Path, note: SignedNote, require: Callable[[SignedNote | None], None]) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(path):
            there = _read(path)
            goes_on = there is None or _goes_on(Checkpoint.parse(there.text), Checkpoint.parse(note.text))
            require(there)
            if goes_on:
                write_durably(path, note.serialize())
    except OSError as error:
        raise InvalidConfiguration(f"the high-water mark {path} can't be written: {error}; nothing was signed") from error


def _require_unmoved(there: SignedNote | None, after: SignedNote | None, note: SignedNote) -> None:
    """Raise where the mark was moved since it was read: two copies of one journal would both pass it with trees of their own."""
    moved = there is not None and there.text != note.text and (after is None or there.text != after.text)
    if moved:
        raise JournalUnavailable("another process signed the log meanwhile; nothing was signed here, and it is tried again")


def _goes_on(before: Checkpoint, now: Checkpoint) -> bool:
    if now.origin == before.origin:
        return now.size >= before.size
    if _epoch_of(now.origin) < _epoch_of(before.origin):
        raise EpochNeeded(
            f"{before.origin} was begun here meanwhile; nothing more is signed as {now.origin}. It is tried again under that name"
        )
    return True


def _epoch_of(origin: str) -> int:
    return Origin.parse(origin).epoch


@contextmanager
def alone(path: Path) -> Generator[None]:
    """Keep other processes of this machine away meanwhile.

    Args:
        path: what is written; `PATH.lock` is made beside it, and stays.

    Raises:
        OSError: that can't be made.
    """
    fd = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _held.add(fd)
    try:
        if sys.platform != "win32":
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        _held.discard(fd)
        os.close(fd)


_held: set[int] = set()
"""The locks that threads of this process hold or wait for. A forked child has none of the threads, and would hold their locks."""


def _let_go_in_child() -> None:
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def write_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put bytes in the place of a file: a reader, and whoever comes after a crash, finds either the old ones or the new ones.

    Args:
        path: the file.
        data: its new content.
        mode: who may read and write it.

    Raises:
        OSError: it can't be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder durable.

    Raises:
        OSError: it can't be done.
    """
    if sys.platform == "win32":
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
