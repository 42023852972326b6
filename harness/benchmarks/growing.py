"""A journal of any size, made fast: two actions that a gate carried out, copied under other ids and keys.

Ids, keys, digests, chains and positions are as a gate would have written them; what a copy shares with its original is its
times and salts. Samples are verified, because a journal that is not what it should be measures nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from typing import Any
from uuid import UUID

from harness.benchmarks import null, raw
from harness.benchmarks.timing import BenchmarkFailed
from interlock import Gate, Receipts
from interlock.domain.records import leaf_hash, name_digest, record, running_hash, state_digest
from interlock.infrastructure.ids import time_ordered_id

REFUSED = 60
"""So many of the actions are refused, and they are the oldest: a page of them is found by an index or not at all."""

BATCH = 2_000
"""So many actions are written at once."""

FIRST_AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Grown:
    """A journal that was made.

    Attributes:
        url: where it is.
        events: how many it holds.
        committed: keys of its committed actions.
    """

    url: str
    events: int
    committed: list[str]


@dataclass(frozen=True, slots=True)
class Original:
    """An action and its approval, which have one name, as their journal has them.

    Attributes:
        name: the action's key and the approval's id.
        aggregates: the id of the aggregate of each kind, in hexadecimal.
        events: aggregate, version, topic and state of each event, in order.
        receipt: the action's row, by column.
    """

    name: str
    aggregates: dict[str, str]
    events: list[tuple[str, int, str, str]]
    receipt: dict[str, Any]

    @classmethod
    def read(cls, journal: sqlite3.Connection, log: str, name: str) -> Original:
        """Read it from the journal that it happened in."""
        find = "SELECT aggregate_id FROM names WHERE kind = ? AND digest = ?"
        kinds = ("action", "approval")
        aggregates = {kind: journal.execute(find, (kind, name_digest(log, kind, name))).fetchone()[0] for kind in kinds}
        events = journal.execute(
            "SELECT originator_id, originator_version, topic, CAST(state AS TEXT) FROM stored_events "
            "WHERE originator_id IN (?, ?) ORDER BY position",
            tuple(aggregates.values()),
        ).fetchall()
        row = journal.execute("SELECT * FROM receipts WHERE action_id = ?", (aggregates["action"],))
        receipt = dict(zip([column[0] for column in row.description], row.fetchone(), strict=True))
        return cls(name, aggregates, events, receipt)

    def copy(self, log: str, name: str, at: datetime, last: tuple[int, bytes]) -> Copy:
        """Return the rows of the same action under another name, with ids of another time.

        Args:
            log: the journal's id.
            name: the new key and id of the approval.
            at: the time in the ids.
            last: position and running hash of the journal's last event.
        """
        position, running = last
        ids = {kind: time_ordered_id(at) for kind in self.aggregates}
        replaced = {self.name: name} | {old: ids[kind].hex for kind, old in self.aggregates.items()}
        replaced |= {str(UUID(old)): str(ids[kind]) for kind, old in self.aggregates.items()}
        heads: dict[str, bytes] = {}
        events: list[raw.Row] = []
        for aggregate, version, topic, text in self.events:
            owner, state = UUID(replaced[aggregate]), _replace(text, replaced).encode()
            digest = state_digest(state)
            header = record(log=log, aggregate_id=owner, version=version, topic=topic, state=digest, prev=heads.get(aggregate))
            leaf = heads[aggregate] = leaf_hash(header)
            position, running = position + 1, running_hash(running, leaf)
            events.append((position, owner.hex, version, topic, state, digest, leaf, running))
        names = [(kind, name_digest(log, kind, name), ids[kind].hex) for kind in self.aggregates]
        row = tuple(_replace(value, replaced) if isinstance(value, str) else value for value in self.receipt.values())
        return Copy(name, events, names, row, last=(position, running))


@dataclass(frozen=True, slots=True)
class Copy:
    """The rows of one action and its approval, and where the journal's end is after them."""

    name: str
    events: list[raw.Row]
    names: list[raw.Row]
    receipt: raw.Row
    last: tuple[int, bytes]


def grow(path: Path, events: int) -> Grown:
    """Make a journal of about this many events, at least.

    Raises:
        BenchmarkFailed: a sample of it does not verify.
    """
    url = f"sqlite:///{path}"
    make_originals(url)
    with closing(raw.connect(path)) as journal:
        # What is made here can be made again, and waiting for the disk measures nothing.
        journal.execute("PRAGMA synchronous=OFF")
        copies = _copies(journal, events)
        committed: list[str] = []
        while batch := list(islice(copies, BATCH)):
            _insert(journal, batch)
            committed += [copy.name for copy in batch if copy.name.startswith("done-")]
        journal.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (stored,) = journal.execute("SELECT max(position) FROM stored_events").fetchone()
    require_valid(url, [committed[0], committed[len(committed) // 2], committed[-1]])
    return Grown(url, stored, committed)


def make_originals(url: str) -> None:
    """Make a journal with the two actions that are copied."""
    with Gate.open(url, targets=[null.null_target]) as gate:
        for name in ("case-refused", "case-committed"):
            null.grant(gate, name)
        gate.revoke("case-refused", by="user:1")
        gate.fire("case-refused", null.refund(), approval="case-refused")
        null.fire(gate, "case-committed")


def _copies(journal: sqlite3.Connection, events: int) -> Iterator[Copy]:
    (log,) = journal.execute("SELECT log FROM journal").fetchone()
    refused, done = (Original.read(journal, log, name) for name in ("case-refused", "case-committed"))
    last = journal.execute("SELECT position, running_hash FROM stored_events ORDER BY position DESC LIMIT 1").fetchone()
    for number in count():
        if number >= REFUSED and last[0] >= events:
            return
        original, kind = (refused, "no") if number < REFUSED else (done, "done")
        copy = original.copy(log, f"{kind}-{number:08}", FIRST_AT + timedelta(seconds=number), last)
        last = copy.last
        yield copy


def _insert(journal: sqlite3.Connection, batch: list[Copy]) -> None:
    journal.execute("BEGIN IMMEDIATE")
    journal.executemany(raw.insert("stored_events", batch[0].events[0]), [row for copy in batch for row in copy.events])
    journal.executemany(raw.insert("names", batch[0].names[0]), [row for copy in batch for row in copy.names])
    journal.executemany(raw.insert("receipts", batch[0].receipt), [copy.receipt for copy in batch])
    journal.execute("COMMIT")


def require_valid(url: str, keys: list[str]) -> None:
    """Verify a sample.

    Raises:
        BenchmarkFailed: one of these actions is not valid.
    """
    with Receipts.open(url) as reader:
        for key in keys:
            if not (found := reader.verify(key)).valid:
                raise BenchmarkFailed(f"the journal that was made does not verify: {found.findings}")


def _replace(text: str, replaced: dict[str, str]) -> str:
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text
