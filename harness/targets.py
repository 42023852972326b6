"""What the whole matrix has to reach, in figures. A run that misses one of them fails."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.case import CaseResult
from harness.columns import COLUMNS
from harness.scenarios import BURN_OFF, SCENARIOS

ON_TEMPORAL_S = 5.0
ABOVE_TEMPORAL_S = 0.5
ATTEMPTS = 3
STANDALONE_S = 2.0
SHARE_OF_DEFAULTS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure that may not be above a bound.

    Args:
        name: its name.
        what: what was counted or measured.
        measured: the figure; None where there is none, which misses the target.
        at_most: the bound.
    """

    name: str
    what: str
    measured: float | None
    at_most: float

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured is not None and self.measured <= self.at_most


def targets_of(cases: Iterable[CaseResult]) -> list[Target]:
    """Return the targets that these cases say something about."""
    by_column: dict[str, list[CaseResult]] = {}
    for case in cases:
        by_column.setdefault(case.column, []).append(case)
    return [*_of_gate(by_column), *_of_times(by_column), *_of_defaults(by_column)]


def _of_gate(by_column: dict[str, list[CaseResult]]) -> Iterator[Target]:
    for name, cases in by_column.items():
        if COLUMNS[name].gate:
            wrong = sum(not case.as_wanted for case in cases)
            what = f"`{name}`: cases that are not as wanted, or whose answer is wrong"
            yield Target(name=f"{name}_not_as_wanted", what=what, measured=wrong, at_most=0)


def _of_times(by_column: dict[str, list[CaseResult]]) -> Iterator[Target]:
    if "interlock" in by_column:
        closes = [case.crash_to_close_s for case in by_column["interlock"] if SCENARIOS[case.scenario].settings != BURN_OFF]
        longest_s = None if None in closes else max((close for close in closes if close is not None), default=None)
        what = "`interlock`: longest crash to close, burning on, in seconds"
        yield Target(name="interlock_longest_s", what=what, measured=longest_s, at_most=STANDALONE_S)
    if "temporal_interlock" not in by_column:
        return
    ours = by_column["temporal_interlock"]
    median_s = _median(ours)
    what = "`temporal_interlock`: median crash to close, in seconds"
    yield Target(name="temporal_interlock_median_s", what=what, measured=median_s, at_most=ON_TEMPORAL_S)
    if "temporal" in by_column:
        theirs_s = _median(by_column["temporal"])
        above_s = None if median_s is None or theirs_s is None else median_s - theirs_s
        what = "the same, above the median of `temporal`, in seconds"
        yield Target(name="above_temporal_s", what=what, measured=above_s, at_most=ABOVE_TEMPORAL_S)
    most = max((case.workflow.attempts for case in ours if case.workflow), default=None)
    what = "`temporal_interlock`: attempts of the refund activity, at the most"
    yield Target(name="temporal_interlock_attempts", what=what, measured=most, at_most=ATTEMPTS)


def _of_defaults(by_column: dict[str, list[CaseResult]]) -> Iterator[Target]:
    ours, *theirs = [by_column.get(f"{name}_defaults", []) for name in ("temporal_interlock", "temporal", "temporal_checked")]
    if not ours or not all(theirs):
        return
    ours_s, theirs_s = _median(ours), [_median(cases) for cases in theirs]
    least_s = min((median_s for median_s in theirs_s if median_s is not None), default=None)
    yield Target(
        name="share_of_defaults",
        what="`temporal_interlock_defaults`: median crash to close, as a share of the faster hand-written column with defaults",
        measured=None if ours_s is None or not least_s else ours_s / least_s,
        at_most=SHARE_OF_DEFAULTS,
    )


def _median(cases: Iterable[CaseResult]) -> float | None:
    """Return the median over the rows that every column has; None where there is none, or a case without an end."""
    closes = [case.crash_to_close_s for case in cases if not SCENARIOS[case.scenario].interlock_only]
    ended = [close for close in closes if close is not None]
    return statistics.median(ended) if ended and len(ended) == len(closes) else None
