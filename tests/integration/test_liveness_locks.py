"""Liveness locks: who holds a claim, who is gone, and what nobody may conclude."""

import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.domain.requests import Liveness
from interlock.infrastructure.locks import FileLocks
from tests.integration.processes import Line, Nursery, finish, kill_myself
from tests.integration.shared_ledger import AMOUNT_MINOR, WRITE, Kind, World, do_at

HOURS_S = 12 * 3600.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world whose claims run for hours: only the lock can tell that a holder is gone."""
    world = World(tmp_path, claim_ttl_s=HOURS_S)
    world.approve()
    return world


def lock_files(folder: Path) -> set[str]:
    """Return the names of all lock files."""
    return {path.name for path in folder.glob("*.lock")}


def fire_and_hang(line: Line, world: World) -> str:
    """Fire, and wait in the middle of the send for a word; return what came of it."""

    def hang() -> None:
        line.say((os.getpid(), "sending"))
        line.hear()

    with world.gate(do_at(WRITE, hang)) as gate:
        outcome = gate.fire("case-1", world.payout(), approval="case-1")
        return type(outcome).__name__


def fire_and_die(line: Line, world: World) -> None:
    """Fire, and be killed in the middle of the send."""
    del line
    with world.gate(do_at(WRITE, kill_myself)) as gate:
        gate.fire("case-1", world.payout(), approval="case-1")


# --- the locks themselves


def test_two_gates_in_one_process_are_two_holders(world: World) -> None:
    """Each gate has a random id and a lock of its own; each sees the other alive while it is open, and gone when it is closed."""
    with world.gate() as one:
        other = world.gate()
        first, second = one._driver.locks, other._driver.locks
        assert first.holder != second.holder
        assert first.handle is not None
        assert second.handle is not None
        assert first.probe(second.handle) is second.probe(first.handle) is Liveness.ALIVE
        other.close()
        assert first.probe(second.holder) is Liveness.UNKNOWN, "a holder's id is no handle"


def test_closed_gate_is_gone(tmp_path: Path) -> None:
    """A lock that was released is gone, with its file; releasing twice does nothing."""
    one, other = FileLocks(tmp_path), FileLocks(tmp_path)
    handle = one.handle
    assert handle is not None
    assert other.probe(handle) is Liveness.ALIVE
    one.release()
    one.release()
    assert other.probe(handle) is Liveness.GONE
    assert lock_files(tmp_path) == {f"{other.handle}.lock"}
    other.release()


def test_probing_is_no_holding(tmp_path: Path) -> None:
    """Asking about a dead holder, again and again and by several, neither revives it nor kills a living one."""
    dead, one, other = (FileLocks(tmp_path) for _ in range(3))
    handle, living = dead.handle, one.handle
    assert handle is not None
    assert living is not None
    dead.lose()  # as the system does for a process that dies
    for _ in range(3):
        assert one.probe(handle) is other.probe(handle) is Liveness.GONE
        assert other.probe(living) is Liveness.ALIVE
    one.release()
    other.release()


def test_sweep_removes_the_dead_only(nursery: Nursery, world: World) -> None:
    """Opening a gate removes what a killed one left behind, and nothing of those that live."""
    folder = world.folder / "journal.db-holders"
    living = nursery.start(fire_and_hang, world)
    living.hear()
    (of_the_living,) = lock_files(folder)
    doomed = World(world.folder, claim_ttl_s=HOURS_S)
    with doomed.gate() as gate:
        gate.approve("case-2", by="user:1", expires_in_s=60, cap_minor=AMOUNT_MINOR, currency="usd")
    killed = nursery.start(fire_other_and_die, world)
    assert killed.ended() == -9
    assert len(lock_files(folder)) == 2
    with world.gate() as gate:
        assert lock_files(folder) == {of_the_living, f"{gate._driver.locks.handle}.lock"}
        held = gate.fire("case-1", world.payout(), approval="case-1")
        assert type(held).__name__ == "InFlight"
    living.tell()
    assert living.result() == "Committed"


def fire_other_and_die(line: Line, world: World) -> None:
    """Fire another case, and be killed."""
    del line
    with world.gate(do_at(WRITE, kill_myself)) as gate:
        gate.fire("case-2", world.payout("case-2"), approval="case-2")


@pytest.mark.parametrize("handle", ["00000000-" + 32 * "0", "", "no handle at all", "../../etc/passwd"])
def test_lock_of_another_kernel_is_unknown(tmp_path: Path, handle: str) -> None:
    """Of a lock that another kernel made nothing can be said, whether or not a file of its name is here."""
    locks = FileLocks(tmp_path)
    assert locks.probe(handle) is Liveness.UNKNOWN
    if handle.startswith("0000"):
        (tmp_path / f"{handle}.lock").touch()
        assert locks.probe(handle) is Liveness.UNKNOWN
    locks.release()


def test_a_lock_that_can_not_be_opened_says_nothing(tmp_path: Path) -> None:
    """The file is there, and it may be another user's, or no descriptor may be left: neither alive nor gone."""
    one = FileLocks(tmp_path)
    assert one.handle is not None
    other = one.handle.replace(one.holder, "0" * 32)
    assert one.probe(other) is Liveness.GONE
    (tmp_path / f"{other}.lock").symlink_to(f"{other}.lock")  # a loop, which root can't open either
    assert one.probe(other) is Liveness.UNKNOWN
    one.release()


def test_two_who_ask_at_once_do_not_take_each_other_for_the_holder(tmp_path: Path) -> None:
    """While one asks about a dead gate, the other one hears that it is gone, too."""
    dead, other = FileLocks(tmp_path), FileLocks(tmp_path)
    assert dead.handle is not None
    dead.lose()
    with (tmp_path / f"{dead.handle}.lock").open("r+") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert other.probe(dead.handle) is Liveness.GONE
    other.release()


def test_sweep_between_making_and_locking(tmp_path: Path) -> None:
    """Somebody who sweeps between the making of a lock file and its locking takes nothing away: the gate is alive for all."""
    swept = False

    def sweep(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal swept
        del arguments
        if armed and event == "fcntl.flock" and not swept:
            swept = True
            for path in tmp_path.glob("*.lock"):
                descriptor = os.open(path, os.O_RDWR)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                os.close(descriptor)

    # An audit hook can't be removed; it is only disarmed.
    armed = True
    sys.addaudithook(sweep)
    one = FileLocks(tmp_path)
    armed = False
    assert swept
    other = FileLocks(tmp_path)
    assert one.handle is not None
    assert other.probe(one.handle) is Liveness.ALIVE
    one.release()
    other.release()


def test_no_descriptor_leaks(world: World) -> None:
    """Two hundred gates, opened, used and closed, leave no descriptor and no lock file behind."""

    def open_descriptors() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    def use() -> None:
        with world.gate() as gate:
            gate.approval("case-1")
            gate.verify()

    use()
    before = open_descriptors()
    for _ in range(200):
        use()
    assert open_descriptors() <= before  # fewer, where those of earlier tests were collected meanwhile
    assert lock_files(world.folder / "journal.db-holders") == set()


# --- what the gate makes of them


def test_closed_gates_action_is_taken_over_at_once(nursery: Nursery, world: World) -> None:
    """An action whose gate was closed in an orderly way is taken over at once, hours before its claim runs out."""
    assert nursery.run(fire_until_locked, world) == "OutcomeNotRecorded"
    assert len(world.effects()) == 1
    assert nursery.run(finish, world) == "Committed"
    assert len(world.effects()) == 1


def fire_until_locked(line: Line, world: World) -> str:
    """Fire; the journal is locked when the answer comes; close the gate in an orderly way."""
    import sqlite3

    del line
    other = sqlite3.connect(world.journal, isolation_level=None)
    gate = world.gate(do_at("executed", lambda: other.execute("BEGIN IMMEDIATE")), options="?busy_timeout_s=1")
    try:
        return type(gate.fire("case-1", world.payout(), approval="case-1")).__name__
    except Exception as error:  # noqa: BLE001 - its name is what is asked for
        return type(error).__name__
    finally:
        other.close()
        gate.close()


def test_living_holder_is_left_alone(nursery: Nursery, world: World) -> None:
    """Nobody takes over from a holder that lives, however often they ask."""
    living = nursery.start(fire_and_hang, world)
    living.hear()
    with world.gate() as gate:
        for _ in range(5):
            (outcome,) = gate.recover().outcomes
            assert (type(outcome).__name__, getattr(outcome, "reason", None)) == ("InFlight", "held")
    living.tell()
    assert living.result() == "Committed"
    assert len(world.effects()) == 1


def test_expired_holders_release_frees_nobody_elses_lock(nursery: Nursery, tmp_path: Path) -> None:
    """A overruns its claim, B takes over, A closes: B is the holder, for everybody (field case 13, laravel/framework#26213)."""
    world = World(tmp_path, Kind.KEYS, claim_ttl_s=5.3, send_deadline_s=0.3)
    world.approve()
    late = nursery.start(fire_and_hang, world)
    late.hear()
    late_handle = lock_files(tmp_path / "journal.db-holders")
    second = nursery.start(take_over_and_hang, world)
    assert second.hear()[1] == "sending"
    (of_the_second,) = lock_files(tmp_path / "journal.db-holders") - late_handle
    late.tell()
    late.result()
    late.ended()
    assert lock_files(tmp_path / "journal.db-holders") == {of_the_second}
    with world.gate() as third:
        assert third._driver.locks.probe(of_the_second.removesuffix(".lock")) is Liveness.ALIVE
    second.tell()
    second.result()
    assert len(world.effects()) == 1


def take_over_and_hang(line: Line, world: World) -> str:
    """Wait until the claim of another one has run out, and hang in the middle of one's own send."""

    def hang() -> None:
        line.say((os.getpid(), "sending"))
        line.hear()

    with world.gate(do_at(WRITE, hang)) as gate:
        return type(gate.fire("case-1", world.payout(), approval="case-1", wait_s=60)).__name__


def test_used_pid_changes_nothing(nursery: Nursery, world: World) -> None:
    """A dead holder whose process id is somebody else's now is gone all the same (field case 16, getpaseo/paseo#5128)."""
    # Two gates of one process: the first is dead, and the process that its claim names is alive and holds a lock.
    assert nursery.run(fire_until_locked_and_go_on, world) == ("OutcomeNotRecorded", "Committed")
    assert len(world.effects()) == 1


def fire_until_locked_and_go_on(line: Line, world: World) -> tuple[str, str]:
    """Die as a gate and live on as a process; then fire with another gate of the same process."""
    died = fire_until_locked(line, world)
    with world.gate() as gate:
        assert gate.receipt("case-1").status == "IN_FLIGHT"
        return died, type(gate.fire("case-1", world.payout(), approval="case-1")).__name__


def test_killed_holder_is_gone_although_its_file_is_there(nursery: Nursery, world: World) -> None:
    """A killed process leaves its lock file; the file alone says nothing, and the action is taken over at once."""
    assert nursery.start(fire_and_die, world).ended() == -9
    assert len(lock_files(world.folder / "journal.db-holders")) == 1
    assert nursery.run(finish, world) == "Committed"
    assert len(world.effects()) == 1
