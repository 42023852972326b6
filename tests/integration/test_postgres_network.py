"""Two hosts, as network namespaces with a kernel's own TCP: one loses its network in the middle of a send, and says nothing."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.postgres.server import PostgresServer
from interlock import Committed
from interlock.errors import OutcomeNotRecorded
from tests.integration.postgres_stage import Background, Stage, once, stage_on, wait_until
from tests.integration.processes import Line, Nursery
from tests.integration.shared_ledger import EXECUTED, WRITE, World, do_at
from tests.servers import start_server

pytestmark = pytest.mark.long

HOURS_S = 12 * 3600.0
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_namespaces = itertools.count(1)


def ip(*arguments: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def may_make_namespaces() -> bool:
    """Whether this user may make network namespaces here."""
    name = f"il{os.getpid()}-try"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    ip("netns", "del", name)
    return True


@dataclass(frozen=True)
class Host:
    """A network namespace: what runs in it has a network of its own.

    Args:
        name: the namespace's.
    """

    name: str

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let what this thread starts meanwhile run on this host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/proc/thread-self/ns/net").open() as home, Path("/run/netns", self.name).open() as there:
            _check(libc.setns(there.fileno(), _CLONE_NEWNET))
            try:
                yield
            finally:
                _check(libc.setns(home.fileno(), _CLONE_NEWNET))

    def set_link(self, state: str) -> None:
        """Take this host's network down, or up again. Nobody is told: packets are lost, and that is all."""
        ip("-n", self.name, "link", "set", "eth0", state)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "setns")


@dataclass(frozen=True)
class Net:
    """A database's host, and two that reach it, each over a wire of its own."""

    database: Host
    hosts: tuple[Host, Host]

    @staticmethod
    def address(number: int) -> str:
        """Return the database's address on the wire to a host."""
        return f"10.77.{number}.1"


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    """Three hosts in one machine."""
    if sys.platform != "linux" or not may_make_namespaces():
        pytest.skip("no network namespaces can be made here: that takes Linux, `ip` and root")
    prefix = f"il{os.getpid()}-{next(_namespaces)}"
    made = Net(Host(f"{prefix}-db"), (Host(f"{prefix}-a"), Host(f"{prefix}-b")))
    names = [made.database.name, *(host.name for host in made.hosts)]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for number, host in enumerate(made.hosts):
            wire = ["name", f"wire{number}", "netns", made.database.name, "type", "veth", "peer", "name", "eth0"]
            ip("link", "add", *wire, "netns", host.name)
            ip("-n", made.database.name, "addr", "add", f"{made.address(number)}/24", "dev", f"wire{number}")
            ip("-n", made.database.name, "link", "set", f"wire{number}", "up")
            ip("-n", host.name, "addr", "add", f"10.77.{number}.2/24", "dev", "eth0")
            host.set_link("up")
        yield made
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture(scope="module")
def server(net: Net) -> Iterator[PostgresServer]:
    """A server on the database's host, which nobody outside these three reaches."""
    with net.database.entered():
        started = start_server(tcp=True, settings={"listen_addresses": "*"})
    with started:
        with (started.data_folder / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.77.0.0/16 trust\n")
        Stage.sql_on(started, "SELECT pg_reload_conf()")
        yield started


@pytest.fixture(scope="module")
def nurseries(net: Net) -> Iterator[tuple[Nursery, Nursery]]:
    """Where the processes of the two hosts come from."""
    with net.hosts[0].entered():
        first = Nursery()
    with net.hosts[1].entered():
        second = Nursery()
    with first, second:
        yield first, second


@dataclass(frozen=True)
class RemoteWorld(World):
    """A world whose journal is on another host.

    The provider is a file, which no cut wire keeps from anybody: what is lost is the way to the journal.
    """

    journal_url: str = ""

    @property
    def url(self) -> str:
        """The journal's URL."""
        return self.journal_url


@pytest.fixture
def worlds(server: PostgresServer, net: Net, tmp_path: Path) -> tuple[World, World]:
    """One world, as each of the two hosts sees it; claims run for hours, so that nobody waits for them."""
    schema = f"net_{next(_namespaces)}"
    urls = (server.url(host=net.address(number), schema=schema) for number in range(2))
    first, second = (RemoteWorld(tmp_path, claim_ttl_s=HOURS_S, journal_url=url) for url in urls)
    return first, second


def approve(line: Line, world: World) -> None:
    """Grant an approval."""
    del line
    world.approve()


def fire_slowly(line: Line, world: World, place: str) -> tuple[str, str]:
    """Fire, and wait at a place of the send until told to go on; fire again, when told, until there is an end."""

    def wait() -> None:
        line.say("sending")
        line.hear()

    with world.gate(do_at(place, wait)) as gate:
        try:
            said = type(gate.fire("case-1", world.payout(), approval="case-1")).__name__
        except OutcomeNotRecorded:
            said = "OutcomeNotRecorded"
        line.say(said)
        line.hear()
        return said, type(gate.fire("case-1", world.payout(), approval="case-1", wait_s=60)).__name__


def finish(line: Line, world: World) -> tuple[str, float]:
    """Fire until there is an end; return its name, and after how many seconds."""
    with world.gate() as gate:
        line.say("ready")
        line.hear()
        began_s = time.monotonic()
        outcome = gate.fire("case-1", world.payout(), approval="case-1", wait_s=60)
        return type(outcome).__name__, time.monotonic() - began_s


@pytest.mark.parametrize("place", [WRITE, EXECUTED])
def test_host_without_network_is_taken_over(
    net: Net,
    nurseries: tuple[Nursery, Nursery],
    worlds: tuple[World, World],
    place: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A host loses its network in the middle of a send: the other one takes over, hours before the claim runs out. One effect."""
    nurseries[1].run(approve, worlds[1])
    cut_off = nurseries[0].start(fire_slowly, worlds[0], place)
    assert cut_off.hear() == "sending"
    other = nurseries[1].start(finish, worlds[1])
    assert other.hear() == "ready"
    net.hosts[0].set_link("down")
    try:
        other.tell()
        ended, after_s = other.result()
        with capsys.disabled():
            print(f"\n  from the lost network to the end by another host ({place}): {after_s:.1f} s")  # noqa: T201 - how long it takes is for a person to read, and no test's business
        assert ended == "Committed"
        assert len(worlds[1].effects()) == 1
        cut_off.tell()
        assert cut_off.hear() == "OutcomeNotRecorded", "it has the provider's answer, and can't reach the journal"
    finally:
        net.hosts[0].set_link("up")
    cut_off.tell()
    assert cut_off.result() == ("OutcomeNotRecorded", "Committed")
    assert len(worlds[1].effects()) == 1


def test_sessions_of_a_lost_host_are_ended(
    net: Net, server: PostgresServer, nurseries: tuple[Nursery, Nursery], worlds: tuple[World, World]
) -> None:
    """A host that is gone leaves no sessions behind that would use up the server's connections."""
    nurseries[1].run(approve, worlds[1])
    worker = nurseries[0].start(fire_slowly, worlds[0], WRITE)
    assert worker.hear() == "sending"
    assert sessions(server) > 0
    net.hosts[0].set_link("down")
    try:
        wait_until(lambda: sessions(server) == 0)
        worker.kill()
    finally:
        net.hosts[0].set_link("up")


def sessions(server: PostgresServer) -> int:
    """Return how many sessions of the first host the server has."""
    statement = "SELECT count(*) FROM pg_stat_activity WHERE client_addr = '10.77.0.2'"
    return int(Stage.sql_on(server, statement)[0][0])


# --- where a proxy in between answers for both sides, no keepalive sees anything


@pytest.fixture
def half_open() -> Iterator[Stage]:
    """A journal behind a proxy that a test turns into a black hole."""
    with start_server() as started, stage_on(started) as one:
        yield one


def test_half_open_holder_keeps_its_claim_until_it_runs_out(half_open: Stage) -> None:
    """A proxy swallows everything: the holder hangs, its claim runs out, another one ends the action; the holder is told."""
    stage, ttl_s = half_open, 15.0
    holder = stage.actor(stage.gate(claim_ttl_s=ttl_s))
    other = stage.gate(stage.direct_url(), claim_ttl_s=ttl_s)
    stage.world.after_send = once(stage.proxy.blackhole)
    fire = Background(holder.fire)
    wait_until(lambda: stage.world.ledger)
    outcome = other.fire(holder.key, stage.world.transfer(), approval=str(holder.approval), wait_s=60)
    assert isinstance(outcome, Committed)
    assert len(stage.world.ledger) == 1
    with pytest.raises(OutcomeNotRecorded):
        fire.result(patience_s=90)
    stage.proxy.heal()
    assert isinstance(holder.fire(), Committed)
    assert len(stage.world.ledger) == 1
