"""The marks by which an action is known at Stripe: metadata on the refund, and on a payment whose key was burned.

Metadata can be edited by anyone who may write, so a mark is needed to know a refund by and is never enough: payment,
amount and currency have to match too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from uuid import UUID

ACTION = "interlock_action"
KEY = "interlock_key"
REFERENCE = "interlock_reference"
BURNED = "interlock_burned"

_OURS_ALONE = frozenset((ACTION, KEY))
_DIGEST_DIGITS = 16


def refund_marks(action_id: UUID, idempotency_key: str, reference: str | None) -> dict[str, str]:
    """Return the metadata of a refund."""
    marks = {ACTION: action_id.hex, KEY: idempotency_key}
    return marks if reference is None else marks | {REFERENCE: reference}


def burn_marks(idempotency_key: str) -> dict[str, str]:
    """Return the metadata that burning a key writes on the payment.

    A pure function of the key, so that every recoverer sends the same bytes; under one fixed name, so that it takes up
    one of the fifty that a payment may have (docs.stripe.com/api/metadata).
    """
    return {BURNED: idempotency_key}


def action_of(metadata: Mapping[str, str]) -> str:
    """Return the action that a refund is marked with, or the empty string."""
    return metadata.get(ACTION, "")


def names_of(metadata: Mapping[str, str]) -> list[str]:
    """Return digests of what a refund names: the values of its metadata, without the marks that name nothing to others.

    Digests, because facts go into the journal and to the model, and metadata may hold personal data.
    """
    return sorted({digest(value) for name, value in metadata.items() if name not in _OURS_ALONE})


def digest(value: str) -> str:
    """Return the first 16 hexadecimal digits of a value's SHA-256."""
    return hashlib.sha256(value.encode()).hexdigest()[:_DIGEST_DIGITS]
