"""PostgreSQL on a disk where a sync takes 1 ms: what writers gain by committing side by side.

The server's files are in memory, and a preloaded library makes every sync wait: how fast the machine's disk is, and who else
uses it, does not matter.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from harness.benchmarks.crew import Crew
from harness.benchmarks.peers import gate, raw
from harness.benchmarks.report import Measure
from harness.benchmarks.rounds import Contest, Length, play, writers_in_words
from harness.benchmarks.timing import BenchmarkFailed
from harness.postgres.server import PostgresServer

MANY = 16
AT_LEAST = 4.0
SYNC_MS = 1

_SOURCE = Path(__file__).with_name("slow_sync.c")


def measure_slow_disk(*, quick: bool) -> list[Measure]:
    """Measure one writer and many, in turn."""
    length = Length(rounds=2, round_s=0.3) if quick else Length(rounds=7, round_s=0.7)
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        environment = {"LD_PRELOAD": str(compiled(Path(folder))), "SYNC_MS": str(SYNC_MS)}
        with PostgresServer.start(settings={"max_connections": "100"}, in_memory=True, environment=environment) as server:
            url = server.create_database("bench")
            raw.make_tables(url)
            contests = [Contest(peer, writers) for writers in (1, MANY) for peer in ("raw", "gate")]
            with Crew({"raw": partial(raw.open_raw, url), "gate": partial(gate.open_gate, url)}, writers=MANY) as crew:
                found = play(crew, contests, length)
    return [
        Measure(
            part="slow disk",
            name=f"{name}, {writers_in_words(MANY)} / 1 writer",
            value=many.per_s / one.per_s,
            unit="ratio",
            limit=AT_LEAST if peer == "gate" else None,
            bound="at least",
            seen=f"{many.per_s:,.0f}/s, p50 {many.p50_ms:.1f} ms, against {one.per_s:,.0f}/s, p50 {one.p50_ms:.1f} ms",
        )
        for peer, name in (("gate", "Interlock"), ("raw", "raw commits"))
        for many, one in [(found[Contest(peer, MANY)], found[Contest(peer, 1)])]
    ]


def compiled(folder: Path) -> Path:
    """Compile the library that is preloaded, for the user that the server runs as to read.

    Raises:
        BenchmarkFailed: there is no C compiler, or it does not compile.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise BenchmarkFailed("there is no C compiler for the library that makes the disk slow")
    library = folder / "slow_sync.so"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkFailed(f"slow_sync.c does not compile: {done.stderr}")
    folder.chmod(0o755)
    library.chmod(0o755)
    return library
