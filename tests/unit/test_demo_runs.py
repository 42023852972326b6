"""A run of the demo, as its log is read and ended."""

from __future__ import annotations

import pytest

from harness.demo.runs import Mode, Run, RunState


@pytest.mark.timeout(10)
def test_a_run_can_be_ended_from_a_signal_handler() -> None:
    """Ctrl-C comes in the middle of telling a page what happened, in the same thread: it waits for nobody."""
    run = Run("standalone", Mode.LOCAL, "crash_after_commit", ("interlock",))

    class Interrupted(int):
        """An event's number whose comparison is interrupted, as a signal handler interrupts any line."""

        def __gt__(self, other: object) -> bool:
            run.end(RunState.STOPPED, "Stopped.")
            return False

    assert [event["kind"] for event in run.after(Interrupted(0))] == ["end"]
    assert not run.running
