"""Reads on a large journal, as a ratio to the same reads on a small one. They are to stay flat."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from harness.benchmarks.growing import REFUSED, Grown, grow
from harness.benchmarks.report import Measure, ratio
from harness.benchmarks.timing import BenchmarkFailed, quiet_median_us, timed_ns
from interlock import Receipts

LIMIT = 3.0
PAGE = 50
SMALL_EVENTS = 1_000
LARGE_EVENTS = 1_000_000
QUICK_LARGE_EVENTS = 50_000

_ROUNDS = 7
_RECEIPTS_A_ROUND = 200
_PAGES_A_ROUND = 8

Read = Callable[[Receipts, Grown], object]


def measure_reads(*, quick: bool) -> list[Measure]:
    """Measure each read on both journals, in turn."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        small = grow(Path(folder, "small.db"), SMALL_EVENTS)
        large = grow(Path(folder, "large.db"), QUICK_LARGE_EVENTS if quick else LARGE_EVENTS)
        with Receipts.open(small.url) as few, Receipts.open(large.url) as many:
            return [
                _flatness(name, times, partial(read, few, small), partial(read, many, large), small, large)
                for name, times, read in _READS
            ]


def _flatness(
    name: str, times: int, on_small: Callable[[], object], on_large: Callable[[], object], small: Grown, large: Grown
) -> Measure:
    rounds = [[timed_ns([read] * times) for read in (on_small, on_large)] for _ in range(_ROUNDS + 1)]
    # The first round warms the caches up.
    few_us, many_us = (quiet_median_us(durations_ns) for durations_ns in zip(*rounds[1:], strict=True))
    named = f"{name}, {large.events:,} events"
    return ratio("reads", named, many_us, few_us, limit=LIMIT, base=f"at {small.events:,} events")


def _one_receipt(reader: Receipts, grown: Grown) -> None:
    reader.receipt(random.choice(grown.committed))


def _page(status: str) -> Read:
    def read(reader: Receipts, grown: Grown) -> None:
        del grown
        found = reader.receipts(status=status, limit=PAGE).receipts
        if len(found) != PAGE or {receipt.status for receipt in found} != {status}:
            raise BenchmarkFailed(f"a page of {PAGE} {status} receipts came back as {len(found)}")

    return read


_READS: Sequence[tuple[str, int, Read]] = (
    ("one receipt by key", _RECEIPTS_A_ROUND, _one_receipt),
    (f"a page of {PAGE}, of most of the actions", _PAGES_A_ROUND, _page("COMMITTED")),
    (f"a page of {PAGE}, of the {REFUSED} oldest", _PAGES_A_ROUND, _page("REFUSED")),
)
