"""Bad configuration, and what is no journal of ours, is an exception; what was there is left alone."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock import CapabilityProfile, Gate, GateConfig, Receipts
from interlock.errors import (
    InvalidConfiguration,
    JournalTooNew,
    JournalUnavailable,
)
from tests.crashing import Stage
from tests.provider_world import PROFILES, World


@pytest.mark.sqlite_only
def test_a_send_deadline_stands_five_seconds_inside_the_claim(folder: Path) -> None:
    """A claim that could run out under a send is refused when the gate is opened."""
    world = World(replace(PROFILES["keys"], send_deadline_s=35.1))
    with pytest.raises(InvalidConfiguration, match="time to live"):
        Gate.open(f"sqlite:///{folder}/j.db", targets=[world], config=GateConfig(claim_ttl_s=40))
    assert not list(folder.iterdir())
    Gate.open(f"sqlite:///{folder}/j.db", targets=[world], config=GateConfig(claim_ttl_s=40.2)).close()


@pytest.mark.sqlite_only
def test_two_targets_of_one_name_are_refused(folder: Path) -> None:
    """Recovery would not know which one to ask."""
    worlds = [World(PROFILES["keys"]), World(PROFILES["lookup"])]
    with pytest.raises(InvalidConfiguration, match="same name"):
        Gate.open(f"sqlite:///{folder}/j.db", targets=worlds)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("figure", ["claim_ttl_s", "sends_per_pass", "recover_batch", "recover_every_s"])
def test_a_figure_is_positive(figure: str) -> None:
    """Zero and less are no configuration."""
    wrong: tuple[Any, ...] = (0, -1, float("nan"), float("inf"), 10**400, "40", None, True)
    for value in wrong:
        with pytest.raises(InvalidConfiguration):
            GateConfig(**{figure: value})


@pytest.mark.parametrize("figure", ["send_deadline_s", "kernel_s", "dedupe_window_s", "roll_forward_s", "lookup_staleness_s"])
def test_a_capability_is_a_time(figure: str) -> None:
    """What no date can hold would end an action in the middle."""
    wrong: tuple[Any, ...] = (-1, float("nan"), float("inf"), "10", True)
    for value in wrong:
        with pytest.raises(InvalidConfiguration, match=figure):
            CapabilityProfile(**{figure: value})


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    "wrong",
    [
        *({"targets": 5}, {"targets": [5]}, {"targets": ["pay"]}, {"targets": [World]}, {"targets": World(PROFILES["keys"])}),
        *({"policies": [5]}, {"approval_sources": {"x": 5}}, {"config": "x"}, {"clock": 5}, {"log": 5}),
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_is_given_to_a_gate_is_what_it_asks_for(wrong: dict[str, Any], folder: Path) -> None:
    """Anything else is refused when it is opened, and nothing is made."""
    with pytest.raises(InvalidConfiguration):
        Gate.open(f"sqlite:///{folder}/j.db", **wrong)
    assert not list(folder.iterdir())


_NO_FILES: list[Any] = [
    "sqlite:x.db",
    "sqlite:///:memory:",
    ":memory:",
    "sqlite:///x.db#y",
    "sqlite:///\ud800.db",
    None,
    5,
    Path("x.db"),
]


@pytest.mark.parametrize(
    "url", ["", "journal.db", "sqlite:///", "sqlite://host/x.db", "mysql:///x", "sqlite:///x.db?y=1", *_NO_FILES]
)
def test_a_url_that_names_no_journal_is_refused(url: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made: no file that a slash too few, or SQLite's own name for memory, happens to spell."""
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidConfiguration):
        Gate.open(url)
    assert not list(folder.iterdir())


@pytest.mark.sqlite_only
def test_a_journal_of_a_newer_version_is_left_alone(folder: Path) -> None:
    """It is neither read nor written, not even its mode."""
    with Stage(folder / "journal.db", World(PROFILES["keys-lookup"])) as stage:
        stage.approve()
        stage.actor().fire()
    with sqlite3.connect(stage.path) as connection:
        connection.execute("PRAGMA user_version = 999")
    before = stage.path.read_bytes()
    for opens in (Gate.open, Receipts.open):
        with pytest.raises(JournalTooNew):
            opens(stage.url)
    assert stage.path.read_bytes() == before


@pytest.mark.sqlite_only
@pytest.mark.parametrize("version", [0, 1, 7])
def test_an_sqlite_file_of_something_else_is_left_alone(version: int, folder: Path) -> None:
    """Not a byte of it is changed."""
    path = folder / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(InvalidConfiguration, match="something else"):
        Gate.open(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert sorted(p.name for p in folder.iterdir()) == ["theirs.db"]


@pytest.mark.sqlite_only
def test_a_file_that_is_no_database_is_left_alone(folder: Path) -> None:
    """Not a byte of it is changed."""
    path = folder / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    before = path.read_bytes()
    with pytest.raises((JournalUnavailable, InvalidConfiguration)):
        Gate.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.sqlite_only
def test_a_folder_that_cannot_be_made_or_found_is_an_error(folder: Path) -> None:
    """For the journal, and for the locks beside it; the next gate can be opened once the way is free."""
    with pytest.raises(JournalUnavailable):
        Gate.open(f"sqlite:///{folder}/nowhere/j.db")
    blocker = folder / "j.db-holders"
    blocker.write_text("in the way")
    with pytest.raises(JournalUnavailable):
        Gate.open(f"sqlite:///{folder}/j.db")
    blocker.unlink()
    Gate.open(f"sqlite:///{folder}/j.db").close()


@pytest.mark.sqlite_only
def test_reading_makes_no_journal(folder: Path) -> None:
    """A reader of a journal that is not there is told so."""
    with pytest.raises(InvalidConfiguration):
        Receipts.open(f"sqlite:///{folder}/j.db")
    assert not list(folder.iterdir())
