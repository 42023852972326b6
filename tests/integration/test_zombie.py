"""A holder is stopped between Dispatched and its write, outlives its claim, is recovered to Refused by others, and wakes up."""

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay
from interlock import Gate, GateConfig
from interlock.errors import OutcomeNotRecorded
from interlock.stripe import StripeRefunds
from tests.integration.processes import Line, Nursery, Steps, Worker, profiled, stop_myself
from tests.integration.shared_ledger import ARRIVAL, WRITE, Kind, World, do_at, nowhere

DEADLINE_S = 1.0
"""Long enough to come to the stop on a busy machine, and under a profile."""
REFUND_DEADLINE_S = 3.0
MARGIN_S = 5.0
"""The shortest time to live that the configuration allows is this much longer: what a test has to wait for."""
APPEND = "Journal.append"
LAST_CHECK = "Wire.before_write"


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where the processes come from."""
    with Nursery() as one:
        yield one


def world_of(folder: Path, kind: Kind) -> World:
    """Return a world whose claims run out soon."""
    return World(folder, kind, claim_ttl_s=DEADLINE_S + MARGIN_S, send_deadline_s=DEADLINE_S)


# --- the provider of these tests


def count_steps(line: Line, world: World) -> tuple[int, int]:
    """Fire under a profile, and return how many steps there are from Dispatched to the send's arrival, and to its write."""
    del line
    steps, seen = Steps(APPEND), {}

    def note(place: str) -> None:
        seen[place] = steps.count

    with world.gate(note) as gate:
        approve(gate, "count")
        with profiled(steps):
            gate.fire("count", world.payout("count"), approval="count")
    return seen[ARRIVAL], seen[WRITE]


def fire_and_stop(line: Line, world: World, key: str, step: int | None, place: str) -> str:
    """Fire, and be stopped at a step after Dispatched or at a place of the provider's; return what came of it."""
    del line
    with world.gate(do_at(place, stop_myself) if place else nowhere) as gate, profiled(Steps(APPEND, step)):
        try:
            return type(gate.fire(key, world.payout(key), approval=key)).__name__
        except OutcomeNotRecorded:
            return OutcomeNotRecorded.__name__


def approve(gate: Gate, key: str) -> None:
    """Grant an approval."""
    gate.approve(key, by="user:1", expires_in_s=86_400, cap_minor=2000, currency="usd")


@dataclass
class Zombie:
    """A worker that is stopped, and what it was to do."""

    key: str
    worker: Worker

    def wake(self) -> str:
        """Let it go on, and return what came of it."""
        self.worker.signal(signal.SIGCONT)
        said = str(self.worker.result())
        self.worker.ended()
        return said


def stopped_zombies(nursery: Nursery, world: World, stops: list[tuple[int | None, str]]) -> list[Zombie]:
    """Start one worker for each stop, and wait until all are stopped; then take their approvals back."""
    with world.gate() as gate:
        for n in range(len(stops)):
            approve(gate, f"key-{n}")
    zombies = [
        Zombie(f"key-{n}", nursery.start(fire_and_stop, world, f"key-{n}", step, place)) for n, (step, place) in enumerate(stops)
    ]
    for zombie in zombies:
        assert zombie.worker.stopped()
    assert world.effects() == []
    with world.gate() as gate:
        for zombie in zombies:
            assert gate.receipt(zombie.key).status == "IN_FLIGHT"
            gate.revoke(zombie.key, by="user:2")
    return zombies


def recover_all(world: World, zombies: list[Zombie]) -> set[str]:
    """Let another worker bring every action to its end, once their claims have run out; return the names of the outcomes."""
    with world.gate() as gate:
        ends = {type(gate.fire(z.key, world.payout(z.key), approval=z.key, wait_s=60)).__name__ for z in zombies}
    assert world.effects() == []
    return ends


def sample(total: int, samples: int, seed: int) -> list[int]:
    """Return the first step, the last few, and some between."""
    some = random.Random(seed).sample(range(1, total + 1), min(samples, total))
    return sorted({1, *range(total - 8, total + 1), *some})


def at_steps(total: int, samples: int, seed: int) -> list[tuple[int | None, str]]:
    """Return the sample as stops."""
    return [(step, "") for step in sample(total, samples, seed)]


@pytest.fixture(params=[10, pytest.param(120, marks=pytest.mark.long)])
def samples(request: pytest.FixtureRequest) -> int:
    """How many steps between the first and the last ones are tried."""
    return int(request.param)


def test_burned_key_lets_nothing_land(nursery: Nursery, tmp_path: Path, samples: int) -> None:
    """With burning, a zombie's send does not land, wherever it was stopped: also between its last check and its write."""
    world = world_of(tmp_path, Kind.BURNING)
    _, write = nursery.run(count_steps, world)
    world.ledger.unlink()
    zombies = stopped_zombies(nursery, world, [*at_steps(write, samples, seed=1), (None, ARRIVAL), (None, WRITE)])
    assert recover_all(world, zombies) == {"Refused"}
    assert {zombie.wake() for zombie in zombies} == {"Refused"}
    assert world.effects() == []
    with world.gate() as gate:
        assert gate.verify().valid
        for zombie in zombies:
            refusal = gate.receipt(zombie.key).refusal
            assert refusal is not None
            assert refusal.door == "burned"


def test_last_check_stops_a_zombie(nursery: Nursery, tmp_path: Path, samples: int) -> None:
    """Without burning, only a zombie that was stopped between its last check and its write lands; and then it is told, loudly."""
    worlds = []
    for kind in (Kind.KEYS, Kind.NO_KEYS):
        (tmp_path / kind.name).mkdir()
        world = world_of(tmp_path / kind.name, kind)
        arrival, _ = nursery.run(count_steps, world)
        world.ledger.unlink()
        stops = [*at_steps(arrival, samples, seed=2), (None, ARRIVAL), (None, WRITE)]
        worlds.append((world, stopped_zombies(nursery, world, stops)))
    for world, zombies in worlds:
        assert recover_all(world, zombies) == {"Refused"}
        *before, in_the_window = zombies
        assert {zombie.wake() for zombie in before} == {"Refused"}
        assert world.effects() == []
        assert in_the_window.wake() == "OutcomeNotRecorded"
        assert len(world.effects()) == 1, "if nothing landed, docs/residual-risk.md claims too little"
        with world.gate() as gate:
            assert gate.verify().valid


def test_window_that_makes_two(nursery: Nursery, tmp_path: Path) -> None:
    """Without keys, a zombie that was stopped in the window lands behind the new send, if that was still allowed; and is told."""
    world = world_of(tmp_path, Kind.NO_KEYS)
    world.approve("key-0")
    worker = nursery.start(fire_and_stop, world, "key-0", None, WRITE)
    assert worker.stopped()
    with world.gate() as gate:
        assert type(gate.fire("key-0", world.payout("key-0"), approval="key-0", wait_s=60)).__name__ == "Committed"
    assert len(world.effects()) == 1
    said = Zombie("key-0", worker).wake()
    assert len(world.effects()) == 2, "if one landed, docs/residual-risk.md claims too little"
    assert said == "OutcomeNotRecorded"


def test_function_is_never_refused_behind_a_zombies_back(nursery: Nursery, tmp_path: Path, samples: int) -> None:
    """Where nobody can look, an action whose holder is out of reach is AMBIGUOUS; a zombie that acts all the same corrects it."""
    world = world_of(tmp_path, Kind.FUNCTION)
    arrival, _ = nursery.run(count_steps, world)
    world.ledger.unlink()
    # The last steps lie between the gate's last check and the function's first line: there the function acts.
    late = 5
    stops = [*at_steps(arrival - late, samples, seed=3), (None, ARRIVAL), (None, WRITE)]
    zombies = stopped_zombies(nursery, world, stops)
    assert recover_all(world, zombies) == {"Ambiguous"}
    *before, arrived, in_the_window = zombies
    assert {zombie.wake() for zombie in before} == {"Ambiguous"}
    assert world.effects() == []
    assert arrived.wake() == in_the_window.wake() == "Committed"
    with world.gate() as gate:
        committed = {receipt.key for receipt in gate.receipts(status="COMMITTED").receipts} - {"count"}
        assert {line["case"] for line in world.effects()} == committed == {arrived.key, in_the_window.key}
        assert gate.verify().valid


# --- Stripe, through the real SDK


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


@pytest.fixture(scope="module")
def client(standin: StripeStandIn) -> stripe.StripeClient:
    """The SDK, to set up."""
    return connect(standin)


@dataclass(frozen=True)
class Refunding:
    """A refund of one payment, and how its target is configured, in a form that another process can take."""

    url: str
    api_base: str
    payment: str
    burn: bool

    def target(self) -> StripeRefunds:
        """Return the target."""
        # The stand-in is honest about its stored failures, and quick: what is waited for is the sender's kernel.
        return StripeRefunds(
            LOCAL_API_KEY,
            api_base=self.api_base,
            send_deadline_s=REFUND_DEADLINE_S,
            settle_s=0.0,
            roll_forward_s=0.0,
            burn=self.burn,
        )

    def gate(self, target: StripeRefunds) -> Gate:
        """Open a gate."""
        return Gate.open(self.url, targets=[target], config=GateConfig(claim_ttl_s=REFUND_DEADLINE_S + MARGIN_S))

    def fire(self, gate: Gate, target: StripeRefunds, wait_s: float = 0.0) -> str:
        """Fire the refund, and return what came of it."""
        effect = target.refund(payment=self.payment, amount_minor=2000, currency="usd", reference=self.payment)
        premise = target.observe(self.payment)
        try:
            return type(gate.fire(self.payment, effect, approval=self.payment, premises=[premise], wait_s=wait_s)).__name__
        except OutcomeNotRecorded:
            return OutcomeNotRecorded.__name__


Stop = tuple[str, int]
"""What is counted (steps of a thread, checks, system calls), and at which one to stop."""
MAIN, REQUEST = "MainThread", "interlock-request"
HEAD, BODY = 1, 2


class Calls:
    """Counts, from Dispatched on, the transport's checks or the system calls behind them, and stops right before one of them."""

    def __init__(self, what: str, number: int) -> None:
        self._what, self._number = what, number
        self._steps, self._count = Steps(APPEND), 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Be a profile function."""
        self._steps(frame, event, argument)
        checks = event == "call" and frame.f_code.co_qualname == LAST_CHECK
        writes = event == "c_call" and getattr(argument, "__name__", "") == "sendall"
        if self._steps.begun and (checks if self._what == "check" else writes):
            self._count += 1
            if self._count == self._number:
                stop_myself()


def refund_and_stop(line: Line, refunding: Refunding, stop: Stop) -> str:
    """Fire a refund, and be stopped on whichever thread comes to that point."""
    del line
    what, number = stop
    target = refunding.target()
    profile = Calls(what, number) if what in {"check", "call"} else Steps(APPEND, number, what)
    with refunding.gate(target) as gate:
        target.observe(refunding.payment)  # the connection is there
        with profiled(profile):
            return refunding.fire(gate, target)


def count_refund_steps(line: Line, refunding: Refunding) -> tuple[int, int]:
    """Return the steps from Dispatched: of the main thread until it hands over, and of the request's to its last check."""
    del line
    target, main, request = refunding.target(), Steps(APPEND), Steps(APPEND, thread=REQUEST)
    handed_over, checks = [], []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        main(frame, event, argument)
        request(frame, event, argument)
        if main.begun and event == "call" and frame.f_code.co_qualname == "Wire.run":
            handed_over.append(main.count)
        if main.begun and event == "call" and frame.f_code.co_qualname == LAST_CHECK:
            checks.append(request.count)

    with refunding.gate(target) as gate:
        target.observe(refunding.payment)
        with profiled(profile):
            refunding.fire(gate, target)
    return handed_over[0], checks[BODY - 1]


def zombie_refunds(
    nursery: Nursery, standin: StripeStandIn, client: stripe.StripeClient, folder: Path, stops: list[Stop], *, burn: bool
) -> list[tuple[Refunding, Worker]]:
    """Stop one refund at each stop; meanwhile support gives the same amount back by hand."""
    zombies = []
    for stop in stops:
        one = approved(standin, client, folder, burn=burn)
        zombies.append((one, nursery.start(refund_and_stop, one, stop)))
    for one, worker in zombies:
        assert worker.stopped(), worker.hear()
        assert ours(standin, one) == 0
        standin.hand_refund(one.payment, 2000)
    return zombies


def approved(standin: StripeStandIn, client: stripe.StripeClient, folder: Path, *, burn: bool) -> Refunding:
    """Make a payment of 100.00, and an approval for a refund of 20.00 of it."""
    one = Refunding(f"sqlite:///{folder / 'journal.db'}", standin.api_base, pay(client).id, burn)
    with one.gate(one.target()) as gate:
        approve(gate, one.payment)
    return one


def recover_refunds(zombies: list[tuple[Refunding, Worker]]) -> set[str]:
    """Let another worker bring every refund to its end."""
    ends = set()
    for one, _ in zombies:
        target = one.target()
        with one.gate(target) as gate:
            ends.add(one.fire(gate, target, wait_s=90))
    return ends


def wake(worker: Worker) -> str:
    """Let a worker go on, and return what came of it."""
    worker.signal(signal.SIGCONT)
    return str(worker.result())


def ours(standin: StripeStandIn, one: Refunding) -> int:
    """Return how many refunds of this payment carry a mark of ours, by the stand-in's own ledger."""
    return len([refund for refund in refunds_of(standin.ledger_path, one.payment) if refund.metadata])


def test_burned_refund_does_not_land(
    nursery: Nursery, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path, samples: int
) -> None:
    """With burning, no zombie's refund lands, also if it was stopped between the transport's last check and the system call."""
    main, request = nursery.run(count_refund_steps, approved(standin, client, tmp_path, burn=True))
    steps = [
        *((MAIN, number) for number in sample(main, samples // 2, 4)),
        *((REQUEST, number) for number in sample(request, samples // 2, 4)),
    ]
    stops = [*steps, ("check", HEAD), ("check", BODY), ("call", HEAD), ("call", BODY)]
    zombies = zombie_refunds(nursery, standin, client, tmp_path, stops, burn=True)
    assert recover_refunds(zombies) == {"Refused"}
    assert {wake(worker) for _, worker in zombies} == {"Refused"}
    assert [ours(standin, one) for one, _ in zombies] == [0] * len(zombies)


def test_transport_asks_last(
    nursery: Nursery, standin: StripeStandIn, client: stripe.StripeClient, tmp_path: Path, samples: int
) -> None:
    """Without burning, only a zombie that was stopped between the last check and the system call of the body lands."""
    main, request = nursery.run(count_refund_steps, approved(standin, client, tmp_path, burn=False))
    steps = [
        *((MAIN, number) for number in sample(main, samples // 2, 5)),
        *((REQUEST, number) for number in sample(request, samples // 2, 5)),
    ]
    stops = [*steps, ("check", HEAD), ("check", BODY), ("call", HEAD), ("call", BODY)]
    zombies = zombie_refunds(nursery, standin, client, tmp_path, stops, burn=False)
    assert recover_refunds(zombies) == {"Refused"}
    *before, (in_the_window, late) = zombies
    assert {wake(worker) for _, worker in before} == {"Refused"}
    assert [ours(standin, one) for one, _ in before] == [0] * len(before)
    # Woken there, its body lands unless its other thread, which gives up at the same moment, is the first to shut the socket.
    assert wake(late) in {"OutcomeNotRecorded", "Refused"}
    assert ours(standin, in_the_window) <= 1
