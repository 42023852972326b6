"""Write interlock/async_gate.py from interlock/gate.py and interlock/reading.py: `python -m harness.generate_async`.

Both gates have the same methods, and what they do is in `interlock.operations`. What is left to say twice, names, arguments and
words, is copied here. A test fails when the file is not what this makes of the two others.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GATE = ROOT / "interlock" / "gate.py"
READING = ROOT / "interlock" / "reading.py"
ASYNC_GATE = ROOT / "interlock" / "async_gate.py"

HEAD = '''"""The gate for programs that run on an event loop.

Made of gate.py and reading.py by harness/generate_async.py: change those, and run `make generate`.
"""
'''

IMPORTS = {
    "from types import TracebackType\n": "from datetime import datetime\nfrom types import TracebackType\n",
    "from interlock.assembly import assemble\n": (
        "from interlock.assembly import assemble\nfrom interlock.async_driver import AsyncDriver, Opening\n"
    ),
    "from interlock.domain.effects import Effect\n": (
        "from interlock.domain.action import GatedAction\nfrom interlock.domain.effects import Effect\n"
    ),
    "from interlock.domain.ports import ApprovalSource, Target\n": "from interlock.domain.ports import ApprovalSource\n",
    "from interlock.driver import Driver\n": "from interlock.driver import AnyTarget\n",
    "from interlock.projections.receipts import Receipt\n": (
        "from interlock.projections.receipts import Receipt\nfrom interlock.projections.verification import Verification\n"
    ),
    "from interlock.reading import JournalReader\n": "from interlock.reading import JournalReader, ReceiptPage\n",
}

WORDS = {
    "class Gate(JournalReader):": "class AsyncGate:",
    "Threads may share one.": "Tasks may share one.",
    "Open one with `Gate.open`, and close it, or use it as a context manager.": """\
Open one with `async with AsyncGate.open(…) as gate`, or await `AsyncGate.open(…)`, and close it. What blocks runs on
    threads of its own: the journal, sync targets, approval sources. Cancelling a call is a crash like any other: what was
    dispatched is not lost, and `recover` goes on with it. It does not call a sync target's send back.""",
    "super().__init__(driver.journal, driver.clock)": "self._reader = JournalReader(driver.journal, driver.clock)",
    "def __init__(self, driver: Driver)": "def __init__(self, driver: AsyncDriver)",
    "targets: Iterable[Target[Any]] = ()": "targets: Iterable[AnyTarget] = ()",
    ") -> Gate:": ") -> Opening[AsyncGate]:",
    "the providers that effects may name.": "the providers that effects may name, each a `Target` or an `AsyncTarget`.",
    "two targets of one name, an `AsyncTarget`, a": "two targets of one name, a",
    "return cls(assemble(Driver,": "return Opening(lambda: assemble(AsyncDriver,",
    "clock, log))\n": "clock, log), cls)\n",
    "def __enter__(": "def __aenter__(",
    "def __exit__(": "def __aexit__(",
    "until the gate is closed. Run it on a thread.": "until the gate is closed. Run it as a task.",
    "worked on anything, to count or to log it.": "worked on anything, to count or to log it, on a thread.",
}


def generate() -> str:
    """Return what interlock/async_gate.py has to be."""
    gate, reading = GATE.read_text(encoding="utf-8"), READING.read_text(encoding="utf-8")
    own = _methods(gate, "Gate")
    readers = {name: node for name, node in _methods(reading, "JournalReader").items() if name not in own and name[0] != "_"}
    text = HEAD + gate.split('"""\n', 1)[1] + "\n    # --- reading\n"
    text += "".join(_reader(reading, node) for node in readers.values())
    for old, new in (IMPORTS | WORDS).items():
        if old not in text:
            raise SystemExit(f"{GATE.name} no longer has {old!r}; correct {Path(__file__).name}")
        text = text.replace(old, new)
    return _formatted(_awaiting(text))


def _methods(source: str, name: str) -> dict[str, ast.FunctionDef]:
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    return {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}


def _reader(source: str, node: ast.FunctionDef) -> str:
    """Return a method that reads on a thread: the head and the words of the sync one, and a call of it."""
    head = source.splitlines(keepends=True)[node.lineno - 1 : node.body[0].end_lineno]
    given = [argument.arg for argument in node.args.args[1:]]
    given += [f"{argument.arg}={argument.arg}" for argument in node.args.kwonlyargs]
    call = ", ".join([f"self._reader.{node.name}", *given])
    return f"\n{''.join(head)}        return await self._driver.call({call})\n"


def _awaiting(text: str) -> str:
    """Make coroutines of the methods, apart from those that only make a gate."""
    text = re.sub(r"(?<!await )self\._driver\.(run|close)\(|(?<!def )self\.close\(", r"await \g<0>", text)
    return re.sub(r"^    def (?!__init__\(|open\()", "    async def ", text, flags=re.MULTILINE)


def _formatted(text: str) -> str:
    """Format it as `make format` would: an `await` makes lines longer."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(ASYNC_GATE), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def main() -> None:
    """Write the file."""
    ASYNC_GATE.write_text(generate(), encoding="utf-8")


if __name__ == "__main__":
    main()
