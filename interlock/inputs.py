"""What a host hands over, checked before anything is written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import isnan
from typing import cast

from interlock.domain.action import MAX_KEY_LENGTH
from interlock.domain.premises import Premise
from interlock.errors import InvalidInput, InvalidPremise


def require_opaque(name: str, value: str) -> str:
    """Return the id of a person or a thing, if it can be written down.

    Raises:
        InvalidInput: it is empty, too long or not printable.
    """
    if type(value) is not str or not value or len(value) > MAX_KEY_LENGTH or not value.isprintable():
        raise InvalidInput(f"{name} must be an opaque id of 1 to {MAX_KEY_LENGTH} printable characters; nothing was written")
    return value


def require_text(name: str, value: str) -> str:
    """Return the text, if it can be stored as UTF-8.

    Raises:
        InvalidInput: it is no text, or holds a lone surrogate.
    """
    try:
        value.encode()
    except (UnicodeEncodeError, AttributeError):
        raise InvalidInput(f"{name} must be text; nothing was written") from None
    return value


def require_seconds(name: str, value: object) -> float:
    """Return how long something may take, in seconds.

    Raises:
        InvalidInput: it is no number.
    """
    with suppress(OverflowError):
        if isinstance(value, int | float) and not isnan(seconds := float(value)):
            return seconds
    raise InvalidInput(f"{name} must be a number of seconds, not {value!r:.50}; nothing was written or sent")


def require_premises(given: object) -> tuple[Premise, ...]:
    """Return the premises of a decision.

    Raises:
        InvalidPremise: it is no list of premises, or one of them was read as empty, so that no decision can rest on it.
    """
    if isinstance(given, Premise) or not isinstance(given, Iterable):
        raise InvalidPremise(
            f"premises is a list of what observe() returned, not {type(given).__name__}; nothing was written or sent"
        )
    premises: list[Premise] = []
    for premise in cast("Iterable[object]", given):
        if not isinstance(premise, Premise):
            raise InvalidPremise(
                f"a premise is what observe() returned, not {type(premise).__name__}; nothing was written or sent"
            )
        if not premise.facts:
            raise InvalidPremise(
                f"{premise.subject!r} was read as empty: no decision can rest on that; nothing was written or sent, read it again"
            )
        premises.append(premise)
    return tuple(premises)


def require_json(name: str, value: object) -> str:
    """Return the values as JSON text.

    Raises:
        InvalidInput: it is no mapping of names to values, or something in them is not a JSON value.
    """
    if not isinstance(value, Mapping) or any(type(key) is not str for key in cast("Iterable[object]", value)):
        raise InvalidInput(f"{name} must be names and JSON values; nothing was written or sent")
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} must be JSON values: {error}; nothing was written or sent") from None
    return require_text(name, text)
