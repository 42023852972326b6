"""Zombies at Stripe, through the real SDK: stopped before a refund's write, recovered by others to Refused, and woken."""

import signal
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import pay
from interlock import Gate, GateConfig
from interlock.errors import OutcomeNotRecorded
from interlock.stripe import StripeRefunds
from tests.integration.processes import Line, Nursery, Steps, Worker, profiled, stop_myself
from tests.integration.zombies import APPEND, MARGIN_S, SAMPLES, all_asleep, approve, sample

pytestmark = pytest.mark.xdist_group("zombie-refunds")

REFUND_DEADLINE_S = 3.0
LAST_CHECK = "Wire.before_write"


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


Asleep = list[tuple[Refunding, Worker]]


@pytest.fixture(scope="module", params=SAMPLES)
def samples(request: pytest.FixtureRequest) -> int:
    """How many steps between the first and the last ones are tried."""
    return int(request.param)


@pytest.fixture(scope="module", autouse=True)
def _all_asleep(request: pytest.FixtureRequest, samples: int) -> None:
    all_asleep(request, samples, ["burning", "checked"])


@pytest.fixture(scope="module")
def burning(
    nursery: Nursery, standin: StripeStandIn, client: stripe.StripeClient, tmp_path_factory: pytest.TempPathFactory, samples: int
) -> Asleep:
    """Zombies whose key is burned, stopped anywhere before the system call."""
    folder = tmp_path_factory.mktemp("burning")
    main, request = nursery.run(count_refund_steps, approved(standin, client, folder, burn=True))
    return zombie_refunds(nursery, standin, client, folder, stops_of(main, request, samples, seed=4), burn=True)


@pytest.fixture(scope="module")
def checked(
    nursery: Nursery, standin: StripeStandIn, client: stripe.StripeClient, tmp_path_factory: pytest.TempPathFactory, samples: int
) -> Asleep:
    """The same without burning."""
    folder = tmp_path_factory.mktemp("checked")
    main, request = nursery.run(count_refund_steps, approved(standin, client, folder, burn=False))
    return zombie_refunds(nursery, standin, client, folder, stops_of(main, request, samples, seed=5), burn=False)


def stops_of(main: int, request: int, samples: int, seed: int) -> list[Stop]:
    """Return a sample of the steps of both threads; the checks and the system calls of both writes come last."""
    return [
        *((MAIN, number) for number in sample(main, samples // 2, seed)),
        *((REQUEST, number) for number in sample(request, samples // 2, seed)),
        ("check", HEAD),
        ("check", BODY),
        ("call", HEAD),
        ("call", BODY),
    ]


def test_burned_refund_does_not_land(standin: StripeStandIn, burning: Asleep) -> None:
    """With burning, no zombie's refund lands, also if it was stopped between the transport's last check and the system call."""
    assert recover_refunds(burning) == {"Refused"}
    assert {wake(worker) for _, worker in burning} == {"Refused"}
    assert [ours(standin, one) for one, _ in burning] == [0] * len(burning)


def test_transport_asks_last(standin: StripeStandIn, checked: Asleep) -> None:
    """Without burning, only a zombie that was stopped between the last check and the system call of the body lands."""
    assert recover_refunds(checked) == {"Refused"}
    *before, (in_the_window, late) = checked
    assert {wake(worker) for _, worker in before} == {"Refused"}
    assert [ours(standin, one) for one, _ in before] == [0] * len(before)
    # Woken there, its body lands unless its other thread, which gives up at the same moment, is the first to shut the socket.
    assert wake(late) in {"OutcomeNotRecorded", "Refused"}
    assert ours(standin, in_the_window) <= 1
