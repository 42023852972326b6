"""An approval that is only asserted, while somebody takes it back: the one place where writers wait for each other (I3)."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.crashing import AFTER_SEND, Stage, in_doubt
from tests.journals import PostgresJournals, present
from tests.provider_world import PROFILES, World

# The revocation is held where its version was checked and its event is about to be written.
HOLD = """
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
    """A stage on PostgreSQL, with an action in doubt that can only be sent again: under the same key, without a look-up."""
    with present.use(PostgresJournals(postgres_url)), Stage(tmp_path / "journal", World(PROFILES["keys"])) as stage:
        stage.approve()
        in_doubt(stage, AFTER_SEND)
        yield stage


def test_a_send_waits_for_a_revocation_that_is_being_written(stage: Stage, postgres_url: str) -> None:
    """Both at the same moment: the send stands in line, hears that the approval moved, and is not made."""
    actor = stage.actor()
    schema = stage.url.rpartition("schema=")[2]
    with psycopg.connect(postgres_url, autocommit=True, options=f"-c search_path={schema}") as holder:
        holder.execute(HOLD)
        holder.execute("SELECT pg_advisory_lock(1, 1)")
        revoking = threading.Thread(target=stage.revoke)
        revoking.start()
        wait_for(holder, 1)
        recovered: list[str] = []
        recovering = threading.Thread(target=lambda: recovered.append(actor.recover().receipt.status))
        recovering.start()
        wait_for(holder, 2, recovering)
        holder.execute("SELECT pg_advisory_unlock(1, 1)")
        revoking.join()
        recovering.join()
    topics = [topic for _, _, topic in present.journals.log(stage.path)]
    assert "interlock.action.dispatched" not in topics[topics.index("interlock.approval.revoked") :]
    assert len(stage.world.sent) == 1
    assert recovered == ["AMBIGUOUS"], "nobody can know without sending, and sending is not allowed any more"
    assert actor.gate.verify().valid


def wait_for(connection: psycopg.Connection[tuple[int]], waiting: int, running: threading.Thread | None = None) -> None:
    """Wait until so many wait for a lock, or what should be waiting has ended."""
    until_s = time.monotonic() + _PATIENCE_S
    while connection.execute(_WAITING).fetchone() != (waiting,) and (running is None or running.is_alive()):
        assert time.monotonic() < until_s, f"there are not {waiting} who wait"
        time.sleep(0.005)
