"""A journal that is full, locked, read-only or gone, at either commit: what was not recorded as dispatched was not sent."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

from interlock import Committed, Gate
from interlock.errors import InterlockError, JournalUnavailable, OutcomeNotRecorded
from tests.integration.processes import Line, Nursery, give_up_privileges
from tests.integration.shared_ledger import EXECUTED, World, do_at

E = TypeVar("E", bound=InterlockError)
WORDY = 60_000
"""Characters of evidence, so that the second commit needs more pages than the first one; or of a decision, for the first."""
SOON = "?busy_timeout_s=1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world with one approval."""
    world = World(tmp_path, wordiness=WORDY)
    world.approve()
    return world


def pages(world: World) -> int:
    """Return the size of the journal in pages."""
    with closing(sqlite3.connect(world.journal)) as connection:
        return int(connection.execute("PRAGMA page_count").fetchone()[0])


def fire(gate: Gate, world: World, words: int = 0) -> str:
    """Fire the one case, with a decision of so many characters, and return the name of what came of it."""
    decision = {"words": "x" * words}
    return type(gate.fire("case-1", world.payout(), approval="case-1", decision=decision)).__name__


def grow_until(world: World, wanted: type[E], words: int = 0) -> tuple[World, str, E]:
    """Return the first copy of the world in which there is just so much room that firing raises this error."""
    for room in range(pages(world), pages(world) + 40):
        folder = world.folder / str(room)
        folder.mkdir()
        copy = World(folder, wordiness=WORDY)
        shutil.copy(world.journal, copy.journal)
        options = f"?max_page_count={room}"
        with copy.gate(options=options) as gate:
            try:
                fire(gate, copy, words)
            except wanted as error:
                return copy, options, error
            except InterlockError:
                continue
            pytest.fail(f"with {room} pages there is room for everything, and {wanted.__name__} never came")
    pytest.fail(f"{wanted.__name__} never came")


def require_one_effect_after_all(world: World) -> None:
    """With space again, firing under the same key ends as committed, and the provider has one effect."""
    with world.gate() as gate:
        assert fire(gate, world) == "Committed"
        assert gate.verify().valid
        assert gate.approval("case-1").remaining_minor == 0
    assert len(world.effects()) == 1


def test_full_at_the_first_commit(world: World) -> None:
    """Full before the send: JournalUnavailable, nothing sent, nothing written; with space again the key can still be fired."""
    full, options, _ = grow_until(world, JournalUnavailable, WORDY)
    assert full.effects() == []
    with full.gate(options=options) as gate:
        with pytest.raises(JournalUnavailable):
            fire(gate, full, WORDY)
        assert gate.receipts().receipts == ()
        assert gate.verify().valid
    assert full.effects() == []
    require_one_effect_after_all(full)


def test_full_at_the_second_commit(world: World) -> None:
    """Full after the answer: OutcomeNotRecorded with the evidence, sent once; with space again, firing reports it committed."""
    full, options, _ = grow_until(world, OutcomeNotRecorded)
    assert len(full.effects()) == 1
    with full.gate(options=options) as gate:
        # Nobody sends again, as often as it is fired while there is no space.
        for _ in range(3):
            with suppress(OutcomeNotRecorded, JournalUnavailable):
                fire(gate, full)
        assert gate.verify().valid
    assert len(full.effects()) == 1
    require_one_effect_after_all(full)


def test_evidence_of_what_could_not_be_recorded(world: World) -> None:
    """The error holds what the provider answered, names the key, and says not to fire under another one."""
    full, _, error = grow_until(world, OutcomeNotRecorded)
    (effect,) = full.effects()
    assert (error.key, error.evidence.reference) == ("case-1", effect["key"])
    assert "under another key" in str(error)


def test_recover_with_space(world: World) -> None:
    """After a full second commit, recover ends the action as committed in another process's gate, and sends nothing."""
    full, _, _ = grow_until(world, OutcomeNotRecorded)
    with full.gate() as gate:
        (outcome,) = gate.recover().outcomes
        assert isinstance(outcome, Committed)
        assert outcome.receipt.evidence is not None
    assert len(full.effects()) == 1


def test_no_room_for_a_journal(tmp_path: Path) -> None:
    """A journal that there is no room to make is JournalUnavailable, and leaves nothing that hinders the next attempt."""
    world = World(tmp_path)
    with pytest.raises(JournalUnavailable):
        world.gate(options="?max_page_count=3")
    world.approve()
    require_one_effect_after_all(world)


# --- locked by somebody else


@contextmanager
def writer(world: World) -> Iterator[None]:
    """Hold the write lock of the journal, as a backup or a person in a shell may."""
    with closing(sqlite3.connect(world.journal, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


def test_locked_at_the_first_commit(world: World) -> None:
    """A journal that another writer keeps locked is JournalUnavailable after the busy time-out; nothing is sent."""
    with world.gate(options=SOON) as gate:
        with writer(world), pytest.raises(JournalUnavailable):
            fire(gate, world)
        assert world.effects() == []
        with writer(world), pytest.raises(JournalUnavailable):
            gate.revoke("case-1", by="user:2")
        assert gate.receipts().receipts == ()
    require_one_effect_after_all(world)


def test_readers_are_not_locked_out(world: World) -> None:
    """Another writer keeps nobody from reading."""
    with world.gate(options=SOON) as gate, writer(world):
        assert gate.approval("case-1").uses_left == 1
        assert gate.verify().valid


@pytest.mark.parametrize("harm", ["locked", "removed", "replaced"])
def test_gone_between_the_commits(world: World, tmp_path: Path, harm: str) -> None:
    """Locked, removed or replaced while the send is out: OutcomeNotRecorded with the evidence, and no second send."""
    lock = sqlite3.connect(world.journal, isolation_level=None)
    harms: dict[str, Callable[[], object]] = {
        "locked": lambda: lock.execute("BEGIN IMMEDIATE"),
        "removed": lambda: _move(world, tmp_path / "kept"),
        "replaced": lambda: _replace(world, tmp_path / "kept"),
    }
    with world.gate(do_at(EXECUTED, harms[harm]), options=SOON) as gate:
        with pytest.raises(OutcomeNotRecorded) as caught:
            fire(gate, world)
        assert caught.value.evidence.reference == world.effects()[0]["key"]
    lock.close()
    if harm != "locked":
        _move_back(world, tmp_path / "kept")
    require_one_effect_after_all(world)


def _files(world: World) -> list[Path]:
    return [path for path in world.folder.glob("journal.db*") if path.is_file()]


def _move(world: World, to: Path) -> None:
    to.mkdir()
    for path in _files(world):
        path.rename(to / path.name)


def _move_back(world: World, kept: Path) -> None:
    for path in _files(world):
        path.unlink()
    for path in kept.iterdir():
        path.rename(world.folder / path.name)


def _replace(world: World, kept: Path) -> None:
    _move(world, kept)
    shutil.copy(kept / "journal.db", world.journal)


@pytest.mark.parametrize("replaced", [False, True])
def test_gone_before_the_first_commit(world: World, tmp_path: Path, replaced: bool) -> None:  # noqa: FBT001 - a parameter
    """A journal whose file was removed or replaced while the gate is open is JournalUnavailable, and nothing is sent."""
    with world.gate() as gate:
        gate.approval("case-1")
        (_replace if replaced else _move)(world, tmp_path / "kept")
        for _ in range(2):
            with pytest.raises(JournalUnavailable):
                fire(gate, world)
    assert world.effects() == []
    _move_back(world, tmp_path / "kept")
    require_one_effect_after_all(world)


# --- read-only


def fire_unprivileged(line: Line, world: World) -> str:
    """Fire as a user whom permissions hold for; return what came of it, or the error's name."""
    del line
    give_up_privileges()
    try:
        with world.gate() as gate:
            gate.approve("case-1", by="user:1", expires_in_s=86_400, cap_minor=2000, currency="usd")
            return fire(gate, world)
    except InterlockError as error:
        return type(error).__name__


def test_permissions_suffice_otherwise(nursery: Nursery, tmp_path: Path) -> None:
    """The unprivileged user of these tests can fire where nothing is read-only."""
    assert nursery.run(fire_unprivileged, World(tmp_path)) == "Committed"


@pytest.mark.parametrize("what", ["folder", "file", "file and folder", "holders"])
def test_read_only(nursery: Nursery, tmp_path: Path, what: str) -> None:
    """A read-only folder, file or folder of locks is JournalUnavailable: nothing is sent; made writable, it works."""
    world = World(tmp_path)
    if what == "folder":
        tmp_path.chmod(0o555)
    else:
        _made_by_somebody_else(world, what)
    assert nursery.run(fire_unprivileged, world) == "JournalUnavailable"
    assert world.effects() == []
    tmp_path.chmod(0o777)
    for path in tmp_path.iterdir():
        path.chmod(0o777)
    assert nursery.run(fire_unprivileged, world) == "Committed"
    assert len(world.effects()) == 1


def _made_by_somebody_else(world: World, what: str) -> None:
    world.gate().close()
    if "file" in what:
        world.journal.chmod(0o444)
    if "folder" in what:
        world.folder.chmod(0o555)
    if what == "holders":
        (world.folder / "journal.db-holders").chmod(0o555)
