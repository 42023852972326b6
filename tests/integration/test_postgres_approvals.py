"""An approval that is only asserted, while somebody takes it back: the one place where writers wait for each other (I3)."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from interlock import Refused
from tests.crashing import AFTER_SEND, Stage, in_doubt, staged
from tests.journals import PostgresJournals, present

T = TypeVar("T")

# The revocation is held where its version was checked and its event is about to be written.
_HOLD = """
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.topic = 'interlock.approval.revoked' THEN
            PERFORM pg_advisory_xact_lock(1, 1);
        END IF;
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER hold BEFORE INSERT ON stored_events FOR EACH ROW EXECUTE FUNCTION hold()
"""
_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
_PATIENCE_S = 30.0


@pytest.fixture
def stage(postgres_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on PostgreSQL, with an approval."""
    with present.use(PostgresJournals(postgres_url)), staged(tmp_path, "keys") as stage:
        yield stage


@pytest.fixture
def doubtful(stage: Stage) -> Stage:
    """A stage with an action in doubt that can only be sent again: under the same key, without a look-up."""
    in_doubt(stage, AFTER_SEND)
    return stage


def test_a_send_waits_for_a_revocation_that_is_being_written(doubtful: Stage, postgres_url: str) -> None:
    """Both at the same moment: the send stands in line, hears that the approval moved, and is not made."""
    actor = doubtful.actor()
    recovered = beside_a_revocation(doubtful, postgres_url, actor.recover)
    topics = [topic for _, _, topic in present.journals.log(doubtful.path)]
    assert "interlock.action.dispatched" not in topics[topics.index("interlock.approval.revoked") :]
    assert len(doubtful.world.sent) == 1
    assert recovered.receipt.status == "AMBIGUOUS", "nobody can know without sending, and sending is not allowed any more"
    assert actor.gate.verify().valid


def test_a_fire_waits_for_a_revocation_that_is_being_written(stage: Stage, postgres_url: str) -> None:
    """It is the approval that moved, and not the action, although both would be written at once: nothing is sent."""
    actor = stage.actor()
    outcome = beside_a_revocation(stage, postgres_url, actor.fire)
    assert isinstance(outcome, Refused)
    assert outcome.receipt.refusal is not None
    assert outcome.receipt.refusal.code == "approval_revoked"
    assert stage.world.sent == []
    assert actor.gate.verify().valid


def beside_a_revocation(stage: Stage, url: str, do: Callable[[], T]) -> T:
    """Do something while a revocation is being written, which is let go on when that waits for it; return what it returns."""
    schema = stage.url.rpartition("schema=")[2]
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as holder, ThreadPoolExecutor() as threads:
        holder.execute(_HOLD)
        holder.execute("SELECT pg_advisory_lock(1, 1)")
        revoking = threads.submit(stage.revoke)
        wait_for(holder, 1)
        doing = threads.submit(do)
        wait_for(holder, 2, doing)
        holder.execute("SELECT pg_advisory_unlock(1, 1)")
        revoking.result()
        return doing.result()


def wait_for(connection: psycopg.Connection[tuple[int]], waiting: int, running: Future[Any] | None = None) -> None:
    """Wait until so many wait for a lock, or what should be waiting has ended."""
    until_s = time.monotonic() + _PATIENCE_S
    while connection.execute(_WAITING).fetchone() != (waiting,) and (running is None or not running.done()):
        assert time.monotonic() < until_s, f"there are not {waiting} who wait"
        time.sleep(0.005)
