"""One run of the crash matrix's command, which many claims read, also where several processes share the tests."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIVE_KEY = "sk_live_local_0000"

Cell = dict[str, Any]
Completed = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Matrix:
    """A run of the command: what it printed, and what it wrote."""

    exit_code: int
    printed: str
    folder: Path
    document: dict[str, Any]

    def cell(self, scenario: str, column: str) -> Cell:
        """Return the only case of a cell."""
        (case,) = [case for case in self.document["cases"] if (case["scenario"], case["column"]) == (scenario, column)]
        return dict(case)


def run_module(module: str, *arguments: str, **environment: str) -> Completed:
    """Run a module of the harness as a command, and return what it said."""
    command = [sys.executable, "-m", module, *arguments]
    # A live key lies about in the environment, as on many a developer's machine: a local run must not touch it.
    given = os.environ | {"STRIPE_SECRET_KEY": LIVE_KEY} | environment
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


def run_once(factory: pytest.TempPathFactory, name: str, results: str, run: Callable[[Path], Completed]) -> Matrix:
    """Run a matrix in whichever process of the tests comes first, and return what it came to.

    Args:
        factory: of temporary folders.
        name: of the run.
        results: the name of the file that it writes.
        run: runs it into a folder.
    """
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, said = shared / name, shared / f"{name}.json"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            done = run(folder)
            said.write_text(json.dumps([done.returncode, done.stdout + done.stderr]), encoding="utf-8")
    exit_code, printed = json.loads(said.read_text(encoding="utf-8"))
    assert (folder / results).exists(), printed
    return Matrix(exit_code, printed, folder, json.loads((folder / results).read_text(encoding="utf-8")))
