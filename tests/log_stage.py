"""A journal whose log is signed: a provider in memory whose ledger judges, and keys in a folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from interlock import Gate
from interlock.domain.answers import Done, Evidence, Settlement
from interlock.domain.effects import Effect, Money
from interlock.evidence.vkeys import VerifierKey
from interlock.functions import target
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from interlock.keyfiles import KeyFile, Role, create_key, read_witness_key
from interlock.log import LogConfig
from interlock.log.service import LogService
from interlock.outcomes import Outcome
from interlock.witness.protocol import Witness
from interlock.witness.server import WitnessServer
from interlock.witness.state import WitnessState
from tests.gates import open_gate
from tests.journals import Journals, SQLiteJournals
from tests.provider_world import Transfer

IDENTITY = "test.example/interlock"
PATIENCE_S = 60.0


@dataclass
class Stage:
    """One journal, and what signs it.

    Args:
        journals: of which kind it is.
        folder: where its files are.
    """

    journals: Journals
    folder: Path
    ledger: list[str] = field(default_factory=list)
    before_send: Callable[[], object] = lambda: None
    send_deadline_s: float = 30.0
    key: KeyFile = field(init=False)
    opened: list[Journal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.key = create_key(Role.LOG, self.folder / "keys", IDENTITY)

    @property
    def path(self) -> Path:
        return self.folder / "journal.db"

    @property
    def url(self) -> str:
        return self.journals.url(self.path)

    @property
    def origin(self) -> str:
        """The log's name in its first epoch."""
        return f"{IDENTITY}-1"

    @property
    def mark(self) -> Path:
        return self.config().mark_of(IDENTITY)

    def config(self, **options: Any) -> LogConfig:
        """Return how the log is signed; quickly, unless said otherwise."""
        return LogConfig(**{"key_file": self.key.path, "every_s": 0.05, **options})

    def gate(self, log: LogConfig | None = None, **options: Any) -> Gate:
        """Open a gate whose provider writes every effect into the ledger."""

        @target("pay", effect=Transfer, send_deadline_s=self.send_deadline_s)
        def pay(effect: Transfer, /, *, idempotency_key: str, deadline_s: float) -> Done:
            del deadline_s
            self.before_send()
            self.ledger.append(effect.account)
            reference = f"tx_{len(self.ledger)}"
            return Done(
                Evidence(
                    reference=reference, state="done", settlement=Settlement.FINAL, json=f'{{"key": "{idempotency_key[:4]}"}}'
                )
            )

        self.pay = pay
        return open_gate(self.url, targets=[pay], log=log, **options)

    def fire(self, gate: Gate, name: str, **options: Any) -> Outcome:
        """Approve and fire one action of that name."""
        approval = gate.approve(f"case-{name}", cap_minor=100, currency="usd", by="user:1", expires_in_s=3600)
        return gate.fire(f"pay:{name}", self.effect(name), approval=approval, **options)

    def effect(self, name: str) -> Effect[Transfer]:
        """Return the effect of that name."""
        return self.pay.effect(Transfer(name, 100, "usd"), subject=name, money=Money(100, "usd"))

    def service(self, config: LogConfig | None = None) -> LogService:
        """Open the journal, and return what signs it, without a gate."""
        journal = self.journal()
        return LogService(journal, config or self.config(), journal.clock())

    def journal(self) -> Journal:
        """Open the journal; the stage closes it."""
        self.opened.append(open_journal(self.url))
        return self.opened[-1]

    def close(self) -> None:
        """Close what was opened."""
        for journal in self.opened:
            journal.close()

    def write(self, *names: str) -> None:
        """Carry actions out through a gate that signs nothing."""
        with self.gate() as gate:
            for name in names:
                self.fire(gate, name)


class Witnesses:
    """A real witness server that can be stopped and started again at one port, and the policy that asks for it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        file = create_key(Role.WITNESS, stage.folder / "witness-keys", "w.example")
        self._key, self._port = read_witness_key(file.path), 0
        self._running = ExitStack()
        self.start()
        self.policy = stage.folder / "policy"
        self.policy.write_text(f"log {stage.key.public}\nwitness w1 {file.public} {self.url}\nquorum w1\n", encoding="utf-8")

    def start(self) -> None:
        """Serve."""
        path = self._stage.folder / "witness.db"
        state = self._running.enter_context(WitnessState(path, self._key.key, create=not path.exists()))
        witness = Witness(self._key, [VerifierKey.parse(self._stage.key.public)], state, lambda: int(time.time()))
        server = self._running.enter_context(WitnessServer(witness, port=self._port))
        self.url = server.url
        self._port = int(server.url.rpartition(":")[2])

    def stop(self) -> None:
        """Be down."""
        self._running.close()


def restore(stage: Stage, size: int) -> None:
    """Set the journal back to an older state, as a backup does."""
    orphans = "DELETE FROM names WHERE aggregate_id NOT IN (SELECT originator_id FROM stored_events)"
    behind = ["DELETE FROM checkpoints WHERE size > SIZE", "DELETE FROM stored_events WHERE position > SIZE"]
    if not isinstance(stage.journals, SQLiteJournals):
        events = (
            "DELETE FROM stored_events e USING positions p WHERE e.originator_id = p.originator_id "
            "AND e.originator_version = p.originator_version AND p.position > SIZE"
        )
        behind[1:] = [events, "DELETE FROM positions WHERE position > SIZE"]
    for statement in (*behind, orphans):
        stage.journals.edit(stage.path, statement.replace("SIZE", str(size)))


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for something that another thread brings about."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, "it did not come about"
        threading.Event().wait(0.01)


def now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)
