"""What a crash test can find, and whose fault it is: the gate's, the target's, or the model's of the provider's world."""

from __future__ import annotations


class CrashTestFailure(AssertionError):
    """Something is wrong. The schedule that shows it is added where it is known.

    Attributes:
        words: what is wrong.
        schedule: the steps that lead there, in plain words, and a test that takes them.
    """

    blamed = "the crash test"

    def __init__(self, words: str) -> None:
        self.words = words
        self.schedule = ""
        super().__init__(words)

    def __str__(self) -> str:
        """Return what is wrong, and how to get there."""
        return f"{self.blamed}: {self.words}\n{self.schedule}".rstrip()


class GateViolation(CrashTestFailure):
    """The gate broke an invariant.

    Attributes:
        invariant: `I1` to `I10`, `end` (everything comes to an end), or `use` (no ending that is less than was possible).
    """

    blamed = "the gate"

    def __init__(self, invariant: str, words: str) -> None:
        self.invariant = invariant
        super().__init__(f"{invariant}: {words}")


class LiarReport(CrashTestFailure):
    """The gate was told something that is not so; whatever it did on it, this is not a violation by the gate."""


class TargetLies(LiarReport):
    """The target under test answered what is not so, or promises in its capabilities what the provider does not keep."""

    blamed = "the target under test lies, and the gate can't know"


class WorldLies(LiarReport):
    """The model of the provider's world contradicts its own ledger, or itself."""

    blamed = "the model of the provider contradicts itself"
