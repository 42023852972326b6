"""Receipts: the gate's statement about one action, derived from its events (I10).

A receipt is the gate's own attestation. That something happened is the provider's record to prove; the receipt says what that
record said, and when.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from interlock.domain.action import Checks, GatedAction, Status
from interlock.domain.answers import Evidence, Settlement
from interlock.domain.approvals import ApprovalReading
from interlock.domain.premises import PremiseReading
from interlock.domain.summary import IN_FLIGHT, ActionSummary

ActionEvent = GatedAction.Event


class Happened(StrEnum):
    """Whether the effect is in the world, as far as the journal knows."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


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
        signed: whether it stands under a signature; None until verified.
        signed_by: by whom.
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
    signed: bool | None = None
    signed_by: str | None = None

    def verified(self, *, valid: bool) -> Receipt:
        """Return the receipt with what verification found."""
        return replace(self, valid=valid)

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
    if action.status is Status.REFUSED:
        return Happened.NO
    if not isinstance(action.ending, GatedAction.Committed):
        return Happened.UNKNOWN if action.dispatches else Happened.NO
    evidence = action.ending.evidence
    if evidence is None:
        return Happened.YES
    return {Settlement.FINAL: Happened.YES, Settlement.OPEN: Happened.UNKNOWN, Settlement.REVERSED: Happened.NO}[
        evidence.settlement
    ]


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
    lines.append(f"  valid       {_yes_no(receipt.valid, unknown='not verified')}")
    lines += [f"  {_time(entry.at)}  {entry.event:<10} {entry.words}" for entry in receipt.timeline]
    lines += [f"  {_time(check.at)}  read       {check.what}: {check.state} {check.words}" for check in receipt.checks]
    return lines


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
