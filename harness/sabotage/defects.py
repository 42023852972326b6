"""What a deliberate defect is, and how it is put into a copy of the library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

INVARIANTS = tuple(f"I{number}" for number in range(1, 11))
RULES = tuple(f"rule {number}" for number in range(1, 8))
BURN, HORIZON = "burn", "horizon"
"""The two ways of closing the door."""

ENDS = "ends"
"""Everything comes to an end, and to none that is less than the provider's own state allowed."""

FOLLOWERS = "followers"
"""Whoever follows the log misses nothing, and sees nothing twice."""

SERVICE = "service"
"""Nodes that recover share the work, a pass is bounded, and what the living are at work on is left to them."""

LIVENESS = "liveness"
"""A holder's death is seen, its life is not mistaken for death, and nothing is sent without the lock."""

CANCELLING = "cancelling"
"""Cancelling an await is a crash like any other, and what a thread still does belongs to the run that began it."""

RECEIPTS = "receipts"
"""What was changed, forged or left out of a receipt is refused by whoever has nothing but a policy and a list of attestors."""

SIGNED_LOG = "signed log"
"""Nothing is signed that is not what was written, or that does not continue what was signed; proofs hold; keys stay secret."""

ANCHOR = "anchor"
"""Nothing is sent before its announcement stands under a checkpoint that the policy accepts."""

WITNESS = "witness"
"""A witness cosigns one history of a log, whatever comes at once, is lost, or is killed; and nothing that a web page asks for."""

MONITOR = "monitor"
"""A log that was rewritten, rolled back or forked is not accepted, nor one with a step that no gate makes."""

ERASURE = "erasure"
"""Nothing is forgotten before the log says so, nothing but what it says, and what is gone otherwise is named."""

AUDIT = "audit"
"""Where the provider and the journal differ, it is said; what could not be read is no agreement."""

AGENT = "agent"
"""Whatever a model says, at most what was approved happens, on what it was shown; and what it is told is so."""

MATRIX = "matrix"
"""The whole matrix is judged by what was recorded, and whatever was changed afterwards, of it or of a column, shows."""

TEMPORAL = "temporal"
"""In an activity the gate keeps its promises, and no workflow waits for a death that the gate has noticed."""

PROMISES = (
    *INVARIANTS,
    *RULES,
    BURN,
    HORIZON,
    ENDS,
    FOLLOWERS,
    SERVICE,
    LIVENESS,
    CANCELLING,
    RECEIPTS,
    SIGNED_LOG,
    ANCHOR,
    WITNESS,
    MONITOR,
    ERASURE,
    AUDIT,
    AGENT,
    MATRIX,
    TEMPORAL,
)
"""Everything that at least one defect has to break."""


class StaleCatalogueError(Exception):
    """A defect does not fit the code any more: the catalogue has to follow the code, or nothing is tested by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One deliberate defect.

    Args:
        name: what goes wrong, in a few words joined by hyphens.
        breaks: the promises that it breaks, of `PROMISES`.
        file: where it is put, from the root of the repository.
        old: the text that it replaces, which stands there exactly once.
        new: the text in its place.
        tests: the test files of which at least one test has to fail, from the root of the repository, in this order.
    """

    name: str
    breaks: tuple[str, ...]
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Return the file's text with the defect in it.

        Raises:
            StaleCatalogueError: the text that it replaces is not there, or more than once.
        """
        found = text.count(self.old)
        if found != 1:
            raise StaleCatalogueError(
                f"{self.name}: the text that it replaces stands {found} times in {self.file}, and has to stand there once; "
                "nothing was run for it, bring harness/sabotage up to date with the code"
            )
        return text.replace(self.old, self.new)

    def apply(self, root: Path) -> None:
        """Put the defect into the copy at `root`.

        Raises:
            StaleCatalogueError: it does not fit the code there.
        """
        path = root / self.file
        path.write_text(self.applied(path.read_text(encoding="utf-8")), encoding="utf-8")


def lines(*parts: str) -> str:
    """Return several lines as one text, without the last line's end."""
    return "\n".join(parts)
