"""What has to stay flat: the memory of processes that live long, and the connections to the database."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

_KIB = 1024
_GROWTH, _GROWTH_MIB, _GROWTH_CONNECTIONS = 1.2, 10.0, 3.0
"""By how much the last third may lie above the second: caches fill in the first."""


@dataclass(slots=True)
class Samples:
    """Figures over time, by name."""

    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def take_memory(self, name: str, pid: int) -> None:
        """Note how much memory a process has, in MiB."""
        try:
            status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        except OSError:
            return
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        self.taken[f"MiB of {name}"].append(int(line.split()[1]) / _KIB)

    def take_connections(self, url: str) -> int:
        """Note how many connections the database has, unless it is down; return how many actions it has, 0 where it is."""
        counts = (
            "SELECT count(*), (SELECT count(*) FROM interlock.receipts) FROM pg_stat_activity "
            "WHERE application_name = 'interlock'"
        )
        try:
            with psycopg.connect(url, connect_timeout=2, application_name="soak-sampler") as connection:
                connections, actions = connection.execute(counts).fetchall()[0]
        except psycopg.Error:
            return 0
        self.taken["connections"].append(float(connections))
        return int(actions)

    def growth(self) -> Iterator[str]:
        """Say what did not stay flat."""
        for name, values in self.taken.items():
            middle, last = _thirds(values)[1:]
            slack = _GROWTH_CONNECTIONS if name == "connections" else _GROWTH_MIB
            if last > middle * _GROWTH + slack:
                yield f"{name} grew from {middle:.1f} to {last:.1f}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Return the medians of each third, for a table."""
        for name, values in self.taken.items():
            yield name, ", ".join(f"{one:.1f}" for one in _thirds(values)) + f" (at most {max(values):.1f})"


def _thirds(values: list[float]) -> tuple[float, float, float]:
    third = max(1, len(values) // 3)
    return (
        statistics.median(values[:third]),
        statistics.median(values[third : 2 * third] or values),
        statistics.median(values[-third:]),
    )
