"""The command `interlock`: reads a journal, brings what is in it to its end, and looks after its database.

Exit codes: 0 all is well, 1 something was found or failed, 2 usage or bad input, 3 the journal can't be used, 4 something is
still in flight, or wants attention where that was asked. Standard library only, and the journal is imported when it is used.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from interlock.cli.arguments import JOURNAL_VARIABLE, parser
from interlock.cli.errors import explain, require_journal
from interlock.cli.output import Exit, hide_passwords_of, say, words_of


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
    arguments = parser().parse_args(argv)
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
        if "journal" in arguments:  # some commands have none, such as those that check evidence
            arguments.journal = arguments.journal or os.environ.get(JOURNAL_VARIABLE)
            hide_passwords_of(arguments.journal or "")
            require_journal(arguments.journal, JOURNAL_VARIABLE)
        return int(arguments.run(arguments))
    except InterlockError as error:
        return explain(error, arguments)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - a shell gets an exit code and words, and no traceback, whose text may hold a secret
        say(f"interlock {arguments.name}: it failed in a way that nobody foresaw: {words_of(error)}")
        say("  not done: nothing is sent before the journal says so")
        say("  next: `interlock attention` lists what is in flight; report this, it is a defect")
        # To the commands that check evidence, `FOUND` is a verdict, and there is none.
        return Exit.FOUND if "journal" in arguments else Exit.JOURNAL
    except KeyboardInterrupt:
        say(f"interlock {arguments.name}: interrupted. What is in flight stays so until the next `interlock recover`")
        return Exit.INTERRUPTED
