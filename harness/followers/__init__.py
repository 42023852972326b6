"""Follows the log behind sixteen writers that commit, commit late and abort: nothing may be missed, and nothing come twice.

python -m harness.followers --events 200000 --out results/followers.md
"""

from __future__ import annotations

from harness.followers.run import Counts, run

__all__ = ["Counts", "run"]
