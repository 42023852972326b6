"""`python -m harness.standins.stripe --ledger FILE`: prints one JSON line and serves until its parent is gone."""

import argparse
import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path

from .api import StripeApi
from .clock import Clock
from .control import Control
from .exchange import Exchange
from .ledger import LedgerWriter
from .server import LocalServer, api_server, control_server
from .state import World

_TICK_S = 0.05


def main() -> None:
    """Run the stand-in."""
    arguments = _arguments()
    writer = LedgerWriter(arguments.ledger.resolve())
    exchange = Exchange(StripeApi(World(Clock(), writer.write)))
    api = api_server(arguments.port, exchange)
    control = control_server(arguments.control_port, Control(exchange))
    for server in (api, control):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    _announce(api, control, writer.path)
    _serve_until_orphaned(exchange.api, arguments.parent)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="harness.standins.stripe", description=__doc__)
    parser.add_argument("--ledger", type=Path, required=True, help="file that every effect is appended to")
    parser.add_argument("--port", type=int, default=0, help="port of the API on 127.0.0.1 (0: a free one)")
    parser.add_argument("--control-port", type=int, default=0, help="port of the control (0: a free one)")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process to end with (default: the parent)")
    return parser.parse_args()


def _announce(api: LocalServer, control: LocalServer, ledger: Path) -> None:
    handshake = {"api": api.url, "control": control.url, "ledger": str(ledger), "pid": os.getpid()}
    print(json.dumps(handshake), flush=True)


def _serve_until_orphaned(api: StripeApi, parent: int) -> None:
    """Tick until the parent is gone: its end of stdin is closed, or another process has taken its place.

    Both are needed: a forked sibling can hold the pipe open, and closing the pipe is how a living parent ends us. A
    caller names itself, because it may be gone before we look. `PR_SET_PDEATHSIG` is not used: it fires when the
    *thread* that started us ends (prctl(2)).
    """
    orphaned = threading.Event()
    if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when the audit has what it needs
        threading.Thread(target=_watch_stdin, args=(orphaned,), daemon=True).start()
    while os.getppid() == parent and not orphaned.wait(_TICK_S):
        api.tick()


def _watch_stdin(orphaned: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    orphaned.set()


if __name__ == "__main__":
    main()
