"""Whether a journal stays as quick as it was: the same calls on a large one and on a small one, in turn, on both databases."""

from __future__ import annotations

import random
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.benchmarks import growing, growing_postgres, null
from harness.benchmarks.growing import REFUSED, Grown
from harness.benchmarks.report import Measure, ratio
from harness.benchmarks.timing import BenchmarkFailed, quiet_median_us, timed_ns
from harness.postgres.server import PostgresServer
from interlock import Gate

LIMIT = 2.0
PAGE = 50
SMALL_EVENTS = 10_000
LARGE_EVENTS = 100_000
QUICK_LARGE_EVENTS = 20_000
MILLION_EVENTS = 1_000_000

_ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Opened:
    """A journal, and a gate on it."""

    grown: Grown
    gate: Gate


@dataclass(frozen=True, slots=True)
class Call:
    """What is timed.

    Args:
        name: in words.
        times: how often in a round.
        prepared: makes one call, and is not timed.
    """

    name: str
    times: int
    prepared: Callable[[Opened], Callable[[], object]]


def measure_growth(*, quick: bool) -> list[Measure]:
    """Measure against a journal that is ten times as large, as `make bench` does."""
    return _measure(QUICK_LARGE_EVENTS if quick else LARGE_EVENTS)


def measure_million(*, quick: bool) -> list[Measure]:
    """Measure against a journal of a million events."""
    return _measure(QUICK_LARGE_EVENTS if quick else MILLION_EVENTS)


def _measure(events: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder, PostgresServer.start() as server:
        make: dict[str, Callable[[str, int], Grown]] = {
            "SQLite": lambda name, size: growing.grow(Path(folder, f"{name}.db"), size),
            "PostgreSQL": lambda name, size: growing_postgres.grow(server.create_database(name), size),
        }
        return [
            measure
            for journal, grow in make.items()
            for measure in compare(journal, grow("small", SMALL_EVENTS), grow("large", events))
        ]


def compare(journal: str, small: Grown, large: Grown) -> list[Measure]:
    """Time every call on both, and return how many times longer it takes on the large one."""
    with (
        Gate.open(small.url, targets=[null.null_target]) as on_small,
        Gate.open(large.url, targets=[null.null_target]) as on_large,
    ):
        both = Opened(small, on_small), Opened(large, on_large)
        return [_flatness(journal, call, *both) for call in CALLS]


def _flatness(journal: str, call: Call, small: Opened, large: Opened) -> Measure:
    rounds = [
        [timed_ns([call.prepared(opened) for _ in range(call.times)]) for opened in (small, large)] for _ in range(_ROUNDS + 1)
    ]
    # The first round warms the caches up.
    few_us, many_us = (quiet_median_us(durations_ns) for durations_ns in zip(*rounds[1:], strict=True))
    name = f"{journal}, {call.name}, {large.grown.events:,} events"
    return ratio("growth", name, many_us, few_us, limit=LIMIT, base=f"at {small.grown.events:,} events")


def _append(opened: Opened) -> Callable[[], object]:
    return partial(null.grant, opened.gate, uuid.uuid4().hex)


def _fire(opened: Opened) -> Callable[[], object]:
    name = uuid.uuid4().hex
    null.grant(opened.gate, name)
    return partial(null.fire, opened.gate, name)


def _one_receipt(opened: Opened) -> Callable[[], object]:
    return partial(opened.gate.receipt, random.choice(opened.grown.committed))


def _page(status: str, opened: Opened) -> Callable[[], object]:
    def read() -> None:
        found = opened.gate.receipts(status=status, limit=PAGE).receipts
        if len(found) != PAGE or {receipt.status for receipt in found} != {status}:
            raise BenchmarkFailed(f"a page of {PAGE} {status} receipts came back as {len(found)}")

    return read


def _recover_nothing(opened: Opened) -> Callable[[], object]:
    def recover() -> None:
        if opened.gate.recover().outcomes:
            raise BenchmarkFailed("there was something to recover")

    return recover


CALLS: Sequence[Call] = (
    Call("append of an approval", 40, _append),
    Call("fire", 20, _fire),
    Call("one receipt by key", 100, _one_receipt),
    Call(f"a page of {PAGE}, of most of the actions", 6, partial(_page, "COMMITTED")),
    Call(f"a page of {PAGE}, of the {REFUSED} oldest", 6, partial(_page, "REFUSED")),
    Call("a pass of recover with nothing to do", 40, _recover_nothing),
)
