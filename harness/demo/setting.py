"""Sets the demo up: its world, its journal, a Temporal server where there is one, and the pages on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from harness.demo.app import Demo
from harness.demo.journal import JournalTail
from harness.demo.notary import Notary
from harness.demo.pages import Page, Stage, mode_of
from harness.demo.playing import Pace
from harness.demo.runs import Mode, Runs
from harness.demo.stories import STANDALONE_TRACKS, TEMPORAL_TRACKS
from harness.keys import anthropic_key_from_environment, stripe_key_from_environment
from harness.live import LiveWorld
from harness.temporal.server import TemporalFailed, TemporalServer, TemporalUnavailable
from harness.world import LocalWorld, World

CLAIM_TTL_S, SEND_DEADLINE_S = 15.0, 10.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Keys:
    """The keys of a live demo. They go to workers through their environment, and nowhere else."""

    stripe: str | None = None
    anthropic: str | None = None

    @classmethod
    def of_environment(cls) -> Self:
        """Return what there is.

        Raises:
            LiveKeyRefused: the Stripe key is not a test key.
        """
        return cls(stripe=stripe_key_from_environment(), anthropic=anthropic_key_from_environment())

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of those that are not there."""
        named = {"STRIPE_SECRET_KEY": self.stripe, "ANTHROPIC_API_KEY": self.anthropic}
        return tuple(name for name, key in named.items() if key is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the demo is set up from.

    Args:
        data: where journal and ledgers are kept over restarts.
        folder: where cases keep their files; it is removed at the end.
        keys: the keys that there are; with both of them the demo is live.
        model: the model of a live demo.
        stripe_address: what speaks for Stripe in a rehearsal; None for Stripe itself.
        model_address: what speaks for the model in a rehearsal; None for the real one.
        claim_ttl_s: for how long a claim holds where its holder's death can't be seen, in seconds.
        send_deadline_s: wall-clock limit of one send, in seconds.
        mock_pause_s: how long a run in memory waits between two things that happen, in seconds.
        with_temporal: whether to start a Temporal server.
    """

    data: Path
    folder: Path
    keys: Keys
    model: str
    stripe_address: str | None
    model_address: str | None
    claim_ttl_s: float
    send_deadline_s: float
    mock_pause_s: float
    with_temporal: bool

    @contextmanager
    def set_up(self) -> Iterator[Demo]:
        """Start everything, and end it in the end.

        Raises:
            JournalError: the journal of earlier runs can't be used.
            NoKeys: a rehearsal would leave this machine.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        with ExitStack() as started:
            temporal, unavailable = self._temporal(started)
            world = self._world(started, temporal)
            mode = mode_of(world)
            # Receipts of test mode and of stand-ins are never in one list.
            journal = JournalTail(f"sqlite:///{self.data.absolute() / f'journal-{mode.lower()}.db'}")
            started.callback(journal.close)
            pace = Pace(claim_ttl_s=self.claim_ttl_s, send_deadline_s=self.send_deadline_s)
            stage = Stage(world=world, journal=journal, folder=self.folder, pace=pace)
            links = (("Temporal's own web pages", temporal.ui_url),) if temporal and temporal.ui_url else ()
            standalone = Page(
                name="standalone",
                tracks=STANDALONE_TRACKS,
                mode=mode,
                stage=stage,
                settings=_in_words(world, pace),
                mock_folder=self.folder / "mock",
                mock_pause_s=self.mock_pause_s,
            )
            on_temporal = replace(
                standalone,
                name="temporal",
                tracks=TEMPORAL_TRACKS,
                stage=stage if temporal else None,
                unavailable=unavailable,
                links=links,
            )
            yield Demo(
                pages={page.name: page for page in (standalone, on_temporal)},
                runs=Runs(),
                notary=Notary(journal.url, self.data / f"keys-{mode.lower()}"),
                mode=mode,
                missing=self.keys.missing,
            )

    def _temporal(self, started: ExitStack) -> tuple[TemporalServer | None, str | None]:
        """Return a server; or why there is none, in a line."""
        if not self.with_temporal:
            return None, "The demo was started without Temporal."
        try:
            return started.enter_context(TemporalServer.start(ui=True)), None
        except (TemporalUnavailable, TemporalFailed) as error:
            return None, f"Temporal can't be had here: {str(error).splitlines()[0]}"

    def _world(self, started: ExitStack, temporal: TemporalServer | None) -> World:
        address = temporal.address if temporal else None
        if self.keys.stripe is None or self.keys.anthropic is None:
            return started.enter_context(LocalWorld(self.data, temporal=address))
        return started.enter_context(
            LiveWorld(
                stripe_key=self.keys.stripe,
                anthropic_key=self.keys.anthropic,
                model=self.model,
                stripe_api_base=self.stripe_address,
                anthropic_base_url=self.model_address,
                temporal=address,
            )
        )


def _in_words(world: World, pace: Pace) -> str:
    places = {
        Mode.LOCAL: "Stand-ins for Stripe and the model on this machine",
        Mode.REHEARSAL: "A live run as it would be, at stand-ins on this machine",
        Mode.LIVE: f"Stripe's test mode and {world.model}",
    }
    return f"{places[mode_of(world)]}. A claim holds for {pace.claim_ttl_s:g} s, a send may take {pace.send_deadline_s:g} s."
