"""Where the contract tests keep their journals."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: a killed process loses nothing there either, and nobody waits for a disk."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
