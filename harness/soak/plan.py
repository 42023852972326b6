"""What a soak is made of."""

from __future__ import annotations

from dataclasses import dataclass

IMMORTAL = 2
"""So many workers are never killed: it is their memory that has to stay flat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A soak.

    Args:
        duration_s: for how long new actions are fired at the least.
        least_actions: how many are fired at the least, unless that takes three times as long.
        workers: how many processes fire and recover.
        actions_per_s: how many all of them fire in a second, where the machine lets them.
        kill_every_s: the mean time between SIGKILLs of workers.
        restart_every_s: the mean time between SIGKILLs of the database, which is started again at once.
        cut_every_s: the mean time between cuts of connections to the database.
        seed: of every choice.
    """

    duration_s: float = 600.0
    least_actions: int = 20_000
    workers: int = 8
    actions_per_s: float = 60.0
    kill_every_s: float = 4.0
    restart_every_s: float = 60.0
    cut_every_s: float = 10.0
    seed: int = 0

    @classmethod
    def short(cls) -> Plan:
        """Return one that ends in seconds, and has everything in it."""
        return cls(duration_s=12.0, least_actions=100, actions_per_s=25.0, kill_every_s=1.5, restart_every_s=5.0, cut_every_s=2.0)
