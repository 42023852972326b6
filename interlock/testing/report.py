"""What a run of schedules came to: how much was played, what of it mattered, what the gates were told, and how it ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from interlock.domain.answers import Absent, Declined, Done, Found, Unknown
from interlock.testing.faults import Heard
from interlock.testing.outside_steps import Arm, ArmJournal, ArmProvider
from interlock.testing.steps import AnyStage, Step


@dataclass
class Report:
    """What a run of schedules came to: nothing was wrong.

    Attributes:
        schedules: how many were played.
        steps: how many steps of each kind they had.
        requests: how many requests of the protocol were performed.
        crashes: how many processes were killed.
        sends: how many sends reached for the provider.
        effects: how many entries the ledgers had at the end.
        endings: how the actions ended.
        drawn: how often each thing that can happen was drawn, in plain words; a fault as often as it was armed.
        mattered: how often it was drawn where it can make a difference; a fault as often as it struck.
        answers: what the target under test answered, and how often.
    """

    schedules: int = 0
    steps: Counter[str] = field(default_factory=Counter[str])
    requests: int = 0
    crashes: int = 0
    sends: int = 0
    effects: int = 0
    endings: Counter[str] = field(default_factory=Counter[str])
    drawn: Counter[str] = field(default_factory=Counter[str])
    mattered: Counter[str] = field(default_factory=Counter[str])
    answers: Counter[str] = field(default_factory=Counter[str])

    def merge(self, other: Report) -> None:
        """Count another run's schedules too."""
        for one in fields(self):
            mine = getattr(self, one.name)
            mine += getattr(other, one.name)
            setattr(self, one.name, mine)

    def __str__(self) -> str:
        """Return the counts as one line."""
        endings = ", ".join(f"{count:,} {status}" for status, count in sorted(self.endings.items()))
        return (
            f"{self.schedules:,} schedules, {sum(self.steps.values()):,} steps, {self.requests:,} requests, "
            f"{self.crashes:,} kills, {self.sends:,} sends, {self.effects:,} effects; {endings}"
        )


class Tally:
    """Counts one schedule while it is played.

    Args:
        stage: where it is played.
    """

    def __init__(self, stage: AnyStage) -> None:
        self._stage = stage
        self._counted = Report(schedules=1)
        self._sends_before: list[tuple[str, int]] = []

    def count(self, step: Step) -> None:
        """Count a step, right before it is played."""
        kind, times = step.counted_as(self._stage), step.times if isinstance(step, Arm) else 1
        self._counted.steps[type(step).__name__] += 1
        self._counted.drawn[kind] += times
        self._counted.mattered[kind] += times * step.matters(self._stage)
        if isinstance(step, ArmProvider):
            self._sends_before.append((kind, len(self._stage.honesty.sends)))

    def steps_are_over(self) -> None:
        """Take back the faults that struck nothing: they are about to stop."""
        self._counted.mattered.subtract(self._struck_nothing())

    def report(self) -> Report:
        """Return what the schedule came to, its end included."""
        stage, counted = self._stage, self._counted
        counted.mattered += Counter()  # without those that are zero
        counted.requests, counted.crashes = stage.requests, stage.crashes
        counted.sends, counted.effects = len(stage.honesty.sends), len(stage.world.ledger())
        counted.endings.update(action.status.value for action in stage.actions())
        counted.answers.update(_told(stage, heard) for heard in stage.honesty.heard)
        return counted

    def _struck_nothing(self) -> list[str]:
        stage = self._stage
        armed = [*stage.target.faults.waiting(), *(stage.network.faults.waiting() if stage.network else ())]
        # What waits at the provider nobody can see from here: it is taken to have struck where anything was sent after it.
        unmet = [kind for kind, sends in self._sends_before if sends == len(stage.honesty.sends)]
        kinds = [Arm(call, fault).counted_as(stage) for call, fault in armed]
        return [*kinds, *(ArmJournal(fault).counted_as(stage) for fault in stage.journal_faults), *unmet]


def _told(stage: AnyStage, heard: Heard) -> str:
    """Return an answer of the target under test in plain words."""
    answer = heard.answer
    more: list[str] = []
    if isinstance(answer, Unknown):
        more.append(answer.key.value.replace("_", " "))
    if isinstance(answer, Done | Found):
        more += ["replayed"] * answer.evidence.replayed + ["which disagrees with the effect"] * bool(
            answer.evidence.disagreements
        )
    if isinstance(answer, Declined):
        more += ["replayed"] * answer.replayed
    if isinstance(answer, Absent):
        more += ["although it was carried out"] * any(e.at <= heard.at for e in stage.honesty.entries_of(heard.action_id))
    return ": ".join((heard.call.value, ", ".join((type(answer).__name__, *more))))
