"""Plays a run for real: the harness' own cases, side by side, each with its own worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from harness.case import Case, CaseResult
from harness.columns.job import GateSettings
from harness.demo import captions
from harness.demo.journal import JournalTail
from harness.demo.runs import Run
from harness.demo.spectator import Spectator
from harness.demo.stories import Track, Way
from harness.moments import Tell
from harness.scenarios import Scenario
from harness.world import World


class Performance(Protocol):
    """One column of a run: carried to its end, or stopped."""

    def carry(self) -> CaseResult:
        """Carry it to its end."""
        ...

    def stop(self) -> None:
        """End it from another thread."""
        ...


Staging = Callable[[Track, Tell], Performance]
"""Makes a column's performance, which tells what happens."""


class SideBySide:
    """Plays the columns of a run at the same time, each on a thread of its own, while a spectator looks on.

    Args:
        scenario: the row.
        tracks: the columns.
        journal: the journal that the gate's column is recorded in.
        staging: makes each column's performance.
    """

    def __init__(self, scenario: Scenario, tracks: Sequence[Track], journal: JournalTail, staging: Staging) -> None:
        self._scenario, self._tracks, self._journal, self._staging = scenario, tracks, journal, staging
        self._performances: list[Performance] = []
        self._stopped = False

    def play(self, run: Run) -> None:
        """Carry all columns to their end, and say what was to be seen."""
        spectators = [self._spectator(run, track) for track in self._tracks]
        self._performances = [self._staging(track, one.tell) for track, one in zip(self._tracks, spectators, strict=True)]
        if self._stopped:
            self.stop()
        with ThreadPoolExecutor(len(self._tracks)) as pool:
            results = list(pool.map(_carry, self._performances, spectators))
        told = [(track.way, result) for track, result in zip(self._tracks, results, strict=True)]
        run.emit("summary", words=captions.summary(told))

    def stop(self) -> None:
        """End every column."""
        self._stopped = True
        for performance in self._performances:
            performance.stop()

    def _spectator(self, run: Run, track: Track) -> Spectator:
        return Spectator(run, track, self._scenario, self._journal if track.way is Way.GATE else None)


def _carry(performance: Performance, spectator: Spectator) -> CaseResult:
    with spectator.watching():
        return performance.carry()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the gate of the demo may take.

    Args:
        claim_ttl_s: for how long a claim holds where its holder's death can't be seen, in seconds.
        send_deadline_s: wall-clock limit of one send, in seconds.
    """

    claim_ttl_s: float
    send_deadline_s: float

    def of(self, scenario: Scenario) -> Scenario:
        """Return the row at this pace. A row that has figures of its own keeps them: they are what it is about."""
        own = scenario.settings
        stock = GateSettings(lookup=own.lookup)
        if own != stock:
            return scenario
        paced = replace(own, claim_ttl_s=self.claim_ttl_s, send_deadline_s=self.send_deadline_s)
        return replace(scenario, settings=paced)


def staged_in(world: World, scenario: Scenario, folder: Path, journal_url: str) -> Staging:
    """Return what makes a column's case in a world.

    Args:
        world: where it takes place.
        scenario: the row.
        folder: where cases keep their files.
        journal_url: the journal that the gate's column is recorded in.
    """

    def stage(track: Track, tell: Tell) -> Performance:
        return Case(world, scenario, track.column, folder, tell=tell, journal=journal_url if track.way is Way.GATE else None)

    return stage
