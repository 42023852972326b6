"""Real processes for tests: started from a warm parent, stopped and killed; and a provider whose ledger is a file.

Workers are forked by a *nursery*, a process with one thread that has imported everything and opened nothing: a fork of the test
process, which has threads under xdist, could inherit a lock that nobody will ever release.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib import import_module
from multiprocessing.connection import Client, Connection, Listener, Pipe
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self
from uuid import UUID

from interlock import CapabilityProfile, Done, Effect, Evidence, Gate, GateConfig, Money, NotSent, Settlement, Unknown
from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    BurnAnswer,
    Burned,
    Found,
    KeyState,
    LookupAnswer,
    SendAnswer,
)
from interlock.domain.effects import DataclassCodec
from interlock.domain.ports import Deadline, Target
from interlock.functions import ActingFunction, FunctionTarget, target
from interlock.infrastructure.clock import Clock, SystemClock

ROOT = Path(__file__).resolve().parents[2]
AMOUNT_MINOR = 2000
Hook = Callable[[str], None]
"""Called by the provider with the name of the place that a send has come to."""


# --- the provider


@dataclass(frozen=True, slots=True)
class Payout:
    """What the provider pays out."""

    case: str
    amount_minor: int


class Kind(StrEnum):
    """What the provider can do, from the best to the worst."""

    BURNING = "burning"
    KEYS = "keys and a lookup"
    NO_KEYS = "a lookup alone"
    FUNCTION = "nothing"


ARRIVAL, WRITE, EXECUTED = "arrival", "write", "executed"
"""Places of a send: it has begun; its last check is made, and its write is next; it is in the ledger, and not answered yet."""


class LedgerTarget(Target[Payout]):
    """A provider whose ledger is a file that processes share: one line an effect, appended in one write."""

    codec = DataclassCodec(Payout)

    def __init__(self, ledger: Path, profile: CapabilityProfile, at: Hook, wordiness: int) -> None:
        self.name = "ledger"
        self._ledger, self._profile, self._at, self._wordiness = ledger, profile, at, wordiness

    @property
    def capabilities(self) -> CapabilityProfile:
        return self._profile

    def effect(self, parameters: Payout, *, subject: str, money: Money | None = None) -> Effect[Payout]:
        """Return the effect of a payout."""
        return Effect(self.name, subject, parameters, money)

    def _send(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        self._at(ARRIVAL)
        if deadline.remaining_s() <= 0:
            return NotSent("its deadline was over before the write")
        self._at(WRITE)
        with locked_ledger(self._ledger) as lines:
            known = [line for line in lines if line["key"] == idempotency_key] if self._profile.dedupes else []
            if any(line["burned"] for line in known):
                return Unknown("the key was used with another request", KeyState.MISMATCHED)
            if not known:
                append(self._ledger, action_id.hex, idempotency_key, effect.parameters)
        self._at(EXECUTED)
        return Done(evidence(idempotency_key, replayed=bool(known), wordiness=self._wordiness))

    def _lookup(self, effect: Effect[Payout], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, deadline
        mine = [line for line in effects(self._ledger) if line["action"] == action_id.hex]
        return Found(evidence(mine[0]["key"], wordiness=self._wordiness)) if mine else Absent(SystemClock().now())

    def _burn(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        del deadline
        with locked_ledger(self._ledger) as lines:
            known = [line for line in lines if line["key"] == idempotency_key]
            if known and not known[0]["burned"]:
                return AlreadyUsed()
            if not known:
                append(self._ledger, action_id.hex, idempotency_key, effect.parameters, burned=True)
            return Burned()


def evidence(reference: str, *, replayed: bool = False, wordiness: int = 0) -> Evidence:
    """Return the provider's word for one of its payouts."""
    words = json.dumps("x" * wordiness)
    return Evidence(reference=reference, state="paid", settlement=Settlement.FINAL, json=words, replayed=replayed)


def append(ledger: Path, action: str, key: str, payout: Payout, *, burned: bool = False) -> None:
    """Write one line with one system call: a process that is killed leaves all of it or nothing."""
    line = json.dumps({"action": action, "key": key, "burned": burned, "pid": os.getpid(), **asdict(payout)})
    descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@contextmanager
def locked_ledger(ledger: Path) -> Iterator[list[dict[str, Any]]]:
    """Keep other processes out while a key is looked up and used."""
    with ledger.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield _lines(ledger)


def effects(ledger: Path) -> list[dict[str, Any]]:
    """Return what the provider has paid out: the judge of every test here."""
    return [line for line in _lines(ledger) if not line["burned"]]


def _lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def nowhere(place: str) -> None:
    """Let every place pass."""
    del place


def do_at(wanted: str, act: Callable[[], object]) -> Hook:
    """Return a hook that acts at one place."""

    def hook(place: str) -> None:
        if place == wanted:
            act()

    return hook


def stop_myself() -> None:
    """Stop this process until somebody continues it."""
    # Sent to the calling thread, which then makes no step more; of one sent to the process another thread may hear first.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def kill_myself() -> None:
    """End this process without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


# --- the world of a test


@dataclass(frozen=True)
class World:
    """One journal and one provider, as all processes of a test see them.

    Args:
        folder: where both are.
        kind: what the provider can do.
        claim_ttl_s: the claim's time to live, in seconds.
        send_deadline_s: the wall-clock limit of a send, in seconds.
        wordiness: how many characters of evidence the provider gives.
        journal_url: the journal's, where it is no file in the folder.
    """

    folder: Path
    kind: Kind = Kind.BURNING
    claim_ttl_s: float = 40.0
    send_deadline_s: float = 30.0
    wordiness: int = 0
    journal_url: str | None = None

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def url(self) -> str:
        return self.journal_url or f"sqlite:///{self.journal}"

    def effects(self) -> list[dict[str, Any]]:
        """Return what the provider has paid out."""
        return effects(self.ledger)

    def target(self, at: Hook = nowhere) -> LedgerTarget | FunctionTarget[Payout]:
        """Return the provider as a target."""
        if self.kind is Kind.FUNCTION:
            acts: ActingFunction[Payout] = self._function(at)
            return target("ledger", effect=Payout, send_deadline_s=self.send_deadline_s)(acts)
        keys = self.kind is not Kind.NO_KEYS
        profile = CapabilityProfile(
            send_deadline_s=self.send_deadline_s,
            kernel_s=0.0,
            settle_s=0.0,
            dedupe_window_s=86_400.0 if keys else None,
            roll_forward_s=0.0,
            lookup_staleness_s=0.0,
            burns=self.kind is Kind.BURNING,
        )
        return LedgerTarget(self.ledger, profile, at, self.wordiness)

    def _function(self, at: Hook) -> Any:
        ledger = self.ledger

        def pay(payout: Payout, /, *, idempotency_key: str, deadline_s: float) -> SendAnswer:
            del deadline_s  # a plain function does not ask: that is for the gate to do
            at(ARRIVAL)
            at(WRITE)
            append(ledger, idempotency_key, idempotency_key, payout)
            at(EXECUTED)
            return Done(evidence(idempotency_key))

        return pay

    def gate(self, at: Hook = nowhere, *, options: str = "", clock: Clock | None = None) -> Gate:
        """Open a gate on the journal."""
        config = GateConfig(claim_ttl_s=self.claim_ttl_s)
        return Gate.open(f"{self.url}{options}", targets=[self.target(at)], config=config, clock=clock)

    def payout(self, case: str = "case-1") -> Effect[Payout]:
        """Return the effect of one payout of `AMOUNT_MINOR`."""
        return self.target().effect(Payout(case, AMOUNT_MINOR), subject=case, money=Money(AMOUNT_MINOR, "usd"))

    def approve(self, approval_id: str = "case-1", *, uses: int = 1, cap_minor: int = AMOUNT_MINOR) -> None:
        """Grant an approval."""
        with self.gate() as gate:
            gate.approve(approval_id, by="user:1", expires_in_s=86_400, cap_minor=cap_minor, currency="usd", uses=uses)


# --- processes


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
        """Kill it, and wait for its death: that is when the system closes its line."""
        self.signal(signal.SIGKILL)
        with suppress(EOFError, ConnectionError):
            while True:
                self.hear()

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


# --- places that nobody offers a hook for


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


def finish(line: Line, world: World, key: str = "case-1", approval: str = "case-1") -> str:
    """Recover everything, then fire until there is an end; return its name."""
    del line
    with world.gate() as gate:
        gate.recover()
        return type(gate.fire(key, world.payout(key), approval=approval, wait_s=60)).__name__
