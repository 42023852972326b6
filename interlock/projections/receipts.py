"""Receipts: the gate's statement about one action, derived from its events (I10).

A receipt is the gate's own attestation. That something happened is the provider's record to prove; the receipt says what that
record said, and when.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from interlock.domain.account import Happened, happened, happened_once_settled
from interlock.domain.action import Checks, GatedAction
from interlock.domain.answers import Evidence
from interlock.domain.approvals import ApprovalReading
from interlock.domain.premises import PremiseReading
from interlock.domain.summary import IN_FLIGHT, ActionSummary

__all__ = [
    "CheckOnReceipt",
    "Happened",
    "Receipt",
    "RefusalOnReceipt",
    "TimelineEntry",
    "receipt_of",
    "receipt_of_erased",
    "unreadable_receipt",
]

ActionEvent = GatedAction.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One event of the action, for a person to read."""

    at: datetime
    event: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalOnReceipt:
    """Why the action was refused, whether that came at recovery, and what would still be possible."""

    code: str
    words: str
    at_recovery: bool
    door: str
    possible: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOnReceipt:
    """One check, with what it read. `facts` is what the provider showed, as it was then."""

    at: datetime
    what: str
    state: str
    words: str
    held_by_journal: bool | None
    facts_json: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The gate's statement about one action.

    Attributes:
        key: the caller's name for it.
        action_id: its id, which the effect carries at the provider.
        status: COMMITTED, REFUSED, AMBIGUOUS or IN_FLIGHT.
        via: how a commit was established.
        happened: yes, no or unknown. A refund that is pending is unknown, and one that failed later is no.
        authorized_when_fired: whether the approval was live at the last send; None when nothing was fired.
        assumptions_held: whether every premise held at the last send; None when nothing was fired.
        target: the target's name.
        subject: what was acted on.
        parameters_json: the effect's parameters, as JSON text.
        fingerprint: of the effect.
        amount_minor: in the currency's minor unit.
        currency: of the amount.
        approval_id: under whose authority.
        approval_held: whether the journal held the approval, so that a revocation is strictly before or after each send.
            False: it was only read.
        evidence: what the provider said.
        refusal: why it was refused.
        ambiguity: why nobody knows.
        checks: every check that was made, oldest first.
        timeline: every event, oldest first.
        attempts: how many idempotency keys were used.
        sends: how many sends were announced.
        supersedes: the key of the refused action that this one carries on.
        decision_json: how the decision came about, as JSON text.
        resolved_by: the opaque id of the person who decided, where one did.
        resolution_note: what they noted.
        valid: what verification found; None until verified.
        pending: whether its last event is still under no checkpoint of the log; None where nobody has asked, or nobody signs.
        signed: whether a checkpoint of the log covers it; None as above. It says what the journal holds; `verify-receipt` checks.
        signed_by: the log's name, and the witnesses that have cosigned.
        erased_at: when what the action was about was erased; the receipt says then what became of it, and no more.
    """

    key: str
    action_id: str
    status: str
    via: str | None
    happened: Happened
    authorized_when_fired: bool | None
    assumptions_held: bool | None
    target: str
    subject: str
    parameters_json: str
    fingerprint: str
    amount_minor: int | None
    currency: str | None
    approval_id: str
    approval_held: bool
    evidence: Evidence | None
    refusal: RefusalOnReceipt | None
    ambiguity: str | None
    checks: tuple[CheckOnReceipt, ...]
    timeline: tuple[TimelineEntry, ...]
    attempts: int
    sends: int
    supersedes: str | None
    decision_json: str | None
    resolved_by: str | None
    resolution_note: str | None
    valid: bool | None = None
    pending: bool | None = None
    signed: bool | None = None
    signed_by: str | None = None
    erased_at: datetime | None = None

    def verified(self, *, valid: bool) -> Receipt:
        """Return the receipt with what verification found."""
        return replace(self, valid=valid)

    def logged(self, *, signed_by: str | None) -> Receipt:
        """Return the receipt with what the log has signed of it.

        Args:
            signed_by: by whom; None while no checkpoint covers it.
        """
        return replace(self, pending=signed_by is None, signed=signed_by is not None, signed_by=signed_by)

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain JSON values; times are RFC 3339."""
        value: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_plain))
        return value

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the receipt as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_text(self) -> str:
        """Return the receipt as a person reads it."""
        return "\n".join(map(_one_line, _lines(self)))


def receipt_of(action: GatedAction) -> Receipt:
    """Derive the receipt of an action from its events."""
    intent, ending, commit = action.intent, action.ending, action.commit_event
    decided = commit or ending
    fired = _last_execution(action)
    return Receipt(
        key=action.key,
        action_id=action.id.hex,
        status=action.status.value if action.ended else IN_FLIGHT,
        via=commit.via.value if commit else None,
        happened=_happened(action),
        authorized_when_fired=fired.checks.approval.holds if fired else None,
        assumptions_held=all(reading.holds for reading in fired.checks.premises) if fired else None,
        target=intent.effect.target,
        subject=intent.effect.subject,
        parameters_json=intent.effect.parameters_json,
        fingerprint=intent.effect.fingerprint,
        amount_minor=intent.effect.amount_minor,
        currency=intent.effect.currency,
        approval_id=intent.approval.id,
        approval_held=intent.approval.source is None,
        evidence=ending.evidence if isinstance(ending, GatedAction.Committed | GatedAction.Ambiguous) else None,
        refusal=_refusal(ending) if isinstance(ending, GatedAction.Refused) else None,
        ambiguity=f"{ending.code}: {ending.words}" if isinstance(ending, GatedAction.Ambiguous) else None,
        checks=tuple(check for event in action.history for check in _checks(event)),
        timeline=tuple(TimelineEntry(at=e.timestamp, event=type(e).__name__, words=_words(e)) for e in action.history),
        attempts=action.attempt,
        sends=len(action.dispatches),
        supersedes=intent.supersedes,
        decision_json=intent.decision_json,
        resolved_by=decided.by if isinstance(decided, GatedAction.Committed | GatedAction.Refused) else None,
        resolution_note=decided.note if isinstance(decided, GatedAction.Committed | GatedAction.Refused) else None,
    )


def receipt_of_erased(erased: GatedAction.Erased) -> Receipt:
    """Return what is left to say of an action that was erased: what became of it, and nothing of what it was about."""
    remains = erased.remains
    return Receipt(
        key="",
        action_id=erased.originator_id.hex,
        status=remains.status.value,
        via=remains.via.value if remains.via else None,
        happened=happened_once_settled(remains.status, remains.settlement),
        authorized_when_fired=None,
        assumptions_held=None,
        target=remains.target,
        subject="",
        parameters_json="{}",
        fingerprint="",
        amount_minor=None,
        currency=None,
        approval_id="",
        approval_held=False,
        evidence=None,
        refusal=None,
        ambiguity=None,
        checks=(),
        timeline=(TimelineEntry(at=erased.timestamp, event="Erased", words=f"{erased.reason} (by {erased.by})"),),
        attempts=0,
        sends=0,
        supersedes=None,
        decision_json=None,
        resolved_by=None,
        resolution_note=None,
        erased_at=erased.timestamp,
    )


def unreadable_receipt(summary: ActionSummary, why: str) -> Receipt:
    """Return what the summary says of an action whose events can't be read; it is not valid, and claims nothing else."""
    return Receipt(
        key=str(summary.key),
        action_id=str(summary.action_id),
        status=str(summary.status),
        via=None,
        happened=Happened.UNKNOWN,
        authorized_when_fired=None,
        assumptions_held=None,
        target=str(summary.target),
        subject=str(summary.subject),
        parameters_json="{}",
        fingerprint="",
        amount_minor=summary.amount_minor,
        currency=summary.currency,
        approval_id=str(summary.approval_id),
        approval_held=False,
        evidence=None,
        refusal=None,
        ambiguity=why,
        checks=(),
        timeline=(),
        attempts=0,
        sends=0,
        supersedes=None,
        decision_json=None,
        resolved_by=None,
        resolution_note=None,
        valid=False,
    )


def _last_execution(action: GatedAction) -> GatedAction.Dispatched | None:
    executions = [dispatch for dispatch in action.dispatches if dispatch.purpose == "execute"]
    return executions[-1] if executions else None


def _happened(action: GatedAction) -> Happened:
    committed = action.ending if isinstance(action.ending, GatedAction.Committed) else None
    return happened(action.status, len(action.dispatches), committed)


def _refusal(ending: GatedAction.Refused) -> RefusalOnReceipt:
    return RefusalOnReceipt(
        code=ending.code,
        words=ending.words,
        at_recovery=ending.at_recovery,
        door=ending.door.value,
        possible=ending.possible,
    )


def _checks(event: ActionEvent) -> list[CheckOnReceipt]:
    checks: Checks | None = getattr(event, "checks", None)
    if checks is None:
        return []
    return [_approval_check(checks.approval), *map(_premise_check, checks.premises)]


def _approval_check(reading: ApprovalReading) -> CheckOnReceipt:
    left = f"{reading.remaining_minor} {reading.currency} left" if reading.remaining_minor is not None else ""
    return CheckOnReceipt(
        at=reading.read_at,
        what=f"approval {reading.ref.id}",
        state=reading.state.value,
        words=reading.misfit or left,
        held_by_journal=reading.held,
        facts_json=None,
    )


def _premise_check(reading: PremiseReading) -> CheckOnReceipt:
    return CheckOnReceipt(
        at=reading.read_at,
        what=f"premise {reading.subject} ({reading.policy} v{reading.policy_version})",
        state=reading.state.value,
        words=reading.words,
        held_by_journal=None,
        facts_json=reading.facts_json,
    )


def _words(event: ActionEvent) -> str:
    match event:
        case GatedAction.Intended(intent=intent):
            return f"{intent.effect.target} {intent.effect.subject} under approval {intent.approval.id}"
        case GatedAction.Claimed(claim=claim, why=why):
            return f"{why}: term {claim.term} on {claim.host}, pid {claim.pid}"
        case GatedAction.Dispatched(attempt=attempt, send=send, purpose=purpose):
            return f"send {send}, attempt {attempt}" + ("" if purpose == "execute" else ", to read the stored answer")
        case GatedAction.Committed(via=via, evidence=evidence):
            return f"via {via.value}" + (f": {evidence.reference} {evidence.state}" if evidence else "")
        case GatedAction.Refused(code=code, words=words) | GatedAction.Ambiguous(code=code, words=words):
            return f"{code}: {words}"
        case _:
            return ""


def _lines(receipt: Receipt) -> list[str]:
    amount = f" {receipt.amount_minor} {receipt.currency} (minor units)" if receipt.amount_minor is not None else ""
    if receipt.erased_at is not None:
        return _lines_of_erased(receipt)
    lines = [
        f"{receipt.status}  {receipt.key}",
        f"  effect      {receipt.target} on {receipt.subject}{amount}",
        f"  happened    {receipt.happened.value}" + (f", via {receipt.via}" if receipt.via else ""),
        f"  approval    {receipt.approval_id}, {'held by the journal' if receipt.approval_held else 'read, not held'}",
        f"  authorized  {_yes_no(receipt.authorized_when_fired)}",
        f"  assumptions {_yes_no(receipt.assumptions_held)}",
    ]
    if receipt.evidence is not None:
        replayed = ", replayed by the provider" if receipt.evidence.replayed else ""
        lines.append(f"  evidence    {receipt.evidence.reference} {receipt.evidence.state}{replayed}")
    if receipt.refusal is not None:
        when = "at recovery" if receipt.refusal.at_recovery else "before anything was sent"
        lines.append(f"  refused     {receipt.refusal.code}: {receipt.refusal.words} ({when}; door: {receipt.refusal.door})")
        if receipt.refusal.possible:
            lines.append(f"  possible    {receipt.refusal.possible}")
    if receipt.ambiguity is not None:
        lines.append(f"  not known   {receipt.ambiguity}")
    if receipt.resolved_by is not None:
        lines.append(f"  resolved    by {receipt.resolved_by}: {receipt.resolution_note or ''}")
    if receipt.supersedes is not None:
        lines.append(f"  supersedes  {receipt.supersedes}")
    if receipt.pending is not None:
        lines.append(f"  signed      {receipt.signed_by or 'pending: no checkpoint covers it yet'}")
    lines.append(f"  valid       {_yes_no(receipt.valid, unknown='not verified')}")
    lines += [f"  {_time(entry.at)}  {entry.event:<10} {entry.words}" for entry in receipt.timeline]
    lines += [f"  {_time(check.at)}  read       {check.what}: {check.state} {check.words}" for check in receipt.checks]
    return lines


def _lines_of_erased(receipt: Receipt) -> list[str]:
    return [
        f"{receipt.status}  action {receipt.action_id}",
        f"  erased      {receipt.timeline[0].words}",
        f"  happened    {receipt.happened.value}" + (f", via {receipt.via}" if receipt.via else ""),
        f"  effect      {receipt.target}; of whom, and on what, is not kept any more",
        f"  valid       {_yes_no(receipt.valid, unknown='not verified')}",
    ]


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")


def _one_line(text: str) -> str:
    """Return the text with control characters escaped: a provider's words must not look like lines of a receipt."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _yes_no(value: bool | None, unknown: str = "nothing was fired") -> str:  # noqa: FBT001 - it prints a three-valued field
    return unknown if value is None else "yes" if value else "no"


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)
