"""What signing costs: time per event with the log on and off, proofs, and receipts, in a small log and in a large one."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from harness.benchmarks import growing, null
from harness.benchmarks.report import Measure, Unit, ratio
from harness.benchmarks.timing import BenchmarkFailed, quiet_median_us, timed_ns
from harness.postgres.server import PostgresServer
from interlock import Gate, Receipts
from interlock.domain.records import leaf_hash
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.findings import Verdict
from interlock.evidence.merkle import Frontier
from interlock.evidence.policies import Log, Policy
from interlock.evidence.verifying import Trust, verify_receipt
from interlock.evidence.vkeys import VerifierKey
from interlock.infrastructure.opening import open_journal
from interlock.keyfiles import Role, create_key, read_attestor_key
from interlock.log import LogConfig
from interlock.log.service import LogService
from interlock.projections.log.tree import TransparencyLog

PART = "signed log"
LIMIT = 1.3
FLAT = 1.2
"""How much more memory may be needed for a thousand times as many leaves."""

SMALL_LEAVES = 1_000
LARGE_LEAVES = 1_000_000
QUICK_LEAVES = 20_000
IDENTITY = "bench.example/interlock"
_PAGE = 1_000


def measure_signed_log(*, quick: bool) -> list[Measure]:
    """Measure the log on and off, and a small log."""
    with signed_journal(SMALL_LEAVES) as small:
        return [*_added_time(quick=quick), *_of_a_log(small, quick=quick)]


def measure_large_log(*, quick: bool) -> list[Measure]:
    """Measure a log of a million leaves against a small one."""
    measures: list[Measure] = []
    used_kb: list[float] = []
    for leaves in (SMALL_LEAVES, QUICK_LEAVES if quick else LARGE_LEAVES):
        with signed_journal(leaves) as signed:
            measures += _of_a_log(signed, quick=quick)
            used_kb.append(_memory_kb(signed))
    small_kb, large_kb = used_kb
    seen = f"{large_kb / 1024:,.0f} MiB against {small_kb / 1024:,.0f} MiB for {SMALL_LEAVES:,}"
    name = f"memory while {leaves:,} leaves are verified"
    return [*measures, Measure(part=PART, name=name, value=large_kb / small_kb, unit="ratio", limit=FLAT, seen=seen)]


# --- added time


def _added_time(*, quick: bool) -> list[Measure]:
    rounds, actions = (3, 60) if quick else (9, 400)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interlock-bench-")))
        server = stack.enter_context(PostgresServer.start())
        urls: dict[str, Callable[[str], str]] = {
            "SQLite": lambda name: f"sqlite:///{folder / name}.db",
            "PostgreSQL": server.create_database,
        }
        return [_compared(journal, url, folder, rounds, actions) for journal, url in urls.items()]


def _compared(journal: str, url: Callable[[str], str], folder: Path, rounds: int, actions: int) -> Measure:
    """Fire in turn with the log off and on, each on a journal of its own; closing the gate signs the rest, and is timed too."""
    key = create_key(Role.LOG, folder / journal, IDENTITY).path
    sides = {"off": (url("off"), None), "on": (url("on"), LogConfig(key_file=key))}
    taken: dict[str, list[list[int]]] = {side: [] for side in sides}
    for round_number in range(rounds + 1):
        for side, (place, log) in sides.items():
            names = [uuid.uuid4().hex for _ in range(actions)]
            with Gate.open(place, targets=[null.null_target]) as preparing:
                for name in names:
                    null.grant(preparing, name)
            started_ns = perf_counter_ns()
            with Gate.open(place, targets=[null.null_target], log=log) as gate:
                for name in names:
                    null.fire(gate, name)
            if round_number:  # the first one warms the caches up
                taken[side].append([(perf_counter_ns() - started_ns) // actions])
    require_signed(sides["on"][0])
    off_us, on_us = (quiet_median_us(taken[side]) for side in sides)
    return ratio(PART, f"{journal}, an action with the log on", on_us, off_us, limit=LIMIT, base="with it off")


def require_signed(url: str) -> None:
    """Raise unless all events stand under a checkpoint.

    Raises:
        BenchmarkFailed: some do not.
    """
    with open_journal(url, create=False) as journal:
        tree = TransparencyLog(journal)
        latest = tree.latest()
        if latest is None or Checkpoint.parse(latest.text).size != journal.backlog().events:
            raise BenchmarkFailed("the log was not signed to its end, so that its time says nothing")


# --- proofs and receipts


@dataclass(frozen=True, slots=True)
class Signed:
    """A journal that was grown and signed.

    Args:
        url: where it is.
        keys: of its committed actions.
        trust: what accepts its receipts.
        attestor: signs them.
        size: how many leaves are under its checkpoint.
        signed_s: how long it took to sign them, in seconds.
    """

    url: str
    keys: list[str]
    trust: Trust
    attestor: Path
    size: int
    signed_s: float


@contextmanager
def signed_journal(leaves: int) -> Iterator[Signed]:
    """Grow a journal in a folder of its own, and sign it.

    Args:
        leaves: how many events it has, at least.

    Raises:
        BenchmarkFailed: it can't be signed.
    """
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name:
        folder = Path(name)
        grown = growing.grow(folder / "journal.db", leaves)
        log, attestor = (
            create_key(role, folder / "keys", IDENTITY if role is Role.LOG else "") for role in (Role.LOG, Role.ATTESTOR)
        )
        with open_journal(grown.url, create=False) as journal:
            writer = LogService(journal, LogConfig(key_file=log.path), journal.clock()).writer
            assert writer is not None, "it was given a key"
            started_ns = perf_counter_ns()
            note = writer.checkpoint()
            signed_s = (perf_counter_ns() - started_ns) / 1e9
        if note is None:
            raise BenchmarkFailed("the log was not signed")
        policy = Policy((Log(VerifierKey.parse(log.public)),), (), (), "none")
        trust = Trust(policy, Attestors((Attestor(read_attestor_key(attestor.path).verifier),)))
        yield Signed(grown.url, grown.committed, trust, attestor.path, Checkpoint.parse(note.text).size, signed_s)


def _of_a_log(signed: Signed, *, quick: bool) -> list[Measure]:
    times = 50 if quick else 500
    with Receipts.open(signed.url) as reader:
        tree, attestor = reader.log(), read_attestor_key(signed.attestor)
        note = tree.latest()
        indexes = [random.randrange(signed.size) for _ in range(times)]
        proving_us = quiet_median_us([timed_ns([partial(tree.inclusion, index, note) for index in indexes])])
        bundle = reader.export_receipt(random.choice(signed.keys), attestor=attestor).serialize()
        found = verify_receipt(bundle, signed.trust)
        if found.verdict is not Verdict.OK:
            raise BenchmarkFailed(f"the receipt does not verify: {found.findings}")
        verifying_us = quiet_median_us([timed_ns([partial(verify_receipt, bundle, signed.trust)] * times)])
        proof = tree.inclusion(indexes[0], note).serialize()
    where = f"{signed.size:,} leaves"
    return [
        _figure(f"proofs of inclusion, {where}", 1e6 / proving_us, "per second", f"{proving_us:,.0f} µs each"),
        _figure(f"leaves signed, {where}", signed.size / signed.signed_s, "per second", f"{signed.signed_s:,.2f} s in all"),
        _figure(f"verifying one receipt, {where}", verifying_us / 1000, "milliseconds", f"{len(bundle):,} bytes"),
        _figure(f"a receipt, {where}", len(bundle) / 1000, "kilobytes", f"a proof of it {len(proof):,} bytes"),
    ]


def _figure(name: str, value: float, unit: Unit, seen: str) -> Measure:
    return Measure(part=PART, name=name, value=value, unit=unit, limit=None, seen=seen)


# --- memory


def _memory_kb(signed: Signed) -> float:
    """Verify all leaves in a process of its own, and return how much memory that needed at the most."""
    command = [sys.executable, "-m", "harness.benchmarks.signed_log", signed.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkFailed(f"the leaves were not verified: {done.stderr.strip()[-300:]}")
    return float(done.stdout)


def _peak_kb() -> int:
    """Return how much memory this process has needed at the most, in KiB.

    Where the kernel says it of the program alone, that counts: `ru_maxrss` holds what the parent had when it started this one.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = (line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])


def verify_leaves(url: str) -> None:
    """Make every entry again from its row, and hold the tree over them against the checkpoint.

    Raises:
        BenchmarkFailed: they are not what was signed.
    """
    with open_journal(url, create=False) as journal:
        tree = TransparencyLog(journal)
        latest = tree.latest()
        checkpoint = None if latest is None else Checkpoint.parse(latest.text)
        frontier = Frontier()
        while checkpoint is not None and frontier.size < checkpoint.size:
            entries = tree.records(frontier.size, min(_PAGE, checkpoint.size - frontier.size))
            frontier.extend(map(leaf_hash, entries))
        if checkpoint is None or frontier.root() != checkpoint.root:
            raise BenchmarkFailed("the leaves do not lead to the checkpoint")


if __name__ == "__main__":
    verify_leaves(sys.argv[1])
    print(_peak_kb())
