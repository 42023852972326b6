"""What an action came to, as far as its events say: what a receipt says, with a journal and without one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from interlock.domain.answers import Settlement
from interlock.domain.states import CommittedState, ErasedState, EventState, RefusedState, Status

IN_FLIGHT = "IN_FLIGHT"
"""What the outside calls an action without an ending."""


class Happened(StrEnum):
    """Whether the effect is in the world, as far as the journal knows."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


_BY_SETTLEMENT = {
    Settlement.FINAL: Happened.YES,
    Settlement.OPEN: Happened.UNKNOWN,
    Settlement.REVERSED: Happened.NO,
}


def happened(status: Status | None, sends: int, committed: CommittedState | None) -> Happened:
    """Return whether it happened: a refund that is pending is unknown, and one that failed later is a no.

    Args:
        status: where the action stands.
        sends: how many sends were announced.
        committed: what the last Committed says, where there is one.
    """
    if status is not Status.REFUSED and committed is None:
        return Happened.UNKNOWN if sends else Happened.NO
    evidence = None if committed is None else committed.evidence
    return happened_once_settled(status, evidence.settlement if evidence is not None else None)


def happened_once_settled(status: Status | None, settlement: Settlement | None) -> Happened:
    """Return whether it happened, of an action that was committed or refused.

    Args:
        status: which of the two.
        settlement: whether what the provider did can still change; None where a person said that it happened.
    """
    if status is Status.REFUSED:
        return Happened.NO
    return Happened.YES if settlement is None else _BY_SETTLEMENT[settlement]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What an action came to.

    Args:
        status: COMMITTED, REFUSED, AMBIGUOUS or IN_FLIGHT.
        happened: whether the effect is in the world.
        via: how a commit was first established; None where there was none.
        door: what made an absence final; None where it was not refused.
        unknown: which of these can't be told, because the state that would was withheld or erased; they are None.
    """

    status: str
    happened: Happened | None
    via: str | None
    door: str | None
    unknown: frozenset[str] = frozenset()


def account_of(status: Status | None, sends: int, events: Iterable[tuple[type[EventState] | None, EventState | None]]) -> Account:
    """Return what an action came to.

    Args:
        status: where it stands.
        sends: how many sends were announced.
        events: the kind of each of its events, and what it says; None where that was withheld or erased.
    """
    known = tuple(events)
    commits = [state for kind, state in known if kind is CommittedState]
    first, last = (commits[0], commits[-1]) if commits else (None, None)
    refusals = [state for kind, state in known if kind is RefusedState]
    refusal = refusals[0] if refusals else None
    hidden = {"happened": bool(commits) and last is None, "via": bool(commits) and first is None, "door": refusals == [None]}
    remains = next((state.remains for _, state in known if isinstance(state, ErasedState)), None)
    if remains is not None and commits:
        settled = happened_once_settled(remains.status, remains.settlement)
        return Account(status=remains.status.value, happened=settled, via=remains.via.value if remains.via else None, door=None)
    return Account(
        status=status.value if status is not None and status.ended else IN_FLIGHT,
        happened=None if hidden["happened"] else happened(status, sends, last if isinstance(last, CommittedState) else None),
        via=first.via.value if isinstance(first, CommittedState) else None,
        door=refusal.door.value if isinstance(refusal, RefusedState) else None,
        unknown=frozenset(name for name, is_hidden in hidden.items() if is_hidden),
    )
