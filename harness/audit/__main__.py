"""The audit: `python -m harness.audit [RESULTS.json]` reads the results and the provider's record again, on its own.

It shares no code with what wrote them: what is wanted stands here once more, and the record is read and added up anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.audit import cases, figures, histories, provider, reading

Json = dict[str, Any]

FOUND, CANNOT_AUDIT, INCOMPLETE = 1, 2, 3
DEFAULT_RESULTS = Path("results/standalone.json")


def main(arguments: list[str] | None = None) -> int:
    """Audit the results; return 0 where every cell is what the record says, and 3 where some cells of the matrix were not run."""
    parser = argparse.ArgumentParser(prog="python -m harness.audit", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=DEFAULT_RESULTS)
    parser.add_argument("--ask", metavar="URL", nargs="?", const=provider.STRIPE, help="ask the provider again, after a live run")
    options = parser.parse_args(arguments)
    path = options.results
    if not path.exists():
        print(f"there are no results at {path}; `make demo` writes the standalone ones, `make e2e` the others", file=sys.stderr)
        return CANNOT_AUDIT
    document = json.loads(path.read_text(encoding="utf-8"))
    try:
        record = list(provider.lines_now(document, options.ask)) if options.ask else _lines(path.with_name(document["ledger"]))
    except provider.CannotAsk as error:
        print(error, file=sys.stderr)
        return CANNOT_AUDIT
    findings = list(_audit(document, record, path))
    for finding in findings:
        print(f"AUDIT: {finding}")
    counted = f"{len(document['cases'])} cases of {document['mode']} results"
    if findings:
        print(f"{counted} audited: {len(findings)} findings")
        return FOUND
    read = "says now" if options.ask else "says"
    if not document["complete"]:
        print(
            f"{counted} audited: each is what the provider's record {read}, and the run is INCOMPLETE: the matrix has other cells"
        )
        return INCOMPLETE
    print(f"{counted} audited: each cell is what the provider's record {read}")
    return 0


def _audit(document: Json, record: list[str], path: Path) -> Iterator[str]:
    yield from cases.audit(document, record)
    yield from figures.audit(document)
    yield from histories.audit(document, _lines(path.with_name(document["histories"])) if document["histories"] else [])
    report = path.with_suffix(".md")
    yield from reading.audit(document, report.read_text(encoding="utf-8"))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    sys.exit(main())
