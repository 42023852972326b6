"""PostgreSQL servers of the tests' own."""

from __future__ import annotations

import os
from typing import Any

import pytest

from harness.postgres.binaries import PostgresUnavailable
from harness.postgres.server import PostgresServer

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}
"""Whether nothing may be left out."""


def start_server(**options: Any) -> PostgresServer:
    """Start a server whose files are in memory; where none can be had, skip the test, except in CI.

    Args:
        options: those of `PostgresServer.start`.
    """
    try:
        return PostgresServer.start(in_memory=True, **options)
    except PostgresUnavailable as missing:
        if IN_CI:
            raise
        pytest.skip(str(missing))
