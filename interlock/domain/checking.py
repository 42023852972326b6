"""The re-check: read the premises and the approval again, and say what stands in the way (I3, I4)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from interlock.domain.action import Checks, Intent
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalState
from interlock.domain.premises import PremiseReading, ReadingState
from interlock.domain.requests import LoadApproval, Now, Protocol, ReadExternalApproval, ReadPremises
from interlock.errors import ApprovalNotUsable, PremiseUnreadable


@dataclass(frozen=True, slots=True)
class Objection:
    """What refuses the action, and what would still be possible."""

    code: str
    words: str
    possible: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was read, and the approval itself where the journal holds it, so that its version can be asserted."""

    checks: Checks
    approval: Approval | None

    @property
    def unreadable(self) -> str | None:
        """What could not be read, in words; it is neither a yes nor a no."""
        if self.checks.approval.state is ApprovalState.UNREADABLE:
            return f"the approval {self.checks.approval.ref.id} could not be read"
        for reading in self.checks.premises:
            if reading.state is ReadingState.UNREADABLE:
                return f"the premise {reading.subject} could not be read: {reading.words}"
        return None

    def outlives(self, at: datetime) -> bool:
        """Whether the approval has not expired since it was read: a sender may have been paused in between (I3)."""
        expires_at = self.checks.approval.expires_at
        return expires_at is None or at < expires_at

    @property
    def objection(self) -> Objection | None:
        """What refuses the action; None where it may go on."""
        return _approval_objection(self.checks.approval) or _premise_objection(self.checks.premises)


def check(action_id: UUID, intent: Intent) -> Protocol[Checked]:
    """Read the premises and then the approval, which is read last because its version is asserted in the next commit."""
    premises = yield from ReadPremises(action_id, intent)
    approval, reading = yield from read_approval(action_id, intent)
    return Checked(Checks(approval=reading, premises=premises), approval)


def read_approval(action_id: UUID, intent: Intent) -> Protocol[tuple[Approval | None, ApprovalReading]]:
    """Read how the approval stands, wherever it lives."""
    if intent.approval.source is not None:
        return None, (yield from ReadExternalApproval(intent))
    approval = yield from LoadApproval(intent.approval.id)
    now = yield from Now()
    if approval is None:
        return None, ApprovalReading(ref=intent.approval, state=ApprovalState.MISSING, held=False, read_at=now)
    return approval, approval.reading(action_id, intent.effect, now)


def require_usable(reading: ApprovalReading) -> None:
    """Raise before the first commit where the approval could never be used for this effect.

    Raises:
        ApprovalNotUsable: it is missing, of another currency, for another effect, or its cap is below the amount.
    """
    if reading.state is ApprovalState.MISSING:
        raise ApprovalNotUsable(f"there is no approval {reading.ref.id!r}; nothing was written or sent")
    if reading.misfit is not None:
        raise ApprovalNotUsable(f"approval {reading.ref.id!r} {reading.misfit}; nothing was written or sent")


def require_readable(checked: Checked) -> None:
    """Raise before the first commit where a fact can't be read: the key is not used up then.

    Raises:
        PremiseUnreadable: a premise or an external approval could not be read.
    """
    if checked.unreadable is not None:
        raise PremiseUnreadable(f"{checked.unreadable}; nothing was written or sent, fire again when it can be read")


def _approval_objection(reading: ApprovalReading) -> Objection | None:
    possible = "a person may approve again, on the facts as they are now; fire under the new approval's key"
    if reading.misfit is not None:
        return Objection("approval_not_usable", f"the approval {reading.ref.id} {reading.misfit}", possible)
    if reading.state in (ApprovalState.LIVE, ApprovalState.UNREADABLE):
        return None
    words = reading.state.value.replace("_", " ")
    return Objection(f"approval_{reading.state}", f"the approval {reading.ref.id} is {words}", possible)


def _premise_objection(readings: tuple[PremiseReading, ...]) -> Objection | None:
    for reading in readings:
        if not reading.holds and reading.state is not ReadingState.UNREADABLE:
            return Objection(f"premise_{reading.state}", reading.words, reading.possible)
    return None
