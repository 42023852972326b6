"""The stage: a journal on disk, gates that are driven request by request, and a crash at any of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from interlock.config import GateConfig
from interlock.domain import protocol, requests
from interlock.domain.action import GatedAction, Intent, Status
from interlock.domain.approvals import ApprovalRef
from interlock.domain.effects import record_effect
from interlock.domain.endings import Ended, Pending, PendingReason
from interlock.domain.ports import AsyncTarget, Target
from interlock.domain.premises import ChangeKind, Premise, PremiseReading
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import Protocol, Request
from interlock.domain.sending import CLAIM_MARGIN_S, Sender
from interlock.driver import Driver, Registry
from interlock.errors import ActionMismatch, JournalUnavailable, NotResolvable, OutcomeNotRecorded, PremiseUnreadable
from interlock.gate import Gate
from interlock.testing.awaited import Awaited, in_words, is_overridden, raised_by
from interlock.testing.failures import GateViolation, TargetLies, WorldLies
from interlock.testing.faults import Call, Fault, FaultyTarget, JournalFault, network_of
from interlock.testing.honesty import Honesty
from interlock.testing.journals import Journals
from interlock.testing.judge import OBJECTIONS, Judge
from interlock.testing.premises import PremiseReader, unread
from interlock.testing.setup import Setup
from interlock.testing.worker import Worker
from interlock.testing.world import GateClock, ProviderWorld, WorldClock, changes_of, faults_of

W = TypeVar("W", bound=ProviderWorld)
T = TypeVar("T", bound=Target[Any] | AsyncTarget[Any])

APPROVAL = "case-1"
APPROVAL_LASTS_S = 3 * 86_400
CLAIM_TTL_S = 40.0
MAX_REQUESTS = 400
"""A process that performs more requests than this at one go is in a circle."""

ROUNDS = 60
"""After how many rounds of firing again and waiting as told an action without an end counts as one that never ends."""

_READS = (requests.FindAction, requests.LoadAction, requests.LoadApproval, requests.StillAt)


class Stage(Generic[W, T]):
    """One schedule's world, journal and gates, and what can be done to them.

    Args:
        setup: what is tested.
        journals: where its journal is.
    """

    def __init__(self, setup: Setup[W, T], journals: Journals) -> None:
        self.setup = setup
        self.clock = WorldClock()
        self.gate_clock = GateClock(self.clock)
        self.world = setup.make_world(self.clock)
        self.given = setup.make_target(self.world)
        self.inner: Target[Any] = Awaited(self.given) if isinstance(self.given, AsyncTarget) else self.given
        self.network = network_of(self.world)
        if self.network is not None:
            self.network.profile = self.profile
        self.journal_faults: list[JournalFault] = []
        self._journals = journals
        self.journal = journals.journal()
        self.honesty = Honesty(self.world, self.profile, self.clock)
        self.judge = Judge(self.journal, self.honesty, self.clock, self.inner)
        self.target = FaultyTarget(self.inner, self.clock, self.network, self.judge)
        self.effect = setup.make_effect(self.world, self.given)
        self.other_effect = setup.make_other_effect(self.world, self.given, self.effect)
        self.config = GateConfig(claim_ttl_s=max(CLAIM_TTL_S, self.profile.send_deadline_s + CLAIM_MARGIN_S))
        self.reader = PremiseReader(self.inner, self.network, self.effect, APPROVAL)
        self._workers: dict[str, Worker] = {}
        self._office = Gate(self._driver())
        self.keys: list[str] = []
        self.requests = 0
        self.crashes = 0
        self.premises: tuple[Premise, ...] = ()
        try:
            self._decide()
        except BaseException:
            self.close()
            raise

    def _decide(self) -> None:
        """Decide on what can be seen, as a host does before it fires."""
        self.approve()
        if self.observes:
            self.premises = (self.reader.observe(self.effect.subject),)
        self.inner.check(self.effect, self.premises)
        self.read_again()

    @property
    def profile(self) -> CapabilityProfile:
        """What the target under test promises."""
        return self.inner.capabilities

    @property
    def observes(self) -> bool:
        """Whether the target under test can be asked what a decision is made on."""
        return self.inner.observes if isinstance(self.inner, Awaited) else is_overridden(self.inner, Target, "_observe")

    def close(self) -> None:
        """End every gate, and close the journal."""
        for worker in self._workers.values():
            worker.driver.locks.release()
        self._office.close()
        self._journals.sweep()
        if isinstance(self.inner, Awaited):
            self.inner.close()

    def __enter__(self) -> Self:
        """Return the stage."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Close it."""
        self.close()

    # --- what gates do

    def worker(self, name: str) -> Worker:
        """Return the process of that name; it is started when it is first named."""
        if name not in self._workers:
            self._workers[name] = Worker(self._driver(), self._perform)
        return self._workers[name]

    def running(self) -> list[str]:
        """Return the names of the processes that are in the middle of something."""
        return [name for name, worker in self._workers.items() if worker.running]

    @property
    def at_rest(self) -> bool:
        """Whether every action has ended, and nobody is at work; what is still under way can arrive at the end."""
        actions = self.actions()
        return bool(actions) and all(action.ended for action in actions) and not self.running()

    def retry_times(self) -> list[datetime]:
        """Return when the gates were told to ask again."""
        results = (worker.result for worker in self._workers.values())
        return [result.retry_at for result in results if isinstance(result, Pending)]

    def key(self, number: str) -> str:
        """Return the key of an action."""
        return f"crash-test:{APPROVAL}:{number}"

    def action(self, number: str) -> GatedAction | None:
        """Return the action as the journal has it."""
        return self.journal.find_action(self.key(number))

    def actions(self) -> list[GatedAction]:
        """Return all actions that the journal has."""
        return [action for key in self.keys if (action := self.journal.find_action(key)) is not None]

    def begin_fire(self, name: str, number: str, *, other_effect: bool = False) -> None:
        """Let a process begin to fire an action. Another effect is fired only where the first one has taken the key (I5)."""
        effect = self.other_effect if other_effect else self.effect
        if effect is None or (other_effect and self.action(number) is None):
            return
        intent = Intent(
            key=self.key(number),
            effect=record_effect(effect, self.inner.codec, self.inner.version),
            approval=ApprovalRef(APPROVAL),
            premises=self.premises,
        )
        self._begin(name, intent.key, lambda sender: protocol.fire(intent, sender))
        self.worker(name).mismatched = other_effect

    def begin_recover(self, name: str, number: str) -> None:
        """Let a process begin to recover an action."""
        action = self.action(number)
        if action is not None:
            self._begin(name, action.key, lambda sender: protocol.recover(action, sender))

    def begin_reconcile(self, name: str, number: str) -> None:
        """Let a process begin to ask the provider again about an action that has ended."""
        action = self.action(number)
        if action is not None:
            self._begin(name, action.key, lambda sender: protocol.reconcile(action, sender))

    def crash(self, name: str) -> None:
        """Kill a process where it stands."""
        self.crashes += 1
        self.worker(name).die()

    def finish_run(self, name: str) -> None:
        """Let a process go on until it comes to an end, and judge what it raised."""
        worker = self.worker(name)
        for _ in range(MAX_REQUESTS):
            if not worker.running:
                self.judge_error(worker)
                return
            worker.step()
        raise endless(name)

    def judge_error(self, worker: Worker) -> None:
        """Say that a gate raised what it had no reason to raise.

        Raises:
            GateViolation: it did.
        """
        error, mismatched = worker.error, worker.mismatched
        worker.error, worker.mismatched = None, False
        if mismatched and not worker.struck and not isinstance(error, ActionMismatch):
            raise GateViolation("I5", f"another effect was fired under {worker.key}, and it was not refused as another one")
        if error is None or (mismatched and isinstance(error, ActionMismatch)):
            return
        self.judge.check(self.keys)  # what led to the error is more telling than the error
        excused = worker.struck and isinstance(error, JournalUnavailable | OutcomeNotRecorded | PremiseUnreadable)
        if isinstance(error, PremiseUnreadable) and not excused:
            self.read_again()
            if self.target.unread is not None:
                raise unread(self.target.unread)
        if not excused:
            raise GateViolation("end", f"a gate raised {type(error).__name__} without a fault: {error}") from error

    # --- what people and the world do

    def approve(self) -> None:
        """Grant the approval, or grant it again, which changes nothing."""
        money = self.effect.money
        self._office.approve(
            APPROVAL,
            by="user:17",
            expires_in_s=APPROVAL_LASTS_S,
            cap_minor=money.amount_minor if money else None,
            currency=money.currency if money else None,
            uses=2 if money else 1,
        )

    def revoke(self) -> None:
        """Take the approval back. The judge is told so by the person who does it, and not by the journal."""
        self._office.revoke(APPROVAL, by="user:18")
        self.judge.revoked = True

    def expires_at(self) -> datetime:
        """Return until when the approval holds."""
        return self._office.approval(APPROVAL).expires_at

    def resolve(self, number: str) -> None:
        """Let a person look at the provider's own ledger, and decide an ambiguous action as it says."""
        action = self.action(number)
        if action is None or action.status is not Status.AMBIGUOUS:
            return
        happened = bool(self.honesty.entries_of(action.id))
        with suppress(NotResolvable):
            self._office.resolve(action.key, happened=happened, by="user:19", note="the provider's own ledger")

    def change(self, kind: ChangeKind) -> None:
        """Let somebody else act at the provider, and see whether the target's policy notices.

        Raises:
            TargetLies: its policy takes the change for another kind.
        """
        changing = changes_of(self.world)
        if changing is None or not self.premises:
            return
        if kind is ChangeKind.OWN:
            raise WorldLies("it has our own effect among the changes that others make; that one is made by sending")
        self.honesty.others_act = True
        changing.change(kind, self.effect, APPROVAL)
        self.judge.changes.append(kind)
        self.honesty.read_ledger()
        self.honesty.others_act = False
        self.honesty.raise_lies()
        objects = any(kind in OBJECTIONS for kind in self.judge.changes)
        ours = any(self.honesty.entries_of(sent.action_id) for sent in self.honesty.sends)
        self.reader.require_noticed(kind, self.premises[0], objects=objects, ours=ours)

    def read_again(self) -> list[PremiseReading]:
        """Read the premises and judge them, where no fault can be the reason that they can't be.

        Raises:
            TargetLies: they can't.
        """
        return [self.reader.look(premise) for premise in self.premises]

    def arm(self, call: Call, fault: Fault) -> None:
        """Let the next call of that kind meet a fault: below the target where its world has a network, around it otherwise."""
        below = self.network if fault is not Fault.EMPTY else None  # what reads as empty, only the target's answer can say
        (below.faults if below else self.target.faults).arm(call, fault)

    def arm_provider(self, fault: str) -> None:
        """Let the next request that arrives at the provider meet a fault of its own."""
        faulty = faults_of(self.world)
        if faulty is not None:
            self.judge.provider_faults.append(fault)
            faulty.arm(fault)

    def forget_keys(self) -> None:
        """Let the provider forget, too early, every key whose effect a lookup shows by now."""
        fresh = [entry for entry in self.honesty.read_ledger() if entry.idempotency_key is not None]
        for key in {entry.idempotency_key for entry in fresh} - {None}:
            assert key is not None, "None was taken out"
            self.honesty.forgotten.add(key)
            self.world.forget_key(key)

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        self.target.faults.clear()
        self.journal_faults.clear()
        if self.network is not None:
            self.network.faults.clear()
        faulty = faults_of(self.world)
        if faulty is not None:
            faulty.disarm()

    # --- the end

    def check(self) -> None:
        """Compare the journal with the ledger, and what the target promises with what it promised."""
        self.judge.check(self.keys)
        before, now = self.honesty.profile, self.profile
        if before != now:
            names = [field.name for field in fields(now) if getattr(before, field.name) != getattr(now, field.name)]
            raise TargetLies(f"its capabilities changed in the middle of a schedule: {', '.join(names)}")

    def finish(self) -> None:
        """Let the faults stop, bring everything to its end, and judge that end.

        Raises:
            CrashTestFailure: something is wrong.
        """
        self.calm()
        for name in self.running():
            self.finish_run(name)
        self.check()
        for key in self.keys:
            self._to_the_end(key)
        self.clock.settle()
        self.check()
        self._judge_the_end()

    def _judge_the_end(self) -> None:
        sends = len(self.honesty.sends)
        moved = not all(reading.holds for reading in self.read_again())
        for action in self.actions():
            self.judge.check_use(action, moved=moved)
            self._reconcile(action)
            again = self._fire_again(action.key)
            if not isinstance(again, Ended):
                raise GateViolation("end", f"{action.key} had ended, and is in flight again")
        if len(self.honesty.sends) != sends:
            raise GateViolation("I2", "an action that had ended was sent again")
        self.check()
        findings = self._office.verify().findings
        if findings:
            raise GateViolation("I9", "verification finds: " + "; ".join(map(str, findings)))

    def _reconcile(self, action: GatedAction) -> None:
        """An Ambiguous action that a lookup can find does not stay Ambiguous."""
        if action.status is not Status.AMBIGUOUS or not self.profile.looks_up:
            return
        entries = self.honesty.entries_of(action.id)
        if not entries:
            return
        self.clock.advance((self.profile.lookup_staleness_s or 0) + 1)
        self._begin("the last one", action.key, lambda sender: protocol.reconcile(action, sender))
        self.finish_run("the last one")
        self.check()
        self._raise_silence()
        reconciled = self.journal.load_action(action.id)
        if reconciled.status is not Status.COMMITTED and not self.honesty.disagrees:
            raise GateViolation("use", f"{action.key} stays {reconciled.status}, and a lookup finds {entries[0].reference}")

    def _to_the_end(self, key: str) -> None:
        words = ""
        for _ in range(ROUNDS):
            conclusion = self._fire_again(key)
            self.check()
            if isinstance(conclusion, Ended):
                return
            words = f"{conclusion.reason}, {conclusion.words}"
            again_at, claim = conclusion.retry_at, conclusion.action.claim
            if conclusion.reason is PendingReason.HELD and claim is not None:
                again_at = max(again_at, claim.expires_at)  # until then every answer is the same
            self.clock.advance_to(self.gate_clock.in_the_world(again_at))
        self.read_again()
        self._raise_silence()
        raise GateViolation("end", f"{key} comes to no end: {words}")

    def _raise_silence(self) -> None:
        """Say that the target gives no answer to its last question, where no fault can be the reason."""
        last = self.honesty.silent
        if last is None:
            return
        error = raised_by(self.inner, last.call, self.effect, action_id=last.action_id, idempotency_key=last.idempotency_key)
        raise TargetLies(f"without any fault its {last.call} goes on answering {last.answer}{in_words(error)}") from error

    def _fire_again(self, key: str) -> Ended | Pending:
        self.begin_fire("the last one", key.rpartition(":")[2])
        self.finish_run("the last one")
        result: Ended | Pending = self.worker("the last one").result
        return result

    # --- inside

    def _begin(self, name: str, key: str, part: Callable[[Sender], Protocol[Any]]) -> None:
        if key not in self.keys:
            self.keys.append(key)
        worker = self.worker(name)
        locks = worker.driver.locks
        self.judge.begins(locks.holder)
        sender = Sender(
            holder=locks.holder,
            host=name,
            pid=0,
            lock=locks.handle,
            claim_ttl_s=self.config.claim_ttl_s,
            profile=self.profile,
            sends_per_pass=self.config.sends_per_pass,
        )
        worker.begin(key, part(sender))

    def _perform(self, worker: Worker, request: Request[Any]) -> Any:
        self.requests += 1
        holder = worker.driver.locks.holder
        if isinstance(request, requests.SleepUntil):
            self.clock.advance_to(self.gate_clock.in_the_world(request.at))
            self.judge.performed(request, None, holder, failed=False, against=[])
            return None
        fault = self._journal_fault(request)
        armed = self._armed()
        worker.struck |= fault is not None
        if fault in (JournalFault.APPEND_FAILS, JournalFault.READ_FAILS):
            raise JournalUnavailable(f"{fault}; nothing was sent for it")
        against = self.judge.objections_to(request, holder)
        answer = worker.driver.perform(request)
        struck = self._armed() != armed
        worker.struck |= struck
        if struck and isinstance(request, requests.ReadPremises):
            self.reader.require_read(self.target.seen)
        self.judge.performed(request, answer, holder, failed=self.target.seen is None, against=against)
        if fault is JournalFault.ACKNOWLEDGEMENT_LOST:
            raise JournalUnavailable(f"{fault}, and it could not be read back")
        return answer

    def _armed(self) -> int:
        return self.target.faults.armed + (self.network.faults.armed if self.network else 0)

    def _journal_fault(self, request: Request[Any]) -> JournalFault | None:
        """Return the first armed fault that can strike this request, and have it no more."""
        for fault in self.journal_faults:
            kinds = _READS if fault is JournalFault.READ_FAILS else (requests.Append,)
            if isinstance(request, kinds):
                self.journal_faults.remove(fault)
                return fault
        return None

    def _driver(self) -> Driver:
        registry = Registry({self.target.name: self.target}, self.reader.policies, {})
        return Driver(self.journal, registry, self._journals.locks(self.journal), self.gate_clock, self.config)


def endless(name: str) -> GateViolation:
    """Return what is wrong with a process that goes on and on.

    Args:
        name: the process's.
    """
    return GateViolation("end", f"gate {name} performed {MAX_REQUESTS} requests in one go, and came to no end")
