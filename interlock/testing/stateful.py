"""The crash test as a Hypothesis state machine: one rule for every kind of step, and for every sequence of steps."""

from __future__ import annotations

import re
import unittest
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from interlock.testing.drawing import KINDS, SEQUENCES, StepSequence, opening
from interlock.testing.failures import CrashTestFailure
from interlock.testing.journals import Journals, journals_at
from interlock.testing.machine import CrashTest
from interlock.testing.rehearsal import rehearse
from interlock.testing.schedule import raised_in
from interlock.testing.stage import Stage
from interlock.testing.steps import Choose, Step


class CrashMachine(RuleBasedStateMachine):
    """Plays one schedule. Subclasses have the crash test, and a rule for every kind of step and every sequence."""

    crash_test: CrashTest[Any, Any]
    journals: Journals

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(self.crash_test.setup, self.journals)
        self.steps: list[Step] = []
        self.failed = False

    def can_take(self, kind: type[Step]) -> bool:
        """Return whether a step of that kind makes sense here."""
        return all(kind.choices(self.stage))

    def take(self, step: Step) -> None:
        """Take a step, and check everything."""
        self.steps.append(step)
        self._guarded(lambda: step.play(self.stage))
        self._guarded(self.stage.check)

    def teardown(self) -> None:
        """Bring everything to its end, and judge it."""
        if not self.failed:
            self._guarded(self.stage.finish)
            self.stage.close()

    def _guarded(self, do: Any) -> None:
        try:
            do()
        except CrashTestFailure as failure:
            self.failed = True
            self.stage.close()
            raise self.crash_test.shortened(self.journals, failure, self.steps) from None
        except Exception as error:
            error.add_note(raised_in(self.steps))
            raise


def _rule_of(kind: type[Step]) -> Any:
    def take(self: CrashMachine, data: st.DataObject) -> None:
        step = kind.draw(self.stage, _chooser(data))
        assert step is not None, "its precondition holds"
        self.take(step)

    take.__name__ = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
    return precondition(lambda self: self.can_take(kind))(rule(data=st.data())(take))


def _rule_of_sequence(sequence: StepSequence) -> Any:
    def take(self: CrashMachine, data: st.DataObject) -> None:
        for step in sequence(self.stage, _chooser(data)):
            self.take(step)

    take.__name__ = sequence.__name__
    return rule(data=st.data())(take)


def _chooser(data: st.DataObject) -> Choose:
    return lambda among: data.draw(st.sampled_from(among))


def machine_of(crash_test: CrashTest[Any, Any], journals: Journals) -> type[CrashMachine]:
    """Return the state machine of a crash test."""
    rules = {f"{kind.__name__}_rule": _rule_of(kind) for kind in KINDS}
    rules |= {f"{sequence.__name__}_rule": _rule_of_sequence(sequence) for sequence in (opening, *SEQUENCES)}
    return type("CrashSchedule", (CrashMachine,), {"crash_test": crash_test, "journals": journals, **rules})


def test_case_of(crash_test: CrashTest[Any, Any], *, schedules: int, steps: int) -> type[unittest.TestCase]:
    """Return the test case of a crash test."""

    class CrashTestCase(unittest.TestCase):
        """No schedule of crashes, faults and changes breaks an invariant of the gate, and the target tells the truth."""

        def test_crash_schedules(self) -> None:
            """No schedule of crashes, faults and changes breaks an invariant of the gate, and the target tells the truth."""
            with journals_at(crash_test.setup.journal_url) as journals:
                rehearse(crash_test.setup, journals)
                run_state_machine_as_test(
                    machine_of(crash_test, journals),
                    settings=settings(
                        max_examples=schedules,
                        stateful_step_count=steps,
                        deadline=None,
                        report_multiple_bugs=False,
                        # The kit shortens a schedule itself, step by step, in a fraction of the time.
                        phases=(Phase.explicit, Phase.reuse, Phase.generate),
                        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
                    ),
                )

    return CrashTestCase
