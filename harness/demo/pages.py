"""The pages that play runs: what each one offers, and what makes its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.demo.captions import LONGEST_VERDICT, Step, longest, longest_shown
from harness.demo.journal import JournalTail
from harness.demo.mock import MockPlayer
from harness.demo.playing import Pace, SideBySide, staged_in
from harness.demo.runs import Mode, Player
from harness.demo.stories import Track, Way, stories_json
from harness.scenarios import SCENARIOS
from harness.world import World


class NotPlayable(Exception):
    """What was asked for can't be played here. Nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a page asks for.

    Args:
        scenario: the row's name.
        third: whether the hand-written check plays along.
        mock: whether it is to be played in memory.
    """

    scenario: str
    third: bool
    mock: bool


def mode_of(world: World) -> Mode:
    """Return what runs in a world are made of."""
    if not world.live:
        return Mode.LOCAL
    return Mode.REHEARSAL if world.rehearsal else Mode.LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where real runs of a page take place.

    Args:
        world: the world.
        journal: the journal of the gate's columns.
        folder: where cases keep their files.
        pace: how long the gate may take.
    """

    world: World
    journal: JournalTail
    folder: Path
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that plays runs.

    Args:
        name: its name.
        tracks: its columns.
        mode: what its real runs are made of.
        stage: where they take place; None where there is nowhere.
        unavailable: why not, in a line.
        links: further addresses, by what they are called.
        settings: what its real runs are set to, in a line.
        mock_folder: where a run in memory keeps its journal while it is shown.
        mock_pause_s: how long it waits between two things that happen, in seconds.
    """

    name: str
    tracks: tuple[Track, ...]
    mode: Mode
    stage: Stage | None
    settings: str
    mock_folder: Path
    mock_pause_s: float
    unavailable: str | None = None
    links: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return what the page has to know, as JSON values."""
        return {
            "page": self.name,
            "mode": self.mode,
            "settings": self.settings,
            "unavailable": self.unavailable,
            "longest_caption": longest_shown(on_temporal=self.name == "temporal"),
            "links": [{"words": words, "href": href} for words, href in self.links],
            "stories": stories_json(live=self.mode is not Mode.LOCAL),
            "tracks": [track.as_json() | {"room": self._room(track)} for track in self.tracks],
        }

    def tracks_of(self, asked: Asked) -> tuple[Track, ...]:
        """Return the columns that a run has."""
        if SCENARIOS[asked.scenario].interlock_only:
            return tuple(track for track in self.tracks if track.way is Way.GATE)
        return tuple(track for track in self.tracks if asked.third or track.way is not Way.CHECKED)

    def mode_of(self, asked: Asked) -> Mode:
        """Return what a run is made of."""
        return Mode.MOCK if asked.mock else self.mode

    def player(self, asked: Asked) -> Player:
        """Return what plays it.

        Raises:
            NotPlayable: there is nowhere to play it.
        """
        scenario = SCENARIOS[asked.scenario]
        tracks = self.tracks_of(asked)
        if asked.mock:
            return MockPlayer(scenario, tracks, self.mock_folder, self.mock_pause_s)
        if self.stage is None:
            raise NotPlayable(f"{self.unavailable}; nothing was started. MOCK can be played")
        paced = self.stage.pace.of(scenario)
        staging = staged_in(self.stage.world, paced, self.stage.folder, self.stage.journal.url)
        return SideBySide(paced, tracks, self.stage.journal, staging)

    def _room(self, track: Track) -> dict[str, str]:
        on_temporal = self.name == "temporal"
        steps = {step.value: longest(step, track.way, on_temporal=on_temporal) for step in Step}
        return steps | {"verdict": LONGEST_VERDICT}
