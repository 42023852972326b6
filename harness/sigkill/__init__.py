"""SIGKILL mode: four processes on one journal, killed at named points by seed; the provider's ledger is the judge.

python -m harness.sigkill --schedules 300 --seed 0 --journal postgres
"""

from __future__ import annotations

from harness.sigkill.counts import Counts
from harness.sigkill.gates import GateKind
from harness.sigkill.play import ScheduleFailed, play
from harness.sigkill.schedule import Schedule, draw

__all__ = ["Counts", "GateKind", "Schedule", "ScheduleFailed", "draw", "play"]
