"""Which journal a URL names."""

from __future__ import annotations

from importlib import import_module
from urllib.parse import urlsplit

from interlock.domain.effects import is_a
from interlock.errors import InvalidConfiguration
from interlock.infrastructure.journal import Journal


def open_journal(url: str, *, create: bool = True) -> Journal:
    """Open the journal that a URL names.

    Args:
        url: `sqlite:///path/to/file.db`, or `postgresql://…` with everything that libpq knows (extra `postgres`).
        create: whether to make it where there is none.

    Raises:
        InvalidConfiguration: the URL names no journal that is known here, or there is none and `create` is False.
        JournalTooNew: it was written by a newer version.
        JournalUnavailable: it can't be opened or made.
    """
    if _is_postgres(url):
        from interlock.infrastructure.postgres.journal import PostgresJournal

        return PostgresJournal(url, create=create)
    from interlock.infrastructure.sqlite.journal import SQLiteJournal

    return SQLiteJournal(url, create=create)


def upgrade_journal(url: str) -> tuple[int, int]:
    """Bring a journal up to this version. On PostgreSQL one is made where there is none; a file is made by the gate that uses it.

    Returns:
        The version before and after; 0 before where there was none.

    Raises:
        InvalidConfiguration: the URL names no journal that is known here.
        JournalTooNew: it was made by a newer version.
        JournalUnavailable: it can't be reached, or the role may not change the schema.
    """
    if _is_postgres(url):
        from interlock.infrastructure.postgres.connections import parse_url
        from interlock.infrastructure.postgres.schema import upgrade

        return upgrade(parse_url(url))
    from interlock.infrastructure.sqlite import database

    return database.upgrade(database.parse_url(url))


def grant_journal(url: str, role: str) -> None:
    """Give a role of the database what a gate needs: it can add to the log, and not change it (I9).

    Raises:
        InvalidConfiguration: the journal is a file, which has no roles.
        JournalUnavailable: there is no such role, or it may not be given these rights.
    """
    if not _is_postgres(url):
        raise InvalidConfiguration("a journal in an SQLite file has no roles: the file's own permissions say who may use it")
    from interlock.infrastructure.postgres.connections import parse_url
    from interlock.infrastructure.postgres.schema import grant

    grant(parse_url(url), role)


def _is_postgres(url: str) -> bool:
    if not is_a(url, str):
        raise InvalidConfiguration(f"a journal is named by a URL such as 'sqlite:///interlock.db', not by a {type(url).__name__}")
    try:
        named = urlsplit(url).scheme in ("postgresql", "postgres")
    except ValueError:
        raise InvalidConfiguration("the journal's URL is malformed; nothing was opened") from None
    if named:
        _require_psycopg()
    return named


def _require_psycopg() -> None:
    try:
        import_module("psycopg")
    except ImportError as error:
        raise InvalidConfiguration(
            "a journal on PostgreSQL needs psycopg 3: install interlock-gate with the extra `postgres`; nothing was opened"
        ) from error
