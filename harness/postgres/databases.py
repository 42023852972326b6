"""Databases of a server, fresh ones for each test."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

GIVEN_URL_VARIABLE = "INTERLOCK_TEST_POSTGRES_URL"
"""Names a server that is there already; its user has to be allowed to create databases."""


@dataclass(frozen=True, slots=True)
class Databases:
    """What is in one server.

    Args:
        url: `postgresql://…`, of a database that is there.
    """

    url: str

    def create(self, name: str) -> str:
        """Create an empty database, and return its URL."""
        self._execute("CREATE DATABASE {} TEMPLATE template0", name)
        return with_database(self.url, name)

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self._execute("DROP DATABASE {} WITH (FORCE)", name)

    def _execute(self, statement: str, name: str) -> None:
        import psycopg
        from psycopg.sql import SQL, Identifier

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(SQL(statement).format(Identifier(name)))  # pyright: ignore[reportArgumentType]  # one of the two above


def with_database(url: str, database: str) -> str:
    """Return the URL of another database of the same server."""
    parts = urlsplit(url)
    options = [(name, value) for name, value in parse_qsl(parts.query) if name != "dbname"]
    return postgres_url(parts.netloc, database, dict(options))


def postgres_url(authority: str, database: str, options: dict[str, str]) -> str:
    """Return a `postgresql://` URL.

    Args:
        authority: user, host and port, as far as they are not among the options.
        database: its name.
        options: libpq's parameters.
    """
    # libpq reads no "+" as a space.
    query = f"?{urlencode(options, quote_via=quote, safe='')}" if options else ""
    return f"postgresql://{authority}/{quote(database, safe='')}{query}"
