"""Soak: minutes of work by eight processes on PostgreSQL, while workers, connections and the database are killed at random.

python -m harness.soak --duration-s 600 --out results/soak.md
"""

from __future__ import annotations

from harness.soak.plan import Plan
from harness.soak.play import play

__all__ = ["Plan", "play"]
