"""Real processes for tests: started from a warm parent, stopped and killed.

Workers are forked by a *nursery*, a process with one thread that has imported everything and opened nothing: a fork of the test
process, which has threads under xdist, could inherit a lock that nobody will ever release.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Client, Connection, Listener, Pipe
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from tests.integration.shared_ledger import World, do_at

ROOT = Path(__file__).resolve().parents[2]


class Line:
    """What a worker talks to its test over, and forks over."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._connection = Client(address)
        self._connection.send(os.getpid())

    def say(self, what: object) -> None:
        """Tell the test something that can be pickled."""
        self._connection.send(what)

    def hear(self) -> Any:
        """Wait for a word of the test."""
        return self._connection.recv()

    def fork(self, task: Callable[..., Any], *args: Any) -> int:
        """Fork *this* process, with all that it has open; the child has a line of its own, see `Nursery.adopt`."""
        pid = os.fork()
        if pid == 0:
            self._connection.close()  # or nobody would see the parent's line end
            run(task, self._address, args)
        return pid


class Worker:
    """A process, as the test holds it."""

    def __init__(self, nursery: Nursery, connection: Connection) -> None:
        self._nursery, self._connection = nursery, connection
        self.pid: int = connection.recv()

    def tell(self, what: object = "go") -> None:
        """Let it go on from `Line.hear`."""
        self._connection.send(what)

    def hear(self) -> Any:
        """Return the next thing that it says."""
        return self._connection.recv()

    def result(self) -> Any:
        """Return what its task returned.

        Raises:
            AssertionError: it raised; or it was killed (then its line ends).
        """
        how, value = self.hear()
        assert how == "returned", value
        return value

    def signal(self, number: int) -> None:
        """Send it a signal; one that has ended by itself is not asked for."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, and wait for its death. The end of its line is too early: the locks that it held are dropped after that."""
        with suppress(ProcessLookupError):
            process = os.pidfd_open(self.pid)
            try:
                self.signal(signal.SIGKILL)
                select.select([process], [], [])
            finally:
                os.close(process)

    def stopped(self) -> bool:
        """Wait until it is stopped or dead; return whether it is stopped. For a worker that the nursery itself started."""
        return bool(os.WIFSTOPPED(self._nursery.wait(self.pid)))

    def ended(self) -> int:
        """Wait for its end; return its exit code, negative for a signal. For a worker that the nursery itself started."""
        while os.WIFSTOPPED(status := self._nursery.wait(self.pid)):
            pass
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        self._connection.close()


class Nursery:
    """Forks workers, each of which runs a function of a module that can be imported."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")
        self._address = str(Path(self._folder.name) / "s")
        self._listener = Listener(self._address, backlog=64)
        self._workers: list[Worker] = []
        self._orders, theirs = Pipe()
        command = f"from tests.integration.processes import tend; tend({theirs.fileno()}, {self._address!r})"
        self._process = subprocess.Popen([sys.executable, "-c", command], cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._orders.close()  # the nursery kills what it has started, and ends
        self._process.wait()
        for worker in self._workers:
            worker.close()
        self._listener.close()
        self._folder.cleanup()

    def start(self, task: Callable[..., Any], *args: Any) -> Worker:
        """Start a worker that calls `task(line, *args)`."""
        self._orders.send(("start", task.__module__, task.__qualname__, args))
        return self.adopt()

    def adopt(self) -> Worker:
        """Return the worker that was started, or forked by another worker, last."""
        worker = Worker(self, self._listener.accept())
        self._workers.append(worker)
        return worker

    def run(self, task: Callable[..., Any], *args: Any) -> Any:
        """Start a worker, wait for its end, and return what its task returned."""
        worker = self.start(task, *args)
        result = worker.result()
        worker.ended()
        return result

    def wait(self, pid: int) -> int:
        """Wait until a worker is stopped or dead; return its wait status."""
        self._orders.send(("wait", pid))
        status: int = self._orders.recv()
        return status


@dataclass
class _Brood:
    """The nursery's side."""

    address: str
    ended: dict[int, int] = field(default_factory=dict)
    living: set[int] = field(default_factory=set)

    def start(self, orders: Connection, module: str, name: str, args: tuple[Any, ...]) -> None:
        task = getattr(import_module(module), name)  # imported here once, and so by every worker already
        pid = os.fork()
        if pid == 0:
            orders.close()
            run(task, self.address, args)
        self.living.add(pid)

    def wait(self, pid: int) -> int:
        if pid not in self.living:
            return self.ended[pid]
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self.living.discard(pid)
            self.ended[pid] = status
        return status

    def end(self) -> None:
        for pid in self.living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def tend(descriptor: int, address: str) -> None:
    """Be a nursery, until the test closes its end."""
    orders, brood = Connection(descriptor), _Brood(address)
    import_module("interlock.gate")
    while True:
        try:
            what, *arguments = orders.recv()
        except EOFError:
            brood.end()
            return
        if what == "start":
            brood.start(orders, *arguments)
        else:
            orders.send(brood.wait(*arguments))


def run(task: Callable[..., Any], address: str, args: tuple[Any, ...]) -> NoReturn:
    """Be a worker: do the task, report, and end without running anybody else's exit handlers."""
    try:
        line = Line(address)
        try:
            result = task(line, *args)
        except BaseException:  # noqa: BLE001 - it is reported, whatever it is
            line.say(("raised", traceback.format_exc()))
        else:
            line.say(("returned", result))
    finally:
        os._exit(0)  # also where nobody listens any more


# --- how a process stops and ends itself, and where


def stop_myself() -> None:
    """Stop this process until somebody continues it."""
    # Sent to the calling thread, which then makes no step more; of one sent to the process another thread may hear first.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def kill_myself() -> None:
    """End this process without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


class Steps:
    """Counts the calls and returns that Python makes on one thread, from a function's first return on, and acts at one of them.

    Args:
        after: the qualified name of that function, on whichever thread it returns.
        number: at which step to act; None only counts.
        thread: the name of the thread whose steps count.
        act: what to do there.
    """

    def __init__(
        self, after: str, number: int | None = None, thread: str = "MainThread", act: Callable[[], None] = stop_myself
    ) -> None:
        self.count = 0
        self._after, self._number, self._thread, self._act = after, number, thread, act
        self.begun = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Be a profile function, see `sys.setprofile`."""
        del argument
        if not self.begun:
            self.begun = event == "return" and frame.f_code.co_qualname == self._after
            return
        if threading.current_thread().name == self._thread:
            self.count += 1
            if self.count == self._number:
                self._act()


@contextmanager
def profiled(profile: Callable[[FrameType, str, object], None]) -> Iterator[None]:
    """Call a profile function at every step of this thread and of every thread that is started meanwhile."""
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@contextmanager
def held(barrier: Path) -> Iterator[None]:
    """Keep every process back that passes this barrier, until the end: then all go at once."""
    with barrier.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def pass_barrier(barrier: Path) -> None:
    """Wait for the end of `held`."""
    with barrier.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


def give_up_privileges() -> None:
    """Let permissions hold for this process, also where it is root's: root without capabilities is a user like others."""
    if os.geteuid() == 0:
        version_3, this_process = 0x2008_0522, 0
        header = (ctypes.c_uint32 * 2)(version_3, this_process)
        none = (ctypes.c_uint32 * 6)()
        if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
            raise OSError(ctypes.get_errno(), "capset")


# --- tasks


def fire(line: Line, world: World, key: str = "case-1", approval: str = "case-1", place: str = "") -> str:
    """Fire once, when told to; die at a place of the provider's."""
    with world.gate(do_at(place, kill_myself)) as gate:
        gate.approval(approval)  # the connection is open and warm: what is left is the fire itself
        line.say("ready")
        line.hear()
        return type(gate.fire(key, world.payout(key), approval=approval)).__name__


def finish(line: Line, world: World) -> str:
    """Recover everything, then fire until there is an end; return its name."""
    del line
    with world.gate() as gate:
        gate.recover()
        return type(gate.fire("case-1", world.payout("case-1"), approval="case-1", wait_s=60)).__name__
