"""What a monitor says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class FindingKind(StrEnum):
    """What is wrong with a log."""

    CHECKPOINT = "checkpoint"
    """It is none, is not signed by the log, bears a forged signature, or too few witnesses have cosigned it."""
    ROLLED_BACK = "rolled_back"
    """It is smaller than one that was seen before."""
    REWRITTEN = "rewritten"
    """It does not continue what was seen before, or its entries do not lead to its root."""
    RECORD = "record"
    """An entry is no record, or another journal's."""
    CHAIN = "chain"
    """A record does not follow on the one before of the same action."""
    LEGALITY = "legality"
    """A step that no gate could have made."""
    STATE = "state"
    """A state is not the one whose digest was recorded."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        kind: what.
        place: where.
        words: what was expected, and what is there.
    """

    kind: FindingKind
    place: str
    words: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one look at a log came to.

    Attributes:
        origin: the log.
        size: how many entries the checkpoint has that was looked at; None where there is none that can be read.
        held_size: how many the one has that the monitor holds now.
        entries: how many new entries were read.
        open_actions: how many actions have no ending there.
        findings: everything that is wrong; the checkpoint is held, and cosigned, only where there is nothing.
        cosignature: the monitor's line over the checkpoint; None where it gave none.
    """

    origin: str
    size: int | None
    held_size: int
    entries: int
    open_actions: int
    findings: tuple[Finding, ...]
    cosignature: str | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"clean": self.clean, **asdict(self)}
