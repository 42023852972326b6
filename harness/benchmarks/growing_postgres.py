"""A journal of any size on PostgreSQL, made fast: the copies of growing.py, loaded with COPY and given their positions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import psycopg

from harness.benchmarks.growing import BATCH, FIRST_AT, REFUSED, Copy, Grown, Original, make_originals, require_valid
from interlock.domain.records import name_digest
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.postgres.journal import PostgresJournal

Connection = psycopg.Connection[tuple[Any, ...]]

_EVENTS_A_PASS = 20_000


def grow(url: str, events: int) -> Grown:
    """Make a journal of about this many events, at least, in an empty database.

    Raises:
        BenchmarkFailed: a sample of it does not verify.
    """
    make_originals(url)
    committed: list[str] = []
    with psycopg.connect(url, options="-c search_path=interlock -c synchronous_commit=off") as connection:
        log, stored, order = _one(
            connection,
            "SELECT log, (SELECT count(*) FROM stored_events), (SELECT max(commit_order) FROM stored_events) FROM journal",
        )
        refused, done = (read(connection, log, name) for name in ("case-refused", "case-committed"))
        copies = _copies(log, refused, done, events - stored)
        while batch := list(islice(copies, BATCH)):
            _load(connection, batch, order)
            committed += [copy.name for copy in batch if copy.name.startswith("done-")]
        (stored,) = _one(connection, "SELECT count(*) FROM stored_events")
    journal = open_journal(url)
    assert isinstance(journal, PostgresJournal), "the URL is PostgreSQL's"
    with journal:
        while journal.sequence(_EVENTS_A_PASS):
            pass
    with psycopg.connect(url, autocommit=True) as connection:
        # The server would do it by itself a minute later, in the middle of what is measured.
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")
    require_valid(url, [committed[0], committed[len(committed) // 2], committed[-1]])
    return Grown(url, stored, committed)


def read(connection: Connection, log: str, name: str) -> Original:
    """Read an action and its approval, which have one name, from the journal of the connection's search path."""
    find = "SELECT aggregate_id FROM names WHERE kind = %s AND digest = %s"
    kinds = ("action", "approval")
    aggregates = {kind: _one(connection, find, kind, name_digest(log, kind, name))[0] for kind in kinds}
    events = connection.execute(
        "SELECT originator_id, originator_version, topic, convert_from(state, 'UTF8') FROM stored_events "
        "WHERE originator_id = ANY(%s) ORDER BY arrival",
        (list(aggregates.values()),),
    ).fetchall()
    found = connection.execute("SELECT * FROM receipts WHERE action_id = %s", (aggregates["action"],))
    assert found.description is not None, "it is a query"
    row = zip([column.name for column in found.description], found.fetchall()[0], strict=True)
    return Original(
        name=name,
        aggregates={kind: aggregate.hex for kind, aggregate in aggregates.items()},
        events=[(owner.hex, version, topic, text) for owner, version, topic, text in events],
        receipt={column: value.hex if isinstance(value, UUID) else value for column, value in row},
    )


def _copies(log: str, refused: Original, done: Original, events: int) -> Iterator[Copy]:
    made = number = 0
    while number < REFUSED or made < events:
        original, kind = (refused, "no") if number < REFUSED else (done, "done")
        at: datetime = FIRST_AT + timedelta(seconds=number)
        copy = original.copy(log, f"{kind}-{number:08}", at, (0, bytes(32)))
        made, number = made + len(copy.events), number + 1
        yield copy


def _load(connection: Connection, batch: list[Copy], order: int) -> None:
    cursor = connection.cursor()
    columns = "originator_id, originator_version, topic, state, state_digest, leaf_hash, commit_order"
    with cursor.copy(f"COPY stored_events ({columns}) FROM STDIN".encode()) as copy:
        for one in batch:
            for _, owner, version, topic, state, digest, leaf, _ in one.events:
                copy.write_row((UUID(owner), version, topic, state, digest, leaf, order))
    with cursor.copy(b"COPY names FROM STDIN") as copy:
        for one in batch:
            for kind, digest, owner in one.names:
                copy.write_row((kind, digest, UUID(owner)))
    with cursor.copy(b"COPY receipts FROM STDIN") as copy:
        for one in batch:
            copy.write_row((UUID(one.receipt[0]), *one.receipt[1:]))


def _one(connection: Connection, query: str, *values: Any) -> tuple[Any, ...]:
    row = connection.execute(query.encode(), values or None).fetchone()
    assert row is not None, "it returns one row"
    return row
