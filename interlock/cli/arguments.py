"""What the command can be asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from interlock.cli import database, reading, working
from interlock.cli.reading import MAX_LAG_S
from interlock.cli.working import TARGETS_VARIABLE

JOURNAL_VARIABLE = "INTERLOCK_JOURNAL"


def parser() -> argparse.ArgumentParser:
    """Return what reads the arguments; `run` is what to do then, and `name` how the command was called."""
    made = argparse.ArgumentParser(
        prog="interlock",
        description="Read the journal of a gate, check it, bring what is in it to its end, and look after its database.",
        epilog="Exit codes: 0 all is well; 1 something was found or failed; 2 usage or bad input; 3 the journal can't be used; "
        "4 something is still in flight, or wants attention where that was asked.",
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    _add_reading(commands)
    _add_working(commands)
    _add_database(commands)
    return made


def _add_reading(commands: Any) -> None:
    receipts = _command(commands, "receipts", reading.receipts, "list receipts, newest first")
    receipts.add_argument("--status", metavar="STATUS", help="COMMITTED, REFUSED, AMBIGUOUS or IN_FLIGHT")
    receipts.add_argument("--approval", metavar="ID", help="under this approval")
    receipts.add_argument("--target", metavar="NAME", help="at this target")
    receipts.add_argument(
        "--since", metavar="TIME", type=_time, help="intended at or after this time (ISO 8601; UTC unless it says)"
    )
    receipts.add_argument("--until", metavar="TIME", type=_time, help="intended before this time")
    receipts.add_argument("--min-amount", metavar="MINOR", type=int, help="of at least this amount, in the minor unit")
    receipts.add_argument("--max-amount", metavar="MINOR", type=int, help="of at most this amount, in the minor unit")
    receipts.add_argument("--limit", metavar="N", type=int, default=50, help="how many, 1 to 500 (default: 50)")
    receipts.add_argument("--after", metavar="PAGE", help="go on after the page that ended with this")

    _command(commands, "show", reading.show, "show the receipt of one action").add_argument("key", metavar="KEY")

    verify = _command(commands, "verify", reading.verify, "check that the log is what was written")
    verify.add_argument("key", metavar="KEY", nargs="?", help="check the events of this action only")

    attention = _command(commands, "attention", reading.attention, "list what a person has to look at")
    attention.add_argument("--exit-code", action="store_true", help="exit with 4 where there is anything")
    attention.add_argument(
        "--max-lag",
        metavar="S",
        type=float,
        default=MAX_LAG_S,
        help=f"for how many seconds events may be held back from those who follow the log (default: {MAX_LAG_S:g})",
    )


def _add_working(commands: Any) -> None:
    recover = _command(commands, "recover", working.recover, "bring actions to their end whose holder is gone")
    which = recover.add_mutually_exclusive_group()
    which.add_argument("key", metavar="KEY", nargs="?", help="this action only")
    which.add_argument(
        "--watch", action="store_true", help="go on until SIGTERM or SIGINT, and print a line for each pass that did something"
    )

    reconcile = _command(commands, "reconcile", working.reconcile, "ask the providers again about endings that are not certain")
    reconcile.add_argument("key", metavar="KEY", nargs="?", help="this action only, whatever its ending")

    resolve = _command(commands, "resolve", working.resolve, "decide an ambiguous action")
    resolve.add_argument("key", metavar="KEY")
    word = resolve.add_mutually_exclusive_group(required=True)
    word.add_argument("--happened", action="store_true", dest="happened", help="the effect is in the world")
    word.add_argument("--did-not-happen", action="store_false", dest="happened", help="it is not, and won't be")
    resolve.add_argument("--by", metavar="ID", required=True, help="an opaque id of who says so; no name, the log can't forget")
    resolve.add_argument("--note", metavar="TEXT", required=True, help="how they know")
    resolve.add_argument(
        "--despite-roll-forward",
        action="store_true",
        help="take --did-not-happen although the provider may still carry a stored failure to its end",
    )
    for command in (recover, reconcile, resolve):
        command.add_argument(
            "--targets",
            metavar="MODULE:ATTRIBUTE",
            action="append",
            help=f"where the targets are: one, several, or a function that gives them; repeatable (default: {TARGETS_VARIABLE})",
        )


def _add_database(commands: Any) -> None:
    words = "make, upgrade and describe the journal's database"
    db: argparse.ArgumentParser = commands.add_parser("db", help=words, description=f"{words[0].upper()}{words[1:]}.")
    parts = db.add_subparsers(required=True, metavar="COMMAND")
    _command(parts, "upgrade", database.upgrade, "make the journal, or bring it up to this version", of="db ")
    grant = _command(parts, "grant", database.grant, "give a role what a gate needs, and no more", of="db ")
    grant.add_argument("role", metavar="ROLE", help="of PostgreSQL; it can add to the log then, and not change it")
    _command(parts, "status", database.status, "say what the journal is, and how far behind those are who follow it", of="db ")


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], words: str, *, of: str = ""
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    command.add_argument(
        "--journal", metavar="URL", help=f"sqlite:///interlock.db or postgresql://… (default: {JOURNAL_VARIABLE})"
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run, name=f"{of}{name}")
    return command


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-01-31 or 2026-01-31T12:00:00Z") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
