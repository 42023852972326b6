"""Both gates behind the methods that a worker calls, so that what a worker does is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Protocol

from interlock import AsyncGate, Effect, Gate, GateConfig, Outcome, Premise, Report, Target


class GateKind(StrEnum):
    """What `--gate` takes."""

    SYNC = "Gate"
    ASYNC = "AsyncGate"


class WorkersGate(Protocol):
    """What a worker calls; see `Gate`."""

    def fire(
        self, key: str, effect: Effect[Any], *, approval: str, premises: Sequence[Premise] = (), wait_s: float = 0.0
    ) -> Outcome: ...

    def revoke(self, approval_id: str, *, by: str) -> object: ...

    def recover(self) -> Report: ...


class _Awaited:
    """An `AsyncGate`, whose coroutines run one after the other on a loop that stands still between them."""

    def __init__(self, runner: asyncio.Runner, gate: AsyncGate) -> None:
        self._runner, self._gate = runner, gate

    def fire(
        self, key: str, effect: Effect[Any], *, approval: str, premises: Sequence[Premise] = (), wait_s: float = 0.0
    ) -> Outcome:
        return self._runner.run(self._gate.fire(key, effect, approval=approval, premises=premises, wait_s=wait_s))

    def revoke(self, approval_id: str, *, by: str) -> object:
        return self._runner.run(self._gate.revoke(approval_id, by=by))

    def recover(self) -> Report:
        return self._runner.run(self._gate.recover())


@contextmanager
def opened(kind: GateKind, url: str, target: Target[Any], config: GateConfig) -> Iterator[WorkersGate]:
    """Open a gate of a kind on a journal, and close it at the end."""
    if kind is GateKind.SYNC:
        with Gate.open(url, targets=[target], config=config) as gate:
            yield gate
        return
    with asyncio.Runner() as runner:
        awaited = runner.run(AsyncGate.open(url, targets=[target], config=config).__aenter__())
        try:
            yield _Awaited(runner, awaited)
        finally:
            runner.run(awaited.close())
