"""Which actions a pass of the recovery service works on.

Every node picks for itself, and there is no leader: a claim decides who has an action, and who comes second goes on to the next.
So that twenty nodes do not all come second when one of them dies with 500 claims, each picks a few at random, and asks about a
dead holder once and not once for each of its actions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from uuid import UUID

from interlock.domain.requests import Liveness
from interlock.domain.summary import ActionSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is in flight, as one look at the journal shows it.

    Args:
        at: when, in the journal's time.
        flying: the actions without an ending.
        liveness: what is known of the holders of their claims, by lock.
        busy: the actions that a run of this gate is at work on.
    """

    at: datetime
    flying: Sequence[ActionSummary]
    liveness: Mapping[str, Liveness]
    busy: frozenset[UUID] = frozenset()


def locks_to_probe(flying: Iterable[ActionSummary], at: datetime) -> list[str]:
    """Return the locks whose holders have to be asked about, each once: of claims that time alone does not end yet."""
    locks = (one.claim_lock for one in flying if not _is_over(one, at))
    return sorted({lock for lock in locks if lock is not None})


@dataclass(slots=True)
class Picker:
    """Picks what a node's next pass works on, and remembers what it has to leave alone for a while.

    Args:
        at_most: how many actions a pass works on.
        sample: chooses so many at random, in random order; each node has its own chance, so that two of them seldom begin with
            the same action.
    """

    at_most: int
    sample: Callable[[Sequence[UUID], int], list[UUID]]
    _resting: dict[UUID, datetime] = field(default_factory=dict[UUID, datetime])

    def pick(self, survey: Survey, known: Container[str]) -> list[UUID]:
        """Return some of the actions that may be taken over.

        Each target has its turn, so that the actions of one that hangs do not fill every pass; what this node can't send comes
        last, to be reported.

        Args:
            survey: what is in flight.
            known: the targets that this node has.
        """
        flying = {UUID(one.action_id): one for one in survey.flying}
        self._resting = {one: until for one, until in self._resting.items() if one in flying and survey.at < until}
        by_target: dict[str, list[UUID]] = {}
        for one, summary in flying.items():
            if one not in survey.busy and one not in self._resting and _is_free(summary, survey):
                by_target.setdefault(summary.target, []).append(one)
        ours = self._in_turn([ids for target, ids in by_target.items() if target in known])
        others = self._in_turn([ids for target, ids in by_target.items() if target not in known])
        return [*ours, *others][: self.at_most]

    def _in_turn(self, queues: list[list[UUID]]) -> list[UUID]:
        shuffled = [self.sample(ids, min(len(ids), self.at_most)) for ids in queues]
        rounds = zip_longest(*shuffled)
        return [one for turn in rounds for one in turn if one is not None]

    def rest(self, action_id: UUID, until: datetime) -> None:
        """Leave an action alone until then: it can't go on earlier, or somebody else has it."""
        self._resting[action_id] = until


def _is_free(summary: ActionSummary, survey: Survey) -> bool:
    if _is_over(summary, survey.at):
        return True
    # A claim of this gate itself, with nobody at work on it, is idle; one without a lock that can be asked waits for its time.
    return survey.liveness.get(summary.claim_lock or "") in (Liveness.GONE, Liveness.IDLE)


def _is_over(summary: ActionSummary, at: datetime) -> bool:
    """Whether there is no claim, or its time is over. A row that somebody edited by hand may say no time: the events decide."""
    return not isinstance(summary.claim_expires_at, datetime) or at >= summary.claim_expires_at
