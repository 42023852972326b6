"""Defects of the async gate, and of what keeps the runs of one gate apart: a cancelled await is a crash like any other."""

from __future__ import annotations

from harness.sabotage.defects import CANCELLING, Defect, lines

_ASYNC_DRIVER = "interlock/async_driver.py"
_OPERATIONS = "interlock/operations.py"
_DRIVER = "interlock/driver.py"
_RUNS = "interlock/runs.py"

_CANCELLATION_TEST = "tests/integration/test_async_cancellation.py"
_INTERRUPTED_TEST = "tests/integration/test_interrupted.py"
_ASYNC_GATE_TEST = "tests/integration/test_async_gate.py"
_ASYNC_TARGETS_TEST = "tests/integration/test_async_targets.py"
_THREADS_TEST = "tests/integration/test_threads.py"
_APPROVALS_TEST = "tests/contract/test_approvals.py"

DEFECTS = (
    Defect(
        name="sends-begin-while-the-gate-is-being-closed",
        breaks=(CANCELLING,),
        file=_RUNS,
        old="            self._closing = True",
        new="            self._closing = False",
        tests=(_THREADS_TEST,),
    ),
    Defect(
        name="two-threads-shut-the-gate-at-once",
        breaks=(CANCELLING,),
        file=_DRIVER,
        old="        with self._shutting:  # a descriptor",
        new="        with threading.Lock():  # a descriptor",
        tests=(_THREADS_TEST,),
    ),
    Defect(
        name="action-let-go-while-its-thread-still-writes",
        breaks=(CANCELLING, "I2"),
        file=_RUNS,
        old="        return self.going.locked() or self.on_thread or self.handed_over\n",
        new="        return self.going.locked()\n",
        tests=(_CANCELLATION_TEST,),
    ),
    Defect(
        name="interrupted-run-is-at-work-for-ever",
        breaks=(CANCELLING,),
        file=_RUNS,
        old="        return self.going.locked() or self.on_thread or self.handed_over\n",
        new="        return True\n",
        tests=(_INTERRUPTED_TEST,),
    ),
    Defect(
        name="closing-waits-for-a-lock-that-an-interruption-left-taken",
        breaks=(CANCELLING,),
        file=_DRIVER,
        old="        self.closing = Closing()\n        self.is_shut",
        new="        self.closing = threading.Event()\n        self.is_shut",
        tests=(_INTERRUPTED_TEST,),
    ),
    Defect(
        name="cancelled-run-goes-on",
        breaks=(CANCELLING,),
        file=_ASYNC_DRIVER,
        old="        return not self._run.going.locked() and not recording\n",
        new="        return False\n",
        tests=(_CANCELLATION_TEST,),
    ),
    Defect(
        name="answer-of-a-cancelled-run-is-not-written-down",
        breaks=(CANCELLING, "rule 6"),
        file=_ASYNC_DRIVER,
        old="        return not self._run.going.locked() and not recording\n",
        new="        return not self._run.going.locked()\n",
        tests=(_CANCELLATION_TEST,),
    ),
    Defect(
        name="awaited-send-without-a-deadline",
        breaks=(CANCELLING, "rule 3"),
        file=_ASYNC_DRIVER,
        old="        async with asyncio.timeout(deadline.remaining_s()):\n            return await ask()\n",
        new="        async with asyncio.timeout(None):\n            return await ask()\n",
        tests=(_ASYNC_TARGETS_TEST,),
    ),
    Defect(
        name="awaited-send-that-was-cut-off-was-not-sent",
        breaks=(CANCELLING, "I6"),
        file=_ASYNC_DRIVER,
        old="    return await _within(deadline, ask, Unknown(GIVEN_UP))\n",
        new="    return await _within(deadline, ask, NotSent(GIVEN_UP))\n",
        tests=(_ASYNC_TARGETS_TEST,),
    ),
    Defect(
        name="threads-of-a-run-are-strangers-to-it",
        breaks=(CANCELLING,),
        file=_ASYNC_DRIVER,
        old="            return self._threads.submit(copy_context().run, call)\n",
        new="            return self._threads.submit(call)\n",
        tests=(_CANCELLATION_TEST, _ASYNC_GATE_TEST),
    ),
    Defect(
        name="threads-end-while-an-answer-is-on-its-way",
        breaks=(CANCELLING,),
        file=_ASYNC_DRIVER,
        old="            if self._closed and not any(each.is_on for each in tuple(self._under_way)):\n",
        new="            if self._closed:\n",
        tests=(_ASYNC_GATE_TEST,),
    ),
    Defect(
        name="closing-waits-for-no-task",
        breaks=(CANCELLING,),
        file=_ASYNC_DRIVER,
        old="        self.at_work.await_others(self.patience_s)\n",
        new="",
        tests=(_CANCELLATION_TEST, _ASYNC_GATE_TEST),
    ),
    Defect(
        name="closing-waits-for-itself",
        breaks=(CANCELLING,),
        file=_ASYNC_DRIVER,
        old="partial(copy_context().run, self._shut_behind_the_last_send)",
        new="self._shut_behind_the_last_send",
        tests=(_ASYNC_GATE_TEST,),
    ),
    Defect(
        name="what-a-pass-left-in-flight-is-kept-from-others",
        breaks=(CANCELLING,),
        file=_OPERATIONS,
        old="        yield from LetGo()\n        return outcome\n",
        new="        return outcome\n",
        tests=(_ASYNC_GATE_TEST,),
    ),
    Defect(
        name="what-fire-waits-for-is-kept-from-others",
        breaks=(CANCELLING,),
        file=_OPERATIONS,
        old="            yield from LetGo()\n            if (yield from Pause(min(max(outcome",
        new="            if (yield from Pause(min(max(outcome",
        tests=(_ASYNC_GATE_TEST, "tests/integration/test_threads.py"),
    ),
    Defect(
        name="approval-that-moved-is-not-read-again",
        breaks=("I3",),
        file=_DRIVER,
        old="        run.ahead = None  # whoever asks again does so because it has moved\n",
        new="",
        tests=(_APPROVALS_TEST,),
    ),
    Defect(
        name="approval-read-before-the-premises",
        breaks=("I4",),
        file="interlock/domain/protocol.py",
        old=lines("    return None if intent.premises or intent.approval.source is not None else intent.approval.id"),
        new=lines("    return None if intent.approval.source is not None else intent.approval.id"),
        tests=("tests/unit/test_domain_protocol.py",),
    ),
)
