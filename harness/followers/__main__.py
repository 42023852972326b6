"""Runs it on a server of its own and prints the counts: `python -m harness.followers --events 200000`."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from harness.followers.run import WRITERS, Counts, run
from harness.made_by import made_by
from harness.postgres.server import PostgresServer


def page(counts: Counts, server: str, made: str) -> str:
    """Return the counts as Markdown, which says how it was made."""
    ended = ", ".join(f"{many:,} {how}" for how, many in sorted(counts.transactions.items()))
    rows = {
        "events committed": counts.events,
        "batches that the follower took in": counts.batches,
        "interruptions of the follower, before and after its commit": counts.interruptions,
        "events that it missed": counts.missed,
        "events that it saw twice": counts.repeated,
        "aggregates that it saw out of order": counts.out_of_order,
        "for comparison: events that a reader by arrival alone missed": counts.missed_by_arrival,
    }
    table = "\n".join(f"| {what} | {figure:,} |" for what, figure in rows.items())
    return (
        "# A follower behind sixteen writers\n\n"
        f"{WRITERS} writers append to shared aggregates on {server}; a follower reads meanwhile into a database of its own,\n"
        "with its cursor in the same transaction. The log is the judge.\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, {counts.took_s:.0f} s, {os.cpu_count()} processors. Transactions: {ended}.\n"
        f"{made}\n\n"
        f"| what | count |\n| --- | --- |\n{table}\n"
    )


def main() -> int:
    """Run it from the command line; return 1 where an event was missed, seen twice or out of order."""
    parser = argparse.ArgumentParser(prog="python -m harness.followers", description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a Markdown file for the counts")
    given = parser.parse_args()
    with PostgresServer.start() as server:
        counts = run(server.create_database("followers"), events=given.events, seed=given.seed)
        text = page(counts, "PostgreSQL", made_by("harness.followers"))
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")
    return 1 if counts.missed or counts.repeated or counts.out_of_order else 0


if __name__ == "__main__":
    sys.exit(main())
