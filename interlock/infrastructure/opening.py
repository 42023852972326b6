"""Which journal a URL names."""

from __future__ import annotations

from urllib.parse import urlsplit

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
    scheme = urlsplit(url).scheme
    if scheme in ("postgresql", "postgres"):
        from interlock.infrastructure.postgres.journal import PostgresJournal

        return PostgresJournal(url, create=create)
    from interlock.infrastructure.sqlite.journal import SQLiteJournal

    return SQLiteJournal(url, create=create)
