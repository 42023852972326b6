"""What the command can be asked for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock.cli import auditing, database, erasing, reading, receipt_files, signing_arguments, watching, working
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
    _add_erasing(commands)
    _add_watching(commands)
    _add_auditing(commands)
    _add_receipts(commands)
    signing_arguments.add_log(commands, _command)
    signing_arguments.add_keys(commands, _command)
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
            "--anchor-policy",
            metavar="FILE",
            help="send nothing before its announcement stands under a checkpoint that this policy accepts (c2sp.org/tlog-policy)",
        )
        _add_targets(command)


def _add_database(commands: Any) -> None:
    words = "make, upgrade and describe the journal's database"
    db: argparse.ArgumentParser = commands.add_parser("db", help=words, description=f"{words[0].upper()}{words[1:]}.")
    parts = db.add_subparsers(required=True, metavar="COMMAND")
    _command(parts, "upgrade", database.upgrade, "make the journal, or bring it up to this version", of="db ")
    grant = _command(parts, "grant", database.grant, "give a role what a gate needs, and no more", of="db ")
    grant.add_argument("role", metavar="ROLE", help="of PostgreSQL; it can add to the log then, and not change it")
    _command(parts, "status", database.status, "say what the journal is, and how far behind those are who follow it", of="db ")


def _add_erasing(commands: Any) -> None:
    words = "give up what an action or an approval was about; its name stays taken"
    erase = _command(commands, "erase", erasing.erase, words)
    erase.add_argument("key", metavar="KEY", nargs="?", help="the action")
    erase.add_argument("--approval", metavar="ID", help="an approval, in the place of an action")
    erase.add_argument("--reason", metavar="TEXT", required=True, help="why, in words that name nobody: this stays")
    erase.add_argument("--by", metavar="ID", required=True, help="an opaque id of who asked for it: this stays")


def _add_auditing(commands: Any) -> None:
    words = "read the providers again, and say where what they have on their books and the journal differ"
    audit = _command(commands, "audit", auditing.audit, words)
    audit.epilog = (
        "Exit codes: 0 they agree; 1 the provider contradicts the journal; 2 usage; 3 the journal can't be used; 4 something "
        "wants a look: done past the gate, out of date, or not to be read."
    )
    audit.add_argument(
        "--everything",
        action="store_true",
        help="all that the providers have, not only what is about subjects in the journal",
    )
    _add_targets(audit)


def _add_targets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--targets",
        metavar="MODULE:ATTRIBUTE",
        action="append",
        help=f"where the targets are: one, several, or a function that gives them; repeatable (default: {TARGETS_VARIABLE})",
    )


def _add_watching(commands: Any) -> None:
    witness = _command(commands, "witness", watching.witness, "serve a witness of logs (c2sp.org/tlog-witness)", journal=False)
    witness.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    witness.add_argument("--port", metavar="PORT", type=int, default=8070, help="default: 8070; 0 takes a free one")
    witness.add_argument("--beyond-loopback", action="store_true", help="listen where other machines reach it; there is no login")
    witness.add_argument(
        "--host-name", metavar="NAME", dest="name_of_host", action="append", help="a name it is called by; repeatable"
    )

    words = "look at a log: does it continue what was seen, and did each action in it go a legal way"
    monitor = _command(commands, "monitor", watching.monitor, words, journal=False)
    where = monitor.add_mutually_exclusive_group(required=True)
    where.add_argument("--dir", metavar="DIR", type=Path, help="where `interlock log publish` puts the log's files")
    where.add_argument("--url", metavar="URL", help="where a web server gives those files out")
    where.add_argument("--from-journal", metavar="URL", help="the journal itself, which is only read; its states are checked too")
    monitor.add_argument("--origin", metavar="ORIGIN", help="which log of the policy; not needed where there is one")
    monitor.add_argument("--every", metavar="S", type=float, help="look every so many seconds, until SIGTERM or SIGINT")
    for command, what in ((witness, "a witness"), (monitor, "a monitor")):
        command.add_argument("--key", metavar="FILE", type=Path, required=True, help="the key that it signs with, of a witness")
        command.add_argument(
            "--policy", metavar="FILE", type=Path, required=True, help="a tlog-policy that names the logs, with their public keys"
        )
        command.add_argument("--state", metavar="FILE", type=Path, required=True, help=f"what {what} remembers")
        command.add_argument("--create", action="store_true", help="make the state; it must not be there")


def _add_receipts(commands: Any) -> None:
    words = "write receipts for people who have no journal"
    group: argparse.ArgumentParser = commands.add_parser("receipt", help=words, description=f"{words[0].upper()}{words[1:]}.")
    parts = group.add_subparsers(required=True, metavar="COMMAND")
    export = _command(parts, "export", receipt_files.export, "write the receipt of one action with its proofs", of="receipt ")
    export.add_argument("key", metavar="KEY")
    export.add_argument("--attestor-key", metavar="FILE", required=True, help="the key that signs it")
    export.add_argument("--out", metavar="FILE", help="where to write it, such as case.interlock.json (default: standard output)")
    export.add_argument("--split", metavar="DIR", help="write its parts as files that openssl and sha256sum read, too")
    export.add_argument(
        "--withhold",
        metavar="WHAT",
        action="append",
        help="leave the states of these events out: intended, dispatched and so on, approval for all of the approval's, or all; "
        "repeatable",
    )
    export.add_argument("--policy", metavar="FILE", help="take the newest checkpoint that this policy accepts")

    words = "check a receipt, without a journal or a network"
    verify = _command(commands, "verify-receipt", receipt_files.verify, words, journal=False)
    verify.epilog = (
        "Exit codes: 0 it holds; 1 it is invalid; 2 usage; 3 it can't be verified with what is trusted here; 4 it is stale."
    )
    verify.add_argument("file", metavar="FILE")
    verify.add_argument("--policy", metavar="FILE", required=True, help="which logs and witnesses count (c2sp.org/tlog-policy)")
    verify.add_argument("--attestors", metavar="FILE", help="who may sign receipts: attestors.json")
    verify.add_argument("--max-age", metavar="S", type=float, help="how many seconds ago witnesses may have seen its checkpoint")
    verify.add_argument("--checkpoint", metavar="FILE", action="append", help="a checkpoint got elsewhere; repeatable")
    verify.add_argument("--other", metavar="FILE", action="append", help="another receipt of the same case; repeatable")
    verify.add_argument("--log", metavar="DIR", help="a copy of the whole log, as `interlock log publish` writes it")


def _command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], words: str, *, of: str = "", journal: bool = True
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    if journal:
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
