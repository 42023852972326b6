"""Runs: one at a time over all pages, each with a log of everything that happened, from which a page can be drawn again."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

_KEPT = 8
"""How many runs can be looked at again, the last ones."""

_WIND_DOWN_S = 10.0

Event = dict[str, Any]


class Mode(StrEnum):
    """What a run is made of. What is of one kind is never shown together with what is of another."""

    LOCAL = "LOCAL"
    """Real processes against stand-ins on this machine."""
    LIVE = "LIVE"
    """Real processes against Stripe's test mode and the real model."""
    REHEARSAL = "REHEARSAL"
    """What a live run does, at stand-ins."""
    MOCK = "MOCK"
    """Played in memory. There is no process to kill."""


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class RunBusy(Exception):
    """A run is going on already. Nothing was started."""


@dataclass(frozen=True, slots=True)
class ReceiptPlace:
    """Where a run's receipt is.

    Args:
        journal_url: the journal that holds it.
        key: the action's.
    """

    journal_url: str
    key: str


class Player(Protocol):
    """Plays a run to its end."""

    def play(self, run: Run) -> None:
        """Carry all columns to their end, and tell the run what happens. Called on a thread of the run's own."""
        ...

    def stop(self) -> None:
        """End it from another thread: kill what was started, and start nothing more."""
        ...


class Run:
    """One run, and the log of what happened in it.

    Args:
        page: the page that it is of.
        mode: what it is made of.
        scenario: the row of the matrix.
        columns: the columns.
    """

    def __init__(self, page: str, mode: Mode, scenario: str, columns: tuple[str, ...]) -> None:
        self.id = secrets.token_hex(8)
        self.page, self.mode, self.scenario, self.columns = page, mode, scenario, columns
        self.state = RunState.RUNNING
        self.receipt: ReceiptPlace | None = None
        self._events: list[Event] = []
        # Ctrl-C ends the run in a signal handler, in the thread that may be telling a page about it just then.
        self._changed = threading.RLock()
        self._began = time.monotonic()
        self._took_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """For how long it has been running, in seconds; of one that has ended, how long it ran."""
        return time.monotonic() - self._began if self._took_s is None else self._took_s

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self.state is RunState.RUNNING

    def emit(self, kind: str, **facts: Any) -> None:
        """Add an event to the log. Of a run that has ended nothing more is told.

        Args:
            kind: what kind of event it is.
            facts: what it says, as JSON values.
        """
        with self._changed:
            if self.running:
                self._append(kind, facts)

    def end(self, state: RunState, words: str) -> None:
        """End the run, once: its time stops."""
        with self._changed:
            if self.running:
                self._took_s = round(self.elapsed_s, 3)
                self._append("end", {"state": state, "words": words, "took_s": self._took_s})
                self.state = state

    def after(self, event_id: int) -> list[Event]:
        """Return the events that follow on an event; on none: 0."""
        with self._changed:
            return self._events[max(0, event_id) :]

    def as_json(self) -> dict[str, Any]:
        """Return what the run is, as JSON values."""
        return {
            "id": self.id,
            "page": self.page,
            "mode": self.mode,
            "scenario": self.scenario,
            "columns": list(self.columns),
            "state": self.state,
            "elapsed_s": round(self.elapsed_s, 3),
        }

    def _append(self, kind: str, facts: Event) -> None:
        event = {"id": len(self._events) + 1, "run": self.id, "at_s": round(self.elapsed_s, 3), "kind": kind}
        self._events.append(event | facts)


class Runs:
    """All runs of the server; one goes on at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._player: Player | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether the server is about to end."""
        return self._closed.is_set()

    def start(self, run: Run, player: Player) -> None:
        """Start a run.

        Raises:
            RunBusy: one is going on, on whichever page, or the server is about to end.
        """
        with self._lock:
            self._wind_down()
            going_on = self.going_on
            if going_on is not None:
                raise RunBusy(f"a run is going on, on the page {going_on.page}; nothing was started")
            if self._closed.is_set():
                raise RunBusy("the server is about to end; nothing was started")
            self._runs[run.id] = run
            for old in list(self._runs)[:-_KEPT]:
                del self._runs[old]
            self._player = player
            self._thread = threading.Thread(target=_play, args=(run, player), name=f"run-{run.id}")
            self._thread.start()
        if self._closed.is_set():  # since it was asked above, and `close` may have found nothing that went on yet
            self.stop(run)

    @property
    def going_on(self) -> Run | None:
        """The run that is going on, or whose processes are being ended."""
        busy = self._thread is not None and self._thread.is_alive()
        return list(self._runs.values())[-1] if busy else None

    def get(self, run_id: str) -> Run | None:
        """Return a run."""
        return self._runs.get(run_id)

    def last_of(self, page: str) -> Run | None:
        """Return the last run of a page."""
        of_page = [run for run in self._runs.values() if run.page == page]
        return of_page[-1] if of_page else None

    def stop(self, run: Run) -> None:
        """Stop a run, and end its processes; one that has ended stays as it is."""
        with self._lock:
            player = self._player if run is self.going_on else None
        run.end(RunState.STOPPED, "Stopped before its end. Its processes are ended, and nothing is concluded from it.")
        if player is not None:
            player.stop()

    def close(self) -> None:
        """End what goes on, for good. It does not wait; `wait` does."""
        self._closed.set()
        run = self.going_on
        if run is not None:
            self.stop(run)

    def _wind_down(self) -> None:
        """Wait, for a while, until the processes of a run that was stopped are ended: it is no reason to refuse the next one."""
        going_on = self.going_on
        if going_on is not None and not going_on.running and self._thread is not None:
            self._thread.join(_WIND_DOWN_S)

    def wait(self) -> None:
        """Wait until nothing goes on."""
        if self._thread is not None:
            self._thread.join()


def _play(run: Run, player: Player) -> None:
    try:
        player.play(run)
    except Exception as error:  # noqa: BLE001 - the page has to say that it failed, whatever went wrong
        run.end(RunState.FAILED, f"The demo itself failed ({type(error).__name__}: {error}). Nothing is concluded from this run.")
        player.stop()
    run.end(RunState.DONE, "")
