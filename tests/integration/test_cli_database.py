"""`interlock db …`, and the command on a journal in PostgreSQL."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from harness.postgres.databases import Databases
from interlock import Gate, Receipts
from interlock.cli import main
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.postgres import schema as postgres_schema
from interlock.infrastructure.sqlite import database as sqlite_schema

SECRET = "local-not/to@be:printed"
"""As a person pastes it: with characters that belong escaped in a URL."""


def run(*arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command, and expect this exit code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    command = [sys.executable, "-m", "interlock.cli", *arguments]
    done = subprocess.run(command, env={**kept, "COLUMNS": "130", **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def role(databases: Databases, postgres_url: str) -> Iterator[str]:
    """A role without any rights."""
    del databases
    name = f"gate_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN".encode())
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def _as(role: str, url: str) -> str:
    return url.replace("postgresql://postgres@", f"postgresql://{role}@")


# --- upgrade


def test_upgrade_makes_a_journal_once(postgres_url: str) -> None:
    """`db upgrade` makes the journal in an empty database, and says afterwards that nothing is to be done."""
    assert "made, in version" in run("db", "upgrade", "--journal", postgres_url).stdout
    assert "nothing to do" in run("db", "upgrade", "--journal", postgres_url).stdout
    open_journal(postgres_url, create=False).close()


def test_upgrade_brings_an_older_journal_up_to_date(postgres_url: str) -> None:
    """A journal of an older version is refused with the command to run, and can be used after it."""
    first, *others = postgres_schema.migrations()
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=interlock") as connection:
        connection.execute("CREATE SCHEMA interlock")
        connection.execute(first.statements.encode())
        connection.execute("INSERT INTO migrations (version) VALUES (1)")
        connection.execute("INSERT INTO journal (log) VALUES ('urn:uuid:00000000-0000-4000-8000-000000000001')")
    told = run("db", "status", "--journal", postgres_url, code=3).stderr
    assert "db upgrade" in told
    assert json.loads(run("db", "upgrade", "--journal", postgres_url, "--json").stdout) == {
        "version_before": 1,
        "version": others[-1].version,
    }
    run("db", "status", "--journal", postgres_url)


def test_upgrade_brings_an_older_file_up_to_date(tmp_path: Path) -> None:
    """A file of an older version is refused with the command to run, keeps what is in it, and can be used after it."""
    path, url = tmp_path / "old.db", f"sqlite:///{tmp_path / 'old.db'}"
    first, *others = sqlite_schema.migrations()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(first.statements)
        connection.execute("INSERT INTO journal VALUES ('urn:uuid:00000000-0000-4000-8000-000000000001', 'long ago')")
        connection.execute(f"PRAGMA application_id={sqlite_schema.APPLICATION_ID}")
        connection.execute("PRAGMA user_version=1")
        connection.commit()
    assert "db upgrade" in run("db", "status", "--journal", url, code=3).stderr
    upgraded = json.loads(run("db", "upgrade", "--journal", url, "--json").stdout)
    assert upgraded == {"version_before": 1, "version": others[-1].version}
    assert "urn:uuid:00000000-0000-4000-8000-000000000001" in run("db", "status", "--journal", url).stdout


def test_upgrade_of_a_file_has_nothing_to_do(tmp_path: Path) -> None:
    """A journal in a file is made by the gate that uses it: `db upgrade` makes none, and has nothing to do with one."""
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    run("db", "upgrade", "--journal", url, code=2)
    assert not (tmp_path / "journal.db").exists()
    open_journal(url).close()
    assert "nothing to do" in run("db", "upgrade", "--journal", url).stdout


# --- grant


def test_a_granted_role_can_work_and_change_nothing(postgres_url: str, role: str) -> None:
    """`db grant` lets a role open a gate, write and follow; what is written it can neither change nor take away (I9)."""
    url = _as(role, postgres_url)
    run("db", "upgrade", "--journal", postgres_url)
    run("db", "status", "--journal", url, code=3)
    run("db", "grant", role, "--journal", postgres_url)
    with Gate.open(url) as gate:
        gate.approve("case-1", by="user:17", expires_in_s=3600)
        gate.recover()
        assert gate.verify().valid
    run("db", "status", "--journal", url)
    with Receipts.open(url) as reader, psycopg.connect(postgres_url, application_name="nightly-report") as other:
        other.execute("SELECT pg_current_xact_id()")
        with Gate.open(url) as gate:
            gate.approve("case-2", by="user:17", expires_in_s=3600)
        assert [len(batch.events) for batch in reader.follow(wait=False)] == [1]
        assert "nightly-report" in (reader.lag().held_by or "")
    with open_journal(url, create=False) as journal:
        assert [row.position for row in journal.rows()] == [1]
    with psycopg.connect(url, autocommit=True, options="-c search_path=interlock") as connection:
        for statement in (
            "UPDATE stored_events SET topic = 'x'",
            "DELETE FROM stored_events",
            "TRUNCATE stored_events",
            "DELETE FROM names",
            "UPDATE journal SET log = 'x'",
            "ALTER TABLE stored_events DISABLE TRIGGER ALL",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_a_role_that_is_not_there_is_said(postgres_url: str) -> None:
    """Rights for an unknown role are refused by the database, in its words, and nothing is changed."""
    run("db", "upgrade", "--journal", postgres_url)
    told = run("db", "grant", "nobody", "--journal", postgres_url, code=3).stderr
    assert '"nobody" does not exist' in told
    assert "nothing was changed" in told


def test_a_file_has_no_roles(tmp_path: Path) -> None:
    """`db grant` on a file is bad input."""
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    open_journal(url).close()
    assert "no roles" in run("db", "grant", "somebody", "--journal", url, code=2).stderr


# --- status and attention


def test_status_says_what_the_journal_is(postgres_url: str) -> None:
    """`db status` prints the log's id, the version, the number of events, and that nothing is held back."""
    with Gate.open(postgres_url) as gate:
        gate.approve("case-1", by="user:17", expires_in_s=3600)
        log_id = gate.verify().log_id
    found = json.loads(run("db", "status", "--journal", postgres_url, "--json").stdout)
    assert (found["log_id"], found["database"], found["events"], found["held_back"]) == (log_id, "PostgreSQL", 1, None)
    shown = run("db", "status", "--journal", postgres_url).stdout
    assert log_id in shown
    assert "no event is held back" in shown


def test_attention_says_who_holds_events_back(postgres_url: str) -> None:
    """An open transaction wants attention that holds events back for longer than the bound, and a log that nobody recovers."""
    with Gate.open(postgres_url) as gate, psycopg.connect(postgres_url, application_name="nightly-report") as other:
        other.execute("SELECT pg_current_xact_id()")
        gate.approve("case-1", by="user:17", expires_in_s=3600)
        assert run("attention", "--journal", postgres_url).stdout == "nothing wants attention\n"
        asked = ("attention", "--journal", postgres_url, "--max-lag", "0", "--exit-code")
        assert "nightly-report" in run(*asked, code=4).stdout
        assert "nightly-report" in json.loads(run(*asked, "--json", code=4).stdout)["held_back"]["held_by"]
        other.rollback()
        assert "keep `interlock recover --watch`" in run(*asked, code=4).stdout
        gate.recover()
        run(*asked)


# --- passwords


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://gate:{escaped}@127.0.0.1:1/journal",
        "postgresql://gate:{secret}@127.0.0.1:1/journal",
        "postgresql://gate:{escaped}@127.0.0.1:port/journal",
        "postgresql://gate:{escaped}@[127.0.0.1/journal",
        "postgresql://127.0.0.1:1/journal?user=gate&password={escaped}",
        "postgresql://127.0.0.1:1/journal?user=gate&password={escaped}&no_such_option=1",
        "postgresql://gate:{escaped}@127.0.0.1:1/journal?schema=No%20Schema",
        "postgresql://gate:{escaped}@127.0.0.1:1/journal?max_connections=0",
        "postgres://gate:{escaped}@no-such-host.invalid/journal?connect_timeout=1",
        "mysql://gate:{secret}@127.0.0.1/journal",
    ],
)
@pytest.mark.parametrize("command", [["receipts"], ["recover"], ["db", "upgrade"], ["db", "grant", "somebody"], ["db", "status"]])
def test_a_password_is_printed_nowhere(
    url: str, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither our words nor the driver's quote the password of a journal's URL, well formed or not, nor a part of it."""
    escaped = SECRET.replace("/", "%2F").replace("@", "%40").replace(":", "%3A")
    monkeypatch.setenv("INTERLOCK_JOURNAL", url.format(secret=SECRET, escaped=escaped))
    assert main(command) in (2, 3)
    printed, told = capsys.readouterr()
    assert printed == ""
    assert not any(part in told for part in ("local-not", "printed"))
    assert len(told.splitlines()) >= 3


def test_a_password_that_the_server_refuses_is_not_printed(databases: Databases, postgres_url: str) -> None:
    """The server's own refusal is told in its words, without the password."""
    del databases
    url = postgres_url.replace("postgresql://postgres@", "postgresql://nobody:local-not-to-be-printed@")
    told = run("receipts", "--journal", url, code=3).stderr
    assert "nobody" in told
    assert "local-not" not in told
