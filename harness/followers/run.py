"""One run: the writers write, the readers read, and the log says at the end what there was to read."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from uuid import UUID, uuid4

from harness.followers.readers import ByArrival, Reader
from harness.followers.writers import Writer
from interlock.infrastructure.opening import open_journal
from interlock.infrastructure.postgres.connections import Connections, DatabaseOptions, parse_url

WRITERS = 16
_AGGREGATES = 400


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run came to.

    Args:
        events: that were committed.
        transactions: by how they ended.
        batches: that the follower took in.
        interruptions: of the follower.
        missed: events that it did not see.
        repeated: events that it saw more than once.
        out_of_order: aggregates of which it saw an event before an earlier one.
        missed_by_arrival: events that a reader by arrival alone did not see.
        took_s: how long it took.
    """

    events: int
    transactions: dict[str, int]
    batches: int
    interruptions: int
    missed: int
    repeated: int
    out_of_order: int
    missed_by_arrival: int
    took_s: float


def run(url: str, *, events: int, seed: int = 0) -> Counts:
    """Write so many events with sixteen writers, and follow them meanwhile.

    Args:
        url: a journal on PostgreSQL, which is made where there is none.
        events: how many to commit.
        seed: of every choice.
    """
    with open_journal(url) as journal:
        log = journal.log_id
    options, over, began_s = parse_url(url), threading.Event(), time.monotonic()
    reader, by_arrival = Reader(url, seed, over), ByArrival(options, over)
    aggregates = [uuid4() for _ in range(_AGGREGATES)]
    shares = [events // WRITERS + (number < events % WRITERS) for number in range(WRITERS)]
    writers = [Writer(options, log, aggregates, share, seed * WRITERS + number) for number, share in enumerate(shares)]
    for thread in (reader, by_arrival, *writers):
        thread.start()
    for writer in writers:
        writer.join()
    over.set()
    for thread in (reader, by_arrival):
        thread.join()
    for error in (reader.error, *(writer.error for writer in writers)):
        if error is not None:
            raise error
    return _counts(options, reader, by_arrival, writers, time.monotonic() - began_s)


def _counts(options: DatabaseOptions, reader: Reader, by_arrival: ByArrival, writers: list[Writer], took_s: float) -> Counts:
    connections = Connections(options)
    with connections.lend() as connection:
        there = set(connection.execute("SELECT originator_id, originator_version FROM stored_events").fetchall())
    connections.close()
    seen = reader.books.seen()
    return Counts(
        events=len(there),
        transactions=dict(sum((writer.counts for writer in writers), Counter[str]())),
        batches=reader.batches,
        interruptions=reader.interruptions,
        missed=len(there - set(seen)),
        repeated=len(seen) - len(set(seen)),
        out_of_order=_out_of_order(seen),
        missed_by_arrival=len(there) - by_arrival.read,
        took_s=took_s,
    )


def _out_of_order(seen: list[tuple[UUID, int]]) -> int:
    versions: dict[UUID, list[int]] = defaultdict(list)
    for aggregate, version in seen:
        versions[aggregate].append(version)
    return sum(found != sorted(found) for found in versions.values())
