"""The high-water mark: one file, durable, and no fork or crash keeps anybody from it."""

import os
import threading
from pathlib import Path

import pytest

from interlock.errors import InvalidConfiguration, JournalUnavailable
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import NoteSignature, SignedNote
from interlock.infrastructure import high_water
from interlock.infrastructure.high_water import HighWaterMark, write_durably

ORIGIN = "test.example/log-1"


def note(size: int) -> SignedNote:
    """Return a checkpoint of a size, signed by nobody."""
    return SignedNote(Checkpoint(ORIGIN, size, bytes(32)).text, (NoteSignature(ORIGIN, bytes(4), bytes(64)),))


def test_it_is_what_was_written(tmp_path: Path) -> None:
    """It is the last signed checkpoint itself, in a folder that is made for it, readable by its owner alone."""
    mark = HighWaterMark(tmp_path / "marks" / "log.mark")
    assert mark.read() is None
    mark.raise_to(note(3), after=None)
    mark.note_witnessed(note(2))
    assert mark.read() == note(3)
    assert mark.witnessed() == note(2)
    assert mark.path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", [b"", b"nonsense", note(3).serialize()[:-20]])
def test_a_mark_that_was_damaged_is_an_error(tmp_path: Path, content: bytes) -> None:
    """A damaged mark is not taken for none: that would let a journal that was set back go unnoticed."""
    mark = HighWaterMark(tmp_path / "log.mark")
    mark.path.write_bytes(content)
    with pytest.raises(InvalidConfiguration, match="can't be read"):
        mark.read()
    with pytest.raises(InvalidConfiguration):
        mark.raise_to(note(4), after=None)


def test_a_mark_that_was_moved_since_it_was_read_stays(tmp_path: Path) -> None:
    """Of two copies of one journal with one mark, the slower one signs nothing; who would sign the same again may."""
    mark = HighWaterMark(tmp_path / "log.mark")
    mark.raise_to(note(3), after=None)
    mark.raise_to(note(4), after=note(3))
    for late in (note(3), None):
        with pytest.raises(JournalUnavailable, match="signed the log meanwhile"):
            mark.raise_to(note(5), after=late)
    mark.raise_to(note(4), after=note(3))
    assert mark.read() == note(4)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """What can't be put in its place is an error, and no half-written file stays."""
    path = tmp_path / "file"
    (path / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="file"):
        write_durably(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_in_the_middle_of_a_write_holds_nobody_up(tmp_path: Path) -> None:
    """A child that is forked while a thread writes the mark does not keep the lock of a thread that it does not have."""
    mark = HighWaterMark(tmp_path / "log.mark")
    reading, writing = os.pipe()
    with high_water.alone(mark.path):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # lives until the parent is done
            os._exit(0)
    os.close(reading)
    raised = threading.Thread(target=mark.raise_to, args=(note(3),), kwargs={"after": None}, daemon=True)
    raised.start()
    raised.join(10)
    os.close(writing)
    os.waitpid(child, 0)
    assert not raised.is_alive()
    assert mark.read() == note(3)
