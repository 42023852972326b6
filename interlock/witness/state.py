"""What a witness remembers: the last checkpoint of each log that it cosigned, in an SQLite file of its own."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import SignedNote
from interlock.evidence.vkeys import VerifierKey

_APPLICATION_ID = 0x494C5754
"""Marks the file as a witness's ("ILWT"), in SQLite's `application_id`."""

_SCHEMA = (
    "CREATE TABLE witness (vkey TEXT NOT NULL)",
    "CREATE TABLE heads (origin TEXT PRIMARY KEY, size INTEGER NOT NULL, note BLOB NOT NULL) WITHOUT ROWID",
    # A witness that forgets, or that takes a step back, may cosign two histories of one log.
    "CREATE TRIGGER heads_no_delete BEFORE DELETE ON heads BEGIN SELECT RAISE(ABORT, 'a witness does not forget'); END",
    (
        "CREATE TRIGGER heads_only_grow BEFORE UPDATE ON heads WHEN NEW.size < OLD.size OR NEW.origin <> OLD.origin "
        "BEGIN SELECT RAISE(ABORT, 'a witness does not step back'); END"
    ),
    f"PRAGMA application_id={_APPLICATION_ID}",
)


class WitnessState:
    """The file. Threads and processes may share it: a checkpoint is put in its place in one transaction, and only there.

    Args:
        path: the file.
        key: the witness's public key, which the file is bound to.
        create: make the file, which must not be there: a witness that lost it has to be retired, with its key.

    Raises:
        InvalidConfiguration: there is no such file, or one already, or it is not this witness's.
        JournalUnavailable: it can't be used.
    """

    def __init__(self, path: Path, key: VerifierKey, *, create: bool = False) -> None:
        self._path, self._lock = path, threading.Lock()
        if create:
            _create(path, key)
        if not path.is_file():
            raise InvalidConfiguration(
                f"there is no state of a witness at {path}; nothing was cosigned. A witness that lost its state may cosign a "
                "second history of a log: give it a new key, and make a new state with --create"
            )
        try:
            self._connection = _connect(path, "rw")
            self._require_ours(key)
        except sqlite3.Error as error:
            raise JournalUnavailable(f"the state {path} of the witness can't be used: {error}; nothing was cosigned") from error

    def _require_ours(self, key: VerifierKey) -> None:
        if self._connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise InvalidConfiguration(f"{self._path} is no state of a witness; nothing was written")
        row = self._connection.execute("SELECT vkey FROM witness").fetchone()
        if row is None or row[0] != str(key):
            raise InvalidConfiguration(f"{self._path} is the state of another witness, or of another key; nothing was cosigned")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def head(self, origin: str) -> SignedNote | None:
        """Return the last checkpoint of a log that was cosigned, with the cosignature; None where there is none.

        Raises:
            JournalUnavailable: the file can't be read.
        """
        try:
            with self._lock:
                row = self._connection.execute("SELECT note FROM heads WHERE origin = ?", (origin,)).fetchone()
        except sqlite3.Error as error:
            raise JournalUnavailable(f"the witness can't read its state: {error}; nothing was cosigned") from error
        return None if row is None else SignedNote.parse(row[0])

    def advance(self, origin: str, before: SignedNote | None, note: SignedNote) -> bool:
        """Put a checkpoint in the place of the one before, durably.

        Args:
            origin: the log.
            before: what `head` gave when the checkpoint was judged.
            note: the checkpoint, with the cosignature that will be handed out.

        Returns:
            False where another checkpoint has the place by now: nothing was written, and this one has to be judged again.

        Raises:
            JournalUnavailable: it can't be written, and must not be handed out.
        """
        try:
            with self._lock:
                return self._advance(origin, before, note)
        except sqlite3.Error as error:
            raise JournalUnavailable(f"the witness can't write its state: {error}; nothing was cosigned") from error

    def _advance(self, origin: str, before: SignedNote | None, note: SignedNote) -> bool:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            row = self._connection.execute("SELECT note FROM heads WHERE origin = ?", (origin,)).fetchone()
            if (None if row is None else row[0]) != (None if before is None else before.serialize()):
                self._connection.execute("ROLLBACK")
                return False
            self._connection.execute(
                "INSERT INTO heads VALUES (?, ?, ?) "
                "ON CONFLICT (origin) DO UPDATE SET size = excluded.size, note = excluded.note",
                (origin, Checkpoint.parse(note.text).size, note.serialize()),
            )
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        return True


def _create(path: Path, key: VerifierKey) -> None:
    if path.exists():
        raise InvalidConfiguration(f"there is a file at {path} already; nothing was written. Start the witness without --create")
    try:
        connection = _connect(path, "rwc")
        try:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("INSERT INTO witness VALUES (?)", (str(key),))
            connection.execute("COMMIT")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise JournalUnavailable(f"the state {path} of the witness can't be made: {error}") from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=10
    )
    # A cosignature that was given and is not on the disk could be contradicted after a power cut. The rollback journal, and not
    # WAL, so that the state is one file.
    connection.execute("PRAGMA synchronous=EXTRA")
    return connection
