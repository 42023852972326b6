"""Which of a worker's requests make no difference whenever they come, and which runs go on alike.

A worker to whose action somebody else has written can't write any more, and comes back to the journal sooner or later. Until
then it may look up, burn keys, and make the send that it was about to make, and many ways lead to the same rest. Two such runs
that ask for the same, and go on alike whatever they are answered and whenever, are taken for one; one that asks for nothing that
others could notice is as good as idle.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from interlock.domain.answers import Absent, AlreadyUsed, Burned, CannotTell, Found, InProgress, NotSent
from interlock.domain.requests import Burn, FindAction, LoadAction, LoadApproval, LookUp, Now, Send
from interlock.testing.exploration.journals import Journals
from interlock.testing.exploration.scope import EVIDENCE, LEAP_TICKS, START, instant
from interlock.testing.exploration.workers import Workers

LATE = NotSent("its deadline")
NOTHING = 0
"""The number of a run that can do no more than an idle worker."""
_SAME = -1
"""Waiting makes no difference."""
_BURN_ANSWERS = (Burned(), AlreadyUsed(), InProgress(), CannotTell("no answer"))
_LOOKUP_ANSWERS = (Absent(START), Found(EVIDENCE))


class Rests:
    """What a run may still come to, with the journal as its worker sees it.

    Args:
        runs: all runs.
        journals: all journals.
        revocations: whether the approval may be revoked.
    """

    def __init__(self, runs: Workers, journals: Journals, *, revocations: bool) -> None:
        self._runs, self._journals, self._revocations = runs, journals, revocations
        self._first: dict[Hashable, int] = {}
        self._known: dict[Hashable, int] = {}

    def settled(self, run: int, seen: int, *, alike: bool) -> int:
        """Return the run after every request whose time makes no difference.

        Args:
            run: a run that waits to make its request.
            seen: the journal as its worker sees it.
            alike: whether an outdated run may be taken for another one that goes on alike.
        """
        key = (run, seen, alike)
        if key not in self._known:
            after = run
            while further := self._certain(after, seen):
                after = further
            outdated = alike and self._runs.requests[after] is not None and self._runs.histories[after].outdated
            self._known[key] = self._first_alike(after, seen) if outdated else after
        return self._known[key]

    def _certain(self, run: int, seen: int) -> int:
        """Return the run after a request that can be made at once; 0 where its time makes a difference."""
        request, history = self._runs.requests[run], self._runs.histories[run]
        match request:
            case Send(deadline_at=deadline_at) if deadline_at <= instant(history.present + self._runs.over):
                # Its deadline stays over, so that nothing is written, whenever it wakes up.
                return self._runs.answered(run, LATE)
            case LoadApproval() if self._journals.facts[seen].exists:
                first, *others = (self._loaded(run, each) for each in self._as_it_may_be_loaded(seen))
                return first if all(other == first for other in others) else 0
            case LoadAction() if history.outdated:
                after = self._loaded(run, seen)
                # It sees that somebody else wrote, whatever that was, and loads again.
                return after if isinstance(self._runs.requests[after], LoadAction | FindAction) else 0
            case _:
                return 0

    def _loaded(self, run: int, seen: int) -> int:
        request = self._runs.requests[run]
        assert isinstance(request, FindAction | LoadAction | LoadApproval), "asked for a run that loads something"
        return self._runs.answered(run, self._journals.logs[seen], self._journals.part_for(request, seen))

    def _as_it_may_be_loaded(self, seen: int) -> tuple[int, ...]:
        """Return the journal, now and with the approval revoked, where that may still happen."""
        facts = self._journals.facts[seen]
        if facts.revoked or facts.ended or not self._revocations:
            return (seen,)
        return seen, self._journals.revoked(seen)

    def _first_alike(self, run: int, seen: int) -> int:
        """Return the first run that was met of those that go on like this one."""
        runs = self._runs
        if runs.are_as_good_as_idle(run):
            return NOTHING
        request = runs.requests[run]
        if not isinstance(request, Burn | LookUp | LoadApproval | Now):
            return run
        answered = tuple(self._rest(after, seen) for after in self._answered(run, seen))
        waited = tuple(self._later(run, ticks, seen) for ticks in (1, LEAP_TICKS))
        silent = isinstance(request, LoadApproval | Now)
        if silent and all(after == answered[0] for after in answered) and self._commutes(answered[0], waited, seen):
            return answered[0]
        asked = (type(request).__name__, getattr(request, "idempotency_key", ""), self._as_it_may_be_loaded(seen))
        return self._first.setdefault((asked, answered, waited), run)

    def _rest(self, run: int, seen: int) -> int:
        return NOTHING if self._runs.ends[run] is not None else self.settled(run, seen, alike=True)

    def _answered(self, run: int, seen: int) -> Iterator[int]:
        """Yield what becomes of an outdated run by each answer that it may get."""
        match self._runs.requests[run]:
            case Burn():
                yield from (self._runs.answered(run, answer) for answer in _BURN_ANSWERS)
            case LookUp():
                yield from (self._runs.answered(run, answer) for answer in _LOOKUP_ANSWERS)
            case LoadApproval():
                yield from (self._loaded(run, each) for each in self._as_it_may_be_loaded(seen))
            case _:
                yield self._runs.answered(run, instant(self._runs.histories[run].present), "now")

    def _later(self, run: int, ticks: int, seen: int) -> int:
        later = self._runs.later(run, ticks)
        return _SAME if later == run else self._rest(later, seen)

    def _commutes(self, after: int, waited: tuple[int, ...], seen: int) -> bool:
        """Whether waiting first and being answered then comes to the same."""
        later = (after if after == NOTHING else self._rest(self._runs.later(after, ticks), seen) for ticks in (1, LEAP_TICKS))
        return all(one == (after if other == _SAME else other) for one, other in zip(later, waited, strict=True))
