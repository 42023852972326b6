"""What a gated activity returns: an outcome as data, small enough for a workflow's history, and typed for `match`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from interlock import Ambiguous, Committed, Receipt, Refused

Ended = Committed | Refused | Ambiguous

# The receipt stays in the journal: it holds what the provider showed of a customer, and a history can't erase it.


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfAction:
    key: str
    action_id: str
    approval_id: str
    happened: Literal["yes", "no", "unknown"]
    attempts: int
    sends: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedResult(_OfAction):
    """It happened, once.

    Attributes:
        key: the caller's name for the action; `Receipts.receipt(key)` returns its receipt.
        action_id: its id, which the effect carries at the provider.
        approval_id: under whose authority it was done. A workflow that was started again under its id, with another approval, is
            told what the first one came to: this is the first one's then.
        happened: `yes`; `unknown` while the provider calls it pending, and `no` where it failed there later.
        attempts: how many idempotency keys were used.
        sends: how many sends were announced.
        via: how it is known: `first-send`, `retry-idempotent`, `recovery-query` or `resolution`.
        reference: the provider's id of it; None where a person said that it happened.
        state: the provider's word for where it stands.
        amount_minor: in the currency's minor unit.
        currency: of the amount.
        replayed: whether the provider answered from what it had stored.
    """

    status: Literal["COMMITTED"] = "COMMITTED"
    via: str
    reference: str | None
    state: str | None
    amount_minor: int | None
    currency: str | None
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedResult(_OfAction):
    """It did not happen, and it can't any more under this key.

    Attributes:
        key: the caller's name for the action; `Receipts.receipt(key)` returns its receipt.
        action_id: its id.
        approval_id: under whose authority it would have been.
        happened: `no`.
        attempts: how many idempotency keys were used.
        sends: how many sends were announced.
        code: why, as a code such as `approval_revoked` or `premise_duplicate`.
        words: why, in words.
        possible: what would still be possible.
        at_recovery: whether it was refused after a send whose answer was lost.
        door: how it is known that no such send can land any more.
    """

    status: Literal["REFUSED"] = "REFUSED"
    code: str
    words: str
    possible: str
    at_recovery: bool
    door: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AmbiguousResult(_OfAction):
    """Nobody can know whether it happened. A person decides, with `Gate.resolve`.

    Attributes:
        key: the caller's name for the action; `Receipts.receipt(key)` returns its receipt.
        action_id: its id, to look for at the provider.
        approval_id: under whose authority.
        happened: `unknown`.
        attempts: how many idempotency keys were used.
        sends: how many sends were announced.
        words: why nobody knows.
    """

    status: Literal["AMBIGUOUS"] = "AMBIGUOUS"
    words: str


GateResult = CommittedResult | RefusedResult | AmbiguousResult
"""What a gated activity returns. Temporal's converters tell the three apart by `status`."""


def result_of(outcome: Ended) -> GateResult:
    """Return an outcome as data."""
    match outcome:
        case Committed():
            return _committed(outcome.receipt)
        case Refused():
            return _refused(outcome.receipt)
        case Ambiguous():
            return _ambiguous(outcome.receipt)


def _committed(receipt: Receipt) -> CommittedResult:
    evidence = receipt.evidence
    return CommittedResult(
        key=receipt.key,
        action_id=receipt.action_id,
        approval_id=receipt.approval_id,
        happened=receipt.happened.value,
        attempts=receipt.attempts,
        sends=receipt.sends,
        via=receipt.via or "",
        reference=evidence.reference if evidence else None,
        state=evidence.state if evidence else None,
        amount_minor=receipt.amount_minor,
        currency=receipt.currency,
        replayed=bool(evidence and evidence.replayed),
    )


def _refused(receipt: Receipt) -> RefusedResult:
    refusal = receipt.refusal
    assert refusal is not None, "a refusal says why"
    return RefusedResult(
        key=receipt.key,
        action_id=receipt.action_id,
        approval_id=receipt.approval_id,
        happened=receipt.happened.value,
        attempts=receipt.attempts,
        sends=receipt.sends,
        code=refusal.code,
        words=refusal.words,
        possible=refusal.possible,
        at_recovery=refusal.at_recovery,
        door=refusal.door,
    )


def _ambiguous(receipt: Receipt) -> AmbiguousResult:
    return AmbiguousResult(
        key=receipt.key,
        action_id=receipt.action_id,
        approval_id=receipt.approval_id,
        happened=receipt.happened.value,
        attempts=receipt.attempts,
        sends=receipt.sends,
        words=receipt.ambiguity or "",
    )
