"""PostgreSQL is killed and started again while actions are under way: they go on, and the provider's ledger has each once."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.postgres.server import PostgresServer
from interlock import Committed, Gate, Outcome
from interlock.domain.requests import Request
from interlock.errors import JournalUnavailable, OutcomeNotRecorded
from tests.crashing import AFTER_SEND, BEFORE_SEND, Actor, Death, Interposed, abandon, crashes
from tests.integration.postgres_stage import Stage, once, stage_on
from tests.servers import start_server

FIRE_REQUESTS = 13
RESEND_REQUESTS = 15
FOUND_REQUESTS = 10
MANY = 50
RESTARTED, DOWN = FATES = ("restarted", "down")
"""What is there after the kill: a server that was started again at once, or none until the action gave up."""


def cases(count: int, *more: Any, name: str, long: bool = False) -> list[Any]:
    """Return a case for each request and both fates; every other one, or all, are for the long run."""
    return [
        pytest.param(
            *more,
            index,
            fate,
            id=f"{name}-{index}-{fate}",
            marks=[pytest.mark.long] if long or (index % 2 == 0) == (fate == RESTARTED) else [],
        )
        for index in range(count)
        for fate in FATES
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module's own."""
    with start_server() as started:
        yield started


@pytest.fixture(scope="module")
def stage(server: PostgresServer) -> Iterator[Stage]:
    """One journal, whose server is killed again and again."""
    with stage_on(server) as one:
        yield one


@pytest.fixture(scope="module")
def gate(stage: Stage) -> Gate:
    """A gate that stays open, whatever happens to the server."""
    return stage.gate()


def kill_at(stage: Stage, index: int, fate: str) -> tuple[Interposed, list[str]]:
    """Return what kills the server right before the n-th request, and where it notes that request's name."""
    seen: list[str] = []
    requests = itertools.count()

    def interpose(request: Request[Any]) -> None:
        if next(requests) == index:
            stage.server.kill()
            if fate == RESTARTED:
                stage.server.restart()
            seen.append(type(request).__name__)

    return interpose, seen


def run_through(stage: Stage, run: Callable[[Interposed], Outcome], again: Callable[[], Outcome], index: int, fate: str) -> str:
    """Run an action with the server killed at one request; if it gave up, start the server and run it again.

    Returns:
        The name of the request that found the server killed; empty where the run was over before.
    """
    interpose, seen = kill_at(stage, index, fate)
    try:
        outcome = run(interpose)
    except (JournalUnavailable, OutcomeNotRecorded):
        assert fate == DOWN, "the server is back, and the gate's connections were seen to be dead"
        stage.server.restart()
        outcome = again()
    finally:
        if not stage.server.is_running:
            stage.server.restart()
    assert isinstance(outcome, Committed)
    return "".join(seen)


def require_once(stage: Stage, actor: Actor) -> None:
    """The provider has one effect of the action, by its own ledger, and was asked as often as it had to be."""
    action = actor.action()
    assert len(stage.world.effects_of(action.id)) == 1
    assert len(stage.world.sends_of(action.id)) == 1
    assert actor.gate.approval(str(actor.approval)).remaining_minor == 0


@pytest.mark.parametrize(("index", "fate"), cases(FIRE_REQUESTS, name="fire"))
def test_server_killed_between_requests_of_fire(stage: Stage, gate: Gate, index: int, fate: str) -> None:
    """Whichever request of `fire` finds the server killed, the action goes on, or is fired again; and is sent once."""
    actor = stage.actor(gate, f"fire-{index}-{fate}")
    assert run_through(stage, lambda interpose: actor.fire(interpose=interpose), actor.fire, index, fate)
    require_once(stage, actor)


def test_fire_has_no_more_requests(stage: Stage, gate: Gate) -> None:
    """The test above has a case for every request of `fire`."""
    actor = stage.actor(gate, "fire-count")
    actor.fire()
    assert len(actor.trace) == FIRE_REQUESTS


@pytest.mark.parametrize(
    ("died", "index", "fate"),
    [*cases(RESEND_REQUESTS, BEFORE_SEND, name="resend"), *cases(FOUND_REQUESTS, AFTER_SEND, name="found", long=True)],
)
def test_server_killed_between_requests_of_recover(stage: Stage, gate: Gate, died: Death, index: int, fate: str) -> None:
    """Whichever request of `recover` finds the server killed, the action comes to its end, and has one effect."""
    dead = stage.actor(stage.gate(), f"recover-{died}-{index}-{fate}")
    assert crashes(dead.fire, died)
    dead.die()
    actor = Actor(gate, stage.world, dead.key, dead.approval)
    assert run_through(stage, lambda interpose: actor.recover(interpose=interpose), actor.recover, index, fate)
    require_once(stage, actor)


@pytest.mark.parametrize(("died", "count"), [(BEFORE_SEND, RESEND_REQUESTS), (AFTER_SEND, FOUND_REQUESTS)])
def test_recover_has_no_more_requests(stage: Stage, gate: Gate, died: Death, count: int) -> None:
    """The test above has a case for every request of `recover`."""
    dead = stage.actor(stage.gate(), f"recover-count-{died}")
    assert crashes(dead.fire, died)
    dead.die()
    actor = Actor(gate, stage.world, dead.key, dead.approval)
    actor.recover()
    assert len(actor.trace) == count


@pytest.mark.parametrize("fate", FATES)
def test_server_killed_in_the_middle_of_a_pass_of_recover(server: PostgresServer, fate: str) -> None:
    """The server is killed while `recover` is at the 20th of 50 actions: the next pass ends the rest, and each has one effect."""
    with stage_on(server) as stage:
        gate = stage.gate()
        for n in range(MANY):
            assert crashes(stage.actor(gate, f"case-{n}").fire, BEFORE_SEND if n % 2 else AFTER_SEND)
        abandon(gate)
        survivor = stage.gate()

        def strike() -> None:
            server.kill()
            if fate == RESTARTED:
                server.restart()

        stage.world.before_lookup = once(strike, nth=20)
        if fate == RESTARTED:
            survivor.recover()
        else:
            with pytest.raises(JournalUnavailable):
                survivor.recover()
            assert len(stage.world.ledger) < MANY
            server.restart()
        survivor.recover()
        assert len(stage.world.ledger) == len({entry.action_id for entry in stage.world.ledger}) == MANY
        assert len(survivor.receipts(status="COMMITTED").receipts) == MANY
