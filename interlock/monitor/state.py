"""What a monitor holds: the last checkpoint that it accepted, and where every action stands there; and its signed log of both."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import UUID

from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import HASH_BYTES, Frontier
from interlock.evidence.notes import SignedNote
from interlock.evidence.vkeys import VerifierKey
from interlock.monitor.paths import ACTION, ERASED, Head

_APPLICATION_ID = 0x494C4D4F
"""Marks the file as a monitor's ("ILMO"), in SQLite's `application_id`."""

_SCHEMA = (
    "CREATE TABLE monitor (vkey TEXT NOT NULL, origin TEXT NOT NULL, log TEXT)",
    (
        "CREATE TABLE held (only INTEGER PRIMARY KEY CHECK (only = 1), size INTEGER NOT NULL, note BLOB NOT NULL, "
        "frontier BLOB NOT NULL)"
    ),
    (
        "CREATE TABLE heads (id BLOB PRIMARY KEY, family TEXT NOT NULL, version INTEGER NOT NULL, leaf BLOB NOT NULL, "
        "status TEXT NOT NULL) WITHOUT ROWID"
    ),
    "CREATE TABLE progress (id BLOB PRIMARY KEY, progress BLOB NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id={_APPLICATION_ID}",
)
_CACHED = 1024


@dataclass(frozen=True, slots=True)
class Held:
    """The last checkpoint that was accepted.

    Args:
        note: as the log signed it, with the monitor's cosignature.
        frontier: the right edge of its tree.
        log: the id of the journal whose entries they are; None before the first entry.
    """

    note: SignedNote | None
    frontier: Frontier
    log: str | None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint; None before the first."""
        return None if self.note is None else Checkpoint.parse(self.note.text)


class MonitorState:
    """The monitor's own file, and its log beside it. Where actions stand is on the disk: memory does not grow with the log.

    Args:
        path: the file; `PATH.log` is the signed log.
        key: the monitor's public key, which the file is bound to.
        origin: the log that is watched.
        create: make the file, which must not be there.

    Attributes:
        origin: the log that is watched.
        log_path: where the signed log is.

    Raises:
        InvalidConfiguration: there is no such file, or one already, or it is of another monitor or log.
        JournalUnavailable: it can't be used.
    """

    def __init__(self, path: Path, key: VerifierKey, origin: str, *, create: bool = False) -> None:
        self._path, self._cache = path, dict[UUID, Head]()
        self.origin = origin
        self._changed = set[UUID]()
        self._progress = dict[UUID, bytes]()
        self.log_path = path.with_name(f"{path.name}.log")
        if create and path.exists():
            raise InvalidConfiguration(
                f"there is a file at {path} already; nothing was written. Start the monitor without --create"
            )
        if not create and not path.is_file():
            raise InvalidConfiguration(
                f"there is no state of a monitor at {path}. A monitor that begins anew can't say what was before: make a state "
                "with --create, and know that it trusts the first checkpoint that it sees"
            )
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(str(path.absolute()))}?mode={'rwc' if create else 'rw'}", uri=True, isolation_level=None, timeout=10
            )
            self._connection.execute("PRAGMA synchronous=FULL")
            if create:
                self._create(key, origin)
            self._require_ours(key, origin)
        except sqlite3.Error as error:
            raise JournalUnavailable(f"the state {path} of the monitor can't be used: {error}") from error

    def _create(self, key: VerifierKey, origin: str) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA:
            self._connection.execute(statement)
        self._connection.execute("INSERT INTO monitor VALUES (?, ?, NULL)", (str(key), origin))
        self._connection.execute("COMMIT")

    def _require_ours(self, key: VerifierKey, origin: str) -> None:
        if self._connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise InvalidConfiguration(f"{self._path} is no state of a monitor; nothing was written")
        row = self._connection.execute("SELECT vkey, origin FROM monitor").fetchone()
        if row is None or tuple(row) != (str(key), origin):
            raise InvalidConfiguration(f"{self._path} is the state of another monitor, key or log; nothing was written")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def held(self) -> Held:
        """Return the last checkpoint that was accepted."""
        row = self._connection.execute("SELECT size, note, frontier FROM held").fetchone()
        log = self._connection.execute("SELECT log FROM monitor").fetchone()[0]
        if row is None:
            return Held(None, Frontier(), log)
        size, note, hashes = row
        frontier = Frontier(size, (hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)))
        return Held(SignedNote.parse(note), frontier, log)

    def open_actions(self) -> int:
        """Return how many actions have no ending."""
        self._flush()
        sql = "SELECT count(*) FROM heads WHERE family = ? AND status NOT IN ('COMMITTED', 'REFUSED', 'AMBIGUOUS', ?)"
        return int(self._connection.execute(sql, (ACTION, ERASED)).fetchone()[0])

    @contextmanager
    def looking(self) -> Generator[None]:
        """Keep what is noted until the end only if `hold` was called there: one look is one transaction.

        Raises:
            JournalUnavailable: the file can't be used.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                self._cache.clear()
                self._changed.clear()
                self._progress.clear()
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise JournalUnavailable(f"the state {self._path} of the monitor can't be used: {error}") from error

    def get(self, aggregate_id: UUID) -> Head | None:
        """Return where an aggregate stands; None where it has no event."""
        if aggregate_id in self._cache:
            return self._cache[aggregate_id]
        row = self._connection.execute(
            "SELECT family, version, leaf, status FROM heads WHERE id = ?", (aggregate_id.bytes,)
        ).fetchone()
        return None if row is None else Head(*row)

    def put(self, aggregate_id: UUID, head: Head) -> None:
        """Note where an aggregate stands."""
        self._cache[aggregate_id] = head
        self._changed.add(aggregate_id)
        if len(self._cache) >= _CACHED:
            self._flush()
            self._cache.clear()

    def get_progress(self, aggregate_id: UUID) -> bytes | None:
        """Return how far an action has come by what its states say; None where that was never seen."""
        if aggregate_id in self._progress:
            return self._progress[aggregate_id]
        row = self._connection.execute("SELECT progress FROM progress WHERE id = ?", (aggregate_id.bytes,)).fetchone()
        return None if row is None else row[0]

    def put_progress(self, aggregate_id: UUID, progress: bytes) -> None:
        """Note how far an action has come."""
        self._progress[aggregate_id] = progress
        if len(self._progress) >= _CACHED:
            self._flush()

    def hold(self, note: SignedNote, frontier: Frontier, log: str | None) -> None:
        """Accept a checkpoint, with all that was noted since `looking` began."""
        self._flush()
        self._connection.execute(
            "INSERT OR REPLACE INTO held VALUES (1, ?, ?, ?)", (frontier.size, note.serialize(), b"".join(frontier.hashes))
        )
        self._connection.execute("UPDATE monitor SET log = ?", (log,))
        self._connection.execute("COMMIT")

    def _flush(self) -> None:
        rows = [
            (aggregate_id.bytes, head.family, head.version, head.leaf, head.status)
            for aggregate_id in self._changed
            for head in (self._cache[aggregate_id],)
        ]
        self._connection.executemany("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", rows)
        progress = [(aggregate_id.bytes, value) for aggregate_id, value in self._progress.items()]
        self._connection.executemany("INSERT OR REPLACE INTO progress VALUES (?, ?)", progress)
        self._changed.clear()
        self._progress.clear()

    def note_down(self, **values: Any) -> None:
        """Add a line to the signed log, durably: what was accepted, and what was refused, each with the notes that show it.

        Raises:
            JournalUnavailable: it can't be written.
        """
        line = f"{json.dumps(values, ensure_ascii=False, separators=(',', ':'))}\n".encode()
        try:
            descriptor = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                if os.write(descriptor, line) != len(line):  # a disk that is full takes a part
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise JournalUnavailable(f"the log {self.log_path} of the monitor can't be written: {error}") from error
