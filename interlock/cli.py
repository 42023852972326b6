"""The command `interlock`: reads a journal, and brings what is in it to its end.

Exit codes: 0 all is well, 1 something was found or failed, 2 usage or bad input, 3 the journal can't be used, 4 something is
still in flight, or wants attention where that was asked. Standard library only, and the journal is imported when it is used.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from interlock.domain.ports import Target
    from interlock.errors import InterlockError
    from interlock.gate import Gate, Report
    from interlock.outcomes import Outcome
    from interlock.projections.receipts import Receipt
    from interlock.projections.verification import Verification
    from interlock.reading import Receipts

JOURNAL_VARIABLE = "INTERLOCK_JOURNAL"
TARGETS_VARIABLE = "INTERLOCK_TARGETS"

T = TypeVar("T")


class Exit(IntEnum):
    """What the command says to the shell."""

    OK = 0
    FOUND = 1
    USAGE = 2
    JOURNAL = 3
    OPEN = 4
    INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments; those of the process unless given.

    Returns:
        The exit code; see `Exit`.
    """
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a stream that was put in their place may have none
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. The interpreter must not complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return code


def _run(arguments: argparse.Namespace) -> int:
    from interlock.errors import InterlockError

    try:
        arguments.journal = arguments.journal or os.environ.get(JOURNAL_VARIABLE)
        _require_journal(arguments.journal)
        return int(arguments.run(arguments))
    except InterlockError as error:
        return _explain(error, arguments)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - a shell gets an exit code and words, and no traceback, whose text may hold a secret
        _say(f"interlock {arguments.command}: it failed in a way that nobody foresaw: {_words_of(error)}")
        _say("  not done: nothing is sent before the journal says so")
        _say("  next: `interlock attention` lists what is in flight; report this, it is a defect")
        return Exit.FOUND
    except KeyboardInterrupt:
        _say(f"interlock {arguments.command}: interrupted. What is in flight stays so until the next `interlock recover`")
        return Exit.INTERRUPTED


# --- what can be asked for


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="interlock",
        description="Read the journal of a gate, check it, and bring what is in it to its end.",
        epilog="Exit codes: 0 all is well; 1 something was found or failed; 2 usage or bad input; 3 the journal can't be used; "
        "4 something is still in flight, or wants attention where that was asked.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_reading(commands)
    _add_working(commands)
    return parser


def _add_reading(commands: Any) -> None:
    receipts = _command(commands, "receipts", _receipts, "list receipts, newest first")
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

    _command(commands, "show", _show, "show the receipt of one action").add_argument("key", metavar="KEY")

    verify = _command(commands, "verify", _verify, "check that the log is what was written")
    verify.add_argument("key", metavar="KEY", nargs="?", help="check the events of this action only")

    attention = _command(commands, "attention", _attention, "list what a person has to look at")
    attention.add_argument("--exit-code", action="store_true", help="exit with 4 where there is anything")


def _add_working(commands: Any) -> None:
    recover = _command(commands, "recover", _recover, "bring actions to their end whose holder is gone")
    recover.add_argument("key", metavar="KEY", nargs="?", help="this action only")

    reconcile = _command(commands, "reconcile", _reconcile, "ask the providers again about endings that are not certain")
    reconcile.add_argument("key", metavar="KEY", nargs="?", help="this action only, whatever its ending")

    resolve = _command(commands, "resolve", _resolve, "decide an ambiguous action")
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


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], words: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
    command.add_argument("--journal", metavar="URL", help=f"such as sqlite:///interlock.db (default: {JOURNAL_VARIABLE})")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)
    return command


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-01-31 or 2026-01-31T12:00:00Z") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


# --- reading


def _receipts(arguments: argparse.Namespace) -> int:
    with _reader(arguments) as reader:
        page = reader.receipts(
            status=arguments.status,
            approval=arguments.approval,
            target=arguments.target,
            since=arguments.since,
            until=arguments.until,
            min_amount_minor=arguments.min_amount,
            max_amount_minor=arguments.max_amount,
            limit=arguments.limit,
            after=arguments.after,
        )
    if arguments.json:
        _print_json({"receipts": [receipt.to_dict() for receipt in page.receipts], "next_page": page.next_page})
        return Exit.OK
    _print_receipts(page.receipts, "no receipts")
    if page.next_page is not None:
        _print(f"more with --after {page.next_page}")
    return Exit.OK


def _show(arguments: argparse.Namespace) -> int:
    with _reader(arguments) as reader:
        receipt = reader.receipt(arguments.key)
    if arguments.json:
        _print_json(receipt.to_dict())
    else:
        _print(receipt.to_text())
    return Exit.OK


def _verify(arguments: argparse.Namespace) -> int:
    with _reader(arguments) as reader:
        verification = reader.verify(arguments.key)
    if arguments.json:
        _print_json(verification.to_dict())
    else:
        _print_verification(verification)
    return Exit.OK if verification.valid else Exit.FOUND


def _attention(arguments: argparse.Namespace) -> int:
    with _reader(arguments) as reader:
        receipts = reader.attention()
    if arguments.json:
        _print_json({"receipts": [receipt.to_dict() for receipt in receipts]})
    else:
        _print_receipts(receipts, "nothing wants attention")
    return Exit.OPEN if receipts and arguments.exit_code else Exit.OK


def _reader(arguments: argparse.Namespace) -> Receipts:
    from interlock.reading import Receipts

    return Receipts.open(arguments.journal)


# --- working


def _recover(arguments: argparse.Namespace) -> int:
    with _gate(arguments, _targets(arguments)) as gate:
        return _print_report(gate.recover(arguments.key), arguments)


def _reconcile(arguments: argparse.Namespace) -> int:
    with _gate(arguments, _targets(arguments)) as gate:
        return _print_report(gate.reconcile(arguments.key), arguments)


def _resolve(arguments: argparse.Namespace) -> int:
    targets = _targets(arguments)
    with _gate(arguments, targets) as gate:
        name = gate.receipt(arguments.key).target
        if not arguments.happened and all(target.name != name for target in targets):
            _say(f"interlock resolve: target {name!r} was not given with --targets, so the provider is not asked once more")
        outcome = gate.resolve(
            arguments.key,
            happened=arguments.happened,
            by=arguments.by,
            note=arguments.note,
            despite_roll_forward=arguments.despite_roll_forward,
        )
    if arguments.json:
        _print_json(_outcome_values(outcome))
    else:
        _print(outcome.receipt.to_text())
    return _code_of([outcome])


def _gate(arguments: argparse.Namespace, targets: Sequence[Target[Any]]) -> Gate:
    from interlock.config import GateConfig
    from interlock.domain.sending import CLAIM_MARGIN_S
    from interlock.gate import Gate

    with _reader(arguments):
        pass  # a gate makes the journal where there is none, and a mistyped path must not look like a journal with nothing to do
    # The targets' own program may work with a longer time to live, which the journal does not know.
    deadlines_s = [target.capabilities.send_deadline_s + CLAIM_MARGIN_S for target in targets]
    config = GateConfig(claim_ttl_s=max([GateConfig().claim_ttl_s, *deadlines_s]))
    return Gate.open(arguments.journal, targets=targets, config=config)


def _targets(arguments: argparse.Namespace) -> list[Target[Any]]:
    places: list[str] = arguments.targets or os.environ.get(TARGETS_VARIABLE, "").replace(",", " ").split()
    here = str(Path.cwd())
    if places and here not in sys.path:
        sys.path.insert(0, here)  # `python -m` looks here too; a console script does not
    return [target for place in places for target in _targets_at(place)]


def _targets_at(place: str) -> list[Target[Any]]:
    from interlock.domain.ports import Target
    from interlock.errors import InvalidConfiguration

    found = _load(place)
    several: Iterable[object] = cast("Iterable[object]", found) if isinstance(found, Iterable) else [found]
    targets = list(several)
    if not targets or not all(isinstance(target, Target) for target in targets):
        raise InvalidConfiguration(f"{place} is no target, nor several, nor a function without arguments that returns them")
    return cast("list[Target[Any]]", targets)


def _load(place: str) -> object:
    from importlib import import_module

    from interlock.errors import InterlockError, InvalidConfiguration

    module, colon, attribute = place.partition(":")
    if not (module and colon and attribute):
        raise InvalidConfiguration(f"targets are named by MODULE:ATTRIBUTE, not {place!r}")
    try:
        found: object = getattr(import_module(module), attribute)
        made: object = found() if callable(found) else found
    except InterlockError:
        raise
    except Exception as error:
        raise InvalidConfiguration(f"{place} can't be loaded: {_words_of(error)}") from error
    return made


# --- printing


def _print_report(report: Report, arguments: argparse.Namespace) -> int:
    from interlock.outcomes import InFlight

    if arguments.json:
        _print_json(
            {
                "outcomes": [_outcome_values(outcome) for outcome in report.outcomes],
                "skipped": dict(report.skipped),
                "failed": {key: _words_of(error) for key, error in report.failed.items()},
            }
        )
    else:
        rows = [(type(one).__name__, one.key, one.words if isinstance(one, InFlight) else "") for one in report.outcomes]
        rows += [("skipped", key, f"its target, {name}, was not given with --targets") for key, name in report.skipped.items()]
        rows += [("failed", key, _words_of(error)) for key, error in report.failed.items()]
        _print_table(("OUTCOME", "KEY", "WORDS"), rows, "nothing to do")
    if report.failed:
        return Exit.FOUND
    return Exit.OPEN if report.skipped else _code_of(report.outcomes)


def _code_of(outcomes: Sequence[Outcome]) -> int:
    from interlock.outcomes import InFlight

    return Exit.OPEN if any(isinstance(outcome, InFlight) for outcome in outcomes) else Exit.OK


def _outcome_values(outcome: Outcome) -> dict[str, Any]:
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


def _print_receipts(receipts: Sequence[Receipt], none: str) -> None:
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
    _print_table(("STATUS", "HAPPENED", "KEY", "AMOUNT (MINOR)", "TARGET", "APPROVAL", "VIA OR CODE", "CHANGED"), rows, none)


def _print_verification(verification: Verification) -> None:
    findings = [(finding.kind.value, finding.place, finding.words) for finding in verification.findings]
    _print_table(("FINDING", "PLACE", "WORDS"), findings, "nothing is wrong with what is there")
    _print(f"{verification.events} events read of {verification.log_id}; completeness: {verification.completeness}")


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> None:
    if not rows:
        _print(none)
        return
    lines = [[_printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        _print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print(text: str) -> None:
    print("\n".join(map(_printable, text.split("\n"))))


def _printable(text: str) -> str:
    """Escape what would steer the terminal: a provider's words and a person's notes end up here."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _print_json(value: Mapping[str, Any]) -> None:
    print(json.dumps(value, indent=2))


# --- errors


def _require_journal(url: str | None) -> None:
    from interlock.errors import InvalidConfiguration

    if not url:
        raise InvalidConfiguration(f"no journal is named; pass --journal sqlite:///path/to/file.db or set {JOURNAL_VARIABLE}")


def _explain(error: InterlockError, arguments: argparse.Namespace) -> int:
    """Say what happened, what was not done, and what to do next."""
    from interlock.errors import InvalidInput, JournalCorrupt, JournalError, NotResolvable, UnknownAction

    nothing = isinstance(error, InvalidInput | NotResolvable) or arguments.command not in ("recover", "reconcile", "resolve")
    not_done = (
        "nothing was written or sent"
        if nothing
        else "nothing is sent before the journal says so, and the rest of the pass was not begun"
    )
    codes: dict[type[InterlockError], Exit] = {InvalidInput: Exit.USAGE, NotResolvable: Exit.FOUND, JournalError: Exit.JOURNAL}
    advice: dict[type[InterlockError], str] = {
        UnknownAction: "list the keys with `interlock receipts`",
        InvalidInput: f"correct the call; see `interlock {arguments.command} --help`",
        NotResolvable: f"look at it with `interlock show {arguments.key}`" if "key" in arguments else "",
        JournalCorrupt: "see with `interlock verify` where the journal was changed, and restore it from a backup",
        JournalError: "repair what the message names, and run the same command again",
    }
    _say(f"interlock {arguments.command}: {_without_password(str(error), arguments.journal)}")
    _say(f"  not done: {not_done}")
    _say(f"  next: {_first(advice, error) or 'run the same command again'}")
    return _first(codes, error) or Exit.FOUND


def _words_of(error: Exception) -> str:
    """Say what an error is: ours in its words, any other by class and place, since its text may hold a secret."""
    from traceback import extract_tb

    from interlock.errors import InterlockError

    if isinstance(error, InterlockError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return f"{type(error).__name__} of {error.name!r}"
    frames = extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {frames[-1].filename}:{frames[-1].lineno}" if frames else type(error).__name__


def _first(by_class: Mapping[type[InterlockError], T], error: InterlockError) -> T | None:
    return next((value for kind, value in by_class.items() if isinstance(error, kind)), None)


def _without_password(text: str, url: str | None) -> str:
    """A journal's URL may hold a password, and an error may quote the URL."""
    password = urlsplit(url or "").password
    return text.replace(password, "***") if password else text


def _say(text: str) -> None:
    print("\n".join(map(_printable, text.split("\n"))), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
