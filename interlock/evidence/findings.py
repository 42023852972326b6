"""What checking a receipt comes to: typed findings, and never one boolean alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any

from interlock.domain.states import CommittedState, EventState, Intent
from interlock.evidence.bundles import Claim


class Verdict(IntEnum):
    """What a finding means for the whole, from harmless to fatal. The worst one decides."""

    OK = 0
    """It was checked, and holds."""
    NOTE = 1
    """Worth knowing, and no fault."""
    STALE = 2
    """It holds, and something newer is known or was asked for."""
    UNVERIFIABLE = 3
    """It could not be checked with what is trusted here: that says nothing against it, and nothing for it."""
    INVALID = 4
    """It is not what a gate, a log and an attestor could have made: changed, forged, or a lie."""


class FindingKind(StrEnum):
    """What was checked."""

    FORMAT = "format"
    SIGNATURE = "signature"
    STATEMENT = "statement"
    CHAIN = "chain"
    STATES = "states"
    INCLUSION = "inclusion"
    LOG_KEY = "log key"
    WITNESSES = "witnesses"
    AS_OF = "as of"
    TIME = "time bounds"
    LEGALITY = "protocol legality"
    COMPLETENESS = "completeness"
    EVIDENCE = "evidence"


class StateCheck(StrEnum):
    """What became of the state of one event."""

    OK = "ok"
    REDACTED = "redacted"
    """Erased, and the log says so."""
    WITHHELD = "withheld"
    """Left out of this receipt; its digest still binds it."""
    MISMATCH = "mismatch"
    """Not what was recorded."""


class Completeness(StrEnum):
    """Whether the receipt has all events of its action."""

    UNKNOWN = "unknown"
    """Nothing here shows an event that was left out; only a look at the whole log could say that there is none."""
    AUDITED = "audited"
    """The whole log was read, and there is none."""
    CONTRADICTED = "contradicted"
    """There is one, and the log proves it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked.

    Attributes:
        kind: what.
        verdict: what came of it.
        words: what was expected, and what is there.
    """

    kind: FindingKind
    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReport:
    """One event of a receipt.

    Attributes:
        of: `action` or `approval`.
        n: which of its events, from 1.
        event: what happened.
        state: what became of its state.
        index: where it stands in the log, from 0; None where nothing proves that it is in it.
        claimed_at: when it happened, as the gate says; None where that was withheld.
        not_before: when witnesses had seen the log without it; None where that is not known.
        not_after: when witnesses had seen the log with it; None where that is not known.
    """

    of: str
    n: int
    event: str
    state: StateCheck
    index: int | None = None
    claimed_at: datetime | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the action was about, where its Intended is disclosed.

    Attributes:
        key: the caller's name for it.
        target: the target's name.
        subject: what was acted on.
        parameters_json: the effect's parameters, as JSON text.
        amount_minor: in the currency's minor unit.
        currency: of the amount.
        approval: under whose authority.
        reference: the provider's id of what was done, where a commit is disclosed.
    """

    key: str
    target: str
    subject: str
    parameters_json: str
    amount_minor: int | None
    currency: str | None
    approval: str
    reference: str | None

    @classmethod
    def of(cls, intent: Intent | None, states: Iterable[EventState | None]) -> About | None:
        """Return what an intent and the states of its events say; None where the intent is not known."""
        if intent is None:
            return None
        commits = (state.evidence for state in states if isinstance(state, CommittedState))
        evidence = next((one for one in commits if one is not None), None)
        effect = intent.effect
        return cls(
            key=intent.key,
            target=effect.target,
            subject=effect.subject,
            parameters_json=effect.parameters_json,
            amount_minor=effect.amount_minor,
            currency=effect.currency,
            approval=intent.approval.id,
            reference=None if evidence is None else evidence.reference,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptVerification:
    """What checking a receipt came to.

    Attributes:
        findings: everything that was checked.
        claim: what the attestor signed; None where that can't be read.
        about: what the action was about; None where that was withheld, erased, or could not be checked.
        signed_by: the key that signed it, by its id; None where no trusted one did.
        witnesses: who cosigned the checkpoint, of those that the policy names.
        witnesses_known: how many the policy names.
        events: the events, the action's first.
        completeness: whether it has all events.
        evidence: `gate-claimed`: that something happened is the gate's word. Only the provider can confirm it: `interlock audit`.
    """

    findings: tuple[Finding, ...]
    claim: Claim | None = None
    about: About | None = None
    signed_by: str | None = None
    witnesses: tuple[str, ...] = ()
    witnesses_known: int = 0
    events: tuple[EventReport, ...] = ()
    completeness: Completeness = Completeness.UNKNOWN
    evidence: str = "gate-claimed"
    states: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def verdict(self) -> Verdict:
        """The worst of all findings; a note is as good as none."""
        worst = max((finding.verdict for finding in self.findings), default=Verdict.OK)
        return Verdict.OK if worst is Verdict.NOTE else worst

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        events = [{name: _plain(value) for name, value in asdict(event).items()} for event in self.events]
        findings = [{"kind": one.kind.value, "verdict": one.verdict.name.lower(), "words": one.words} for one in self.findings]
        return {
            "verdict": self.verdict.name.lower(),
            "claim": None if self.claim is None else self.claim.to_fields(),
            "about": None if self.about is None else asdict(self.about),
            "signed_by": self.signed_by,
            "witnesses": list(self.witnesses),
            "witnesses_known": self.witnesses_known,
            "states": dict(self.states),
            "completeness": self.completeness.value,
            "evidence": self.evidence,
            "events": events,
            "findings": findings,
        }


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else value
