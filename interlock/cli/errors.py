"""How the command explains an error."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from interlock.cli.output import Exit, say

if TYPE_CHECKING:
    from interlock.errors import InterlockError

T = TypeVar("T")

_WORKING = ("recover", "reconcile", "resolve")


def require_journal(url: str | None, variable: str) -> None:
    """Raise where no journal is named.

    Raises:
        InvalidConfiguration: neither an argument nor the variable names one.
    """
    from interlock.errors import InvalidConfiguration

    if not url:
        raise InvalidConfiguration(f"no journal is named; pass --journal sqlite:///path/to/file.db or set {variable}")


def explain(error: InterlockError, arguments: argparse.Namespace) -> int:
    """Say what happened, what was not done, and what to do next."""
    from interlock.errors import (
        EpochNeeded,
        InvalidInput,
        JournalCorrupt,
        JournalError,
        JournalOutdated,
        JournalTooNew,
        NotErasable,
        NotResolvable,
        UnknownAction,
    )

    nothing = isinstance(error, InvalidInput | NotErasable | NotResolvable) or arguments.name not in _WORKING
    not_done = (
        "nothing was written or sent"
        if nothing
        else "nothing is sent before the journal says so, and the rest of the pass was not begun"
    )
    codes: dict[type[InterlockError], Exit] = {InvalidInput: Exit.USAGE, NotResolvable: Exit.FOUND, JournalError: Exit.JOURNAL}
    advice: dict[type[InterlockError], str] = {
        UnknownAction: "list the keys with `interlock receipts`",
        InvalidInput: f"correct the call; see `interlock {arguments.name} --help`",
        NotResolvable: f"look at it with `interlock show {arguments.key}`" if "key" in arguments else "",
        JournalCorrupt: "see with `interlock verify` where the journal was changed, and restore it from a backup",
        EpochNeeded: "after a restore that was meant, `interlock log new-epoch --after-restore`; otherwise find who changed it",
        JournalOutdated: "run `interlock db upgrade` with a role that owns the schema, while no older version runs",
        JournalTooNew: "upgrade this program",
        JournalError: "repair what the message names, and run the same command again",
    }
    say(f"interlock {arguments.name}: {error}")
    say(f"  not done: {not_done}")
    say(f"  next: {_first(advice, error) or 'run the same command again'}")
    return _first(codes, error) or Exit.FOUND


def _first(by_class: Mapping[type[InterlockError], T], error: InterlockError) -> T | None:
    return next((value for kind, value in by_class.items() if isinstance(error, kind)), None)
