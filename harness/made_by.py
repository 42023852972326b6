"""What a page of results says of the command that made it, so that anybody can make it again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence


def made_by(module: str, arguments: Sequence[str] | None = None) -> str:
    """Return the line for a page of results.

    Args:
        module: the module that was run as a command.
        arguments: its command line; the process's own where it is None. Where the page was written to is left out.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--out" in given:
        at = given.index("--out")
        del given[at : at + 2]
    return f"Made by `{shlex.join(['python', '-m', module, *given])}`."
