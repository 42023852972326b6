"""Which gate the activities of a worker fire through."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from interlock import AsyncGate, Gate
from interlock.errors import InvalidConfiguration, UnknownTarget


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of a worker.

    Args:
        blocking: for activities with `def`.
        awaited: for activities with `async def`.
    """

    blocking: Gate | None
    awaited: AsyncGate | None

    def blocking_gate(self) -> Gate:
        """Return the gate for an activity with `def`.

        Raises:
            UnknownTarget: this worker has none.
        """
        if self.blocking is None:
            raise UnknownTarget(
                "an activity with `def` fires through a Gate, and this worker has none. Nothing was written or sent"
            )
        return self.blocking

    def awaited_gate(self) -> AsyncGate:
        """Return the gate for an activity with `async def`.

        Raises:
            UnknownTarget: this worker has none.
        """
        if self.awaited is None:
            raise UnknownTarget(
                "an activity with `async def` fires through an AsyncGate, and this worker has none. Nothing was written or sent"
            )
        return self.awaited


_PRESENT: ContextVar[Gates] = ContextVar("interlock_gates")


def gates_of(gates: tuple[Gate | AsyncGate, ...]) -> Gates:
    """Return a worker's gates, one of each kind at the most.

    Raises:
        InvalidConfiguration: there are two of a kind.
    """
    blocking = [gate for gate in gates if isinstance(gate, Gate)]
    awaited = [gate for gate in gates if isinstance(gate, AsyncGate)]
    if max(len(blocking), len(awaited)) > 1:
        raise InvalidConfiguration("a worker's activities fire through one Gate, one AsyncGate, or one of each")
    return Gates(next(iter(blocking), None), next(iter(awaited), None))


@contextmanager
def bound_to(*gates: Gate | AsyncGate) -> Generator[None]:
    """Let gated activities fire through these gates, without a worker: for tests with Temporal's `ActivityEnvironment`.

    Args:
        gates: a `Gate` for activities with `def`, an `AsyncGate` for those with `async def`.

    Raises:
        InvalidConfiguration: there are two of a kind.
    """
    token = _PRESENT.set(gates_of(gates))
    try:
        yield
    finally:
        _PRESENT.reset(token)


def present_gates() -> Gates:
    """Return the gates of the worker that the present activity runs on.

    Raises:
        UnknownTarget: it has none. Another worker may have, so this is no reason to give up.
    """
    gates = _PRESENT.get(None)
    if gates is None:
        raise UnknownTarget("this worker has no plugin for its gate: plugins=[GatePlugin(gate)]. Nothing was written or sent")
    return gates
