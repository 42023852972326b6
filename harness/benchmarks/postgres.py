"""Throughput on PostgreSQL, and the time per action at half of it, against raw commits, stock recorders and other engines.

Everything runs in one crew, on one server (Temporal on its own), in turn. Writers are threads, of a process for each processor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from harness.benchmarks.chart import Rate
from harness.benchmarks.crew import Crew, Opener
from harness.benchmarks.peers import gate, raw, stock, table
from harness.benchmarks.report import Measure
from harness.benchmarks.rounds import Contest, Length, Rounds, pace, play, writers_in_words
from harness.postgres.server import PostgresServer

WRITERS = (1, 4, 16, 64)
JUDGED_AT = 16
OF_RAW, OF_STOCK, OF_DBOS = 0.25, 3.0, 5.0
"""What the gate's throughput has to be at least, as a multiple, with so many writers. Of raw commits 0.4 is aimed at."""

EVERYWHERE = ("raw", "gate", "table", "stock")
AT_JUDGED = ("dbos", "temporal")
_NAMES = {
    "raw": "raw commits",
    "gate": "Interlock",
    "table": "own key table",
    "stock": "eventsourcing",
    "dbos": "DBOS",
    "temporal": "Temporal",
}
_CONNECTIONS = {"max_connections": "400"}

CONTESTS = [Contest(peer, writers) for writers in WRITERS for peer in EVERYWHERE] + [
    Contest(peer, JUDGED_AT) for peer in AT_JUDGED
]


def measure_postgres(*, quick: bool) -> list[Measure]:
    """Measure every peer with every number of writers, and then the gate and raw commits at half of the gate's full load."""
    from harness.benchmarks.peers import dbos_workflow, temporal_workflow  # what they drive comes with `make bench` alone

    length = Length(rounds=2, round_s=0.2) if quick else Length(rounds=7, round_s=0.5)
    paced = Length(rounds=1, round_s=1) if quick else Length(rounds=2, round_s=2.5)
    with (
        tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder,
        PostgresServer.start(settings=_CONNECTIONS) as server,
        temporal_workflow.dev_server(Path(folder)) as temporal,
    ):
        url = server.create_database("bench")
        raw.make_tables(url)
        stock.make_stock_tables(url)
        table.make_table(url)
        dbos_workflow.make_system_tables(url)
        peers: dict[str, Opener] = {
            "raw": partial(raw.open_raw, url),
            "gate": partial(gate.open_gate, url),
            "table": partial(table.open_table, url),
            "stock": partial(stock.open_stock, url),
            "dbos": partial(dbos_workflow.open_dbos, url),
            "temporal": partial(temporal_workflow.open_temporal, temporal),
        }
        with Crew(peers, writers=max(WRITERS)) as crew:
            full = play(crew, CONTESTS, length)
            half_per_s = {writers: full[Contest("gate", writers)].per_s / 2 for writers in WRITERS}
            contests = [Contest(peer, writers) for writers in WRITERS for peer in ("raw", "gate")]
            half = pace(crew, contests, half_per_s, paced)
    return [*throughput(full), *half_load(half, half_per_s)]


def throughput(found: Mapping[Contest, Rounds]) -> list[Measure]:
    """Return each contest as a multiple of raw commits, and the gate as a multiple of the others where that has a limit."""
    measures = [
        Measure(
            part="postgres",
            name=f"{_NAMES[contest.peer]}{'' if contest.peer == 'raw' else ' / raw'}, {writers_in_words(contest.writers)}",
            value=rounds.per_s / found[Contest("raw", contest.writers)].per_s,
            unit="ratio",
            limit=OF_RAW if contest == Contest("gate", JUDGED_AT) else None,
            bound="at least",
            seen=f"{rounds.per_s:,.0f}/s, p50 {rounds.p50_ms:.1f} ms",
            rate=Rate(_NAMES[contest.peer], contest.writers, rounds.per_s),
        )
        for contest, rounds in found.items()
    ]
    ours = found[Contest("gate", JUDGED_AT)]
    for peer, limit in (("stock", OF_STOCK), ("dbos", OF_DBOS), ("table", None), ("temporal", None)):
        theirs = found[Contest(peer, JUDGED_AT)]
        measures.append(
            Measure(
                part="postgres",
                name=f"Interlock / {_NAMES[peer]}, {writers_in_words(JUDGED_AT)}",
                value=ours.per_s / theirs.per_s,
                unit="ratio",
                limit=limit,
                bound="at least",
                seen=f"{ours.per_s:,.0f}/s against {theirs.per_s:,.0f}/s",
            )
        )
    return measures


def half_load(found: Mapping[Contest, Rounds], per_s: Mapping[int, float]) -> list[Measure]:
    """Return the 99th percentile of an action's time, counted from when it was due."""
    return [
        Measure(
            part="half load",
            name=f"p99, {writers_in_words(writers)}",
            value=ours.p99_ms,
            unit="milliseconds",
            limit=None,
            seen=(
                f"{per_s[writers]:,.0f}/s, p50 {ours.p50_ms:.1f} ms; as many raw commits: p99 {plain.p99_ms:.1f} ms, "
                f"p50 {plain.p50_ms:.1f} ms"
            ),
        )
        for writers in WRITERS
        for ours, plain in [(found[Contest("gate", writers)], found[Contest("raw", writers)])]
    ]
