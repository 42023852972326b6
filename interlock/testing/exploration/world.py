"""The small world: workers, a journal, a provider and time, and every step that can happen in it.

A state is a tuple of numbers. Everything is a step: a worker's next request, a request that lands, is lost or is answered, a
kill, a lock that is lost by a worker that lives, a tick, a leap past every window, a forgotten key, a failed request carried to
its end, a revocation, a premise that changes. A pause needs no step of its own: every worker may stay where it is while time
passes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from interlock.domain.action import Claim, GatedAction, Status
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
from interlock.errors import ActionMismatch, JournalUnavailable
from interlock.testing.exploration.memory import Write, empty_log, judge_append
from interlock.testing.exploration.outside import Outside
from interlock.testing.exploration.provider import Key, Kind, Provider
from interlock.testing.exploration.registry import IDLE, SLOTS, Registry
from interlock.testing.exploration.rests import LATE
from interlock.testing.exploration.rules import belied_by_the_key, broken_by, broken_in
from interlock.testing.exploration.scope import (
    BAD_READING,
    DISAGREEING,
    DRAFT_ID,
    EVIDENCE,
    FIRES,
    GOOD_READING,
    NO_READING,
    START,
    SmallProfile,
    instant,
)
from interlock.testing.exploration.state import Air, Faults, State, Step, Worker
from interlock.testing.exploration.workers import End, Raised

LOCK_LOST = "its holder has lost its lock, and lives"
JOURNAL_DOWN = Raised(JournalUnavailable("the journal is down"))


class World(Outside):
    """The small world with one profile: every step that can happen in it."""

    def __init__(
        self,
        profile: SmallProfile,
        faults: Faults | None = None,
        keep: frozenset[str] = frozenset(),
        beside: Registry | None = None,
    ) -> None:
        super().__init__(profile, faults or Faults(), keep, beside)
        self._appends: dict[Hashable, tuple[AppendAnswer, str | None, int]] = {}
        self._steps: dict[Hashable, list[Step]] = {}

    def initial(self) -> State:
        """Return the state before anything happened."""
        journal = self.journals.number(empty_log(self.faults.expires_after))
        workers = (self.idle,) * self.faults.workers
        return State(
            journal, self.providers.number(Provider((Key(),) * self.faults.attempts)), 0, workers, self.orphans.number(())
        )

    def is_end(self, state: State) -> bool:
        """Whether the action has come to an end, or the world goes no further."""
        return self.journals.facts[state.journal].ended or self.is_beyond(state)

    def violation(self, state: State) -> str | None:
        """Return what the state breaks."""
        return broken_in(self.journals.facts[state.journal], self.providers.values[state.provider])

    def is_beyond(self, state: State) -> bool:
        """Whether the world goes no further: it has come to an attempt more than it goes along with."""
        return self.journals.facts[state.journal].attempt > self.faults.attempts

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step that can happen."""
        if self.is_beyond(state):
            return
        for slot in range(len(state.workers)):
            yield from self._taken_by(state, slot)
        key = ("world", *state._replace(workers=()))
        if key not in self._steps:
            self._steps[key] = list(self.steps_of_the_rest(state))
        for step in self._steps[key]:
            yield step._replace(state=step.state._replace(workers=state.workers))
        if all(worker == self.idle for worker in state.workers):
            yield from self.steps_while_idle(state)
        yield from self.steps_of_time(state)

    def _taken_by(self, state: State, slot: int) -> Iterator[Step]:
        """Yield the steps of one worker. What the other one is at does not matter to them, so they are found out once."""
        worker, others = state.workers[slot], state.workers[:slot] + state.workers[slot + 1 :]
        key = (slot, worker, *state._replace(workers=()))
        if key not in self._steps:
            beside = (self.idle,) * len(others)
            alone = state._replace(workers=(*beside[:slot], worker, *beside[slot:]))
            self._steps[key] = list(self.steps_of_worker(alone, slot))
        for step in self._steps[key]:
            after = step.state
            beside = tuple(self.affected(other, step.other) for other in others) if step.other else others
            workers = (*beside[:slot], after.workers[slot], *beside[slot:])
            yield Step(step.words, step.fault, after._replace(workers=workers), step.violation)

    def minds_the_provider(self, journal: int, number: int) -> bool:
        """Whether what a worker may do next depends on the provider, or on the late requests, and not on the journal alone."""
        worker = self.workers.values[number]
        if not worker.run:
            return self.journals.facts[journal].status is Status.AMBIGUOUS  # a person, and a look again, go by what is there
        request = self.runs.requests[worker.run]
        return bool(worker.air) or isinstance(request, Burn | LookUp) or (isinstance(request, Write) and request.goes_by_the_key)

    def affected(self, number: int, how: str) -> int:
        """Return the number of a worker after somebody else has written to the action (`outdated`), or has died (`bereft`)."""
        key = (how, number)
        if key not in self._known:
            worker = self.workers.values[number]
            run = self.runs.outdated(worker.run) if how == "outdated" else self.runs.bereft(worker.run)
            self._known[key] = self.changed(worker, run)
        return self._known[key]

    # --- a worker

    def steps_of_worker(self, state: State, slot: int) -> Iterator[Step]:
        """Yield the steps of the worker in that place, as far as they are its own."""
        worker = self.workers.values[state.workers[slot]]
        name = f"W{slot + 1}"
        if worker.air:
            yield from self._steps_of_air(state, slot, worker, name)
        elif worker.run:
            yield from self._steps_of_request(state, slot, worker, name)
        else:
            yield from self._beginnings(state, slot, worker, name)
        holds = self.journals.facts[state.journal].holder == SLOTS[slot]
        if worker.run or holds:
            yield from self._kill(state, slot, worker, name)

    def _beginnings(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        for part, words, fault in self._parts(state):
            seen = self.journals.from_place(state.journal, slot)
            begun = self.runs.begin(part, self.journals.logs[seen], seen)
            for run, lock in self._begun(begun):
                found = f", and finds that {LOCK_LOST}" if lock else ""
                yield from self._went(state, slot, worker, run, f"{name} {words}{found}", fault or lock)

    def _parts(self, state: State) -> Iterator[tuple[str, str, str]]:
        """Yield what an idle worker may begin: the part of the protocol, in words, and as which fault."""
        facts = self.journals.facts[state.journal]
        if not facts.exists:
            yield "fire", "fires", ""
            if self.faults.propose:
                yield "propose", "proposes", ""
        elif not facts.ended:
            yield "recover", "fires, or recovers: loads the action", ""
        elif facts.status is Status.AMBIGUOUS:
            effects = self.providers.values[state.provider].effects
            if self.profile.lookup != "none" and effects:
                yield "reconcile", "reconciles: loads the action", ""
            # The person has looked, and says what is so; whether it stays so is what rule 7 is for. What disagrees they may have
            # overlooked, where the gate can look for itself.
            overlooked = self.faults.disagreements and self.profile.lookup != "none"
            if self.faults.resolve and (overlooked or not effects):
                yield "resolve", "is told by a person that it did not happen", "resolve"
        if self.faults.another_effect:
            yield next(name for name in FIRES if name != (facts.fired or "fire")), "fires another effect", "another"

    def _begun(self, run: int) -> Iterator[tuple[int, str]]:
        """Answer at once what a takeover asks before it appends: whatever happens in between, to begin later is the same."""
        request = self.runs.requests[run]
        if isinstance(request, Now):
            # A person's word is given, and judged, at one moment.
            yield self._told_the_time(run), ""
        elif isinstance(request, ProbeHolder) and not self.faults.every_request:
            for liveness, fault in self._liveness(request.claim):
                probed = self.runs.answered(run, liveness)
                told = isinstance(self.runs.requests[probed], Now)
                yield self._told_the_time(probed) if told else probed, fault
        else:
            yield run, ""

    def _told_the_time(self, run: int) -> int:
        return self.runs.answered(run, instant(self.runs.histories[run].present), "now")

    def _kill(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        journal = self.journals.bereft_of(state.journal, slot)
        for after, lost in self._without_sender(state, worker.air) if worker.air else ((state, ""),):
            killed = self._with_worker(after, slot, IDLE)._replace(journal=journal)
            yield Step(f"{name} is killed {self._place(worker)}{lost}", "kill", killed, other="bereft")

    def _without_sender(self, state: State, air: Air) -> Iterator[tuple[State, str]]:
        """Yield the state with a request that nobody waits for any more, and what is to be said of it.

        Where as many are under way already as the world goes along with, it never arrives; one that has arrived can't be lost.
        """
        orphans = self.orphans.values[state.orphans]
        if len(orphans) < self.faults.orphans:
            yield state._replace(orphans=self.orphans.number(tuple(sorted((*orphans, air))))), ""
        elif not air.at_work:
            yield state, ", and that is lost"

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
            case Burn():
                yield from self._burn(state, slot, worker, request, words)
            case LookUp():
                yield from self._look_up(state, slot, worker, words)
            case ProbeHolder(claim=claim):
                for liveness, fault in self._liveness(claim):
                    found = f"{liveness}, {LOCK_LOST}" if fault else liveness
                    yield from self._answer(state, slot, worker, liveness, f"{words}: {found}", fault)
            case _:
                yield from self._read(state, slot, worker, request, words)

    def _burn(self, state: State, slot: int, worker: Worker, request: Burn, words: str) -> Iterator[Step]:
        burning = worker._replace(air=Air(Kind.BURN.value, _attempt_of(request.idempotency_key)))
        if self.faults.every_request:
            yield Step(f"{words}: written", "", self._with_worker(state, slot, burning))
        else:
            # A burn has no deadline: that it is under way for a while shows nothing that a later write would not show.
            yield from self._steps_of_air(state, slot, burning, f"W{slot + 1}")
            yield from self._kill(state, slot, burning, f"W{slot + 1}")
        if self.faults.reads:
            yield from self._answer(state, slot, worker, CannotTell("not sent"), f"{words}: fails", "read")

    def _look_up(self, state: State, slot: int, worker: Worker, words: str) -> Iterator[Step]:
        for found in self.providers.values[state.provider].looked_up(self.profile):
            answer = Found(EVIDENCE) if found else Absent(START)
            yield from self._answer(state, slot, worker, answer, f"{words}: {'found' if found else 'absent'}")
            if self.faults.disagreements and found:
                disagreeing = Found(DISAGREEING)
                yield from self._answer(state, slot, worker, disagreeing, f"{words}: found, and disagrees", "disagrees")
        if self.faults.reads:
            yield from self._answer(state, slot, worker, CannotTell("it failed"), f"{words}: fails", "read")

    def _read(self, state: State, slot: int, worker: Worker, request: Request[Any], words: str) -> Iterator[Step]:
        key: Hashable = None
        match request:
            case FindAction() | LoadAction() | LoadApproval():
                seen = self.journals.from_place(state.journal, slot)
                answer: Any = self.journals.logs[seen]
                key = self.journals.part_for(request, seen)
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
            case _:
                raise TypeError(request)
        yield from self._answer(state, slot, worker, answer, words, "", key)

    def _liveness(self, claim: Claim | None) -> Iterator[tuple[Liveness, str]]:
        """Yield what may be found of a claim's holder, and which fault it takes.

        That a living worker has lost its lock is told to nobody else, and can't be seen before somebody asks: so it is said when
        it is asked for. That it may be back the next time is more than can happen, and hides nothing.
        """
        if claim is None or claim.holder == "gone":
            yield Liveness.GONE, ""
        elif claim.holder == "me":
            yield Liveness.IDLE, ""
        else:
            yield Liveness.ALIVE, ""
            if self.faults.locks_are_lost:
                yield Liveness.GONE, "lock"

    def _send(self, state: State, slot: int, worker: Worker, request: Send, words: str) -> Iterator[Step]:
        attempt = _attempt_of(request.idempotency_key)
        history = self.runs.histories[worker.run]
        if request.deadline_at <= instant(history.present):
            spent = worker._replace(licence=0)
            yield from self._answer(state, slot, spent, LATE, f"{words}: its deadline is over, nothing is written")
            return
        violation = None if worker.licence == attempt else "I1: sent without a Dispatched of its own"
        if request.effect != FIRES[self.journals.facts[state.journal].fired or "fire"].effect:
            violation = "I5: sent, and it is not the effect that was recorded"
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
        violation = violation or self._belied(state, seen, worker.run, request)
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
            facts, writer = self.journals.facts[seen], self.runs.histories[run]
            broken = broken_by(request, facts, writer, self.profile) if answer is AppendAnswer.APPENDED else None
            licences = [event.attempt for event in request.action_events if isinstance(event, GatedAction.Dispatched)]
            self._appends[key] = answer, broken, licences[-1] if licences else 0
        return self._appends[key]

    def _belied(self, state: State, seen: int, run: int, request: Write) -> str | None:
        # Nobody can know of a key that was forgotten inside its window.
        if not request.goes_by_the_key or self.faults.keys_are_forgotten:
            return None
        facts, writer, provider = self.journals.facts[seen], self.runs.histories[run], self.providers.values[state.provider]
        return belied_by_the_key(request, facts, writer, provider, self.profile)

    def _answer(
        self, state: State, slot: int, worker: Worker, answer: Any, words: str, fault: str = "", key: Hashable = None
    ) -> Iterator[Step]:
        run = self.runs.answered(worker.run, answer, key)
        # Whoever finds it may come to it again; it is dropped where a run ends on it.
        tells = isinstance(answer, Done) or (isinstance(answer, Found) and self.runs.ends[run] is not None)
        done = worker.done or (tells and not answer.evidence.disagreements)
        yield from self._went(state, slot, worker._replace(air=(), done=done), run, words, fault)

    def _went(self, state: State, slot: int, worker: Worker, run: int, words: str, fault: str) -> Iterator[Step]:
        after = self._with_worker(state, slot, self.with_run(worker, run))
        end = self.runs.ends[run]
        violation = self._dropped(state, worker, end) if end is not None else None
        if worker.run and isinstance(self.runs.requests[worker.run], FindAction):
            violation = violation or self._misjudged(state, worker, run)
        yield Step(f"{words} -> {end.conclusion}" if end is not None else words, fault, after, violation)

    def _dropped(self, state: State, worker: Worker, end: End) -> str | None:
        recorded = self.journals.facts[state.journal].status is Status.COMMITTED
        if worker.done and not recorded and not end.says_not_recorded:
            return f"rule 6: what is done is dropped ({end.conclusion})"
        return None

    def _misjudged(self, state: State, worker: Worker, run: int) -> str | None:
        end = self.runs.ends[run]
        refused = end is not None and end.conclusion == ActionMismatch.__name__
        # What somebody else refused may be looked up before anything else is said, which writes nothing and sends nothing.
        if refused == self.is_mistaken(state.journal, worker.run) or isinstance(self.runs.requests[run], LookUp):
            return None
        return "I5: refused, and it is the same effect" if refused else "I5: goes on with another effect than was recorded"

    # --- requests under way

    def _steps_of_air(self, state: State, slot: int, worker: Worker, name: str) -> Iterator[Step]:
        air = worker.air
        assert air, "asked for a worker with a request under way"
        for outcome, provider in self.outcomes_of(state.provider, air):
            words = f"{name}'s {air.kind} {'' if air.at_work else 'lands, '}and the provider {outcome.words}"
            after = state._replace(provider=provider)
            fault = "provider" if outcome.fault else ""
            if outcome.answer is None:
                yield Step(words, fault, self._with_worker(after, slot, worker._replace(air=air._replace(at_work=True))))
            else:
                yield from self._answer(after, slot, worker, outcome.answer, words, fault)
            if self.faults.disagreements and isinstance(outcome.answer, Done):
                yield from self._answer(after, slot, worker, Done(DISAGREEING), f"{words}: what it says disagrees", "disagrees")
        answer = Unknown("no answer") if air.kind == Kind.EFFECT.value else CannotTell("no answer")
        for after, lost in self._without_sender(state, air):
            yield from self._answer(after, slot, worker, answer, f"{name} gives up waiting for its {air.kind}{lost}", "give up")

    def _with_worker(self, state: State, slot: int, worker: Worker) -> State:
        number = self.workers.number(worker)
        return state._replace(workers=(*state.workers[:slot], number, *state.workers[slot + 1 :]))


def described(request: Request[Any] | Write) -> str:
    """Return what a request is, for a person: an append with what it writes."""
    return str(request) if isinstance(request, Write) else type(request).__name__


def _attempt_of(idempotency_key: str) -> int:
    return int(idempotency_key.rpartition("-")[2])
