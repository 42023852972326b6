"""All journals that were met, by number."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from interlock.domain.action import Status
from interlock.domain.requests import LoadApproval, Request
from interlock.testing.exploration.canonical import Form
from interlock.testing.exploration.memory import SWAPPED, Log, Write
from interlock.testing.exploration.scope import ACTION_ID, FIRES, SmallProfile, ticks_from
from interlock.testing.exploration.state import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the world asks of a journal.

    Args:
        status: the action's; None where there is no action.
        fired: which of the two effects it is for, by its name in FIRES.
        holder: of its claim.
        attempt: the number of its current key.
        revoked: whether the approval was taken back.
        window_open: whether the provider still knows one of its keys.
        key_open: whether it still knows the current one.
        declined: whether a no of the provider's is written down.
        reserved: whether the approval holds the action's amount.
        spent: whether it counts it as spent.
    """

    status: Status | None = None
    fired: str | None = None
    holder: str | None = None
    attempt: int = 0
    revoked: bool = False
    window_open: bool = True
    key_open: bool = False
    declined: bool = False
    reserved: bool = False
    spent: bool = False

    @property
    def exists(self) -> bool:
        """Whether there is an action."""
        return self.status is not None

    @property
    def ended(self) -> bool:
        """Whether it has a recorded outcome."""
        return self.status is not None and self.status.ended


class Journals:
    """All journals that were met, by number; alike in form, alike in what can follow.

    Args:
        profile: what the provider can do.
        by_prefix: whether journals with other events are others, although the same can follow.
        over: how far in the past what is over is taken to be; see View.
    """

    def __init__(self, profile: SmallProfile, *, by_prefix: bool = False, over: int = 0) -> None:
        self._profile, self._by_prefix, self._over = profile, by_prefix, over
        self._numbers: dict[Hashable, int] = {}
        self._parts: Parts[Form] = Parts()
        self._known: dict[Hashable, int] = {}
        self.logs: list[Log] = []
        self.facts: list[Facts] = []
        self.actions: list[int] = []
        self.approvals: list[int] = []
        """The numbers of each journal's action and approval: which of the two is loaded, the other makes no difference to."""

    def number(self, log: Log) -> int:
        """Return the journal's number."""
        action, approval = log.form(self._profile, self._over)
        form = (action, approval, log.prefix if self._by_prefix else None)
        number = self._numbers.setdefault(form, len(self.logs))
        if number == len(self.logs):
            self.logs.append(log)
            self.actions.append(self._parts.number(action))
            self.approvals.append(self._parts.number(approval))
            self.facts.append(self._facts_of(log))
        return number

    def later(self, journal: int, ticks: int = 1) -> int:
        """Return the journal after so many ticks."""
        key = ("later", journal, ticks)
        if key not in self._known:
            self._known[key] = self.number(self.logs[journal].later(ticks))
        return self._known[key]

    def revoked(self, journal: int) -> int:
        """Return the journal with the approval taken back."""
        key = ("revoked", journal)
        if key not in self._known:
            self._known[key] = self.number(self.logs[journal].revoked())
        return self._known[key]

    def bereft_of(self, journal: int, slot: int) -> int:
        """Return the journal when the worker in that place is dead."""
        key = ("bereft", journal, slot)
        if key not in self._known:
            self._known[key] = self.number(self.logs[journal].with_holders({("me", "other")[slot]: "gone"}))
        return self._known[key]

    def from_place(self, journal: int, slot: int) -> int:
        """Return the journal as the worker in that place sees it; and the other way round."""
        key = ("swapped", journal)
        if slot and key not in self._known:
            self._known[key] = self.number(self.logs[journal].with_holders(SWAPPED))
        return self._known[key] if slot else journal

    def appended(self, journal: int, worker: int, request: Write, present: int) -> int:
        """Return the journal with what a worker appends to it, both as that worker sees it."""
        key = (journal, worker)
        if key not in self._known:
            self._known[key] = self.number(self.logs[journal].appended(request, present))
        return self._known[key]

    def part_for(self, request: Request[Any], journal: int) -> Hashable:
        """Return the part of a journal that a request loads: what tells its answers apart."""
        loads_approval = isinstance(request, LoadApproval)
        return ("loaded", self.approvals[journal] if loads_approval else self.actions[journal])

    def _facts_of(self, log: Log) -> Facts:
        action, approval = log.load_action(), log.load_approval()
        mine = ACTION_ID.hex
        of_approval = Facts(
            revoked=approval.revoked_at is not None, reserved=mine in approval.reserved, spent=mine in approval.spent
        )
        if action is None:
            return of_approval
        fired = next(name for name, intent in FIRES.items() if intent.effect == action.intent.effect)
        if action.ended:
            # The form of an ended action holds no claim and no window, so that nothing may depend on them.
            return replace(of_approval, status=action.status, fired=fired, attempt=action.attempt)
        holder = action.claim.holder if action.claim is not None else None
        capabilities = self._profile.capabilities
        ends = [capabilities.key_expires(each.timestamp) for each in action.dispatches]
        are_open = [end is not None and ticks_from(log.present, end) > 0 for end in ends]
        attempts = [each.attempt for each in action.dispatches]
        return replace(
            of_approval,
            status=action.status,
            fired=fired,
            holder=holder,
            attempt=action.attempt,
            window_open=any(are_open),
            key_open=bool(are_open) and are_open[attempts.index(action.attempt)],
            declined=action.doubt.declined is not None,
        )
