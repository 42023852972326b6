"""The catalogue of all defects."""

from __future__ import annotations

from harness.sabotage import (
    agents,
    cancelling,
    databases,
    doors,
    explored,
    files,
    invariants,
    matrix,
    providers,
    receipts,
    rules,
    services,
    signing,
    watchers,
)
from harness.sabotage.defects import PROMISES, Defect

CATALOGUE: tuple[Defect, ...] = (
    *invariants.DEFECTS,
    *rules.DEFECTS,
    *doors.DEFECTS,
    *explored.DEFECTS,
    *services.DEFECTS,
    *databases.DEFECTS,
    *files.DEFECTS,
    *providers.DEFECTS,
    *cancelling.DEFECTS,
    *signing.DEFECTS,
    *receipts.DEFECTS,
    *watchers.DEFECTS,
    *agents.DEFECTS,
    *matrix.DEFECTS,
)


def unbroken() -> list[str]:
    """Return the promises that no defect breaks; there must be none."""
    broken = {promise for defect in CATALOGUE for promise in defect.breaks}
    return [promise for promise in PROMISES if promise not in broken]
