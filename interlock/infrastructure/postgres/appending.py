"""All that one commit needs as one statement, which each session prepares once for each shape of a commit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from eventsourcing.persistence import StoredEvent

from interlock.domain.summary import ActionSummary
from interlock.infrastructure.postgres.statements import Statement, Value, bigint, boolean, integer, text, timestamp
from interlock.infrastructure.recording import CHANGING_COLUMNS, SUMMARY_COLUMNS, Batch, digests_of

MARK = "/* interlock: append */"
"""What these statements begin with, for whoever looks at what the server is doing."""

Head = tuple[int, bytes]
"""The newest version of an aggregate, and the leaf hash that its chain ends with."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one aggregate has in a commit.

    Args:
        events: how many; none where its version is asserted only.
        is_new: whether they are its first.
        is_approval: whether its writers stand in line.
    """

    events: int
    is_new: bool
    is_approval: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, ready to be sent.

    Args:
        statement: it returns 1, or 0 where an aggregate is at another version; then nothing was written. What another
            transaction wrote at the same moment is a unique violation.
        values: its parameters.
        heads: where the chains of the aggregates end after it.
    """

    statement: Statement
    values: list[Value]
    heads: dict[UUID, Head]


def commit_of(stored_events: Sequence[StoredEvent], batch: Batch, *, log: str, leaf_at: Callable[[UUID, int], bytes]) -> Commit:
    """Return the commit of some events and their batch.

    Args:
        stored_events: what is written.
        batch: what is written with them.
        log: the journal's id.
        leaf_at: the leaf hash of an aggregate's event, by its version.
    """
    shares: list[Share] = []
    values: list[Value] = [log.encode()]
    heads: dict[UUID, Head] = {}
    for aggregate_id, version in batch.expected:
        events = [event for event in stored_events if event.originator_id == aggregate_id]
        shares.append(Share(len(events), version == 0, aggregate_id == batch.approval_id))
        values += (aggregate_id.bytes, integer(version))
        leaf: bytes | None = None
        if events and version:
            leaf = leaf_at(aggregate_id, version)
            values.append(leaf)
        for event in events:
            digests = digests_of(event, log=log, prev=leaf)
            leaf = digests.leaf
            values += (event.topic.encode(), event.state, digests.state, leaf)
            heads[aggregate_id] = (event.originator_version, leaf)
    assert sum(share.events for share in shares) == len(stored_events), "each event belongs to an aggregate that is expected"
    for name in batch.names:
        values += (name.kind.encode(), name.digest, name.aggregate_id.bytes)
    if batch.summary is not None:
        values += summary_values(batch.summary)
    return Commit(_statement(tuple(shares), len(batch.names), batch.summary is not None), values, heads)


@cache
def _statement(shares: tuple[Share, ...], names: int, has_summary: bool) -> Statement:  # noqa: FBT001 - it is part of a key
    places = (f"${number}" for number in itertools.count(1))
    log = next(places)
    sources, conditions, rows = ["journal"], [f"(log = {log} OR refuse_another_journal())"], list[str]()
    for share in shares:
        aggregate, version = f"{next(places)}::uuid", f"{next(places)}::integer"
        if share.is_approval or not share.events:
            conditions.append(f"is_latest({aggregate}, {version})")
        if share.events and not share.is_new:
            head = f"head_{len(sources)}"
            sources.append(_HEAD.format(aggregate, head))
            conditions.append(f"({head}.originator_version, {head}.leaf_hash) = ({version}, {next(places)}::bytea)")
        for number in range(1, share.events + 1):
            topic, state, digest, leaf = (f"{next(places)}::{kind}" for kind in ("text", "bytea", "bytea", "bytea"))
            rows.append(f"({aggregate}, {version} + {number}, {topic}, {state}, {digest}, {leaf})")
    parts = [_PLACE.format(", ".join(sources), " AND ".join(conditions))]
    if rows:
        parts.append(_EVENTS.format(", ".join(rows)))
    parts += [_NAME.format(number, *itertools.islice(places, 3)) for number in range(names)]
    if has_summary:
        parts.append(_SUMMARY.format(", ".join(f"{next(places)}::{kind}" for kind in _SUMMARY_TYPES)))
    return Statement(f"{MARK} WITH {', '.join(parts)} SELECT count(*)::integer FROM place")


_HEAD = (
    "LATERAL (SELECT originator_version, leaf_hash FROM stored_events WHERE originator_id = {} "
    "ORDER BY originator_version DESC LIMIT 1) AS {}"
)
_PLACE = "place AS MATERIALIZED (SELECT commit_order_from + pg_current_xact_id()::text::bigint AS commit_order FROM {} WHERE {})"
_EVENTS = (
    "events AS (INSERT INTO stored_events "
    "(originator_id, originator_version, topic, state, state_digest, leaf_hash, commit_order) "
    "SELECT event.*, commit_order FROM place, (VALUES {}) AS event)"
)
_NAME = "name_{} AS (INSERT INTO names SELECT {}::text, {}::bytea, {}::uuid FROM place)"

_SUMMARY_TYPES = (
    *("uuid", "integer", "text", "text", "text", "text", "text", "bigint", "text", "text", "text", "boolean", "text"),
    *("timestamptz", "timestamptz", "timestamptz"),
)
_SUMMARY = (
    f"summary AS (INSERT INTO receipts ({', '.join(SUMMARY_COLUMNS)}) SELECT {{}} FROM place ON CONFLICT (action_id) "
    f"DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in CHANGING_COLUMNS)})"
)


def summary_values(row: ActionSummary) -> tuple[Value, ...]:
    """Return the summary in the order of its columns."""
    return (
        bytes.fromhex(row.action_id),
        integer(row.version),
        text(row.key),
        text(row.status),
        text(row.target),
        text(row.subject),
        text(row.approval_id),
        bigint(row.amount_minor),
        text(row.currency),
        text(row.via),
        text(row.code),
        boolean(row.attention),
        text(row.claim_lock),
        timestamp(row.claim_expires_at),
        timestamp(row.intended_at),
        timestamp(row.changed_at),
    )
