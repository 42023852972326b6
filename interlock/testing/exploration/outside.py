"""What happens in the small world without a worker: to late requests, at the provider, to approval and premise, and with time."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from interlock.testing.exploration.provider import Kind, Outcome, Record
from interlock.testing.exploration.registry import Registry
from interlock.testing.exploration.scope import LEAP_TICKS, SmallProfile
from interlock.testing.exploration.state import Air, Faults, State, Step, Worker


class Outside(Registry):
    """The small world as far as it goes on by itself.

    Args:
        profile: what the provider can do.
        faults: what may go wrong.
        keep: variables of a run that make a difference although nobody reads them again.
        beside: another world; see Registry.
    """

    def __init__(self, profile: SmallProfile, faults: Faults, keep: frozenset[str], beside: Registry | None = None) -> None:
        super().__init__(profile, faults, keep, beside)
        self._outcomes: dict[Hashable, list[tuple[Outcome, int]]] = {}

    def steps_of_the_rest(self, state: State) -> Iterator[Step]:
        """Yield the steps that no worker takes, and that take no time."""
        yield from self._steps_of_orphans(state)
        yield from self._steps_of_provider(state)
        yield from self._steps_of_the_world(state)

    def outcomes_of(self, provider: int, air: Air) -> list[tuple[Outcome, int]]:
        """Return what the provider may do next with a request, and the provider's number afterwards."""
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
            for outcome, provider in self.outcomes_of(state.provider, air):
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

    def _steps_of_provider(self, state: State) -> Iterator[Step]:
        for outcome in self.providers.values[state.provider].alone(self.profile):
            after = state._replace(provider=self.providers.number(outcome.provider))
            yield Step(f"the provider {outcome.words}", "", after, by="provider")

    def steps_while_idle(self, state: State) -> Iterator[Step]:
        """Yield the keys that the provider forgets inside their window, which breaks its word.

        That is survived where whatever was carried out can be seen by then, and nothing can land or be carried to its end later.
        """
        provider = self.providers.values[state.provider]
        if not self.faults.keys_are_forgotten or state.orphans or provider.unseen_ticks or provider.rolls:
            return
        for attempt, key in enumerate(provider.keys, 1):
            if key.is_settled:
                forgot = state._replace(provider=self.providers.number(provider.with_key(attempt, Record.NONE)))
                yield Step(f"the provider forgets key {attempt} inside its window", "forgotten", forgot, by="provider")

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

    def steps_of_time(self, state: State) -> Iterator[Step]:
        """Yield how time can pass, for the workers too."""
        ages = [self.age_of(worker) for worker in state.workers]
        tick, leap = self.time_without_workers(state)
        if tick is not None and max(ages) < self.profile.figures.landing:
            yield Step("a tick", "", self._with_later_workers(state, tick, 1), by="time")
        if leap is not None and max(ages) < 0:
            yield Step("25 hours pass", "leap", self._with_later_workers(state, leap, LEAP_TICKS), by="time")
        if (back := self.set_back_without_workers(state)) is not None:
            yield Step("the clock steps back by a tick", "clock", self._with_later_workers(state, back, -1), by="time")

    def age_of(self, number: int) -> int:
        """Return for how many ticks a worker's request has been under way; -1 where there is none."""
        air = self.workers.values[number].air
        return air.age if air else -1

    def time_without_workers(self, state: State) -> tuple[State | None, State | None]:
        """Return the state after a tick, and after a leap, but for its workers; None where time can't pass like that."""
        ages = [air.age for air in self.orphans.values[state.orphans]]
        keys = self.providers.values[state.provider].keys
        matters = self.journals.facts[state.journal].window_open or any(key.is_known and not key.old for key in keys)
        return (
            self._rest_later(state, 1) if max(ages, default=-1) < self.profile.figures.landing else None,
            self._rest_later(state, LEAP_TICKS) if self.faults.leap and not ages and matters else None,
        )

    def set_back_without_workers(self, state: State) -> State | None:
        """Return the state after the clock has stepped back, but for its workers; None where it may not.

        The journal and every worker reckon by this clock, and what they have read is ahead of it then. Nothing is younger for
        that: the provider, and requests on their way, go by how much time has passed.
        """
        if state.behind or not self.faults.clock_steps_back:
            return None
        return state._replace(journal=self.journals.later(state.journal, -1), behind=1)

    def _rest_later(self, state: State, ticks: int) -> State:
        key = ("provider", state.provider, ticks)
        if key not in self._known:
            provider = self.providers.values[state.provider]
            self._known[key] = self.providers.number(provider.later() if ticks == 1 else provider.much_later())
        orphans = tuple(sorted(air._replace(age=air.age + 1) for air in self.orphans.values[state.orphans]))
        journal = self.journals.later(state.journal, ticks)
        return state._replace(journal=journal, provider=self._known[key], orphans=self.orphans.number(orphans))

    def _with_later_workers(self, state: State, later: State, ticks: int) -> State:
        return later._replace(workers=tuple(self.worker_later(worker, ticks) for worker in state.workers))

    def worker_later(self, number: int, ticks: int) -> int:
        """Return the number of a worker that stays where it is for so many ticks; by its clock alone where they are negative."""
        key = ("worker", number, ticks)
        if key not in self._known:
            worker = self.workers.values[number]
            air = worker.air._replace(age=worker.air.age + 1) if worker.air and ticks > 0 else worker.air
            self._known[key] = self.changed(worker._replace(air=air), self.runs.later(worker.run, ticks))
        return self._known[key]

    def changed(self, worker: Worker, run: int) -> int:
        """Return the number of a worker whose run is another by what others did; it may have come to its end."""
        assert self.runs.ends[run] is None or not worker.done, "a Done is recorded with an append"
        return self.workers.number(self.with_run(worker, run))
