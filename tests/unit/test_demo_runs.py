"""A run of the demo, as its log is read and ended."""

from __future__ import annotations

import threading

import pytest

from harness.demo.runs import Mode, Run, RunBusy, Runs, RunState

_LONG_S = 5.0


def _run() -> Run:
    return Run("standalone", Mode.LOCAL, "crash_after_commit", ("interlock",))


class Playing:
    """A player that plays until it is stopped, or for so long that it would hold the end up."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def play(self, run: Run) -> None:
        """Play."""
        del run
        self._stopped.wait(_LONG_S)

    def stop(self) -> None:
        """End it."""
        self._stopped.set()


@pytest.mark.timeout(10)
def test_a_run_can_be_ended_from_a_signal_handler() -> None:
    """Ctrl-C comes in the middle of telling a page what happened, in the same thread: it waits for nobody."""
    run = _run()

    class Interrupted(int):
        """An event's number whose comparison is interrupted, as a signal handler interrupts any line."""

        def __gt__(self, other: object) -> bool:
            run.end(RunState.STOPPED, "Stopped.")
            return False

    assert [event["kind"] for event in run.after(Interrupted(0))] == ["end"]
    assert not run.running


@pytest.mark.timeout(10)
def test_a_run_that_begins_while_the_server_ends_is_ended_with_it() -> None:
    """Ctrl-C comes right after a start was let through, and before anything goes on that it could end."""
    runs = Runs()

    class Interrupted(str):
        """A run's id that is noted down, while the server ends."""

        __slots__ = ()

        def __hash__(self) -> int:
            runs.close()
            return str.__hash__(self)

    late = _run()
    late.id = Interrupted(late.id)
    runs.start(late, Playing())
    runs.wait()
    assert late.state is RunState.STOPPED
    with pytest.raises(RunBusy):
        runs.start(_run(), Playing())
