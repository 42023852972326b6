"""What the model is told: what was done, what was not, and what is still possible, as a JSON object in a tool result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.anthropic.tools import ApprovedAction, in_plain
from interlock.approvals import ApprovalView
from interlock.outcomes import Ambiguous, Committed, InFlight, Outcome, Refused
from interlock.projections.receipts import Happened, Receipt

NOTHING_MORE = "nothing more under this approval: for anything else a person has to approve first"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool's answer.

    Args:
        text: for the model.
        is_error: whether what it asked for is not so.
    """

    text: str
    is_error: bool


def shown(facts_json: str) -> ToolAnswer:
    """Return what a reading tool showed, to the letter: it is what the premise holds."""
    return ToolAnswer(facts_json, is_error=False)


def not_read(why: str) -> ToolAnswer:
    """Return that a fact could not be shown."""
    return _answer({"status": "NOT_READ", "words": why, "possible": "read it again, or end without acting"}, is_error=True)


def not_done(why: str, possible: str, recorded: Receipt | None = None) -> ToolAnswer:
    """Return that nothing was done for this request, and what there was before, if anything."""
    body: dict[str, Any] = {"status": "NOTHING_DONE", "words": f"{why}; nothing was done for this request", "possible": possible}
    if recorded is not None:
        body["recorded"] = _recorded(recorded)
    return _answer(body, is_error=True)


def of_outcome(outcome: Outcome, *, again: bool) -> ToolAnswer:
    """Return what became of an action.

    Args:
        outcome: what the gate answered.
        again: whether the model had been told of an ending before.
    """
    body = _recorded(outcome.receipt) | {"words": _words(outcome, again=again), "possible": _possible(outcome)}
    return _answer(body, is_error=isinstance(outcome, Refused | Ambiguous))


def possible(action: ApprovedAction, approval: ApprovalView | None) -> str:
    """Return what may still be asked for, before anything was done."""
    if action.effect is not None:
        return f"ask for exactly what was approved: {json.dumps(in_plain(action.effect))}"
    words = f"ask for what approval {action.approval_id} covers, on {action.subject}"
    if approval is None or approval.remaining_minor is None:
        return words
    return f"{words}: at most {approval.remaining_minor} {approval.currency}, in the minor unit"


def _words(outcome: Outcome, *, again: bool) -> str:
    match outcome:
        case Committed():
            return "it was done before, and not again" if again else _done(outcome.receipt)
        case Refused():
            return f"it was not done: {outcome.receipt.refusal.words if outcome.receipt.refusal else 'it was refused'}"
        case Ambiguous():
            return "nobody can know yet whether it was done. A person decides; do not ask for it again"
        case InFlight():
            return f"the end is not known yet: {outcome.words}. It comes to one without you; do not ask for it again"


def _done(receipt: Receipt) -> str:
    settled = {
        Happened.YES: "it was done, once",
        Happened.NO: "it was taken on and failed later; it is not done",
        Happened.UNKNOWN: "it was taken on, once; whether it goes through is not settled yet",
    }
    return settled[receipt.happened]


def _possible(outcome: Outcome) -> str:
    refusal = outcome.receipt.refusal
    return refusal.possible if refusal and refusal.possible else NOTHING_MORE


def _recorded(receipt: Receipt) -> dict[str, Any]:
    """Return what the journal has of an action, without ids that are the gate's own."""
    recorded: dict[str, Any] = {
        "status": receipt.status,
        "happened": receipt.happened.value,
        "target": receipt.target,
        "subject": receipt.subject,
        "parameters": json.loads(receipt.parameters_json),
    }
    if receipt.evidence is not None:
        recorded |= {"reference": receipt.evidence.reference, "state": receipt.evidence.state}
    if receipt.refusal is not None:
        recorded["code"] = receipt.refusal.code
    return recorded


def _answer(body: Mapping[str, Any], *, is_error: bool) -> ToolAnswer:
    return ToolAnswer(json.dumps(body, ensure_ascii=False), is_error)
