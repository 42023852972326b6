"""What a worker does, line by line in a file: what it wrote is there after a SIGKILL too.

The trace is for people who watch. Nothing is decided by it, and no verdict rests on it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TRACE_FILE = "trace.jsonl"


def note(home: Path, what: str, **facts: str | float | None) -> None:
    """Add a line.

    Args:
        home: the case's folder.
        what: what was done.
        facts: what belongs to it.
    """
    line = json.dumps({"what": what, "at": time.time(), "pid": os.getpid(), **facts}) + "\n"
    with (home / _TRACE_FILE).open("a", encoding="utf-8") as file:
        file.write(line)


def read(home: Path, after: int = 0) -> Iterator[dict[str, Any]]:
    """Return the lines that are whole, without the first `after` of them."""
    path = home / _TRACE_FILE
    if not path.exists():
        return
    *lines, _unfinished = path.read_text(encoding="utf-8").split("\n")
    for line in lines[after:]:
        yield json.loads(line)
