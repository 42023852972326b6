"""From SIGKILL of a holder, in the middle of a send, to the end of its action by another process that keeps asking."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from uuid import UUID

from harness.benchmarks import null
from harness.benchmarks.report import Measure
from harness.benchmarks.timing import BenchmarkFailed
from harness.postgres.server import PostgresServer
from interlock import (
    Absent,
    Answer,
    CapabilityProfile,
    Committed,
    DataclassCodec,
    Deadline,
    Done,
    Effect,
    Evidence,
    Gate,
    InFlight,
    LookupAnswer,
    Money,
    Settlement,
    Target,
)

LIMIT_S = 0.1

_REPETITIONS, _QUICK_REPETITIONS = 15, 3
_PAUSE_S = 0.001
_START_TIMEOUT_S = 120
_GIVE_UP_S = 60


class KeyedRefunds(Target[null.NullRefund]):
    """A provider with idempotency keys and a lookup, which answers at once, or never.

    Args:
        sending: told when a send has begun that will never end; None where sends are answered.
    """

    name = "keyed"
    codec = DataclassCodec(null.NullRefund)

    def __init__(self, sending: Connection | None = None) -> None:
        self._sending = sending

    @property
    def capabilities(self) -> CapabilityProfile:
        """It knows a key for a day, and finds what is there."""
        return CapabilityProfile(dedupe_window_s=86_400, lookup_staleness_s=0, roll_forward_s=0)

    def refund(self) -> Effect[null.NullRefund]:
        """Return the effect that is fired."""
        parameters = null.NullRefund(null.PAYMENT, null.AMOUNT_MINOR, null.CURRENCY)
        return Effect(self.name, null.PAYMENT, parameters, Money(null.AMOUNT_MINOR, null.CURRENCY))

    def _send(self, effect: Effect[null.NullRefund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        del effect, action_id, idempotency_key
        if self._sending is not None:
            self._sending.send(None)
            time.sleep(deadline.remaining_s())
        return Done(Evidence(reference="re_local_1", state="succeeded", settlement=Settlement.FINAL, json=null.EVIDENCE_JSON))

    def _lookup(self, effect: Effect[null.NullRefund], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, action_id, deadline
        return Absent(datetime.now(UTC))


def measure_takeover(*, quick: bool) -> list[Measure]:
    """Kill holders on both journals."""
    repetitions = _QUICK_REPETITIONS if quick else _REPETITIONS
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder, PostgresServer.start() as server:
        urls = {"SQLite": f"sqlite:///{Path(folder, 'gate.db')}", "PostgreSQL": server.create_database("bench")}
        return [closing_time(name, times_s(url, repetitions)) for name, url in urls.items()]


def closing_time(journal: str, took_s: list[float]) -> Measure:
    """Return the median."""
    return Measure(
        part="takeover",
        name=journal,
        value=statistics.median(took_s) * 1000,
        unit="milliseconds",
        limit=LIMIT_S * 1000,
        seen=f"median of {len(took_s)}, {min(took_s) * 1000:.0f} to {max(took_s) * 1000:.0f} ms",
    )


def times_s(url: str, repetitions: int) -> list[float]:
    """Kill so many holders, one after the other, and return how long each action took to its end, in seconds."""
    target = KeyedRefunds()
    with Gate.open(url, targets=[target]) as gate:
        return [_time_s(gate, url, f"case-{turn}") for turn in range(repetitions)]


def _time_s(gate: Gate, url: str, name: str) -> float:
    null.grant(gate, name)
    with _sending_holder(url, name) as kill:
        # It is in the middle of its send: nobody may take it over.
        if not isinstance(gate.recover(name).outcomes[0], InFlight):
            raise BenchmarkFailed(f"{name} was taken from a holder that lives")
        kill()
        killed_s = time.monotonic()
        last: object = None
        while time.monotonic() < killed_s + _GIVE_UP_S:
            last = outcome = gate.recover(name).outcomes[0]
            if isinstance(outcome, Committed):
                return time.monotonic() - killed_s
            time.sleep(_PAUSE_S)
    raise BenchmarkFailed(f"{name} did not end within {_GIVE_UP_S} s: {last}")


@contextmanager
def _sending_holder(url: str, name: str) -> Generator[Callable[[], None]]:
    """Have another process in the middle of a send, and give what kills it with SIGKILL, without waiting for it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    holder = context.Process(target=_hold, args=(url, name, theirs), daemon=True)
    with closing(ours):
        holder.start()
        theirs.close()
        try:
            if not ours.poll(_START_TIMEOUT_S):
                raise BenchmarkFailed("a holder did not get to its send")
            ours.recv()
            yield holder.kill
        except EOFError as error:
            raise BenchmarkFailed("a holder died before its send") from error
        finally:
            holder.kill()
            holder.join()


def _hold(url: str, name: str, sending: Connection) -> None:
    target = KeyedRefunds(sending)
    with Gate.open(url, targets=[target]) as gate:
        gate.fire(name, target.refund(), approval=name)
