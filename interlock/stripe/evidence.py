"""Evidence: what Stripe says about a refund, checked against what was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import rfc8785

from interlock.domain.answers import Evidence, Settlement
from interlock.domain.books import BookEntry
from interlock.domain.effects import Effect
from interlock.stripe import marks
from interlock.stripe.effect import Refund

Json = Mapping[str, Any]
"""A parsed JSON object of Stripe's."""


def json_object(value: object) -> Json | None:
    """Return a parsed value if it is a JSON object."""
    return cast("Json", value) if isinstance(value, dict) else None


# Refunds of payments that were not made by card are called `pyr_…` (docs.stripe.com/api/transfer_reversals has one).
_REFUND_ID = re.compile(r"(?:re|pyr)_[A-Za-z0-9_]+")

_SETTLEMENTS = {
    "succeeded": Settlement.FINAL,
    "pending": Settlement.OPEN,
    "requires_action": Settlement.OPEN,
    "failed": Settlement.REVERSED,
    "canceled": Settlement.REVERSED,
}

_KEPT = ("amount", "charge", "created", "currency", "failure_reason", "id", "payment_intent", "pending_reason", "status")
_KEPT_MARKS = (marks.ACTION, marks.KEY)


def is_refund(body: Json) -> bool:
    """Whether this is a refund with an id, and not only an answer with status 200."""
    return body.get("object") == "refund" and _REFUND_ID.fullmatch(str(body.get("id"))) is not None


def evidence_of(body: Json, effect: Effect[Refund], *, replayed: bool = False, request_id: str | None = None) -> Evidence:
    """Return a refund as evidence for an effect, with every point in which it disagrees with it."""
    state = str(body.get("status") or "unknown")
    return Evidence(
        reference=str(body["id"]),
        state=state,
        # A state that we don't know is not known to be the last.
        settlement=_SETTLEMENTS.get(state, Settlement.OPEN),
        json=rfc8785.dumps(_kept(body)).decode(),
        replayed=replayed,
        request_id=request_id,
        disagreements=_disagreements(body, effect),
    )


def book_entry_of(body: Json) -> BookEntry:
    """Return a refund as an entry of the provider's books.

    Raises:
        LookupError: something is missing in Stripe's answer.
        TypeError: something in it is of another type.
    """
    state = str(body.get("status") or "unknown")
    return BookEntry(
        subject=body.get("payment_intent") or "",
        reference=body["id"],
        state=state,
        settlement=_SETTLEMENTS.get(state, Settlement.OPEN),
        action_mark=marks.action_of(metadata_of(body)) or None,
        amount_minor=body["amount"],
        currency=body["currency"],
    )


def metadata_of(body: Json) -> Mapping[str, str]:
    """Return an object's metadata; none where it has none."""
    metadata: Mapping[str, str] = body.get("metadata") or {}
    return metadata


def _kept(body: Json) -> dict[str, Any]:
    metadata = metadata_of(body)
    kept = {name: body[name] for name in _KEPT if isinstance(body.get(name), str | int)}
    return kept | {"metadata": {name: metadata[name] for name in _KEPT_MARKS if name in metadata}}


def _disagreements(body: Json, effect: Effect[Refund]) -> tuple[str, ...]:
    # The mark is not among them: it may have been edited since, and whoever asks knows the refund by it or by its key.
    asked_and_got = {
        "payment_intent": (effect.subject, body.get("payment_intent")),
        "amount": (effect.parameters.amount_minor, body.get("amount")),
        "currency": (effect.parameters.currency, body.get("currency")),
    }
    return tuple(f"{name} is {got!r}, not {asked!r}" for name, (asked, got) in asked_and_got.items() if asked != got)
