"""The stand-in as a process: prints one JSON line with its addresses, and ends when its parent does."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import stat
import sys

from harness.standins.anthropic.server import StandIn, start

_LOOK_EVERY_S = 0.1


def main() -> None:
    """Serve until standard input ends or the parent dies."""
    parser = argparse.ArgumentParser(prog="python -m harness.standins.anthropic", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port of the API on 127.0.0.1 (default: any free one)")
    parser.add_argument("--seed", type=int, default=None, help="makes the model's wording repeatable")
    options = parser.parse_args()
    api, control = start(StandIn(options.seed), options.port)
    print(json.dumps({"api": api.url, "control": control.url, "pid": os.getpid()}), flush=True)
    _wait_until_orphaned()


def _wait_until_orphaned() -> None:
    """Return when the parent is gone: the pipe from it has ended, or another process has taken its place.

    A forked sibling can hold the pipe open, and a parent that died before we looked can't be missed by the pipe.
    `PR_SET_PDEATHSIG` is no help: it also fires when only the *thread* that started us ends (prctl(2)), and Python runs
    a handler in the main thread, which a signal that another thread received does not wake.
    """
    parent, stdin = os.getppid(), sys.stdin.fileno()
    inputs = [stdin] if stat.S_ISFIFO(os.fstat(stdin).st_mode) else []
    if inputs:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it may still need the model
    while os.getppid() == parent:
        ready, _, _ = select.select(inputs, [], [], _LOOK_EVERY_S)
        if ready and not os.read(stdin, 4096):
            return


if __name__ == "__main__":
    main()
