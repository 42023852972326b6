"""A hand-written table of idempotency keys, as a careful engineer writes it: two commits, each one statement, and no more.

It keeps a key from being used twice. It knows of no approval, no premise, no history and no recovery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from harness.benchmarks import null
from harness.benchmarks.timing import BenchmarkFailed

_TABLE = """
    CREATE TABLE idempotency_keys (
        key text PRIMARY KEY,
        request_digest bytea NOT NULL,
        request jsonb NOT NULL,
        status text NOT NULL DEFAULT 'started',
        response jsonb,
        started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        finished_at timestamptz
    )
"""
_START = b"INSERT INTO idempotency_keys (key, request_digest, request) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_FINISH = (
    b"UPDATE idempotency_keys SET status = 'done', response = %s, finished_at = clock_timestamp() "
    b"WHERE key = %s AND status = 'started'"
)
_REQUEST = {"payment": null.PAYMENT, "amount_minor": null.AMOUNT_MINOR, "currency": null.CURRENCY}


class TablePeer:
    """Takes the key, acts, and notes the answer.

    Args:
        connections: one a writer.
    """

    def __init__(self, connections: Sequence[psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._connections = connections

    def prepare(self, names: Sequence[str]) -> None:
        """Do nothing."""

    def act(self, writer: int, name: str) -> None:
        """Carry one action out.

        Raises:
            BenchmarkFailed: the key is taken.
        """
        connection = self._connections[writer]
        digest = hashlib.sha256(json.dumps(_REQUEST, sort_keys=True).encode()).digest()
        if connection.execute(_START, (name, digest, Jsonb(_REQUEST)), prepare=True).rowcount != 1:
            raise BenchmarkFailed(f"{name} was done before")
        answer = json.loads(null.EVIDENCE_JSON)
        if connection.execute(_FINISH, (Jsonb(answer), name), prepare=True).rowcount != 1:
            raise BenchmarkFailed(f"{name} is not there any more")


def make_table(url: str) -> None:
    """Make the table."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE.encode())


@contextmanager
def open_table(url: str, number: int, writers: int) -> Generator[TablePeer]:
    """Open a connection for each writer; the arguments are those of `open_gate`."""
    del number
    with ExitStack() as stack:
        yield TablePeer([stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(max(writers, 1))])
