"""A journal on a PostgreSQL server of the test's own, behind a proxy, and a provider in memory whose ledger judges."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql

from harness.postgres.server import PostgresServer
from harness.postgres.wire import Traps
from harness.proxy import Proxy
from interlock import Gate, GateConfig
from interlock.infrastructure.postgres.appending import MARK
from tests.crashing import Actor
from tests.provider_world import AMOUNT, CURRENCY, PROFILES, LedgerEntry, World, WorldClock

T = TypeVar("T")

APPEND = MARK
"""What the statement of each commit begins with."""
PATIENCE_S = 30.0
_schemas = itertools.count(1)


class LiveClock(WorldClock):
    """The time as it is: these tests wait for real servers."""

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return datetime.now(UTC)


class Provider(World):
    """The provider, in real time, with a hook right before it carries anything out and one right after."""

    def __init__(self, profile: str = "keys-lookup") -> None:
        super().__init__(PROFILES[profile], clock=LiveClock())
        self.before_send: Callable[[], object] = nothing
        self.after_send: Callable[[], object] = nothing
        self.before_lookup: Callable[[], object] = nothing

    def _send(self, *args: Any, **more: Any) -> Any:
        self.before_send()
        answer = super()._send(*args, **more)
        self.after_send()
        return answer

    def _lookup(self, *args: Any, **more: Any) -> Any:
        self.before_lookup()
        return super()._lookup(*args, **more)


def nothing() -> None:
    """Do nothing."""


def once(do: Callable[[], object], nth: int = 1) -> Callable[[], None]:
    """Return what does something at the n-th call, and nothing at the others."""
    calls = itertools.count(1)

    def hook() -> None:
        if next(calls) == nth:
            do()

    return hook


@dataclass
class Stage:
    """One journal: a schema of a server, and gates that reach it through a proxy.

    Args:
        server: the database, which tests may kill.
        proxy: the network in between.
        traps: at which statements it misbehaves.
        profile: what the provider can do.
        database: in which database the schema is.
    """

    server: PostgresServer
    proxy: Proxy
    traps: Traps
    profile: str = "keys-lookup"
    database: str = "postgres"
    schema: str = field(default_factory=lambda: f"journal_{next(_schemas)}")
    gates: list[Gate] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the provider."""
        self.world = Provider(self.profile)

    def url(self, **options: str) -> str:
        """Return the journal's URL, through the proxy."""
        return self.server.url(self.database, port=self.proxy.port, schema=self.schema, **options)

    def direct_url(self) -> str:
        """Return the journal's URL, past the proxy."""
        return self.server.url(self.database, schema=self.schema)

    def gate(self, url: str | None = None, claim_ttl_s: float = 40.0) -> Gate:
        """Open a gate, which is closed with the stage."""
        gate = Gate.open(url or self.url(), targets=[self.world], config=GateConfig(claim_ttl_s=claim_ttl_s))
        self.gates.append(gate)
        return gate

    def actor(self, gate: Gate, key: str = "case-1") -> Actor:
        """Grant an approval, and return who may fire under it."""
        approve(gate, key)
        return Actor(gate, self.world, f"refund:{key}", key)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Carry out a statement past the proxy and any gate."""
        with self.session() as session:
            cursor = session.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    @staticmethod
    def sql_on(server: PostgresServer, statement: str) -> list[tuple[Any, ...]]:
        """Carry out a statement on a server."""
        with psycopg.connect(server.url(), autocommit=True) as session:
            return session.execute(statement.encode()).fetchall()

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Return a session past the proxy, as somebody else's program has one."""
        with psycopg.connect(self.server.url(self.database), autocommit=True) as session:
            session.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(self.schema)))
            yield session

    def effects(self, actor: Actor) -> list[LedgerEntry]:
        """Return what the provider did for an action, by its own ledger."""
        return self.world.effects_of(actor.action().id)

    def close(self) -> None:
        """Close the gates, and let the network be as it should."""
        self.traps.clear()
        self.proxy.heal()
        for gate in self.gates:
            with suppress(Exception):
                gate.close()


@contextmanager
def stage_on(server: PostgresServer, profile: str = "keys-lookup") -> Iterator[Stage]:
    """Return a fresh journal on a server, behind a proxy of its own."""
    traps = Traps()
    with Proxy(server.socket_path, traps.tap) as proxy:
        stage = Stage(server, proxy, traps, profile)
        try:
            yield stage
        finally:
            stage.close()


def approve(gate: Gate, approval_id: str, **terms: Any) -> None:
    """Grant an approval for one effect of the world."""
    gate.approve(approval_id, **{"by": "user:1", "expires_in_s": 86_400, "cap_minor": AMOUNT, "currency": CURRENCY, **terms})


class Background(threading.Thread):
    """Calls something on a thread of its own, and keeps what came of it."""

    def __init__(self, do: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._do = do
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Be the thread."""
        try:
            self._value = self._do()
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._error = error

    def result(self, patience_s: float = PATIENCE_S) -> Any:
        """Wait for it, and return what it returned, or raise what it raised."""
        self.join(patience_s)
        assert not self.is_alive(), "it did not come to an end"
        if self._error is not None:
            raise self._error
        return self._value


def wait_until(happened: Callable[[], T]) -> T:
    """Wait until something is true, and return it."""
    until_s = time.monotonic() + PATIENCE_S
    while not (seen := happened()):
        assert time.monotonic() < until_s, "it did not happen"
        time.sleep(0.005)
    return seen


def require_standby(stage: Stage, name: str) -> Background:
    """Let every commit from now on wait for a synchronous standby that is not there.

    Args:
        stage: whose server.
        name: of the standby, as synchronous_standby_names takes it.

    Returns:
        A commit that waits; the server may take a while to hear of its new setting.
    """
    stage.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    stage.sql("SELECT pg_reload_conf()")
    commit = "SELECT pg_logical_emit_message(true, 'probe', '')"
    waits = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%%''probe''%%'"

    def is_over_or_waits(probe: Background) -> bool:
        return not probe.is_alive() or bool(stage.sql(f"SELECT EXISTS ({waits})")[0][0])

    while True:
        probe = Background(lambda: stage.sql(commit))
        wait_until(partial(is_over_or_waits, probe))
        if probe.is_alive():
            return probe


def waiting_pid(stage: Stage, work: Background, event: str, statement: str = APPEND) -> int:
    """Wait until a session of a gate waits inside a statement; return its process.

    Args:
        stage: whose.
        work: what has to come to it.
        event: for what, as pg_stat_activity names it.
        statement: part of its text.
    """

    def pids() -> list[tuple[Any, ...]]:
        assert work.is_alive(), f"it came to an end without waiting: {work.result()}"
        return stage.sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'interlock' AND wait_event = %s AND query LIKE %s",
            event,
            f"%{statement}%",
        )

    return int(wait_until(pids)[0][0])


def see_end(stage: Stage, pid: int) -> None:
    """Wait until a process of the server has nothing to do any more: what it was to write is written, or never will be."""
    busy = "SELECT pid FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
    wait_until(lambda: stage.sql(busy, pid) == [])


def approval_uuid(gate: Gate, approval_id: str) -> UUID:
    """Return the id that an approval's writers stand in line by."""
    approval = gate._driver.journal.find_approval(approval_id)
    assert approval is not None
    return approval.id
