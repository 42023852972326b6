"""A journal in memory: the real events of one action and its approval, as a value that is never changed.

It makes the checks of the real journal's append: both versions, and the action's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from eventsourcing.domain import CanMutateAggregate, DomainEvent

from interlock.domain.action import Checks, Claim, Doubt, GatedAction, Intent, SendPurpose
from interlock.domain.answers import Evidence
from interlock.domain.approvals import Approval, ApprovalTerms
from interlock.domain.requests import Append, AppendAnswer
from interlock.testing.exploration.canonical import Form, View, form_of_action, form_of_approval
from interlock.testing.exploration.scope import ACTION_ID, DRAFT_ID, TICK_S, SmallProfile, granted_approval, instant

Event = CanMutateAggregate[UUID]
Holders = Mapping[str, str]
SWAPPED: Holders = {"me": "other", "other": "me"}

_TIMELESS = (Checks, Doubt, Intent, Evidence, ApprovalTerms)
"""What holds no time that anything is decided by."""


@dataclass(frozen=True, slots=True)
class Write:
    """What an append writes, apart from the aggregates, which go on changing.

    Args:
        action_events: the action's new events.
        action_version: the version that they are written at.
        approval_events: the approval's new events.
        approval_version: the version that is asserted; None where there is no approval in it.
        is_draft: whether nothing of the action is durable yet.
    """

    action_events: tuple[Event, ...]
    action_version: int
    approval_events: tuple[Event, ...]
    approval_version: int | None
    is_draft: bool

    @classmethod
    def of(cls, request: Append) -> Write:
        """Return what the request writes. A draft's id is the action's: one that is not the first to be written never is."""
        action, approval = request.action, request.approval
        approved = tuple(approval.pending_events) if approval is not None else ()
        return cls(
            tuple(_named_as_the_action(event) for event in action.pending_events),
            action.version - len(action.pending_events),
            tuple(_named_as_the_action(event) for event in approved),
            approval.version - len(approved) if approval is not None else None,
            action.is_draft,
        )

    @property
    def goes_by_the_key(self) -> bool:
        """Whether it says what can be learned by its key, so that the provider's state may belie it."""
        return any(
            isinstance(event, GatedAction.Ambiguous) or getattr(event, "purpose", None) is SendPurpose.READ_STORED
            for event in self.action_events
        )

    def __str__(self) -> str:
        """Say what it writes."""
        names = [type(event).__name__ for event in (*self.action_events, *self.approval_events)]
        asserted = ["approval asserted"] if self.approval_version is not None and not self.approval_events else []
        return f"append {'+'.join((*names, *asserted))}"


@dataclass(frozen=True, slots=True)
class Log:
    """The events of the action and of its approval, as one worker sees them.

    Args:
        action: the action's events; empty before it is intended.
        approval: the approval's events.
        present: the present tick.
    """

    action: tuple[Event, ...]
    approval: tuple[Event, ...]
    present: int = 0

    def load_action(self) -> GatedAction | None:
        """Return the action as it stands."""
        action: GatedAction | None = _projected(self.action)
        return action

    def load_approval(self) -> Approval:
        """Return the approval as it stands."""
        approval: Approval = _projected(self.approval)
        return approval

    @property
    def prefix(self) -> tuple[str, ...]:
        """The names of the action's events."""
        return tuple(type(event).__name__ for event in self.action)

    def form(self, profile: SmallProfile, over: int = 0) -> tuple[Form, Form]:
        """Return what of the action and of the approval can still matter; for `over` see View."""
        action = self.load_action()
        view = View(profile, self.present, action.version if action else 0, over=over)
        return form_of_action(action, view) if action else None, form_of_approval(self.load_approval(), view)

    def seen_at(self, present: int, version: int | None = None) -> Log:
        """Return it by another clock, whose present tick is given, with the action's latest version called another number."""
        ticks = present - self.present
        versions = version - len(self.action) if version is not None else 0
        return Log(
            tuple(_moved(event, ticks, {}, versions) for event in self.action),
            tuple(_moved(event, ticks, {}) for event in self.approval),
            present,
        )

    def names_holder(self, holder: str) -> bool:
        """Whether it has a claim of that holder."""
        claims = (getattr(event, "claim", None) for event in self.action)
        return any(claim.holder == holder for claim in claims if claim is not None)

    def with_holders(self, holders: Holders) -> Log:
        """Return it with the holders of claims renamed."""
        return replace(self, action=tuple(_moved(event, 0, holders) for event in self.action))

    def later(self, ticks: int) -> Log:
        """Return it as it is that many ticks later."""
        return replace(self, present=self.present + ticks)

    def revoked(self) -> Log:
        """Return it with the approval taken back."""
        approval = self.load_approval()
        approval.revoke("person:2", "", instant(self.present))
        return replace(self, approval=(*self.approval, *approval.pending_events))

    def appended(self, write: Write, present: int) -> Log:
        """Return it with what a worker writes whose clock is at `present`."""
        ticks, written = self.present - present, write.action_events
        versions = len(self.action) - write.action_version
        return replace(
            self,
            action=(*self.action, *(_moved(event, ticks, {}, versions) for event in written)),
            approval=(*self.approval, *(_moved(event, ticks, {}) for event in write.approval_events)),
        )


def empty_log(expires_after: int | None) -> Log:
    """Return the journal before anything happened: the approval is granted, for so many ticks."""
    return Log((), tuple(granted_approval(expires_after).pending_events))


def judge_append(write: Write, log: Log, *, at_latest: bool) -> AppendAnswer:
    """Return what becomes of an append, in the order of the real journal's checks: the versions first, then the name.

    Args:
        write: what is to be written.
        log: the journal.
        at_latest: whether the action's version that was read is the journal's latest.
    """
    if not write.is_draft and not at_latest:
        return AppendAnswer.ACTION_MOVED
    if write.approval_version is not None and write.approval_version != len(log.approval):
        return AppendAnswer.APPROVAL_MOVED
    if write.is_draft and log.action:
        return AppendAnswer.ACTION_MOVED
    return AppendAnswer.APPENDED


def _projected(events: tuple[Event, ...]) -> Any:
    aggregate: Any = None
    for event in events:
        aggregate = event.mutate(aggregate)
    return aggregate


def _named_as_the_action(event: Event) -> Event:
    values: dict[str, Any] = {**vars(event)}
    if event.originator_id == DRAFT_ID:
        return type(event)(**(values | {"originator_id": ACTION_ID}))
    if values.get("action_id") == DRAFT_ID.hex:
        return type(event)(**(values | {"action_id": ACTION_ID.hex}))
    return event


def _moved(value: Any, ticks: int, holders: Holders, versions: int = 0) -> Any:
    """Return an event, or a part of one, by another clock, with other names of holders and another count of versions."""
    if type(value) is datetime:
        return value + timedelta(seconds=ticks * TICK_S)
    if isinstance(value, DomainEvent):
        moved: dict[str, Any] = {name: _moved(part, ticks, holders) for name, part in vars(value).items()}
        moved["originator_version"] += versions
        return type(value)(**moved)
    if type(value) is Claim:
        holder = holders.get(value.holder, value.holder)
        return replace(value, holder=holder, expires_at=_moved(value.expires_at, ticks, holders))
    assert not is_dataclass(value) or isinstance(value, _TIMELESS), f"{[each.name for each in fields(value)]} may hold a time"
    return value
