"""What the URL of a journal on PostgreSQL may say."""

from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from harness.postgres.journals import with_schema
from interlock import Gate
from interlock.errors import (
    InvalidConfiguration,
)
from interlock.infrastructure.postgres.connections import connect, parse_url
from tests.integration.postgres_cases import commit
from tests.integration.shared_ledger import World


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql:///db?host=/run/pg&schema=mine", {"dbname": "db", "host": "/run/pg"}),
        ("postgresql://?dbname=db&schema=mine", {"dbname": "db"}),
        ("postgres://u:p%3Fq%23@h:5/db?schema=mine", {"user": "u", "password": "p?q#", "host": "h", "port": "5"}),
        ("postgresql://h1:1,h2:2/db?schema=mine&target_session_attrs=read-write", {"host": "h1,h2", "port": "1,2"}),
        ("postgresql://h/db?options=-c%20work_mem%3D5MB&schema=mine", {"options": "-c work_mem=5MB"}),
        ("postgresql://h/db?schema=mine&application_name=a+b", {"application_name": "a+b"}),
        ("postgresql://h/db?connect_timeout=3&schema=mine", {"connect_timeout": "3", "keepalives_idle": "5"}),
        ("postgresql://h/db?client_encoding=LATIN1&schema=mine", {"client_encoding": "UTF8"}),
    ],
)
def test_a_url_says_what_libpq_reads_in_it(url: str, expected: dict[str, str]) -> None:
    """What is not ours reaches libpq as it was written; our defaults stand behind it, but for the encoding."""
    options = parse_url(url)
    given = conninfo_to_dict(options.conninfo)
    assert {name: str(given.get(name)) for name in expected} == expected
    assert options.schema == "mine"


@pytest.mark.parametrize("named_in", ["url", "environment", "service file"])
def test_of_several_hosts_the_one_that_writes_is_meant(
    named_in: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever libpq reads them: another one would answer with what was true a while ago."""
    given = conninfo_to_dict(parse_url(postgres_url).conninfo)
    here = {name: str(given[name]) for name in ("host", "port", "user", "dbname") if name in given}
    here |= {name: f"{here[name]},{here[name]}" for name in ("host", "port") if name in here}
    url = "postgresql://?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in here.items())
    if named_in == "environment":
        variables = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
        for name, value in here.items():
            monkeypatch.setenv(variables[name], value)
        url = "postgresql://"
    if named_in == "service file":
        services = tmp_path / "pg_service.conf"
        services.write_text("\n".join(["[journal]", *(f"{name}={value}" for name, value in here.items())]))
        monkeypatch.setenv("PGSERVICEFILE", str(services))
        url = "postgresql://?service=journal"
    with connect(parse_url(url)) as connection:
        used = {option.keyword: option.val for option in connection.pgconn.info}
        assert used[b"target_session_attrs"] == b"read-write"


@pytest.mark.parametrize(
    "query",
    [
        *(f"schema={name}" for name in ("", "a-b", "Upper", '"x"', "pg_mine", "1a", "x" * 64, "%C3%BC")),
        *(f"max_connections={number}" for number in ("0", "-1", "many")),
        "unknown_to_libpq=1",
    ],
)
def test_a_malformed_option_is_refused_and_no_password_is_told(query: str) -> None:
    """An identifier that PostgreSQL would cut off or fold, and an option that nobody knows; nothing is opened."""
    with pytest.raises(InvalidConfiguration) as refused:
        Gate.open(f"postgresql://user:secret@127.0.0.1:1/db?{query}")
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(parse_url("postgresql://user:secret@h/db"))


def test_a_password_that_is_not_escaped_is_refused_and_not_told() -> None:
    """What stands behind its first @ would be looked for as a host, and quoted by the error."""
    with pytest.raises(InvalidConfiguration, match="%40") as refused:
        Gate.open("postgresql://user:first@second@127.0.0.1:1/db")
    assert "second" not in str(refused.value)


def test_the_longest_name_of_a_schema_is_no_other_ones(postgres_url: str, tmp_path: Path) -> None:
    """Field case 17, pyeventsourcing/eventsourcing#242: 63 bytes are kept whole; names that differ there are two journals."""
    for last in "ab":
        world = World(tmp_path / last, journal_url=with_schema(postgres_url, "x" * 62 + last))
        world.folder.mkdir()
        commit(world)
        assert len(world.effects()) == 1
