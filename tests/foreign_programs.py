"""Programs that are not ours, and that tests compare us with. Where one is not installed, its tests are skipped, and say so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
GO_SOURCES = Path("/usr/share/gocode")
"""Where Debian puts golang-golang-x-mod-dev."""

Ask = Callable[[dict[str, Any]], dict[str, Any]]
Shell = Callable[..., "subprocess.CompletedProcess[bytes]"]


def build_xmod(folder: Path) -> Ask:
    """Build the Go program over golang.org/x/mod into a folder, and return what asks it."""
    if shutil.which("go") is None or not (GO_SOURCES / "src/golang.org/x/mod").is_dir():
        pytest.skip("Go with golang.org/x/mod is not here: apt-get install golang-go golang-golang-x-mod-dev")
    environment = os.environ | {"GO111MODULE": "off", "GOPATH": str(GO_SOURCES), "GOCACHE": str(folder / "cache"), "GOFLAGS": ""}
    program = folder / "xmod"
    subprocess.run(["go", "build", "-o", program, "."], cwd=ROOT / "tests/foreign/xmod", env=environment, check=True)

    def run(question: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run([program], input=json.dumps(question).encode(), capture_output=True, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run


def shell_in(folder: Path, *programs: str) -> Shell:
    """Return what runs a command in a folder; without these programs there is no test."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not here: apt-get install openssl coreutils")

    def run(*command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, input=stdin, cwd=folder, capture_output=True, check=False)

    return run
