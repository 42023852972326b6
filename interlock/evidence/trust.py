"""What a verifier of receipts trusts, and what else it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.evidence.attestors import Attestors
from interlock.evidence.policies import Policy


@dataclass(frozen=True, slots=True)
class Trust:
    """What a verifier trusts; nothing else is.

    Args:
        policy: which logs and witnesses count, and how many.
        attestors: who may sign receipts; None where that is not known, and the signature can't be checked then.
    """

    policy: Policy
    attestors: Attestors | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What else the verifier has.

    Args:
        now_s: the time, in seconds since 1970, by the verifier's own clock; None where age does not matter.
        max_age_s: how old the newest witnessed checkpoint may be, in seconds.
        checkpoints: signed checkpoints of the same log, got elsewhere.
        others: other receipts.
        entries: all entries of the log from its first on, from a copy that somebody else may keep; None where there is none.
    """

    now_s: float | None = None
    max_age_s: float | None = None
    checkpoints: Sequence[bytes] = ()
    others: Sequence[bytes] = ()
    entries: Iterable[bytes] | None = None


NOTHING_ELSE = Known()
