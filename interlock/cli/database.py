"""The commands that look after the journal's database."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from interlock.cli.output import Exit, print_json, print_text
from interlock.cli.reading import lag_in_words, open_reader


def upgrade(arguments: argparse.Namespace) -> int:
    """Make the journal where a server has none yet, or bring it up to this version."""
    from interlock.infrastructure.opening import upgrade_journal

    before, after = upgrade_journal(arguments.journal)
    if arguments.json:
        print_json({"version_before": before, "version": after})
    elif before == after:
        print_text(f"nothing to do: the journal has version {after}, which is this program's")
    else:
        print_text(f"upgraded from version {before} to {after}" if before else f"made, in version {after}")
    return Exit.OK


def grant(arguments: argparse.Namespace) -> int:
    """Give a role what a gate needs, and no more."""
    from interlock.infrastructure.opening import grant_journal

    grant_journal(arguments.journal, arguments.role)
    if arguments.json:
        print_json({"role": arguments.role})
    else:
        print_text(f"{arguments.role} can open a gate on the journal now: it can add to the log, and not change it")
    return Exit.OK


def status(arguments: argparse.Namespace) -> int:
    """Say what the journal is, and how far behind those are who follow it."""
    with open_reader(arguments) as reader:
        described, lag = reader.description(), reader.lag()
    if arguments.json:
        print_json({**asdict(described), "events": lag.events, "held_back": asdict(lag) if lag.held_back else None})
        return Exit.OK
    print_text(f"{described.database}, version {described.version}, log {described.log_id}")
    print_text(f"{lag.events:,} events; {lag_in_words(lag)}")
    return Exit.OK
