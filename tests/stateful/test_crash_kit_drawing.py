"""What the crash kit draws: in a run as short as the tests' own, everything that can happen comes up where it matters."""

from __future__ import annotations

import pytest

from harness.crash_test import APART, simulated, table
from interlock.domain.premises import ChangeKind
from interlock.testing import PROFILES, Arm, ArmProvider, Call, Crash, CrashTest, Fault, Fire, JournalFault, Place, Report, Step
from interlock.testing.drawing import KINDS, SEQUENCES, opening
from interlock.testing.faults import FAULTS_OF
from interlock.testing.instants import Instant
from interlock.testing.journals import journals_at
from interlock.testing.provider import ProviderFault, SimulatedProvider, SimulatedTarget
from interlock.testing.report import Tally
from interlock.testing.stage import Stage
from interlock.testing.stateful import machine_of

SCHEDULES = 40
"""Of each profile, as in the random run of the tests."""

MATTERED = (
    "a gate fires an action",
    "a gate fires an action again, before its end",
    "a gate fires an action again, after its end",
    "a gate fires another effect under a key that is taken",
    "a gate goes on",
    "a gate goes on, and another one is in the middle of the same action",
    "a gate loses its liveness lock, and lives",
    "a gate reconciles an action that is COMMITTED",
    "a person resolves an ambiguous action",
    "the gate that had an action recovers it",
    "another gate recovers an action",
    "an approval that was revoked is granted again",
    "an approval that has expired is granted again",
    "an approval that is used up is granted again",
    "the approval is revoked",
    "the gates' clock steps back",
    "the provider forgets every key before its time",
    *(
        f"a gate is killed before its {name}"
        for name in ("ReadPremises", "LoadApproval", "Append", "Now", "Send", "LookUp", "Burn")
    ),
    *(f"time passes until {instant.value}" for instant in Instant),
    *(f"somebody else makes a {kind} change at the provider" for kind in ChangeKind if kind is not ChangeKind.OWN),
    *(f"the {call} {fault.value}" for call, faults in FAULTS_OF.items() for fault in faults),
    *(f"the provider, at the next request that arrives, {fault}" for fault in ProviderFault),
    *(f"the journal is about to fail: {fault.value}" for fault in JournalFault),
)

ANSWERED = (
    "send: Done",
    "send: Done, replayed",
    "send: Done, which disagrees with the effect",
    "send: Declined",
    "send: Declined, replayed",
    "send: NotSent",
    "send: Unknown, open",
    "send: Unknown, in progress",
    "send: Unknown, stored failure",
    "lookup: Found",
    "lookup: Found, which disagrees with the effect",
    "lookup: Absent",
    "lookup: Absent, although it was carried out",
    "lookup: CannotTell",
    "burn: Burned",
    "burn: AlreadyUsed",
    "burn: InProgress",
    "burn: CannotTell",
)


@pytest.mark.timeout(300)
def test_a_short_run_comes_to_everything_where_it_matters() -> None:
    """Each rule, instant, change, fault and answer, in as few schedules as a run of the tests plays."""
    total = Report()
    for number, profile in enumerate(PROFILES.values()):
        total.merge(simulated(profile).run(SCHEDULES, seed=number * APART))
    assert [what for what in MATTERED if not total.mattered[what]] == []
    assert [answer for answer in ANSWERED if not total.answers[answer]] == []


def test_the_state_machine_has_a_rule_for_every_step_and_every_sequence() -> None:
    """What is drawn by seed, Hypothesis draws too."""
    with journals_at(None) as journals:
        machine = machine_of(simulated(PROFILES["keys"]), journals)
    rules = {name for name in vars(machine) if name.endswith("_rule")}
    names = [*(kind.__name__ for kind in KINDS), *(sequence.__name__ for sequence in (opening, *SEQUENCES))]
    assert rules == {f"{name}_rule" for name in names}


def counted(*steps: Step, profile: str = "keys-lookup-burn") -> Report:
    """Return what a schedule counts as."""
    with journals_at(None) as journals, Stage(simulated(PROFILES[profile]).setup, journals) as stage:
        tally = Tally(stage)
        for step in steps:
            tally.count(step)
            step.play(stage)
        tally.steps_are_over()
        stage.finish()
        return tally.report()


def test_a_fault_matters_where_it_strikes() -> None:
    """As often as it was armed it was drawn; what waits when the faults stop mattered not."""
    report = counted(Arm(Call.SEND, Fault.REFUSED), Arm(Call.BURN, Fault.LATE, times=2), Fire("A", "1"))
    assert report.drawn["the burn arrives after its sender gave up"] == 2
    assert report.mattered == {"the send is turned away unsent": 1, "a gate fires an action": 1}


@pytest.mark.parametrize("fires", [True, False])
def test_a_fault_of_the_provider_matters_where_something_is_sent_after_it(*, fires: bool) -> None:
    """Nobody can see from outside whether it still waits."""
    armed = ArmProvider(ProviderFault.DECLINES)
    report = counted(armed, *([Fire("A", "1")] if fires else []))
    assert report.mattered[armed.words] == fires
    assert report.answers["send: Declined"] == fires


def test_a_kill_is_told_by_the_request_that_it_prevents() -> None:
    """A gate that is killed right before its send is not one that is killed right after it."""
    before = counted(Fire("A", "1", until=Place("before", "Send")), Crash("A"))
    after = counted(Fire("A", "1", until=Place("after", "Send")), Crash("A"))
    assert before.mattered["a gate is killed before its Send"] == 1
    assert after.mattered["a gate is killed before its Now"] == 1


def test_the_page_shows_what_was_drawn_and_what_was_answered() -> None:
    """Two tables beside that of the ends."""
    report = counted(Arm(Call.BURN, Fault.LATE), Fire("A", "1"))
    page = table({"keys-lookup-burn": report}, [], 0, "Made by a test.")
    assert "| the burn arrives after its sender gave up | 1 | 0 |" in page
    assert "| a gate fires an action | 1 | 1 |" in page
    assert "| send: Done | 1 |" in page


def test_reports_add_up() -> None:
    """Two runs are as many schedules, draws and answers as both."""
    crash_test: CrashTest[SimulatedProvider, SimulatedTarget] = simulated(PROFILES["keys-lookup-burn"])
    both = Report()
    both.merge(crash_test.run(10, seed=0))
    both.merge(crash_test.run(10, seed=10))
    assert both == crash_test.run(20, seed=0)
