"""One commit is one statement: it goes on from the journal's own end of a chain, and says who came before."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from interlock.domain.requests import AppendAnswer
from interlock.errors import JournalCorrupt, JournalUnavailable
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.postgres.connections import connect, parse_url
from interlock.projections.verification import verify_journal
from tests.crashing import Stage, staged
from tests.integration.postgres_cases import run
from tests.journals import PostgresJournals, present


@pytest.fixture
def stage(postgres_url: str, tmp_path: Path) -> Iterator[Stage]:
    """A stage on PostgreSQL, with an approval."""
    with present.use(PostgresJournals(postgres_url)), staged(tmp_path, "keys") as stage:
        yield stage


def test_a_chain_goes_on_from_the_journal_s_end_only(stage: Stage) -> None:
    """The hash that an aggregate ends with was changed after it was read: nothing is written onto the one that was remembered."""
    with open_journal(stage.url) as journal:
        approval = journal.find_approval("case-1")
        assert approval is not None
        changed = present.journals.edit(stage.path, "UPDATE stored_events SET leaf_hash = sha256(leaf_hash)")
        assert changed == 1
        approval.revoke("user:1", "a mistake", approval.created_on)
        assert journal.append(None, approval) is AppendAnswer.APPROVAL_MOVED
    assert [version for _, version, _ in present.journals.log(stage.path)] == [1]


def test_nothing_is_tried_again_where_the_journal_is_gone(stage: Stage) -> None:
    """Nobody else wrote, and nothing can be written: that is said, or whoever thinks again would do so for ever."""
    with open_journal(stage.url) as journal:
        approval = journal.find_approval("case-1")
        assert approval is not None
        present.journals.edit(stage.path, "DELETE FROM journal")
        approval.revoke("user:1", "a mistake", approval.created_on)
        with pytest.raises(JournalUnavailable, match="holds no journal"):
            journal.append(None, approval)
        with pytest.raises(JournalUnavailable, match="holds no journal"):
            verify_journal(journal)
    with pytest.raises(JournalCorrupt, match="which journal it is"):
        open_journal(stage.url)


def test_an_asserted_version_is_judged_by_a_snapshot_of_its_own(postgres_url: str) -> None:
    """Sessions are read committed, whatever a database has as a default; in anything else, the version is not judged at all."""
    open_journal(postgres_url).close()
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET default_transaction_isolation = 'repeatable read'")
    with connect(parse_url(postgres_url)) as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(psycopg.errors.RaiseException, match="read committed"):
            connection.execute("SELECT is_latest(gen_random_uuid(), 0)")
