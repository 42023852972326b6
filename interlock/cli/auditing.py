"""The command that holds the providers' books against the journal."""

from __future__ import annotations

import argparse

from interlock.cli.output import Exit, print_json, print_table, print_text
from interlock.cli.working import targets_of


def audit(arguments: argparse.Namespace) -> int:
    """Read the providers again, and say where they and the journal differ."""
    from interlock.audit import audit as compare
    from interlock.infrastructure.opening import open_journal

    targets = targets_of(arguments)
    with open_journal(arguments.journal, create=False) as journal:
        found = compare(journal, targets, everything=arguments.everything)
    if arguments.json:
        print_json(found.to_dict())
    else:
        rows = [
            (finding.kind.value, finding.target, finding.subject, finding.reference or "-", finding.key or "-", finding.words)
            for finding in found.findings
        ]
        skipped = found.skipped.items()
        rows += [("skipped", name, "-", "-", "-", f"{many} actions; it was not given with --targets") for name, many in skipped]
        print_table(("FINDING", "TARGET", "SUBJECT", "REFERENCE", "KEY", "WORDS"), rows, "the providers and the journal agree")
        print_text(f"{found.actions} actions compared with {found.entries} entries about {found.subjects} subjects")
    if found.contradicted:
        return Exit.FOUND
    return Exit.OK if found.agrees else Exit.OPEN
