"""What may never happen: the invariants, as far as a write or a state of the small world shows them."""

from __future__ import annotations

from interlock.domain.action import LEGAL_IN, GatedAction, SendPurpose, Status
from interlock.testing.exploration.canonical import is_past_expiry
from interlock.testing.exploration.journals import Facts
from interlock.testing.exploration.memory import Event, Write
from interlock.testing.exploration.provider import Provider
from interlock.testing.exploration.scope import SmallProfile

_STATUS_AFTER = {
    "Intended": Status.INTENDED,
    "Claimed": Status.CLAIMED,
    "Dispatched": Status.DISPATCHED,
    "Committed": Status.COMMITTED,
    "Refused": Status.REFUSED,
    "Ambiguous": Status.AMBIGUOUS,
}


def broken_in(facts: Facts, provider: Provider) -> str | None:
    """Return what a state breaks: the provider's ledger against the journal's word."""
    if provider.effects > 1:
        return "I2: two effects"
    if facts.status is Status.REFUSED and provider.effects:
        return "I6: the effect of a refused action"
    if facts.status is Status.COMMITTED and not provider.effects:
        return "I6: committed without an effect"
    return None


def broken_by(write: Write, facts: Facts, profile: SmallProfile) -> str | None:
    """Return what a write breaks that the journal takes."""
    status = facts.status
    for event in write.action_events:
        name = type(event).__name__
        if name not in LEGAL_IN[status]:
            return f"rule 5: {name} is written where the journal says {status}"
        if (broken := _broken_by_event(event, facts, profile)) is not None:
            return broken
        # A takeover of a Dispatched action leaves it Dispatched.
        status = status if name == "Claimed" and status is Status.DISPATCHED else _STATUS_AFTER[name]
    return None


def _broken_by_event(event: Event, facts: Facts, profile: SmallProfile) -> str | None:
    match event:
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE) if facts.revoked:
            return "I3: Dispatched is written after the revocation"
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE) if is_past_expiry(event):
            return "I3: Dispatched is written after the approval has expired"
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE, checks=checks):
            holds = checks.premises and all(reading.holds for reading in checks.premises)
            return None if holds else "I4: Dispatched is written on premises that do not hold"
        case GatedAction.Refused(code=code) if code.startswith("approval_") and not facts.revoked and not is_past_expiry(event):
            return f"usefulness: refused as {code}, and the approval stands"
        case GatedAction.Ambiguous(code="evidence_disagrees"):
            return None
        case GatedAction.Ambiguous(code=code) if profile.lookup != "none" and profile.roll_forward != "unknown":
            return f"usefulness: ambiguous as {code}, where a lookup would tell"
        case _:
            return None
