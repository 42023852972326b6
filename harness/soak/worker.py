"""A worker's life: fire one action after the other, and recover what others left, until it is told to stop, or killed."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from harness.soak.target import CURRENCY, Payouts
from interlock import Gate, GateConfig
from interlock.errors import ApprovalNotUsable, InterlockError

REVOKED = 0.03
"""How often the approval is taken back while the action is fired."""
CLAIM_TTL_S = 20.0
RECOVER_EVERY_S = 1.0
_AGAIN_S = 0.2
_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Site:
    """What a worker is given.

    Args:
        url: the journal.
        port: the provider's.
        folder: where workers announce what they do.
        slot: which worker it is.
        life: how often it was started before.
        pause_s: between two actions.
    """

    url: str
    port: int
    folder: Path
    slot: int
    life: int
    pause_s: float

    def gate(self) -> Gate:
        """Open a gate on the journal."""
        config = GateConfig(claim_ttl_s=CLAIM_TTL_S, recover_every_s=RECOVER_EVERY_S)
        return Gate.open(self.url, targets=[Payouts(self.port)], config=config)


class Announcements:
    """What a worker was told, a line each, written with one call, so that a kill leaves it whole."""

    def __init__(self, folder: Path, slot: int) -> None:
        self._file = os.open(folder / f"worker-{slot}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, what: str, **about: str) -> None:
        """Announce something."""
        os.write(self._file, f"{json.dumps({'what': what, **about})}\n".encode())


def live(site: Site) -> None:
    """Be a worker for one life."""
    stopping, parent = threading.Event(), os.getppid()
    signal.signal(signal.SIGTERM, lambda *_: _stop(stopping))
    announced, chance = Announcements(site.folder, site.slot), random.Random(f"{site.slot}.{site.life}")
    with _opened(site, stopping, announced) as gate:
        recovering = threading.Thread(target=gate.recover_forever, daemon=True)
        recovering.start()
        number = 0
        while not stopping.wait(site.pause_s * chance.uniform(0.5, 1.5)) and os.getppid() == parent:
            number += 1
            _fire(site, gate, f"{site.slot}-{site.life}-{number}", chance, announced)


def _stop(stopping: threading.Event) -> None:
    # A handler must not take the lock that the thread it interrupts may hold.
    threading.Thread(target=stopping.set, daemon=True).start()


def _opened(site: Site, stopping: threading.Event, announced: Announcements) -> Gate:
    while True:
        try:
            return site.gate()
        except InterlockError as error:
            announced.say("raised", error=type(error).__name__)
            if stopping.wait(_AGAIN_S):
                raise


def _fire(site: Site, gate: Gate, name: str, chance: random.Random, announced: Announcements) -> None:
    """Approve a case and fire its action, again and again under the same key, until somebody gives an answer."""
    amount_minor, revoked = chance.randint(1, 100_000), chance.random() < REVOKED
    effect = Payouts(site.port).pay(f"customer-{name}", amount_minor)
    until_s, announced_begin = time.monotonic() + 60, False
    while time.monotonic() < until_s:
        try:
            gate.approve(name, by="user:1", expires_in_s=86_400, cap_minor=amount_minor, currency=CURRENCY)
            if not announced_begin:
                announced.say("begin", key=name)
                announced_begin = True
            if revoked:
                threading.Thread(target=_revoke, args=(gate, name, announced), daemon=True).start()
            outcome = gate.fire(name, effect, approval=name, wait_s=_WAIT_S)
        except InterlockError as error:
            announced.say("raised", key=name, error=type(error).__name__)
            if isinstance(error, ApprovalNotUsable):
                return
            time.sleep(_AGAIN_S)
        else:
            announced.say("outcome", key=name, status=type(outcome).__name__.upper())
            return


def _revoke(gate: Gate, name: str, announced: Announcements) -> None:
    try:
        gate.revoke(name, by="user:2")
    except InterlockError as error:
        announced.say("raised", key=name, error=type(error).__name__)
    else:
        announced.say("revoked", key=name)
