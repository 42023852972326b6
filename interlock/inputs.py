"""What a host hands over, checked before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.domain.action import MAX_KEY_LENGTH
from interlock.errors import InvalidInput


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


def require_json(name: str, value: Mapping[str, Any]) -> str:
    """Return the values as JSON text.

    Raises:
        InvalidInput: something in them is not a JSON value.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be JSON values: {error}; nothing was written or sent") from None
    return require_text(name, text)
