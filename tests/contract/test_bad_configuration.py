"""Bad configuration, and what is no journal of ours, is an exception; what was there is left alone."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from interlock import Gate, GateConfig, Receipts
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
    for value in (0, -1):
        with pytest.raises(InvalidConfiguration):
            GateConfig(**{figure: value})


@pytest.mark.parametrize("url", ["", "journal.db", "sqlite:///", "sqlite://host/x.db", "mysql:///x", "sqlite:///x.db?y=1"])
def test_a_url_that_names_no_journal_is_refused(url: str) -> None:
    """Nothing is made."""
    with pytest.raises(InvalidConfiguration):
        Gate.open(url)


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
