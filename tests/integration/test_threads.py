"""Threads that share one gate."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from interlock import Gate, GateConfig
from interlock.domain.sending import NOT_SENT_PAUSES_S
from interlock.driver import Driver, Registry
from interlock.errors import GateClosed
from interlock.infrastructure.clock import SystemClock
from interlock.infrastructure.locks import Locks
from interlock.infrastructure.opening import open_journal
from tests.integration.shared_ledger import AMOUNT_MINOR, WRITE, Kind, World, do_at, nowhere

THREADS = 16


def fire_all(gate: Gate, world: World, keys: list[str], approval: str) -> list[str]:
    """Fire each key on a thread of its own, all at once, and return the names of the outcomes."""
    ready = threading.Barrier(len(keys))

    def fire(key: str) -> str:
        ready.wait()
        return type(gate.fire(key, world.payout(key), approval=approval)).__name__

    with ThreadPoolExecutor(len(keys)) as pool:
        return list(pool.map(fire, keys))


def test_same_key_is_sent_once(tmp_path: Path) -> None:
    """Of 16 threads that fire the same key one sends; the others hear InFlight or its outcome."""
    world = World(tmp_path, Kind.NO_KEYS)
    world.approve("shared")
    with world.gate() as gate:
        outcomes = Counter(fire_all(gate, world, ["one"] * THREADS, "shared"))
        assert outcomes["Committed"] >= 1
        assert outcomes["Committed"] + outcomes["InFlight"] == THREADS
        assert gate.verify().valid
    assert len(world.effects()) == 1


@pytest.mark.parametrize("kind", [Kind.BURNING, Kind.NO_KEYS, Kind.FUNCTION])
def test_others_are_in_flight_while_one_sends(tmp_path: Path, kind: Kind) -> None:
    """While one thread is in the middle of its send, the others neither send nor take it for dead; nor does `recover`."""
    world = World(tmp_path, kind)
    world.approve("shared")
    sending, go_on, senders = threading.Event(), threading.Event(), []

    def wait() -> None:
        senders.append(threading.get_ident())
        sending.set()
        if len(senders) == 1:
            go_on.wait()

    with world.gate(do_at(WRITE, wait)) as gate, ThreadPoolExecutor(1) as pool:
        first = pool.submit(gate.fire, "one", world.payout("one"), approval="shared")
        sending.wait()
        assert fire_all(gate, world, ["one"] * (THREADS - 1), "shared") == ["InFlight"] * (THREADS - 1)
        (outcome,) = gate.recover().outcomes
        assert (type(outcome).__name__, getattr(outcome, "reason", None)) == ("InFlight", "held")
        assert len(gate.receipt("one").timeline) == 3, "nobody else has written to it"
        assert world.effects() == []
        go_on.set()
        assert type(first.result()).__name__ == "Committed"
    assert len(world.effects()) == len(senders) == 1


def test_different_keys_all_commit(tmp_path: Path) -> None:
    """Sixteen threads with keys of their own all commit under one approval, and spend it exactly."""
    world = World(tmp_path)
    world.approve("shared", uses=THREADS, cap_minor=THREADS * AMOUNT_MINOR)
    keys = [f"key-{n}" for n in range(THREADS)]
    with world.gate() as gate:
        assert fire_all(gate, world, keys, "shared") == ["Committed"] * THREADS
        assert gate.approval("shared").remaining_minor == 0
        assert gate.verify().valid
        assert gate.recover().outcomes == ()
    assert sorted(line["case"] for line in world.effects()) == sorted(keys)


def test_cap_holds_between_threads(tmp_path: Path) -> None:
    """Sixteen threads under an approval whose cap covers three: three send, the rest are refused."""
    world = World(tmp_path)
    world.approve("shared", uses=THREADS, cap_minor=3 * AMOUNT_MINOR)
    with world.gate(nowhere) as gate:
        outcomes = Counter(fire_all(gate, world, [f"key-{n}" for n in range(THREADS)], "shared"))
        assert gate.verify().valid
    assert outcomes == {"Committed": 3, "Refused": THREADS - 3}
    assert len(world.effects()) == 3


def test_a_clock_that_is_set_back_does_not_stretch_a_pause(tmp_path: Path) -> None:
    """A pause before the next try ends after the longest one that there is, though the clock says hours."""
    with World(tmp_path).gate() as gate:
        hours_ahead = gate._driver.clock.now() + timedelta(hours=3)
        assert gate._driver._seconds_until(hours_ahead) == max(NOT_SENT_PAUSES_S)


@pytest.mark.parametrize("kind", [Kind.NO_KEYS, Kind.FUNCTION])
def test_closing_waits_for_the_send_of_another_thread_and_lets_nothing_begin(tmp_path: Path, kind: Kind) -> None:
    """What is being sent is recorded before the journal is closed; what began meanwhile would have sent when it is."""
    world = World(tmp_path, kind)
    world.approve("shared", uses=2, cap_minor=2 * AMOUNT_MINOR)
    sending, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        if not sending.is_set():
            sending.set()
            go_on.wait()

    gate = world.gate(do_at(WRITE, wait))
    with ThreadPoolExecutor(2) as pool:
        sent = pool.submit(gate.fire, "one", world.payout("one"), approval="shared")
        sending.wait()
        closed = pool.submit(gate.close)
        assert gate._driver.closing.wait(60)
        with pytest.raises(TimeoutError):
            closed.result(timeout=0.3)
        try:
            with pytest.raises(GateClosed, match="nothing was written or sent"):
                gate.fire("two", world.payout("two"), approval="shared")
        finally:
            go_on.set()
        assert type(sent.result()).__name__ == "Committed"
        closed.result()
    with world.gate() as again:
        assert [(receipt.key, receipt.status) for receipt in again.receipts().receipts] == [("one", "COMMITTED")]


class Lock:
    """A gate's lock that takes a while to be given back, and knows how many gave it back at the same moment."""

    def __init__(self) -> None:
        self.most = 0
        self._giving_back: list[int] = []

    def release(self) -> None:
        """Give it back."""
        self._giving_back.append(threading.get_ident())
        self.most = max(self.most, len(self._giving_back))
        time.sleep(0.1)
        self._giving_back.pop()


def test_two_threads_close_a_gate_one_after_the_other(tmp_path: Path) -> None:
    """Both would close the lock's descriptor, whose number may be another file's by the second time."""
    lock = Lock()
    driver = Driver(open_journal(World(tmp_path).url), Registry({}, {}, {}), cast("Locks", lock), SystemClock(), GateConfig())
    with ThreadPoolExecutor(2) as pool:
        for closing in [pool.submit(driver.close) for _ in range(2)]:
            closing.result()
    assert lock.most == 1


def test_a_gate_that_is_closed_from_inside_a_run_does_not_wait_for_itself(tmp_path: Path) -> None:
    """A host may close the gate where it hears of a pass."""
    world = World(tmp_path)
    world.approve("case-1")
    with world.gate() as proposing:
        proposing.propose("one", world.payout("one"), approval="case-1")
    gate = world.gate()
    gate.recover_forever(on_pass=lambda _: gate.close())
    with world.gate() as again:
        assert again.receipt("one").status == "COMMITTED"
