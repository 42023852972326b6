"""Starts the demo: `python -m harness.demo`, on 127.0.0.1 only. Ctrl-C ends it and every process that it started."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from harness.demo.app import Demo, build
from harness.demo.mock import PAUSE_S
from harness.demo.runs import Runs
from harness.demo.setting import CLAIM_TTL_S, SEND_DEADLINE_S, Keys, Setting
from harness.keys import DEFAULT_MODEL, LiveKeyRefused
from harness.live import NoKeys
from interlock.domain.sending import CLAIM_MARGIN_S
from interlock.errors import InterlockError

HOST = "127.0.0.1"
DEFAULT_PORT = 8787

BAD_USAGE = 2


def main(arguments: list[str] | None = None) -> int:
    """Serve the demo until it is told to end."""
    parser = _options()
    options = parser.parse_args(arguments)
    if options.claim_ttl_s < options.send_deadline_s + CLAIM_MARGIN_S:
        parser.error(f"a claim has to hold for {CLAIM_MARGIN_S:g} s longer than a send may take; nothing was started")
    try:
        keys = Keys() if options.local else Keys.of_environment()
        listening = _listen(options.port)
    except LiveKeyRefused as error:
        print(error, file=sys.stderr)
        return BAD_USAGE
    except OSError as error:
        print(f"port {options.port} can't be had ({error.strerror}); nothing was started. Another one: --port N", file=sys.stderr)
        return BAD_USAGE
    # A shell has what it starts in the background ignore it, and it may come before the server takes it over.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return _run(options, keys, listening)
    except KeyboardInterrupt:
        print("ended, with every process that it started", flush=True)
        return 0


def _run(options: argparse.Namespace, keys: Keys, listening: socket.socket) -> int:
    with ExitStack() as everything:
        everything.callback(listening.close)
        setting = Setting(
            data=options.data,
            folder=everything.enter_context(_folder()),
            keys=keys,
            model=options.model,
            stripe_address=options.stripe_address,
            model_address=options.model_address,
            claim_ttl_s=options.claim_ttl_s,
            send_deadline_s=options.send_deadline_s,
            mock_pause_s=options.mock_pause_s,
            with_temporal=not options.without_temporal,
        )
        try:
            demo = everything.enter_context(setting.set_up())
        except (InterlockError, NoKeys) as error:
            print(error, file=sys.stderr)
            return BAD_USAGE
        everything.callback(demo.runs.wait)
        if options.end_with_input:
            threading.Thread(target=_end_with_input, daemon=True).start()
        return _serve(demo, listening)


class _Server(uvicorn.Server):
    """A server that ends the run that goes on before it waits for open connections, which wait for the run."""

    def __init__(self, config: uvicorn.Config, runs: Runs) -> None:
        super().__init__(config)
        self._runs = runs

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._runs.close()
        super().handle_exit(sig, frame)


def _serve(demo: Demo, listening: socket.socket) -> int:
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        build(demo, port), log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="off"
    )
    print(f"{demo.mode}: http://{HOST}:{port}/   Ctrl-C ends it", flush=True)
    _Server(config, demo.runs).run(sockets=[listening])
    return 0


def _end_with_input() -> None:
    """End the demo when whoever started it is gone, however that came about."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _data_folder() -> Path:
    """Where the journal and the ledgers are kept over restarts (specifications.freedesktop.org/basedir)."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "interlock-demo"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.demo", description=__doc__)
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="where to listen; 0 takes a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--data", type=Path, default=_data_folder(), metavar="DIR", help="keeps the journal (default: %(default)s)"
    )
    parser.add_argument("--local", action="store_true", help="stand-ins, whatever keys there are")
    parser.add_argument("--without-temporal", action="store_true", help="start no Temporal server")
    parser.add_argument("--model", default=DEFAULT_MODEL, help="the model of a live demo (default: %(default)s)")
    parser.add_argument("--stripe-address", metavar="URL", help="rehearse a live demo: a stand-in on 127.0.0.1 speaks for Stripe")
    parser.add_argument(
        "--model-address", metavar="URL", help="rehearse a live demo: a stand-in on 127.0.0.1 speaks for the model"
    )
    parser.add_argument("--claim-ttl-s", type=float, default=CLAIM_TTL_S, metavar="S", help="default: %(default)s")
    parser.add_argument("--send-deadline-s", type=float, default=SEND_DEADLINE_S, metavar="S", help="default: %(default)s")
    parser.add_argument("--end-with-input", action="store_true", help="end when standard input is closed, as Ctrl-C does")
    parser.add_argument("--mock-pause-s", type=float, default=PAUSE_S, metavar="S", help="default: %(default)s")
    return parser


if __name__ == "__main__":
    sys.exit(main())
