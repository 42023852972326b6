"""The gate as the body of a Temporal activity; needs the extra `temporal`."""

from interlock.temporal.activities import Firing, gated
from interlock.temporal.binding import bound_to
from interlock.temporal.options import RECOMMENDED, ActivityOptions, Recommended, WorkerOptions
from interlock.temporal.plugin import GatePlugin
from interlock.temporal.recovery import (
    RecoveryReport,
    RecoveryWorkflow,
    ensure_recovery_schedule,
    recovery_activity,
    recovery_schedule,
)
from interlock.temporal.results import AmbiguousResult, CommittedResult, GateResult, RefusedResult

__all__ = [
    "RECOMMENDED",
    "ActivityOptions",
    "AmbiguousResult",
    "CommittedResult",
    "Firing",
    "GatePlugin",
    "GateResult",
    "Recommended",
    "RecoveryReport",
    "RecoveryWorkflow",
    "RefusedResult",
    "WorkerOptions",
    "bound_to",
    "ensure_recovery_schedule",
    "gated",
    "recovery_activity",
    "recovery_schedule",
]
