"""The small world: workers, a journal, a provider and time, and every step that can happen in it.

A state is a tuple of numbers. Everything is a step: a worker's next request, a request that lands, is lost or is answered, a
kill, a lock that is lost by a worker that lives, a tick, a leap past every window, a forgotten key, a failed request carried to
its end, a revocation, a premise that changes. A pause needs no step of its own: every worker may stay where it is while time
passes.

Two workers are explored without the steps whose time makes no difference (`Faults.every_request` keeps them): an answer that can
only be one, a clock that is read to the same effect at any time, a worker that can do no more than an idle one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

from interlock.domain.action import GatedAction, Status
from interlock.domain.answers import Absent, CannotTell, Done, Found, NotSent, Unknown
from interlock.domain.requests import (
    AppendAnswer,
    Burn,
    FindAction,
    Liveness,
    LoadAction,
    LoadApproval,
    LookUp,
    NewActionId,
    Now,
    ProbeHolder,
    ReadPremises,
    Request,
    Send,
    SleepUntil,
    StillAt,
)
from interlock.errors import JournalUnavailable
from interlock.testing.exploration.journals import Journals
from interlock.testing.exploration.memory import Write, empty_log, judge_append
from interlock.testing.exploration.provider import Key, Kind, Outcome, Provider
from interlock.testing.exploration.rules import broken_by, broken_in
from interlock.testing.exploration.scope import (
    BAD_READING,
    DRAFT_ID,
    EVIDENCE,
    GOOD_READING,
    LANDING_TICKS,
    LEAP_TICKS,
    NO_READING,
    START,
    SmallProfile,
    instant,
)
from interlock.testing.exploration.state import Air, Faults, Parts, State, Step, Worker
from interlock.testing.exploration.workers import End, Raised, Workers

JOURNAL_DOWN = Raised(JournalUnavailable("the journal is down"))


class World:
    """The small world with one profile."""

    def __init__(self, profile: SmallProfile, faults: Faults | None = None, keep: frozenset[str] = frozenset()) -> None:
        self.profile = profile
        self.faults = faults = faults or Faults()
        self.journals = Journals(profile, by_prefix=faults.every_request)
        steady = not (faults.premises_change or faults.reads)
        self.runs = Workers(profile, premises_are_steady=steady, every_request=faults.every_request, keep=keep)
        self.providers: Parts[Provider] = Parts()
        self.workers: Parts[Worker] = Parts()
        self.orphans: Parts[tuple[Air, ...]] = Parts()
        self._outcomes: dict[Hashable, list[tuple[Outcome, int]]] = {}
        self._appends: dict[Hashable, tuple[AppendAnswer, str | None, int]] = {}
        self._steps: dict[Hashable, list[Step]] = {}
        self._known: dict[Hashable, int] = {}
        self._idle = self.workers.number(Worker())
        self._idle_lockless = self.workers.number(Worker(lockless=True))

    def initial(self) -> State:
        """Return the state before anything happened."""
        journal = self.journals.number(empty_log())
        workers = (self._idle,) * self.faults.workers
        return State(
            journal, self.providers.number(Provider((Key(),) * self.faults.attempts)), 0, workers, self.orphans.number(())
        )

    def is_end(self, state: State) -> bool:
        """Whether the action has come to an end, or to the model's last attempt."""
        facts = self.journals.facts[state.journal]
        return facts.ended or facts.attempt > self.faults.attempts

    def violation(self, state: State) -> str | None:
        """Return what the state breaks."""
        return broken_in(self.journals.facts[state.journal], self.providers.values[state.provider])

    def canonical(self, state: State) -> State:
        """Return the state without what can't matter any more, and with alike workers in one order."""
        return self.ordered(self.normal(state))

    def normal(self, state: State) -> State:
        """Return the state without what can't matter any more."""
        workers = state.workers
        if not self.faults.every_request:
            workers = tuple(self._settled(state.journal, slot, worker) for slot, worker in enumerate(workers))
        return self._without_the_past(State(state.journal, state.provider, state.bad, workers, state.orphans))

    def ordered(self, state: State) -> State:
        """Return the state with its workers in one order: they are alike."""
        if len(state.workers) < len(("me", "other")) or state.workers[0] < state.workers[1]:
            return state
        swapped, (first, second) = self.journals.from_place(state.journal, 1), state.workers
        journal = swapped if first > second else min(state.journal, swapped)
        return State(journal, state.provider, state.bad, (second, first), state.orphans)

    def _settled(self, journal: int, slot: int, number: int) -> int:
        """Take at once what makes no difference whenever it comes, and take for idle who can do no more than an idle one."""
        key = ("settled", journal, slot, number)
        if key not in self._known:
            facts, worker = self.journals.facts[journal], self.workers.values[number]
            while run := self._loads_to_no_effect(journal, slot, worker):
                worker = self._with_run(worker, run)
            if facts.exists and not worker.done and self.runs.are_as_good_as_idle(worker.run):
                worker = Worker(lockless=worker.lockless)
            if facts.holder != ("me", "other")[slot]:
                # Only the lock of a claim's holder is asked for, and it can be lost later just as well.
                worker = worker._replace(lockless=False)
            self._known[key] = self.workers.number(worker)
        return self._known[key]

    def _loads_to_no_effect(self, journal: int, slot: int, worker: Worker) -> int:
        """Return the run after a load whose time makes no difference; 0 where it does, or where there is nothing to load."""
        request = self.runs.requests[worker.run]
        if isinstance(request, LoadApproval):
            return self._loads_approval(journal, slot, worker)
        if isinstance(request, LoadAction) and self.runs.histories[worker.run].outdated:
            seen = self.journals.from_place(journal, slot)
            run = self.runs.answered(worker.run, self.journals.logs[seen], ("log", seen))
            # It sees that somebody else wrote, whatever that was, and loads again.
            return run if isinstance(self.runs.requests[run], LoadAction | FindAction) else 0
        return 0

    def _loads_approval(self, journal: int, slot: int, worker: Worker) -> int:
        """Return the run that has loaded the approval; 0 where a revocation would make a difference."""
        facts = self.journals.facts[journal]
        if not facts.exists:
            return 0
        seen = self.journals.from_place(journal, slot)
        run = self.runs.answered(worker.run, self.journals.logs[seen], ("log", seen))
        if facts.revoked or facts.ended or not self.faults.revocations:
            return run
        revoked = self.journals.revoked(seen)
        return run if run == self.runs.answered(worker.run, self.journals.logs[revoked], ("log", revoked)) else 0

    def _without_the_past(self, state: State) -> State:
        """After the end only a send that may still be made, or is under way, needs the provider's keys."""
        if not self.journals.facts[state.journal].ended:
            return state
        workers = [self.workers.values[worker] for worker in state.workers]
        if any(worker.air or worker.licence for worker in workers):
            return state
        if any(each.kind == Kind.EFFECT.value for each in self.orphans.values[state.orphans]):
            return state
        provider = self.providers.values[state.provider]
        bare = replace(provider, keys=(Key(),) * self.faults.attempts)
        return state._replace(provider=self.providers.number(bare), orphans=self.orphans.number(()))

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step that can happen."""
        if self.journals.facts[state.journal].attempt > self.faults.attempts:
            return
        for slot in range(len(state.workers)):
            yield from self._taken_by(state, slot)
        key = ("world", state.journal, state.provider, state.bad, state.orphans)
        if key not in self._steps:
            self._steps[key] = [*self._steps_of_orphans(state), *self._steps_of_provider(state), *self._steps_of_the_world(state)]
        for step in self._steps[key]:
            yield step._replace(state=step.state._replace(workers=state.workers))
        yield from self._steps_of_time(state)

    def _taken_by(self, state: State, slot: int) -> Iterator[Step]:
        """Yield the steps of one worker. What the other one is at does not matter to them, so they are found out once."""
        worker, others = state.workers[slot], state.workers[:slot] + state.workers[slot + 1 :]
        lockless = any(self.workers.values[other].lockless for other in others)
        key = (slot, worker, lockless, state.journal, state.provider, state.bad, state.orphans)
        if key not in self._steps:
            beside = (self._idle_lockless if lockless else self._idle,) * len(others)
            alone = state._replace(workers=(*beside[:slot], worker, *beside[slot:]))
            self._steps[key] = list(self._steps_of(alone, slot))
        for step in self._steps[key]:
            after = step.state
            beside = tuple(self._affected(other, step.other) for other in others) if step.other else others
            workers = (*beside[:slot], after.workers[slot], *beside[slot:])
            there = State(after.journal, after.provider, after.bad, workers, after.orphans)
            yield Step(step.words, step.fault, there, step.violation)

    def _affected(self, number: int, how: str) -> int:
        """Return the worker after somebody else has written to the action, or has died."""
        key = (how, number)
        if key not in self._known:
            worker = self.workers.values[number]
            run = self.runs.outdated(worker.run) if how == "outdated" else self.runs.bereft(worker.run)
            self._known[key] = self._changed(worker, run)
        return self._known[key]

    # --- a worker

    def _steps_of(self, state: State, slot: int) -> Iterator[Step]:
        worker = self.workers.values[state.workers[slot]]
        name = f"W{slot + 1}"
        if worker.air:
            yield from self._steps_of_air(state, slot, worker, name)
        elif worker.run:
            yield from self._steps_of_request(state, slot, worker, name)
        else:
            yield from self._beginnings(state, slot, worker, name)
        holds = self.journals.facts[state.journal].holder == ("me", "other")[slot]
        if worker.run or holds:
            yield from self._kill(state, slot, worker, name)
        if self.faults.locks_are_lost and not worker.lockless and holds:
            lockless = self._with_worker(state, slot, worker._replace(lockless=True))
            yield Step(f"{name} loses its lock, and lives", "lock", lockless)

    def _beginnings(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        facts = self.journals.facts[state.journal]
        parts: list[tuple[str, str, str]] = []
        if not facts.exists:
            parts.append(("fire", "fires", ""))
            if self.faults.propose:
                parts.append(("propose", "proposes", ""))
        elif not facts.ended:
            parts.append(("recover", "fires, or recovers: loads the action", ""))
        elif facts.status is Status.AMBIGUOUS:
            effects = self.providers.values[state.provider].effects
            if self.profile.lookup != "none" and effects:
                parts.append(("reconcile", "reconciles: loads the action", ""))
            # The person has looked, and says what is so; whether it stays so is what rule 7 is for.
            if self.faults.resolve and not effects:
                parts.append(("resolve", "is told by a person that it did not happen", "resolve"))
        for part, words, fault in parts:
            seen = self.journals.from_place(state.journal, slot)
            run = self._begun(state, slot, self.runs.begin(part, self.journals.logs[seen], seen))
            yield from self._went(state, slot, worker, run, f"{name} {words}", fault)

    def _begun(self, state: State, slot: int, run: int) -> int:
        """Answer at once what a takeover asks before it appends: whatever happens in between, to begin later is the same."""
        request = self.runs.requests[run]
        if isinstance(request, Now):
            # A person's word is given, and judged, at one moment.
            return self.runs.answered(run, instant(self.runs.histories[run].present), "now")
        if isinstance(request, ProbeHolder) and not self.faults.every_request:
            holder = request.claim.holder if request.claim is not None else None
            run = self.runs.answered(run, self._liveness(state, slot, holder))
            request = self.runs.requests[run]
            if isinstance(request, Now):
                run = self.runs.answered(run, instant(self.runs.histories[run].present), "now")
        return run

    def _kill(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        orphans = self.orphans.values[state.orphans]
        words = f"{name} is killed {self._place(worker)}"
        if worker.air:
            if len(orphans) >= self.faults.orphans:
                return
            orphans = tuple(sorted((*orphans, worker.air)))
        journal = self.journals.bereft_of(state.journal, slot)
        after = self._with_worker(state, slot, Worker())._replace(journal=journal, orphans=self.orphans.number(orphans))
        yield Step(words, "kill", after, other="bereft")

    def _place(self, worker: Worker) -> str:
        if worker.air:
            return f"while its {worker.air.kind} is on its way"
        request = self.runs.requests[worker.run]
        return f"before its {described(request)}" if request is not None else "while it is idle"

    def _steps_of_request(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        request = self.runs.requests[worker.run]
        assert request is not None, "an ended run is idle"
        words = f"{name}: {described(request)}"
        match request:
            case Write():
                yield from self._append(state, slot, worker, request, words)
            case Send():
                yield from self._send(state, slot, worker, request, words)
            case Burn(idempotency_key=key):
                air = Air(Kind.BURN.value, _attempt_of(key))
                yield Step(f"{words}: written", "", self._with_worker(state, slot, worker._replace(air=air)))
                if self.faults.reads:
                    yield from self._answer(state, slot, worker, CannotTell("not sent"), f"{words}: fails", "read")
            case LookUp():
                for found in self.providers.values[state.provider].looked_up(self.profile):
                    answer = Found(EVIDENCE) if found else Absent(START)
                    yield from self._answer(state, slot, worker, answer, f"{words}: {'found' if found else 'absent'}")
                if self.faults.reads:
                    yield from self._answer(state, slot, worker, CannotTell("it failed"), f"{words}: fails", "read")
            case _:
                yield from self._read(state, slot, worker, request, words)

    def _read(self, state: State, slot: int, worker: Worker, request: Request[Any], words: str) -> Iterator[Step]:
        key: Hashable = None
        match request:
            case FindAction() | LoadAction() | LoadApproval():
                seen = self.journals.from_place(state.journal, slot)
                answer: Any = self.journals.logs[seen]
                key = ("log", seen)
                if self.faults.journal:
                    yield from self._answer(state, slot, worker, JOURNAL_DOWN, f"{words}: fails", "journal", "down")
            case ReadPremises():
                answer, key = (BAD_READING, "bad") if state.bad else (GOOD_READING, "good")
                if self.faults.reads:
                    yield from self._answer(state, slot, worker, NO_READING, f"{words}: fails", "read", "unreadable")
            case NewActionId():
                answer = DRAFT_ID
            case SleepUntil():
                answer, key = None, "slept"
            case Now():
                answer, key = instant(self.runs.histories[worker.run].present), "now"
            case StillAt(version=version):
                answer = self.runs.at_latest(worker.run, version)
            case ProbeHolder(claim=claim):
                answer = self._liveness(state, slot, claim.holder if claim is not None else None)
                words = f"{words}: {answer}"
            case _:
                raise TypeError(request)
        yield from self._answer(state, slot, worker, answer, words, "", key)

    def _liveness(self, state: State, slot: int, holder: str | None) -> Liveness:
        if holder == "me":
            return Liveness.IDLE
        if holder == "other":
            other = self.workers.values[state.workers[1 - slot]]
            return Liveness.GONE if other.lockless else Liveness.ALIVE
        return Liveness.GONE

    def _send(self, state: State, slot: int, worker: Worker, request: Send, words: str) -> Iterator[Step]:
        attempt = _attempt_of(request.idempotency_key)
        history = self.runs.histories[worker.run]
        if request.deadline_at <= instant(history.present):
            spent = worker._replace(licence=0)
            yield from self._answer(
                state, slot, spent, NotSent("its deadline"), f"{words}: its deadline is over, nothing is written"
            )
            return
        violation = None if worker.licence == attempt else "I1: sent without a Dispatched of its own"
        air = Air(Kind.EFFECT.value, attempt)
        written = self._with_worker(state, slot, worker._replace(air=air, licence=0))
        yield Step(f"{words}: written under key {attempt}", "", written, violation)
        spent = worker._replace(licence=0)
        yield from self._answer(state, slot, spent, NotSent("refused"), f"{words}: no connection, nothing is written", "not sent")

    def _append(self, state: State, slot: int, worker: Worker, request: Write, words: str) -> Iterator[Step]:
        seen = self.journals.from_place(state.journal, slot)
        answer, violation, licence = self._judged(seen, worker.run, request)
        if answer is not AppendAnswer.APPENDED:
            yield from self._answer(state, slot, worker, answer, f"{words}: {answer}")
            return
        present = self.runs.histories[worker.run].present
        wrote = bool(request.action_events)
        journal = self.journals.from_place(self.journals.appended(seen, worker.run, request, present), slot)
        after = state._replace(journal=journal)
        other = "outdated" if wrote else ""
        licensed = worker._replace(licence=licence or worker.licence)
        for step in self._answer(after, slot, licensed, answer, f"{words}: appended"):
            yield step._replace(violation=violation or step.violation, other=other)
        if self.faults.journal:
            yield from self._answer(state, slot, worker, JOURNAL_DOWN, f"{words}: fails, nothing is written", "journal", "down")
            lost = f"{words}: written, and the journal is down before it is acknowledged"
            for step in self._answer(after, slot, worker, JOURNAL_DOWN, lost, "journal", "down"):
                yield step._replace(other=other)

    def _judged(self, seen: int, run: int, request: Write) -> tuple[AppendAnswer, str | None, int]:
        key = (seen, run)
        if key not in self._appends:
            latest = self.runs.at_latest(run, request.action_version)
            answer = judge_append(request, self.journals.logs[seen], at_latest=latest)
            violation = broken_by(request, self.journals.facts[seen], self.profile) if answer is AppendAnswer.APPENDED else None
            licences = [event.attempt for event in request.action_events if isinstance(event, GatedAction.Dispatched)]
            self._appends[key] = answer, violation, licences[-1] if licences else 0
        return self._appends[key]

    def _answer(
        self, state: State, slot: int, worker: Worker, answer: Any, words: str, fault: str = "", key: Hashable = None
    ) -> Iterator[Step]:
        run = self.runs.answered(worker.run, answer, key)
        done = worker.done or isinstance(answer, Done)
        yield from self._went(state, slot, worker._replace(air=(), done=done), run, words, fault)

    def _went(self, state: State, slot: int, worker: Worker, run: int, words: str, fault: str) -> Iterator[Step]:
        after = self._with_worker(state, slot, self._with_run(worker, run))
        end = self.runs.ends[run]
        violation = self._dropped(state, worker, end) if end is not None else None
        yield Step(f"{words} -> {end.conclusion}" if end is not None else words, fault, after, violation)

    def _dropped(self, state: State, worker: Worker, end: End) -> str | None:
        recorded = self.journals.facts[state.journal].status is Status.COMMITTED
        if worker.done and not recorded and not end.says_not_recorded:
            return f"rule 6: a definite Done is dropped ({end.conclusion})"
        return None

    # --- requests under way

    def _steps_of_air(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        air = worker.air
        assert air, "asked for a worker with a request under way"
        for outcome, provider in self._outcomes_of(state.provider, air):
            words = f"{name}'s {air.kind} {'' if air.at_work else 'lands, '}and the provider {outcome.words}"
            after = state._replace(provider=provider)
            fault = "provider" if outcome.fault else ""
            if outcome.answer is None:
                yield Step(words, fault, self._with_worker(after, slot, worker._replace(air=air._replace(at_work=True))))
            else:
                yield from self._answer(after, slot, worker, outcome.answer, words, fault)
        orphans = self.orphans.values[state.orphans]
        if len(orphans) < self.faults.orphans:
            after = state._replace(orphans=self.orphans.number(tuple(sorted((*orphans, air)))))
            answer = Unknown("no answer") if air.kind == Kind.EFFECT.value else CannotTell("no answer")
            yield from self._answer(after, slot, worker, answer, f"{name} gives up waiting for its {air.kind}", "give up")

    def _outcomes_of(self, provider: int, air: Air) -> list[tuple[Outcome, int]]:
        key = (provider, air.at_work, air.kind, air.attempt)
        if key not in self._outcomes:
            now = self.providers.values[provider]
            outcomes = (
                now.finish(air.attempt, self.profile) if air.at_work else now.land(Kind(air.kind), air.attempt, self.profile)
            )
            self._outcomes[key] = [(outcome, self.providers.number(outcome.provider)) for outcome in outcomes]
        return self._outcomes[key]

    def _steps_of_orphans(self, state: State) -> Iterator[Step]:
        orphans = self.orphans.values[state.orphans]
        for number, air in enumerate(orphans):
            rest = orphans[:number] + orphans[number + 1 :]
            for outcome, provider in self._outcomes_of(state.provider, air):
                left = tuple(sorted((*rest, air._replace(at_work=True)))) if outcome.answer is None else rest
                words = f"a {air.kind} without a sender {'goes on' if air.at_work else 'lands'}: the provider {outcome.words}"
                yield Step(
                    words,
                    "provider" if outcome.fault else "",
                    state._replace(provider=provider, orphans=self.orphans.number(left)),
                    by="orphan",
                )
            if not air.at_work:
                lost = state._replace(orphans=self.orphans.number(rest))
                yield Step(f"a {air.kind} without a sender is lost", "lost", lost, by="orphan")

    # --- the world

    def _steps_of_provider(self, state: State) -> Iterator[Step]:
        for outcome in self.providers.values[state.provider].alone(self.profile):
            after = state._replace(provider=self.providers.number(outcome.provider))
            yield Step(f"the provider {outcome.words}", "", after, by="provider")

    def _steps_of_the_world(self, state: State) -> Iterator[Step]:
        facts = self.journals.facts[state.journal]
        if facts.ended:
            return
        if self.faults.revocations and not facts.revoked:
            revoked = state._replace(journal=self.journals.revoked(state.journal))
            yield Step("the approval is revoked", "revoked", revoked, by="world")
        if self.faults.premises_change:
            words = "the premise is good again" if state.bad else "the premise turns bad"
            yield Step(words, "premise", state._replace(bad=1 - state.bad), by="world")

    def _steps_of_time(self, state: State) -> Iterator[Step]:
        workers = [self.workers.values[worker] for worker in state.workers]
        ages = [worker.air.age for worker in workers if worker.air]
        ages += [air.age for air in self.orphans.values[state.orphans]]
        if all(age < LANDING_TICKS for age in ages):
            yield Step("a tick", "", self._later(state, 1), by="time")
        keys = self.providers.values[state.provider].keys
        matters = self.journals.facts[state.journal].window_open or any(
            key.record.value != "nothing" and not key.old for key in keys
        )
        if self.faults.leap and not ages and matters:
            yield Step("25 hours pass", "leap", self._later(state, LEAP_TICKS), by="time")

    def _later(self, state: State, ticks: int) -> State:
        key = ("provider", state.provider, ticks)
        if key not in self._known:
            provider = self.providers.values[state.provider]
            self._known[key] = self.providers.number(provider.later() if ticks == 1 else provider.much_later())
        orphans = tuple(sorted(air._replace(age=air.age + 1) for air in self.orphans.values[state.orphans]))
        return State(
            self.journals.later(state.journal, ticks),
            self._known[key],
            state.bad,
            tuple(self._worker_later(worker, ticks) for worker in state.workers),
            self.orphans.number(orphans) if orphans else state.orphans,
        )

    def _worker_later(self, number: int, ticks: int) -> int:
        key = ("worker", number, ticks)
        if key not in self._known:
            worker = self.workers.values[number]
            air = worker.air._replace(age=worker.air.age + 1) if worker.air else ()
            self._known[key] = self._changed(worker._replace(air=air), self.runs.later(worker.run, ticks))
        return self._known[key]

    def _changed(self, worker: Worker, run: int) -> int:
        """Return the number of a worker whose run is another by what others did; it may have come to its end."""
        assert self.runs.ends[run] is None or not worker.done, "a Done is recorded with an append"
        return self.workers.number(self._with_run(worker, run))

    def _with_run(self, worker: Worker, run: int) -> Worker:
        """Return the worker with another run; idle at its end."""
        if self.runs.ends[run] is not None:
            return Worker(lockless=worker.lockless)
        return worker._replace(run=run)

    def _with_worker(self, state: State, slot: int, worker: Worker) -> State:
        number = self.workers.number(worker)
        return state._replace(workers=(*state.workers[:slot], number, *state.workers[slot + 1 :]))


def described(request: Request[Any] | Write) -> str:
    """Return what a request is, for a person: an append with what it writes."""
    return str(request) if isinstance(request, Write) else type(request).__name__


def _attempt_of(idempotency_key: str) -> int:
    return int(idempotency_key.rpartition("-")[2])
