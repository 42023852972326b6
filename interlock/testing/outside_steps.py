"""Steps around the gates: what people decide, what changes at the provider, and the faults of the world."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Self

from interlock.domain.action import Status
from interlock.domain.approvals import Approval
from interlock.domain.premises import ChangeKind
from interlock.testing.faults import FAULTS_OF, Call, Fault, JournalFault
from interlock.testing.stage import APPROVAL
from interlock.testing.steps import NUMBERS, AnyStage, Choices, Choose, Step
from interlock.testing.world import changes_of, faults_of


@dataclass(frozen=True, slots=True)
class Approve(Step):
    """The approval is granted again."""

    def play(self, stage: AnyStage) -> None:
        """Grant it; the same terms change nothing."""
        stage.approve()

    @property
    def words(self) -> str:
        """The step in plain words."""
        return "the approval is granted again, on the same terms"

    def counted_as(self, stage: AnyStage) -> str:
        """By how the approval stands."""
        approval, now = _approval(stage), stage.gate_clock.now()
        over = {
            "was revoked": approval.revoked_at is not None,
            "has expired": now >= approval.expires_at,
            "is used up": approval.remaining_minor() == 0,
        }
        how = next((words for words, is_so in over.items() if is_so), "is live")
        return f"an approval that {how} is granted again"

    def matters(self, stage: AnyStage) -> bool:
        """Where the approval holds no more: it must not bring it back."""
        return "is live" not in self.counted_as(stage)

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Always."""
        del stage
        return ()


@dataclass(frozen=True, slots=True)
class Revoke(Step):
    """The approval is taken back."""

    def play(self, stage: AnyStage) -> None:
        """Take it back."""
        stage.revoke()

    @property
    def words(self) -> str:
        """The step in plain words."""
        return "the approval is revoked"

    def matters(self, stage: AnyStage) -> bool:
        """The first time, while an action is open."""
        return _approval(stage).revoked_at is None and Step.matters(self, stage)

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Where a gate has begun with an action: before that, it would only be the end of everything."""
        return () if stage.actions() or stage.running() else ((),)


@dataclass(frozen=True, slots=True)
class Change(Step):
    """Somebody else acts at the provider."""

    kind: ChangeKind

    def play(self, stage: AnyStage) -> None:
        """Let them."""
        stage.change(self.kind)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"somebody else makes a {self.kind} change at the provider"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """What the world can make, where a gate has begun with an action."""
        changing = changes_of(stage.world) if stage.premises and (stage.actions() or stage.running()) else None
        return (list(changing.changes) if changing else [],)


@dataclass(frozen=True, slots=True)
class Arm(Step):
    """A fault strikes the next calls of a kind."""

    is_a_fault: ClassVar[bool] = True
    call: Call
    fault: Fault
    times: int = 1

    def __post_init__(self) -> None:
        """Take no fault that does not strike such a call.

        Raises:
            TypeError: a field is not of its type.
            ValueError: the fault is none of the call's.
        """
        Step.__post_init__(self)
        if self.fault not in FAULTS_OF[self.call]:
            raise ValueError(
                f"a {self.call} has no fault {self.fault.name}: it has {', '.join(f.name for f in FAULTS_OF[self.call])}"
            )

    def play(self, stage: AnyStage) -> None:
        """Arm it."""
        for _ in range(self.times):
            stage.arm(self.call, self.fault)

    @property
    def words(self) -> str:
        """The step in plain words."""
        each = "" if self.times == 1 else f", and so do the {self.times - 1} after it"
        return f"the next {self.call} {self.fault.value}{each}"

    def counted_as(self, stage: AnyStage) -> str:
        """By the call and the fault, however often."""
        del stage
        return f"the {self.call} {self.fault.value}"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any call that the target has, and what can go wrong with it."""
        calls = {
            Call.SEND: True,
            Call.LOOKUP: stage.profile.looks_up,
            Call.BURN: stage.profile.burns,
            Call.OBSERVE: stage.observes,
        }
        return ([Call.SEND, *(call for call, has in calls.items() if has)],)

    @classmethod
    def draw(cls, stage: AnyStage, choose: Choose) -> Self | None:
        """Return a call, and then a fault of it."""
        call = choose(cls.choices(stage)[0])
        return cls(call, choose(FAULTS_OF[call]), choose((1, 1, 2)))


@dataclass(frozen=True, slots=True)
class ArmProvider(Step):
    """A fault of the provider's own strikes the next request that arrives."""

    is_a_fault: ClassVar[bool] = True
    fault: str

    def play(self, stage: AnyStage) -> None:
        """Arm it."""
        stage.arm_provider(self.fault)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"the provider, at the next request that arrives, {self.fault}"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """What the world can do."""
        faulty = faults_of(stage.world)
        return ([str(fault) for fault in faulty.faults] if faulty else [],)


@dataclass(frozen=True, slots=True)
class ArmJournal(Step):
    """A fault strikes the journal."""

    is_a_fault: ClassVar[bool] = True
    fault: JournalFault

    def play(self, stage: AnyStage) -> None:
        """Arm it."""
        stage.journal_faults.append(self.fault)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"the journal is about to fail: {self.fault.value}"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """All three."""
        del stage
        return (tuple(JournalFault),)


@dataclass(frozen=True, slots=True)
class ForgetKeys(Step):
    """The provider forgets keys before their time."""

    def play(self, stage: AnyStage) -> None:
        """Forget them, where only a lookup can tell by now."""
        if _forgettable(stage):
            stage.forget_keys()

    @property
    def words(self) -> str:
        """The step in plain words."""
        return "the provider forgets every key before its time"

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Where it breaks a promise that the gate does not have to rely on."""
        return () if _forgettable(stage) else ((),)


@dataclass(frozen=True, slots=True)
class Resolve(Step):
    """A person decides an ambiguous action as the provider's ledger says."""

    action: str = "1"

    def play(self, stage: AnyStage) -> None:
        """Decide it, if the gate takes it."""
        stage.resolve(self.action)

    @property
    def words(self) -> str:
        """The step in plain words."""
        return f"a person reads the provider's ledger, and resolves action {self.action} as it says"

    def counted_as(self, stage: AnyStage) -> str:
        """Whichever it is."""
        del stage
        return "a person resolves an ambiguous action"

    def matters(self, stage: AnyStage) -> bool:
        """Where it is ambiguous."""
        return self.action in self.choices(stage)[0]

    @classmethod
    def choices(cls, stage: AnyStage) -> Choices:
        """Any action that is ambiguous."""
        return ([n for n in NUMBERS if (action := stage.action(n)) is not None and action.status is Status.AMBIGUOUS],)


def _approval(stage: AnyStage) -> Approval:
    approval = stage.journal.find_approval(APPROVAL)
    assert approval is not None, "a stage begins with it"
    return approval


def _forgettable(stage: AnyStage) -> bool:
    """Whether every key that the provider knows may be lost: a consistent lookup shows what it did, and nothing is under way."""
    if not stage.profile.looks_up or not stage.profile.dedupes or stage.running() or stage.clock.next_at is not None:
        return False
    visible_until = stage.clock.now() - timedelta(seconds=stage.profile.lookup_staleness_s or 0)
    keyed = [entry for entry in stage.honesty.read_ledger() if entry.idempotency_key is not None]
    return bool(keyed) and all(entry.at <= visible_until for entry in keyed)
