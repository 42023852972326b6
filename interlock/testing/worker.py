"""A worker: a process with a gate, which performs one request at a time and can be killed between any two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.domain.requests import Protocol, Request
from interlock.driver import Driver
from interlock.runs import Run, as_present
from interlock.testing.failures import CrashTestFailure


class Worker:
    """A process with a gate of its own. It performs one request at a time, and can be killed between any two.

    Args:
        driver: performs its requests.
        perform: stands between the protocol and the driver.
    """

    def __init__(self, driver: Driver, perform: Callable[[Worker, Request[Any]], Any]) -> None:
        self.driver = driver
        self._perform = perform
        self._run: Protocol[Any] | None = None
        self._as = Run()
        self.key = ""
        self.pending: Request[Any] | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self.struck = False
        self.mismatched = False

    @property
    def running(self) -> bool:
        """Whether it is in the middle of something."""
        return self._run is not None

    def begin(self, key: str, run: Protocol[Any]) -> None:
        """Begin with a part of the protocol; nothing is performed yet."""
        self.key, self._run, self._as = key, run, Run()
        self._as.going.acquire()
        self.result, self.error, self.struck, self.mismatched = None, None, False, False
        self._advance(lambda: next(run))

    def step(self) -> Request[Any]:
        """Perform the request that is next, and return it."""
        request, run = self.pending, self._run
        assert request is not None, "it has something to do"
        assert run is not None, "it is in the middle of something"
        try:
            with as_present(self._as):
                answer = self._perform(self, request)
        except CrashTestFailure:
            raise
        except Exception as error:  # noqa: BLE001 - it is handed to the protocol, which may give it a meaning
            thrown = error
            self._advance(lambda: run.throw(thrown))
        else:
            self._advance(lambda: run.send(answer))
        return request

    def die(self) -> None:
        """End as a killed process does: the operating system drops its lock, its file stays. Another gate takes its place."""
        self._end()
        self.driver.locks.lose()
        self.driver.renew_after_fork()

    def lose_lock(self) -> None:
        """Lose the liveness lock, and live."""
        self.driver.locks.lose()

    def _advance(self, go_on: Callable[[], Request[Any]]) -> None:
        try:
            self.pending = go_on()
            return
        except StopIteration as stop:
            self.result = stop.value
        except Exception as error:  # noqa: BLE001 - the judge says whether it may be raised
            self.error = error
        self._end()

    def _end(self) -> None:
        self._run = self.pending = None
        if self._as.is_on:
            self._as.going.release()
