"""Who catches which attack of a database's owner on a real journal, with the keys and without: as the matrix says, or better."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.attacks.__main__ import page
from harness.attacks.catalogue import ATTACKS
from harness.attacks.hands import FileHands, Hands, SchemaHands
from harness.attacks.matrix import FORK, IMPOSTORS, NOT_ASKED, Outcome, fork, impostors, play
from harness.attacks.scene import SILENT, Scene
from harness.postgres.journals import JournalKind, with_schema

KINDS = [pytest.param(kind, id=kind.value) for kind in JournalKind]


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    """Return a journal whose log is signed, and that a monitor and two witnesses have seen."""
    kind: JournalKind = request.param
    hands: Hands = FileHands(tmp_path / "journal.db")
    if kind is JournalKind.POSTGRES:
        url = request.getfixturevalue("postgres_url")
        hands = SchemaHands(url, "attacked", with_schema(url, "attacked"))
    return Scene(hands, tmp_path)


def test_who_catches_which_attack(scene: Scene) -> None:
    """Whatever has to be caught is, and nothing is caught by nobody; with the keys, self-checks alone are not enough."""
    outcomes = list(play(scene, "journal"))
    assert [outcome.problems for outcome in outcomes if outcome.problems] == []
    assert len(outcomes) == 2 * len(ATTACKS) + 3
    for outcome in outcomes:
        told = (outcome.itself, outcome.mark, outcome.monitor)
        assert any(one.startswith("caught") for one in told) or outcome.witness in ("400", "422"), outcome
    with_keys = [outcome for outcome in outcomes if outcome.attacker == "database and keys"]
    assert all(outcome.monitor != SILENT and outcome.witness != "200" for outcome in with_keys)
    assert any(outcome.itself == SILENT for outcome in with_keys), "keys do help against whoever only looks inside"


def test_a_fork_gets_no_quorum(scene: Scene) -> None:
    """Each witness stands by the history that it saw, so neither gets both; and two signed roots of one size are proof."""
    assert tuple(fork(scene).values()) == FORK


def test_checkpoints_of_others_and_times_that_are_not(scene: Scene) -> None:
    """What the log did not sign is refused by both; a time that witnesses contradict, by whoever checks a receipt."""
    assert tuple(impostors(scene).values()) == IMPOSTORS


def test_what_nobody_attacked_is_right(scene: Scene) -> None:
    """The judges are silent where there is nothing, or they would prove nothing."""
    with scene.attack():
        assert (scene.check_self(), scene.check_mark(), scene.look()) == (SILENT, SILENT, SILENT)
        scene.act("frank")
        scene.sign()
        assert (scene.check_self(), scene.look(), scene.ask(scene.witness_keys[0])) == (SILENT, SILENT, "200")


def test_the_table_names_what_got_through() -> None:
    """An attack that somebody had to catch, and did not, stands in the table, and its head says no."""
    told = ("SQLite", "edit", "database", SILENT, SILENT, SILENT, NOT_ASKED)
    assert "was: yes" in page([Outcome(*told, problems=())], {})
    text = page([Outcome(*told, problems=("self did not catch it",))], {})
    assert "was: no" in text
    assert "**self did not catch it**" in text
