"""What explorations of two workers came to, kept line by line, so that hours of work survive an interruption."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from interlock.testing.exploration.families import FAMILIES
from interlock.testing.exploration.scope import SmallProfile
from interlock.testing.exploration.search import Explored, explore
from interlock.testing.exploration.world import World


@dataclass(frozen=True, slots=True)
class Task:
    """One exploration: a profile, by its number, and a family of faults."""

    number: int
    family: str


def explored(task: Task, profiles: list[SmallProfile], most_states: int) -> tuple[Task, Explored]:
    """Visit every state of two workers."""
    return task, explore(World(profiles[task.number], FAMILIES[task.family]), most_states=most_states)


def keep(path: Path, task: Task, found: Explored) -> None:
    """Add what was found to the file."""
    line = json.dumps({**asdict(task), **asdict(found)})
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def kept(path: Path) -> Iterator[tuple[Task, Explored]]:
    """Yield what the file holds."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        yield Task(values.pop("number"), values.pop("family")), Explored(**values)
