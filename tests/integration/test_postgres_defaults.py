"""A journal on PostgreSQL with every default of a role or a database against it."""

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg import errors

from interlock import Receipts
from interlock.errors import (
    JournalUnavailable,
)
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.postgres.connections import connect, is_usable, parse_url
from tests.integration.postgres_cases import CASE, commit, run
from tests.integration.shared_ledger import World

_DEFAULTS = {
    "DateStyle": "'SQL, DMY'",
    "TimeZone": "'Asia/Kathmandu'",
    "bytea_output": "escape",
    "client_encoding": "LATIN1",
    "default_transaction_deferrable": "on",
    "default_transaction_isolation": "serializable",
    "idle_session_timeout": "'50ms'",
    "jit": "on",
    "lock_timeout": "'1ms'",
    "plan_cache_mode": "force_generic_plan",
    "search_path": "nowhere",
    "session_replication_role": "replica",
    "standard_conforming_strings": "off",
    "synchronous_commit": "off",
}


@pytest.mark.parametrize("name", _DEFAULTS)
def test_a_default_of_the_database_changes_nothing(name: str, postgres_url: str, tmp_path: Path) -> None:
    """An action is committed, read and verified as anywhere, and its gate keeps its lock."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET {name} = {_DEFAULTS[name]}")
    world = World(tmp_path, journal_url=postgres_url)
    case = "case → ü"
    commit(world, case)
    with world.gate() as gate:
        if name == "idle_session_timeout":
            run(postgres_url, "SELECT pg_sleep(0.2)")
        lock = gate._driver.locks
        assert is_usable(lock._connection)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] # SessionLocks'
        receipt = gate.receipt(case)
        assert (receipt.status, receipt.timeline[0].at.utcoffset()) == ("COMMITTED", timedelta(0))
        assert gate.verify().valid


@pytest.mark.parametrize("level", ["off", "local", "remote_write", "on", "remote_apply"])
def test_a_commit_is_on_the_disk_whatever_the_default_is(level: str, postgres_url: str) -> None:
    """`off` and `local` would let a commit be lost that was answered; what is stronger than `on` stays."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET synchronous_commit = {level}")
    with connect(parse_url(postgres_url)) as connection:
        row = connection.execute("SHOW synchronous_commit").fetchone()
        assert row == (level if level.startswith("remote") else "on",)


def test_who_stands_in_an_approval_s_line_has_as_long_as_a_statement(postgres_url: str) -> None:
    """A limit for locks would break off the commit behind a send, which waits for nobody but other writers of the approval."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET lock_timeout = '10ms'")
    open_journal(postgres_url).close()
    approval = uuid4()
    with connect(parse_url(postgres_url)) as first, connect(parse_url(postgres_url)) as second, first.transaction():
        first.execute("SELECT is_latest(%s, 0)", (approval,))
        second.execute("SET statement_timeout = '50ms'")
        with pytest.raises(errors.QueryCanceled, match="statement timeout"):
            second.execute("SELECT is_latest(%s, 0)", (approval,))


def test_a_read_only_default_is_told_before_anything_is_sent(postgres_url: str, tmp_path: Path) -> None:
    """A standby, or a role that may not write: the journal is unavailable, the provider has seen nothing, reading works."""
    world = World(tmp_path, journal_url=postgres_url)
    commit(world)
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    run(postgres_url, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with world.gate() as gate, pytest.raises(JournalUnavailable, match="read-only"):
        gate.fire("other", world.payout("other"), approval=CASE)
    with Receipts.open(postgres_url) as receipts:
        assert receipts.receipt(CASE).status == "COMMITTED"
    assert len(world.effects()) == 1
