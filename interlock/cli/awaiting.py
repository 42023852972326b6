"""The gate for targets that are awaited, behind the methods of `Gate` that the commands call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from interlock.async_driver import Opening
from interlock.async_gate import AsyncGate
from interlock.outcomes import Outcome, Report
from interlock.projections.receipts import Receipt

R = TypeVar("R")


class AwaitedGate:
    """An `AsyncGate` on an event loop of its own, which turns on a thread: the commands wait for it as for a `Gate`.

    It is one loop from the opening to the end, because a target's client may belong to the loop that it was first used on.

    Args:
        opening: the gate that is to be opened.
    """

    def __init__(self, opening: Opening[AsyncGate]) -> None:
        self._opening = opening
        self._opened: Future[tuple[asyncio.AbstractEventLoop, AsyncGate]] = Future()
        self._ended = asyncio.Event()

    def __enter__(self) -> Self:
        """Open the gate."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="interlock-loop")
        self._served = thread.submit(asyncio.run, self._serve())
        thread.shutdown(wait=False)  # it takes nothing more, and ends with the loop
        self._loop, self._gate = self._opened.result()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None) -> None:
        """Close the gate, and end the loop."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._served.result()

    def recover(self, key: str | None = None) -> Report:
        """See `Gate.recover`."""
        return self._await(self._gate.recover(key))

    def recover_forever(self, on_pass: Callable[[Report], None] | None = None) -> None:
        """See `Gate.recover_forever`."""
        self._await(self._gate.recover_forever(on_pass))

    def stop(self) -> None:
        """See `Gate.stop`."""
        self._await(self._gate.stop())

    def reconcile(self, key: str | None = None) -> Report:
        """See `Gate.reconcile`."""
        return self._await(self._gate.reconcile(key))

    def receipt(self, key: str) -> Receipt:
        """See `Gate.receipt`."""
        return self._await(self._gate.receipt(key))

    def resolve(self, key: str, *, happened: bool, by: str, note: str, despite_roll_forward: bool = False) -> Outcome:
        """See `Gate.resolve`."""
        deciding = self._gate.resolve(key, happened=happened, by=by, note=note, despite_roll_forward=despite_roll_forward)
        return self._await(deciding)

    def _await(self, asked: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()

    async def _serve(self) -> None:
        try:
            gate = await self._opening
        except BaseException as error:
            self._opened.set_exception(error)
            raise
        self._opened.set_result((asyncio.get_running_loop(), gate))
        async with gate:
            await self._ended.wait()
