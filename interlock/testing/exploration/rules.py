"""What may never happen: the invariants, as far as a write or a state of the small world shows them."""

from __future__ import annotations

from interlock.domain.action import LEGAL_IN, GatedAction, SendPurpose, Status
from interlock.testing.exploration.canonical import is_past_expiry, premises_hold, recheck_fails
from interlock.testing.exploration.journals import Facts
from interlock.testing.exploration.memory import Event, Write
from interlock.testing.exploration.provider import Provider, Record
from interlock.testing.exploration.scope import SmallProfile
from interlock.testing.exploration.workers import History

_STATUS_AFTER = {
    "Intended": Status.INTENDED,
    "Claimed": Status.CLAIMED,
    "Dispatched": Status.DISPATCHED,
    "Committed": Status.COMMITTED,
    "Refused": Status.REFUSED,
    "Ambiguous": Status.AMBIGUOUS,
}
_RESERVES = (Status.DISPATCHED, Status.AMBIGUOUS)
_DISAGREES = "evidence_disagrees"


def broken_in(facts: Facts, provider: Provider) -> str | None:
    """Return what a state breaks: the provider's ledger against the journal's word, and the approval against the action."""
    if provider.effects > 1:
        return "I2: two effects"
    if facts.status is Status.REFUSED and provider.effects:
        return "I6: the effect of a refused action"
    if facts.status is Status.COMMITTED and not provider.effects:
        return "I6: committed without an effect"
    if (facts.reserved, facts.spent) != (facts.status in _RESERVES, facts.status is Status.COMMITTED):
        return f"I3: the action is {facts.status}, and its approval says otherwise"
    return None


def broken_by(write: Write, facts: Facts, writer: History, profile: SmallProfile) -> str | None:
    """Return what a write breaks that the journal takes, whatever the provider has.

    Args:
        write: what is written.
        facts: the journal's, before.
        writer: the run that writes it.
        profile: what the provider can do.
    """
    status = facts.status
    for event in write.action_events:
        name = type(event).__name__
        if name not in LEGAL_IN[status]:
            return f"rule 5: {name} is written where the journal says {status}"
        if (broken := _broken_by_event(event, facts, writer, profile)) is not None:
            return broken
        # A takeover of a Dispatched action leaves it Dispatched.
        status = status if name == "Claimed" and status is Status.DISPATCHED else _STATUS_AFTER[name]
    return None


def belied_by_the_key(write: Write, facts: Facts, writer: History, provider: Provider, profile: SmallProfile) -> str | None:
    """Return what a write breaks that the journal takes, by what the provider has under the current key.

    Args:
        write: what is written.
        facts: the journal's, before.
        writer: the run that writes it.
        provider: the provider's state.
        profile: what it can do.
    """
    if not facts.key_open:
        return None
    record = provider.keys[facts.attempt - 1].record
    for event in write.action_events:
        match event:
            case GatedAction.Dispatched(purpose=SendPurpose.READ_STORED) if record is Record.NONE:
                return "I3: Dispatched is written to read what is stored, and nothing is, so that it would be carried out"
            case GatedAction.Ambiguous(code=code) if code != _DISAGREES and record not in (Record.FAILED, Record.BURNED):
                return _left_unknown(event, facts, writer, profile)
            case _:
                pass
    return None


def _left_unknown(event: GatedAction.Ambiguous, facts: Facts, writer: History, profile: SmallProfile) -> str | None:
    """Return what an Ambiguous breaks whose key has more to tell than that a failure is stored, or that it is another request's.

    Nobody may send under it where the re-check fails, or after a no to a resend (rule 4); but burn it they may.
    """
    if profile.burns:
        return f"usefulness: ambiguous as {event.code}, where a burn would tell"
    if recheck_fails(event) or _was_declined(facts, writer):
        return None
    return f"usefulness: ambiguous as {event.code}, where a send under its key would tell"


def _was_declined(facts: Facts, writer: History) -> bool:
    """Whether the provider has said no to a run, or to one before it that has written it down."""
    return facts.declined or writer.was_declined


def _broken_by_event(event: Event, facts: Facts, writer: History, profile: SmallProfile) -> str | None:
    match event:
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE) if facts.revoked:
            return "I3: Dispatched is written after the revocation"
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE) if is_past_expiry(event):
            return "I3: Dispatched is written after the approval has expired"
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE) if not premises_hold(event):
            return "I4: Dispatched is written on premises that do not hold"
        case GatedAction.Dispatched(purpose=SendPurpose.EXECUTE) if not writer.has_read_premises:
            return "I4: Dispatched is written on premises that were not read again"
        case GatedAction.Committed(evidence=evidence) if evidence is not None and evidence.disagreements:
            return "I6: Committed is written on evidence that disagrees"
        case GatedAction.Refused(code=code) if not _is_founded(event, facts, writer):
            return f"usefulness: refused as {code}, without a reason in the world"
        case GatedAction.Ambiguous(code=code) if not _may_be_unknown(event, profile):
            return f"usefulness: ambiguous as {code}, where a lookup would tell"
        case _:
            return None


def _is_founded(event: GatedAction.Refused, facts: Facts, writer: History) -> bool:
    """Whether the world has the reason for which an action is refused."""
    reason, _, _ = event.code.partition(":")
    return {
        "approval_revoked": facts.revoked,
        "approval_expired": is_past_expiry(event),
        "premise_conflicting": not premises_hold(event),
        "premise_duplicate": not premises_hold(event),
        "declined": _was_declined(facts, writer),
        "resolved_as_not_done": event.by is not None,
    }.get(reason, False)


def _may_be_unknown(event: GatedAction.Ambiguous, profile: SmallProfile) -> bool:
    """Whether there is no lookup that would tell what became of an action."""
    return {
        _DISAGREES: event.evidence is not None and bool(event.evidence.disagreements),
        "cannot_look": profile.lookup == "none",
        "may_roll_forward": profile.lookup != "none" and profile.roll_forward == "unknown",
    }.get(event.code, False)
