"""DBOS on the same server: a workflow with one step, under the action's key."""

# What it drives comes with `make bench` alone.
# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from dbos import DBOS, DBOSConfig, SetWorkflowID

from harness.benchmarks import null
from harness.benchmarks.timing import BenchmarkFailed


@DBOS.step()
def refund_once(payment: str, amount_minor: int, currency: str) -> str:
    """Act."""
    del payment, amount_minor, currency
    return null.EVIDENCE_JSON


@DBOS.workflow()
def refund(payment: str, amount_minor: int, currency: str) -> str:
    """Carry one refund out."""
    answer: str = refund_once(payment, amount_minor, currency)
    return answer


class DBOSPeer:
    """Runs the workflow on the writer's own thread, so that nothing is handed over or polled for."""

    def prepare(self, names: Sequence[str]) -> None:
        """Do nothing."""

    def act(self, writer: int, name: str) -> None:
        """Carry one action out.

        Raises:
            BenchmarkFailed: the workflow returned something else than its step.
        """
        del writer
        with SetWorkflowID(name):
            answer = refund(null.PAYMENT, null.AMOUNT_MINOR, null.CURRENCY)
        if answer != null.EVIDENCE_JSON:
            raise BenchmarkFailed(f"the workflow {name} returned {answer!r}")


def make_system_tables(url: str) -> None:
    """Make its system tables."""
    with _launched(_config(url, "maker", 1)):
        pass


@contextmanager
def open_dbos(url: str, number: int, writers: int) -> Generator[DBOSPeer]:
    """Launch it with a connection for each writer; the arguments are those of `open_gate`."""
    with _launched({**_config(url, str(number), writers), "run_migrations": False}):
        yield DBOSPeer()


def _config(url: str, executor: str, writers: int) -> DBOSConfig:
    return {
        "name": "interlock-bench",
        "system_database_url": url.replace("postgresql://", "postgresql+psycopg://", 1),
        "sys_db_pool_size": max(writers, 1) + 2,
        "executor_id": executor,
        "application_version": "1",
        "log_level": "ERROR",
        "use_listen_notify": False,  # nobody waits for a notification here
    }


@contextmanager
def _launched(config: DBOSConfig) -> Generator[None]:
    DBOS(config=config)
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy()
