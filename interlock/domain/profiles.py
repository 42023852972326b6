"""Capability profiles: what a target can do, in figures that the protocol reckons with."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import cast

import rfc8785

from interlock.errors import InvalidConfiguration


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityProfile:
    """What a provider promises. The default is the worst case: no keys, no lookup, no burn, nothing known about failures.

    Args:
        send_deadline_s: wall-clock limit of one send, in seconds.
        kernel_s: how long the sender's kernel may go on delivering after the sender is dead. With `TCP_USER_TIMEOUT` it is
            that time-out. Without, a request was seen to arrive 45.9 s after the SIGKILL of its sender, and Linux goes on
            trying for about 15 minutes (tcp(7), `tcp_retries2`).
        settle_s: how long after its arrival a request may still take effect.
        dedupe_window_s: for how long the provider recognises an idempotency key, counted from its first use; None where it
            has no keys.
        dedupe_margin_s: what is kept back from the window for clocks and for requests on their way.
        stores_failures: whether a 5xx is stored and replayed under its key.
        roll_forward_s: for how long a stored failure may still be carried to its end; 0 where it never is, None where nobody
            knows.
        lookup_staleness_s: how old a lookup's answer may be; 0 where it is consistent, None where there is no lookup.
        burns: whether a key can be used up by a harmless request.

    Raises:
        InvalidConfiguration: a figure that is negative, beyond a hundred years or no number, or a burn without keys.
    """

    send_deadline_s: float = 30.0
    kernel_s: float = 960.0
    settle_s: float = 10.0
    dedupe_window_s: float | None = None
    dedupe_margin_s: float = 3600.0
    stores_failures: bool = False
    roll_forward_s: float | None = None
    lookup_staleness_s: float | None = None
    burns: bool = False

    def __post_init__(self) -> None:
        wrong = [
            name
            for name, value in asdict(self).items()
            if name.endswith("_s") and not (_is_time(value) or (value is None and name in _OPTIONAL))
        ]
        if wrong:
            msg = f"capability figures are seconds, from 0 to a hundred years, and not negative: {', '.join(wrong)}"
            raise InvalidConfiguration(msg)
        if self.burns and not self.dedupes:
            msg = "a key can only be burned where the provider has idempotency keys"
            raise InvalidConfiguration(msg)

    @property
    def dedupes(self) -> bool:
        """Whether the provider recognises an idempotency key at all."""
        return self.dedupe_window_s is not None

    @property
    def looks_up(self) -> bool:
        """Whether the effect can be looked up at the provider."""
        return self.lookup_staleness_s is not None

    @property
    def may_roll_forward_unbounded(self) -> bool:
        """Whether a failure that nobody saw may still be carried to its end at a time that nobody knows."""
        return self.roll_forward_s is None

    def horizon(self, deadline_at: datetime) -> datetime:
        """Return the latest instant at which a send with this deadline can still land and show (rule 3).

        It is counted from the deadline and never from the sender's death: a lock can be lost by a sender that lives.
        An unknown roll-forward time is not in it; see `may_roll_forward_unbounded`.
        """
        after_s = self.kernel_s + self.settle_s + (self.lookup_staleness_s or 0) + (self.roll_forward_s or 0)
        return deadline_at + timedelta(seconds=after_s)

    def key_expires(self, first_dispatched_at: datetime) -> datetime | None:
        """Return until when a key counts as still deduped; None where the provider has no keys."""
        if self.dedupe_window_s is None:
            return None
        return first_dispatched_at + timedelta(seconds=self.dedupe_window_s - self.dedupe_margin_s)

    def digest(self) -> str:
        """Return the SHA-256 of the profile's canonical form, in milliseconds, as it stands on a receipt."""
        return _digest(self)


_OPTIONAL = ("dedupe_window_s", "roll_forward_s", "lookup_staleness_s")
_LONGEST_S = 100 * 365 * 86_400
"""A time that no date can hold would end a send in the middle; so would NaN, which passes for not negative."""


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= cast("float", value) <= _LONGEST_S


@lru_cache
def _digest(profile: CapabilityProfile) -> str:
    figures = {name: round(value * 1000) if type(value) in (int, float) else value for name, value in asdict(profile).items()}
    return f"sha256:{hashlib.sha256(rfc8785.dumps(figures)).hexdigest()}"
