"""The database's clock: it is carried on while the database is down, and where it jumps, nothing is sent twice."""

import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from interlock import Committed, Gate, InFlight, Outcome
from interlock.domain.requests import Send, StillAt
from interlock.errors import JournalUnavailable, OutcomeNotRecorded
from interlock.infrastructure.postgres.clock import SAMPLE_S, DatabaseClock
from tests.crashing import AFTER_SEND, BEFORE_SEND, Actor, Death, crashes
from tests.crashing import once as right_before
from tests.integration.postgres_stage import Stage, once, stage_on, wait_until
from tests.servers import start_server

FIRE_REQUESTS = 13
JUMPS_H = [-2, 2]
NOT_YET = timedelta(seconds=5)

# What a machine's administrator does with `date`, for one server: its clock, moved by what stands in a file.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile long long *ahead_s;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("INTERLOCK_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(0, sizeof *ahead_s, PROT_READ, MAP_SHARED, file, 0);
    ahead_s = page == MAP_FAILED ? 0 : page;
}

int gettimeofday(struct timeval *at, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(at, zone);
    if (at && ahead_s) at->tv_sec += *ahead_s;
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, at);
    if (at && ahead_s && clock == CLOCK_REALTIME) at->tv_sec += *ahead_s;
    return result;
}
"""


class MovableClock:
    """The clock of one server, which a test can set.

    Args:
        folder: where it keeps its files; the server's user has to be able to read there.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        self.library = folder / "clock.so"
        self.set_ahead(hours=0)
        source = folder / "clock.c"
        source.write_text(SHIM)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", self.library, source, "-ldl"], check=True)
        for path in (self._file, self.library):
            path.chmod(0o644)

    def set_ahead(self, *, hours: int) -> None:
        """Let the server's clock go this far ahead of the machine's, or behind it."""
        data = struct.pack("=q", hours * 3600)
        if self._file.exists():
            with self._file.open("r+b") as file:
                file.write(data)
        else:
            self._file.write_bytes(data)

    @property
    def environment(self) -> dict[str, str]:
        """What a server needs to go by it."""
        return {"LD_PRELOAD": str(self.library), "INTERLOCK_TEST_CLOCK": str(self._file)}


@pytest.fixture(scope="module")
def clock() -> Iterator[MovableClock]:
    """A clock for this module's server."""
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("a server's clock is moved by a small library, which needs Linux and gcc to be made")
    with tempfile.TemporaryDirectory(prefix="clock-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server's user can't enter pytest's own
        yield MovableClock(folder)


@pytest.fixture(scope="module")
def stage(clock: MovableClock) -> Iterator[Stage]:
    """A journal on a server whose clock can be set."""
    with start_server(environment=clock.environment) as started, stage_on(started) as one:
        yield one


@pytest.fixture(scope="module")
def gate(stage: Stage) -> Gate:
    """A gate that stays open, however late it is."""
    return stage.gate()


@pytest.fixture(autouse=True)
def right_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set the clock right again after each test."""
    yield
    if "clock" in request.fixturenames:
        request.getfixturevalue("clock").set_ahead(hours=0)


def notice(gate: Gate) -> None:
    """Let a gate read the database's clock again right now, as it does by itself once a second."""
    assert isinstance(gate._driver.clock, DatabaseClock)
    gate._driver.clock._tried_s = -SAMPLE_S


def jump(clock: MovableClock, gate: Gate, hours: int) -> None:
    """Set the server's clock, and let a gate notice."""
    clock.set_ahead(hours=hours)
    notice(gate)


def noticed(gate: Gate, expected: datetime) -> bool:
    """Let a gate read the database's clock again, and return whether that is what it should be."""
    notice(gate)
    return abs(gate._driver.clock.now() - expected) < NOT_YET


def to_the_end(actor: Actor, outcome: Outcome) -> Outcome:
    """Fire again, until there is an outcome."""
    for _ in range(10):
        if not isinstance(outcome, InFlight):
            return outcome
        time.sleep(0.05)
        notice(actor.gate)
        outcome = actor.fire()
    raise AssertionError(f"no end: {outcome}")


def require_once(stage: Stage, actor: Actor) -> None:
    """The provider did it once, by its own ledger, and the journal says so."""
    assert len(stage.effects(actor)) == 1
    assert actor.gate.receipt(actor.key).status == "COMMITTED"


def test_shim_moves_the_servers_clock(stage: Stage, clock: MovableClock, gate: Gate) -> None:
    """The server's clock is what these tests say it is, and the gate goes by the server's and not by its machine's."""
    for hours in (0, *JUMPS_H):
        clock.set_ahead(hours=hours)
        expected = datetime.now(UTC) + timedelta(hours=hours)
        assert abs(stage.sql("SELECT clock_timestamp()")[0][0] - expected) < NOT_YET
        wait_until(partial(noticed, gate, expected))


@pytest.mark.parametrize("hours", JUMPS_H)
@pytest.mark.parametrize("index", range(FIRE_REQUESTS))
def test_clock_jumps_between_requests_of_fire(stage: Stage, clock: MovableClock, gate: Gate, index: int, hours: int) -> None:
    """Whichever request of `fire` finds the clock set back or forward, the action ends, and has one effect."""
    notice(gate)
    actor = stage.actor(gate, f"jump-{index}-{hours}")
    requests = iter(range(FIRE_REQUESTS * 4))

    def interpose(request: object) -> None:
        del request
        if next(requests) == index:
            jump(clock, gate, hours)

    outcome = actor.fire(interpose=interpose)
    assert isinstance(to_the_end(actor, outcome), Committed)
    require_once(stage, actor)
    assert gate.verify(actor.key).findings == ()


@pytest.mark.parametrize("hours", JUMPS_H)
@pytest.mark.parametrize("died", [BEFORE_SEND, AFTER_SEND])
def test_clock_jumps_while_an_action_is_in_doubt(stage: Stage, clock: MovableClock, gate: Gate, died: Death, hours: int) -> None:
    """A holder dies, and the clock is set back or forward before another one recovers: the action ends, with one effect."""
    dead = stage.actor(stage.gate(), f"doubt-{died}-{hours}")
    assert crashes(dead.fire, died)
    dead.die()
    jump(clock, gate, hours)
    actor = Actor(gate, stage.world, dead.key, dead.approval)
    assert isinstance(to_the_end(actor, actor.recover()), Committed)
    require_once(stage, actor)


@pytest.mark.parametrize("moment", [StillAt, Send])
def test_clock_set_forward_makes_a_claim_run_out(
    stage: Stage, clock: MovableClock, gate: Gate, moment: type[StillAt | Send]
) -> None:
    """The clock is set forward under a living holder: its claim has run out, another one takes over, and the effect is one."""
    holder = stage.actor(stage.gate(), f"claim-{moment.__name__}")
    other = Actor(gate, stage.world, holder.key, holder.approval)

    def take_over() -> None:
        jump(clock, gate, 2)
        assert isinstance(other.fire(), Committed)

    outcome = holder.fire(interpose=right_before(moment, take_over))
    assert isinstance(to_the_end(holder, outcome), Committed)
    require_once(stage, holder)


# --- while the database is down


@pytest.fixture
def short_lived() -> Iterator[Stage]:
    """A journal on a server that a test may leave killed."""
    with start_server() as started, stage_on(started) as one:
        yield one


def test_clock_is_carried_on_while_the_database_is_down(short_lived: Stage) -> None:
    """Once it was read, the clock goes on without the database; and a gate can't be opened without a first reading."""
    gate = short_lived.gate()
    short_lived.server.kill()
    time.sleep(SAMPLE_S)
    for _ in range(3):
        notice(gate)
        assert abs(gate._driver.clock.now() - datetime.now(UTC)) < NOT_YET
    with pytest.raises(JournalUnavailable):
        short_lived.gate()


def test_answer_that_can_not_be_recorded_is_said_loudly(short_lived: Stage) -> None:
    """The provider answers while the journal is down, and the clock's last reading is old: OutcomeNotRecorded, nothing else."""
    actor = short_lived.actor(short_lived.gate())

    def strike() -> None:
        short_lived.server.kill()
        notice(actor.gate)

    short_lived.world.after_send = once(strike)
    with pytest.raises(OutcomeNotRecorded) as caught:
        actor.fire()
    assert caught.value.evidence.reference == short_lived.world.ledger[0].reference
    assert "fire it again under this one" in str(caught.value)
    short_lived.server.restart()
    assert isinstance(actor.fire(), Committed)
    require_once(short_lived, actor)
