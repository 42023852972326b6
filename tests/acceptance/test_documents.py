"""What the documents say is run: their Python, their links, their commands, and the help of the command line."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.standins.anthropic.client import LOCAL_API_KEY as LOCAL_MODEL_KEY
from harness.standins.anthropic.client import AnthropicStandIn
from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay
from interlock import Receipts

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md") if "```python" in path.read_text(encoding="utf-8")
)
DOCUMENTS = ["README.md", *GUIDES]
WITH_SERVICES = {"docs/anthropic.md"}
"""Pages whose Python needs a stand-in of a service; each has a test of its own."""
EVERY_TEXT = sorted(path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))

_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<to>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands after the fence, its text, and the line on which the text begins."""

    info: str
    text: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether it is Python that is to be run."""
        return self.info == "python"

    @property
    def skipped(self) -> bool:
        """Whether it is Python that is not to be run."""
        return self.info.startswith("python") and not self.runs


def _text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def _blocks(text: str) -> list[Block]:
    return [
        Block(found["info"].strip(), found["body"], text[: found.start("body")].count("\n")) for found in _BLOCK.finditer(text)
    ]


def _program(text: str) -> str:
    """Return the document with everything blank but its Python, so that a traceback names the document's own lines."""
    lines = [""] * (text.count("\n") + 1)
    for block in _blocks(text):
        if block.runs:
            code = block.text.splitlines()
            lines[block.line : block.line + len(code)] = code
    return "\n".join(lines) + "\n"


def _run(program: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a document's Python in a folder of its own, with warnings as errors; return what it printed."""
    file = folder / "document.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file)],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _replaced(program: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        assert old in program
        program = program.replace(old, new)
    return program


def test_the_readme_runs_and_refunds_once(tmp_path: Path) -> None:
    """The README's Python runs as it stands, against the Stripe stand-in, whose ledger has one refund then."""
    with StripeStandIn(tmp_path / "ledger.jsonl") as standin:
        payment = pay(connect(standin)).id
        real = 'StripeRefunds(os.environ["STRIPE_SECRET_KEY"]'
        there = {real: f"{real}, api_base={standin.api_base!r}", "pi_123": payment}
        said = _run(_replaced(_program(_text("README.md")), there), tmp_path, {"STRIPE_SECRET_KEY": LOCAL_API_KEY})
        refunds = refunds_of(standin.ledger_path, payment)
    assert [one.amount for one in refunds] == [2000]
    assert f"refunded: {refunds[0].refund}" in said
    with Receipts.open(f"sqlite:///{tmp_path / 'interlock.db'}") as reader:
        ended = {receipt.key: receipt.status for receipt in reader.receipts().receipts}
    assert ended == {"email:case-4471": "COMMITTED", "refund:case-4472": "COMMITTED"}


def test_the_page_on_agents_runs_and_refunds_once(tmp_path: Path) -> None:
    """Its Python runs as it stands, LOCAL: against both stand-ins, with one refund in the ledger then, decided by the model."""
    with AnthropicStandIn() as model, StripeStandIn(tmp_path / "ledger.jsonl") as standin:
        payment = pay(connect(standin)).id
        real = 'StripeRefunds(os.environ["STRIPE_SECRET_KEY"]'
        there = {real: f"{real}, api_base={standin.api_base!r}", "pi_123": payment}
        keys = {"STRIPE_SECRET_KEY": LOCAL_API_KEY, "ANTHROPIC_API_KEY": LOCAL_MODEL_KEY, "ANTHROPIC_BASE_URL": model.base_url}
        said = _run(_replaced(_program(_text("docs/anthropic.md")), there), tmp_path, keys)
        refunds = refunds_of(standin.ledger_path, payment)
    assert [one.amount for one in refunds] == [2000]
    assert f"refunded: {refunds[0].refund}" in said
    assert '"tool": "issue_refund"' in said


@pytest.mark.parametrize("document", [guide for guide in GUIDES if guide not in WITH_SERVICES])
def test_every_guide_runs(document: str, tmp_path: Path) -> None:
    """The Python of every page under docs runs as it stands, from top to bottom."""
    program = _program(_text(document))
    assert program.strip()
    _run(program, tmp_path)


@pytest.mark.parametrize("document", EVERY_TEXT)
def test_a_block_is_left_out_only_with_a_reason(document: str) -> None:
    """A block that is not run is marked `python no-run`, parses all the same, and says why in a comment on its first line."""
    for block in _blocks(_text(document)):
        if block.skipped:
            assert block.info == "python no-run"
            assert re.match(r"# not run: \w+", block.text)
            compile(block.text, document, "exec")


@pytest.mark.parametrize("document", EVERY_TEXT)
def test_every_link_leads_somewhere(document: str) -> None:
    """Every link to a file of this project leads to one, and every link to a heading to a heading of that file."""
    for found in _LINK.finditer(_text(document)):
        path, _, heading = found["to"].partition("#")
        if "://" in path:
            continue
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), found["to"]
        assert not heading or heading in _anchors(target), found["to"]


def test_every_make_target_that_is_named_exists() -> None:
    """Every `make` command in the documents is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z0-9-]+):", _text("Makefile"), re.MULTILINE))
    named = {name for document in DOCUMENTS for name in re.findall(r"(?:^|`)make ([a-z0-9-]+)", _text(document), re.MULTILINE)}
    assert {"demo", "test"} <= named <= targets


def test_the_readme_has_the_help_of_the_command_line() -> None:
    """The help in the README is what the command prints, line breaks apart, which are the terminal's."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "interlock.cli", "--help"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    (shown,) = (block.text for block in _blocks(_text("README.md")) if block.text.startswith("usage: interlock"))
    assert shown.split() == printed.split()


def test_every_command_that_is_named_exists() -> None:
    """Every `interlock …` command in the documents is one that the command line knows."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    printed = subprocess.run(
        [sys.executable, "-m", "interlock.cli", "--help"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"^    ([a-z]+)\b", printed, re.MULTILINE))
    named = {name for document in DOCUMENTS for name in re.findall(r"`interlock ([a-z]+)", _text(document))}
    assert named
    assert named <= known


def _anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
