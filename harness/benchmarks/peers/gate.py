"""The gate with the null target: keys, approvals, digests, chain and receipt included."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from harness.benchmarks import null
from interlock import Gate


class GatePeer:
    """Fires.

    Args:
        gate: which the threads share.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def prepare(self, names: Sequence[str]) -> None:
        """Grant an approval for each action."""
        for name in names:
            null.grant(self._gate, name)

    def act(self, writer: int, name: str) -> None:
        """Carry the refund out, and take its receipt."""
        del writer
        null.fire(self._gate, name)


@contextmanager
def open_gate(url: str, number: int, writers: int) -> Generator[GatePeer]:
    """Open a gate for as many threads as there are writers.

    Args:
        url: the journal.
        number: the process's.
        writers: how many threads there will be.
    """
    del number
    separator = "&" if "?" in url else "?"
    with Gate.open(f"{url}{separator}max_connections={max(writers, 1)}", targets=[null.null_target]) as gate:
        yield GatePeer(gate)
