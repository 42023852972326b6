"""Everything that was met in the small world, by number, and the one form of each state.

Two workers are explored without the steps whose time makes no difference (`Faults.every_request` keeps them). Each is taken at
once, which loses nothing, because it commutes with whatever else can happen: an answer that can only be one, a clock that is read
to the same effect at any time, a send whose deadline is over. A worker that can do no more than an idle one is taken for one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from interlock.domain.requests import Now, Send, StillAt
from interlock.testing.exploration.journals import Journals
from interlock.testing.exploration.provider import Key, Kind, Provider
from interlock.testing.exploration.rests import Rests
from interlock.testing.exploration.scope import SmallProfile
from interlock.testing.exploration.state import Air, Faults, Parts, State, Worker
from interlock.testing.exploration.workers import Workers

IDLE = Worker()
SLOTS = ("me", "other")
"""How the journal, as the first worker sees it, names the holders in each place."""


class Registry:
    """The parts of the small world by number, and the canonical form of a state.

    Args:
        profile: what the provider can do.
        faults: what may go wrong.
        keep: variables of a run that make a difference although nobody reads them again.
        beside: another world, whose runs and journals are gone on with where they are of one kind: what a run makes of an answer
            is the protocol's affair, whatever else may go wrong.
    """

    def __init__(self, profile: SmallProfile, faults: Faults, keep: frozenset[str], beside: Registry | None = None) -> None:
        self.profile, self.faults = profile, faults
        steady = not (faults.premises_change or faults.reads)
        self.runs = Workers(
            profile,
            premises_are_steady=steady,
            every_request=faults.every_request,
            clock_steps_back=faults.clock_steps_back,
            keep=keep,
        )
        self.journals = Journals(profile, by_prefix=faults.every_request, over=self.runs.over)
        if beside is not None and beside.runs.kind == self.runs.kind:
            self.runs, self.journals = beside.runs, beside.journals
        self.providers: Parts[Provider] = Parts()
        self.workers: Parts[Worker] = Parts()
        self.orphans: Parts[tuple[Air, ...]] = Parts()
        self.idle = self.workers.number(IDLE)
        self._known: dict[Hashable, int] = {}
        self.orphans.number(())
        self.rests = Rests(self.runs, self.journals, revocations=faults.revocations)
        self._alike = not (
            faults.journal or faults.reads or faults.premises_change or faults.disagreements or faults.clock_steps_back
        )
        """Whether nothing can happen to a run but what its rest is judged by."""

    def canonical(self, state: State) -> State:
        """Return the state without what can't matter any more, and with alike workers in one order."""
        return self.ordered(self.normal(state))

    def normal(self, state: State) -> State:
        """Return the state without what can't matter any more."""
        workers = tuple(self.settled(state.journal, slot, worker) for slot, worker in enumerate(state.workers))
        state = self.without_vain_orphans(state._replace(workers=workers))
        return state if any(self.may_still_send(worker) for worker in workers) else self.without_the_past(state)

    def ordered(self, state: State) -> State:
        """Return the state with its workers in one order: they are alike."""
        if len(state.workers) < len(SLOTS) or state.workers[0] < state.workers[1]:
            return state
        swapped, (first, second) = self.swapped(state.journal), state.workers
        journal = swapped if first > second else min(state.journal, swapped)
        return state._replace(journal=journal, workers=(second, first))

    def swapped(self, journal: int) -> int:
        """Return the journal as the second worker sees it."""
        return self.journals.from_place(journal, 1)

    def settled(self, journal: int, slot: int, number: int) -> int:
        """Take at once what makes no difference whenever it comes, and take for idle who can do no more than an idle one."""
        if self.faults.every_request:
            return number
        key = ("settled", journal, slot, number)
        if key not in self._known:
            worker = self.workers.values[number]
            if worker.run and not worker.air:
                seen = self.journals.from_place(journal, slot)
                alike = self._alike and not worker.done and not self.is_mistaken(journal, worker.run)
                worker = self.with_run(worker, self.rests.settled(worker.run, seen, alike=alike))
            if self.journals.facts[journal].exists and not worker.done and self._is_as_good_as_idle(journal, worker.run):
                worker = IDLE
            self._known[key] = self.workers.number(worker)
        return self._known[key]

    def is_mistaken(self, journal: int, run: int) -> bool:
        """Whether a run fires another effect than the one that the journal has under the key (I5)."""
        fires, recorded = self.runs.fires(run), self.journals.facts[journal].fired
        return fires is not None and recorded is not None and fires != recorded

    def _is_as_good_as_idle(self, journal: int, run: int) -> bool:
        return self.runs.are_as_good_as_idle(run) and not self.is_mistaken(journal, run)

    def without_vain_orphans(self, state: State) -> State:
        """Drop each late request whose key has a record by now: when it lands nothing changes, and nobody hears the answer.

        The record stays for as long as it can be under way, because a key is forgotten past its window only, and only a
        tick or two pass meanwhile. That it is lost here and now instead could have happened anyway.
        """
        if self.faults.every_request or not state.orphans:
            return state
        key = ("orphans", state.provider, state.orphans)
        if key not in self._known:
            keys = self.providers.values[state.provider].keys
            orphans = self.orphans.values[state.orphans]
            left = tuple(air for air in orphans if air.at_work or not keys[air.attempt - 1].is_settled)
            self._known[key] = self.orphans.number(left)
        return state._replace(orphans=self._known[key])

    def may_still_send(self, number: int) -> bool:
        """Whether a worker has a request under way, or one that is announced."""
        worker = self.workers.values[number]
        return bool(worker.air or worker.licence)

    def without_the_past(self, state: State) -> State:
        """After the end, while no worker may still send, only a late send of a dead one needs the provider's keys."""
        if not self.journals.facts[state.journal].ended:
            return state
        if any(each.kind == Kind.EFFECT.value for each in self.orphans.values[state.orphans]):
            return state
        bare = replace(self.providers.values[state.provider], keys=(Key(),) * self.faults.attempts)
        return state._replace(provider=self.providers.number(bare), orphans=self.orphans.number(()))

    def with_run(self, worker: Worker, run: int) -> Worker:
        """Return the worker with another run; idle at its end."""
        if not run or self.runs.ends[run] is not None:
            return IDLE
        # A licence is for the very send that was announced: whoever does anything else first has to announce again (I1).
        may_send = isinstance(self.runs.requests[run], StillAt | Now | Send)
        return worker._replace(run=run, licence=worker.licence if may_send else 0)
