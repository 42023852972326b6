"""Random ids, ordered by time (ADR 3)."""

from __future__ import annotations

import secrets
from datetime import datetime
from uuid import UUID


def time_ordered_id(at: datetime) -> UUID:
    """Return a random id that sorts by its time, in the layout of UUIDv7 (RFC 9562, section 5.7).

    Args:
        at: its time; 48 bits of milliseconds, followed by 74 random bits.
    """
    milliseconds = int(at.timestamp() * 1000) & (2**48 - 1)
    random_a, random_b = divmod(secrets.randbits(74), 2**62)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | random_a << 64 | 0b10 << 62 | random_b)
