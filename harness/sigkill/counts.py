"""What schedules came to, in figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counts:
    """Figures of one schedule, or of many.

    Args:
        schedules: how many were played.
        starts: processes of workers that were started.
        requests: that arrived at the provider.
        refunds: that the ledger has with an action's mark.
        hand_refunds: that it has without.
        kills: processes that ended by SIGKILL, by the point at which they died.
        endings: actions by the status on their receipts, and those of which a death came before the first commit.
        faults: that struck a request, by kind.
        told: what the workers were told, by outcome or error.
    """

    schedules: int = 0
    starts: int = 0
    requests: int = 0
    refunds: int = 0
    hand_refunds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)

    @property
    def restarts(self) -> int:
        """Workers that were started again after a death."""
        return self.kills.total()

    def add(self, other: Counts) -> None:
        """Take another one's figures in."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def lines(self) -> list[tuple[str, str]]:
        """Return the figures with their names, for a table."""
        plain = ("schedules", "starts", "restarts", "requests", "refunds", "hand_refunds")
        tables = ("kills", "endings", "faults", "told")
        return [
            *((name.replace("_", " "), f"{getattr(self, name):,}") for name in plain),
            *((name, _in_words(getattr(self, name))) for name in tables),
        ]


def _in_words(counted: Counter[str]) -> str:
    each = ", ".join(f"{name} {count:,}" for name, count in sorted(counted.items()))
    return f"{counted.total():,}: {each}" if counted else "0"
