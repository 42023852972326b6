"""What explorations of two workers came to, kept line by line, so that hours of work survive an interruption."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from interlock.testing.exploration.families import FAMILIES
from interlock.testing.exploration.scope import SmallProfile
from interlock.testing.exploration.world import World


@dataclass(frozen=True, slots=True)
class Task:
    """One exploration: a profile, by its number, and a family of faults."""

    number: int
    family: str


@dataclass(slots=True)
class Explored:
    """What an exploration of two workers found.

    Args:
        states: how many different states there are.
        steps: how many steps lead from one to another.
        runs: how many different runs of the protocol took part, here or in the explorations that it went on from.
        complete: whether there is nothing else.
        violations: the shortest schedule to each violation, in plain words.
        stuck: how many states there are from which no end can be reached although nothing more goes wrong.
        stuck_schedule: the shortest schedule to one of them.
        seconds: how long it took.
    """

    states: int = 0
    steps: int = 0
    runs: int = 0
    complete: bool = True
    violations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    stuck: int = 0
    stuck_schedule: list[str] = field(default_factory=list[str])
    seconds: float = 0.0


def explored(profile: SmallProfile, families: Iterable[str], most_states: int) -> Iterator[tuple[str, Explored]]:
    """Visit every state of two workers with a profile, under one family of faults after the other.

    Args:
        profile: what the provider can do.
        families: the names of the families.
        most_states: where to give a family up.

    Yields:
        A family's name, and what was found.
    """
    from interlock.testing.exploration.search import explore  # needs numpy, and nothing else here does

    world = None
    for family in families:
        world = World(profile, FAMILIES[family], beside=world)
        yield family, explore(world, most_states=most_states)


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
