"""The commands that only read."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from interlock.cli.output import Exit, print_json, print_receipts, print_text, print_verification

if TYPE_CHECKING:
    from interlock.projections.followers import Lag
    from interlock.reading import Receipts


MAX_LAG_S = 60.0
"""For how long events may be held back from those who follow the log before somebody has to look."""


def receipts(arguments: argparse.Namespace) -> int:
    """List receipts, newest first."""
    with open_reader(arguments) as reader:
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
        print_json({"receipts": [receipt.to_dict() for receipt in page.receipts], "next_page": page.next_page})
        return Exit.OK
    print_receipts(page.receipts, "no receipts")
    if page.next_page is not None:
        print_text(f"more with --after {page.next_page}")
    return Exit.OK


def show(arguments: argparse.Namespace) -> int:
    """Show the receipt of one action."""
    with open_reader(arguments) as reader:
        receipt = reader.receipt(arguments.key)
    if arguments.json:
        print_json(receipt.to_dict())
    else:
        print_text(receipt.to_text())
    return Exit.OK


def verify(arguments: argparse.Namespace) -> int:
    """Check that the log is what was written."""
    with open_reader(arguments) as reader:
        verification = reader.verify(arguments.key)
    if arguments.json:
        print_json(verification.to_dict())
    else:
        print_verification(verification)
    return Exit.OK if verification.valid else Exit.FOUND


def attention(arguments: argparse.Namespace) -> int:
    """List what a person has to look at."""
    with open_reader(arguments) as reader:
        receipts, lag = reader.attention(), reader.lag()
    late = lag if lag.is_over(arguments.max_lag) else None
    if arguments.json:
        values = {"receipts": [receipt.to_dict() for receipt in receipts], "held_back": asdict(late) if late else None}
        print_json(values)
    else:
        if late is not None:
            print_text(lag_in_words(late))
        if receipts or late is None:
            print_receipts(receipts, "nothing wants attention")
    return Exit.OPEN if (receipts or late) and arguments.exit_code else Exit.OK


def lag_in_words(lag: Lag) -> str:
    """Say how many events are held back from those who follow the log, for how long, and by whom; and what has no position."""
    held = "no event is held back from those who follow the log"
    if lag.held_back_s is not None:
        held = (
            f"{lag.held_back} events have been held back from those who follow the log for up to {lag.held_back_s:.0f} s, "
            f"by {lag.held_by or 'a transaction that this role may not see, or that has just ended'}"
        )
    if lag.unplaced_s is None:
        return held
    return (
        f"{held}; events have been without a position in the log for up to {lag.unplaced_s:.0f} s: where that lasts, no node "
        "recovers, so keep `interlock recover --watch` or `recover_forever` running"
    )


def open_reader(arguments: argparse.Namespace) -> Receipts:
    """Open the journal for reading."""
    from interlock.reading import Receipts

    return Receipts.open(arguments.journal)
