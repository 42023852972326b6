"""What the command prints, and its exit codes."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from interlock.outcomes import Outcome, Report
    from interlock.projections.receipts import Receipt
    from interlock.projections.verification import Verification


class Exit(IntEnum):
    """What the command says to the shell."""

    OK = 0
    FOUND = 1
    USAGE = 2
    JOURNAL = 3
    OPEN = 4
    INTERRUPTED = 130


_hidden: list[str] = []
"""What is printed nowhere: the passwords in the journal's URL."""

_LONG_ENOUGH = 4
"""A part of a malformed URL below this length says nothing, and hiding it would garble the message."""


def hide_passwords_of(url: str) -> None:
    """Keep the passwords of a journal's URL out of everything that is printed, also where the URL is malformed."""
    _, _, rest = url.partition("://")
    login, _, _ = rest.rpartition("@")
    given = {password for _, colon, password in [login.partition(":")] if colon}
    given |= {value for name, value in re.findall(r"[?&]([^=&#]+)=([^&#]*)", url) if "password" in name}
    # An unescaped / or @ in a password ends it for whoever parses the URL, and an error may quote the rest as a host or a name.
    given |= {part for password in given for part in re.split(r"[/?#@:]", password) if len(part) >= _LONG_ENOUGH}
    _hidden[:] = sorted({form for one in given for form in (one, unquote(one)) if one}, key=len, reverse=True)


def print_pass(report: Report, at: datetime, *, as_json: bool) -> None:
    """Print a line for a pass that did something."""
    if as_json:
        print(json.dumps({"at": at.isoformat(timespec="seconds"), **report_values(report)}), flush=True)
        return
    counted = Counter(type(one).__name__ for one in report.outcomes)
    counted.update({"skipped": len(report.skipped), "failed": len(report.failed)})
    counts = ", ".join(f"{many} {what}" for what, many in counted.items() if many)
    failures = "".join(f"; {key or 'the pass'}: {words_of(error)}" for key, error in report.failed.items())
    print(_printable(f"{at.isoformat(timespec='seconds')} {counts}{failures}"), flush=True)


def print_report(report: Report, *, as_json: bool) -> None:
    """Print what a pass came to."""
    from interlock.outcomes import InFlight

    if as_json:
        print_json(report_values(report))
        return
    rows = [(type(one).__name__, one.key, one.words if isinstance(one, InFlight) else "") for one in report.outcomes]
    rows += [("skipped", key, f"its target, {name}, was not given with --targets") for key, name in report.skipped.items()]
    rows += [("failed", key, words_of(error)) for key, error in report.failed.items()]
    print_table(("OUTCOME", "KEY", "WORDS"), rows, "nothing to do")


def report_values(report: Report) -> dict[str, Any]:
    """Return what a pass came to as plain JSON values."""
    return {
        "outcomes": [outcome_values(outcome) for outcome in report.outcomes],
        "skipped": dict(report.skipped),
        "failed": {key: words_of(error) for key, error in report.failed.items()},
    }


def code_of(outcomes: Sequence[Outcome]) -> Exit:
    """Return what these outcomes say to the shell."""
    from interlock.outcomes import InFlight

    return Exit.OPEN if any(isinstance(outcome, InFlight) for outcome in outcomes) else Exit.OK


def outcome_values(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome with its receipt as plain JSON values."""
    from interlock.outcomes import InFlight

    values: dict[str, Any] = {"outcome": type(outcome).__name__, "key": outcome.key}
    if isinstance(outcome, InFlight):
        values |= {
            "reason": outcome.reason.value,
            "words": outcome.words,
            "retry_after_s": outcome.retry_after_s,
            "retry_at": outcome.retry_at.isoformat(),
        }
    return {**values, "receipt": outcome.receipt.to_dict()}


def print_receipts(receipts: Sequence[Receipt], none: str) -> None:
    """Print receipts as a table, or the word for none."""
    rows = [
        (
            receipt.status,
            receipt.happened.value,
            receipt.key,
            f"{receipt.amount_minor} {receipt.currency}" if receipt.amount_minor is not None else "-",
            receipt.target,
            receipt.approval_id,
            receipt.refusal.code if receipt.refusal else receipt.via or "-",
            receipt.timeline[-1].at.isoformat(timespec="seconds"),
        )
        for receipt in receipts
    ]
    print_table(("STATUS", "HAPPENED", "KEY", "AMOUNT (MINOR)", "TARGET", "APPROVAL", "VIA OR CODE", "CHANGED"), rows, none)


def print_verification(verification: Verification) -> None:
    """Print what verification found."""
    findings = [(finding.kind.value, finding.place, finding.words) for finding in verification.findings]
    print_table(("FINDING", "PLACE", "WORDS"), findings, "nothing is wrong with what is there")
    print_text(f"{verification.events} events read of {verification.log_id}; completeness: {verification.completeness}")
    if verification.redacted:
        print_text(f"{verification.redacted} events' states were erased, as the log says")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> None:
    """Print an aligned table, or the word for none."""
    if not rows:
        print_text(none)
        return
    lines = [[_printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print_text("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_text(text: str) -> None:
    """Print text."""
    print("\n".join(map(_printable, text.split("\n"))))


def _printable(text: str) -> str:
    """Escape what would steer the terminal: a provider's words and a person's notes end up here."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_json(value: Mapping[str, Any]) -> None:
    """Print values as JSON."""
    print(json.dumps(value, indent=2))


def say(text: str) -> None:
    """Print to standard error, without a password."""
    print("\n".join(map(_printable, _without_passwords(text).split("\n"))), file=sys.stderr)


def _without_passwords(text: str) -> str:
    for password in _hidden:
        text = text.replace(password, "***")
    return text


def words_of(error: Exception) -> str:
    """Say what an error is: ours in its words, any other by class and place, since its text may hold a secret."""
    from traceback import extract_tb

    from interlock.errors import InterlockError

    if isinstance(error, InterlockError):
        return _without_passwords(str(error))
    if isinstance(error, ModuleNotFoundError):
        return f"{type(error).__name__} of {error.name!r}"
    frames = extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__
