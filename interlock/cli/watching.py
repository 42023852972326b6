"""The commands that watch logs, and need no journal: a witness, and a monitor."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interlock.cli.output import Exit, hide_passwords_of, print_json, print_table, print_text, say

if TYPE_CHECKING:
    from interlock.evidence.policies import Policy
    from interlock.monitor.findings import Sighting
    from interlock.monitor.sources import Source


def witness(arguments: argparse.Namespace) -> int:
    """Serve a witness until a signal comes."""
    from interlock.errors import InvalidConfiguration
    from interlock.keyfiles import read_witness_key
    from interlock.log.service import read_policy
    from interlock.witness.protocol import Witness
    from interlock.witness.server import WitnessServer
    from interlock.witness.state import WitnessState

    key, policy = read_witness_key(arguments.key), read_policy(arguments.policy)
    with WitnessState(arguments.state, key.key, create=arguments.create) as state:
        served = Witness(key, [log.key for log in policy.logs], state, lambda: int(time.time()))
        try:
            server = WitnessServer(
                served,
                host=arguments.host,
                port=arguments.port,
                beyond_loopback=arguments.beyond_loopback,
                names=arguments.name_of_host or (),
            )
        except OSError as error:
            raise InvalidConfiguration(f"nothing can listen at {arguments.host}, port {arguments.port}: {error}") from error
        with server:
            said = {"witness": key.name, "url": server.url, "logs": len(policy.logs)}
            print_json(said) if arguments.json else print_text(f"{key.name} at {server.url}, for {len(policy.logs)} logs")
            sys.stdout.flush()
            _wait_for_signal()
    return Exit.OK


def monitor(arguments: argparse.Namespace) -> int:
    """Look at a log, once or again and again."""
    from interlock.errors import JournalUnavailable
    from interlock.keyfiles import read_witness_key
    from interlock.log.service import read_policy
    from interlock.monitor.state import MonitorState
    from interlock.monitor.watching import Monitor

    key, policy = read_witness_key(arguments.key), read_policy(arguments.policy)
    origin = _origin_of(policy, arguments.origin)
    with MonitorState(arguments.state, key.key, origin, create=arguments.create) as state, _source(arguments) as source:
        watching = Monitor(source, policy, state, key, lambda: int(time.time()))
        if arguments.every is None:
            return _told(watching.look(), arguments)
        stopped, code = stop_on_signal(), Exit.OK
        while True:
            try:
                code = max(code, _told(watching.look(), arguments))
            except JournalUnavailable as error:
                say(f"interlock monitor: {error}")  # it may be back at the next look
            if stopped.wait(arguments.every):
                return code


def _told(sighting: Sighting, arguments: argparse.Namespace) -> Exit:
    if arguments.json:
        print_json(sighting.to_dict())
    else:
        rows = [(finding.kind.value, finding.place, finding.words) for finding in sighting.findings]
        print_table(("FINDING", "PLACE", "WORDS"), rows, "nothing is wrong")
        size = "no checkpoint that can be read" if sighting.size is None else f"{sighting.origin}, {sighting.size} entries"
        print_text(
            f"{size}; {sighting.entries} read now, {sighting.open_actions} actions open; held: {sighting.held_size} entries"
        )
        if sighting.cosignature is not None:
            print_text(f"cosigned: {sighting.cosignature.rstrip()}")
    return Exit.OK if sighting.clean else Exit.FOUND


def _origin_of(policy: Policy, wanted: str | None) -> str:
    from interlock.errors import InvalidConfiguration

    origins = sorted({log.key.name for log in policy.logs})
    if wanted is None and len(origins) == 1:
        return origins[0]
    if wanted not in origins:
        raise InvalidConfiguration(f"the policy names the logs {', '.join(origins) or '(none)'}; say which one with --origin")
    return wanted


@contextmanager
def _source(arguments: argparse.Namespace) -> Generator[Source]:
    from interlock.infrastructure.opening import open_journal
    from interlock.monitor.journals import JournalSource
    from interlock.monitor.sources import folder, website

    if arguments.dir is not None:
        yield folder(arguments.dir)
    elif arguments.url is not None:
        yield website(arguments.url)
    else:
        hide_passwords_of(arguments.from_journal)
        with open_journal(arguments.from_journal, create=False) as journal:
            yield JournalSource(journal)


def stop_on_signal() -> threading.Event:
    """Return what is set when SIGTERM or SIGINT comes."""
    stopped = threading.Event()

    def stop(number: int, frame: object) -> None:
        del number, frame
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopped


def _wait_for_signal() -> None:
    stop_on_signal().wait()
