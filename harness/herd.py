"""One gate of many dies with hundreds of actions in the middle of a send, and all the others come to recover them.

python -m harness.herd --actions 500 --gates 20
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import LiteralString
from uuid import UUID

import psycopg

from harness.postgres.server import PostgresServer
from harness.soak import provider
from harness.soak.provider import read_ledger
from harness.soak.target import CURRENCY, Payout, Payouts
from interlock import Answer, Deadline, Effect, Gate, GateConfig, Receipts
from interlock.domain.action import GatedAction

_GATES_A_PROCESS = 5
_LONGEST_S = 120.0
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["interlock.gate", "interlock.infrastructure.postgres.journal", "harness.soak.target"])


@dataclass(frozen=True, slots=True)
class Rescue:
    """What became of the actions.

    Args:
        endings: how many of them ended how.
        payouts: how many the provider's ledger has, by the mark of the action.
        takeovers: how often each action was taken over from the dead.
        rescuers: how many gates took any over.
        conflicts: how many appends found that somebody else had written: work that was done in vain.
        took_s: from the death to the last ending.
    """

    endings: Counter[str]
    payouts: Counter[str]
    takeovers: Counter[UUID]
    rescuers: int
    conflicts: int
    took_s: float


class _Hanging(Payouts):
    """Pays every other payout out, and answers none."""

    def __init__(self, port: int, hangs: threading.Semaphore) -> None:
        super().__init__(port)
        self._hangs = hangs

    def _send(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        if effect.parameters.amount_minor % 2:
            with suppress(OSError):  # the provider gives no answer now and then; here nobody waits for one
                super()._send(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        self._hangs.release()
        threading.Event().wait()
        raise AssertionError("it waits for ever")


def run(url: str, *, actions: int, gates: int) -> Rescue:
    """Let one gate die with so many actions, and so many others recover them.

    Args:
        url: an empty database on PostgreSQL; its sessions count the calls of its functions.
        actions: how many the dead gate had sent.
        gates: how many others there are, five in a process.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET track_functions = pl'.encode())
    with TemporaryDirectory(prefix="herd-") as name:
        ledger = Path(name) / "ledger.jsonl"
        line, theirs = multiprocessing.Pipe()
        paying = _CONTEXT.Process(target=provider.serve, args=(ledger, 0, theirs), daemon=True)
        paying.start()
        port = int(line.recv())
        dying_line, dying_theirs = multiprocessing.Pipe()
        dying = _CONTEXT.Process(target=_die, args=(url, port, actions, dying_theirs), daemon=True)
        dying.start()
        dying_line.recv()  # every action is in the middle of its send
        written = _count_appends(url)
        others = [_CONTEXT.Process(target=_rescue, args=(url, port), daemon=True) for _ in range(gates // _GATES_A_PROCESS)]
        for process in others:
            process.start()
        try:
            time.sleep(1)  # they look on, and take nothing from the living
            began_s = time.monotonic()
            dying.kill()
            endings = _await_endings(url)
            took_s = time.monotonic() - began_s
        finally:
            for process in (dying, *others):
                process.terminate()
                process.join()
            paying.kill()
            paying.join()
            line.close()
        payouts = Counter(payout["action"] for payout in read_ledger(ledger))
    takeovers, rescuers = _takeovers(url)
    return Rescue(endings, payouts, takeovers, rescuers, _conflicts(url, written), took_s)


def _die(url: str, port: int, actions: int, line: Connection) -> None:
    hangs = threading.Semaphore(0)
    gate = Gate.open(url, targets=[target := _Hanging(port, hangs)], config=GateConfig(claim_ttl_s=600))

    def fire(number: int) -> None:
        gate.approve(f"case-{number}", by="user:1", expires_in_s=3600, cap_minor=actions, currency=CURRENCY)
        gate.fire(f"payout:{number}", target.pay(f"customer-{number}", 1 + number), approval=f"case-{number}")

    for number in range(actions):
        threading.Thread(target=fire, args=(number,), daemon=True).start()
    for _ in range(actions):
        hangs.acquire()
    line.send("dying")
    threading.Event().wait()


def _rescue(url: str, port: int) -> None:
    for _ in range(_GATES_A_PROCESS):
        gate = Gate.open(f"{url}&max_connections=1", targets=[Payouts(port)], config=GateConfig(recover_every_s=0.5))
        threading.Thread(target=gate.recover_forever, daemon=True).start()
    threading.Event().wait()


def _await_endings(url: str) -> Counter[str]:
    until_s = time.monotonic() + _LONGEST_S
    with Receipts.open(url) as reader:
        while reader.receipts(status="IN_FLIGHT", limit=1).receipts and time.monotonic() < until_s:
            time.sleep(0.05)
        endings, after = Counter[str](), None
        while True:
            page = reader.receipts(limit=500, after=after)
            endings.update(receipt.status for receipt in page.receipts)
            after = page.next_page
            if after is None:
                return endings


def _takeovers(url: str) -> tuple[Counter[UUID], int]:
    taken, holders = Counter[UUID](), set[str]()
    with Receipts.open(url) as reader:
        for batch in reader.follow(wait=False):
            for event in batch.events:
                claimed = event.decode() if event.topic == GatedAction.Claimed.TOPIC else None
                if claimed is not None and claimed.why == "holder gone":
                    taken[event.aggregate_id] += 1
                    holders.add(claimed.claim.holder)
    return taken, len(holders)


_COUNT_APPENDS = """
    CREATE FUNCTION count_append() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
    CREATE TRIGGER count_append BEFORE INSERT ON stored_events FOR EACH STATEMENT EXECUTE FUNCTION count_append();
"""
"""The database counts the calls. A statement's trigger is called also where the statement writes nothing."""
_WRITTEN = "SELECT count(DISTINCT commit_order) FROM stored_events"
_APPENDS = "SELECT calls FROM pg_stat_user_functions WHERE funcname = 'count_append'"


def _count_appends(url: str) -> int:
    """Let the database count appends from now on; return how many wrote something before."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=interlock") as connection:
        connection.execute(_COUNT_APPENDS)
        return _number(connection, _WRITTEN)


def _conflicts(url: str, before: int) -> int:
    """Return how many appends wrote nothing: each that wrote has a transaction of its own."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=interlock") as connection:
        return _number(connection, _APPENDS) - (_number(connection, _WRITTEN) - before)


def _number(connection: psycopg.Connection[tuple[int, ...]], statement: LiteralString) -> int:
    row = connection.execute(statement).fetchone()
    assert row is not None, "it is one row"
    return row[0]


def main() -> int:
    """Run it on a server of its own, and print what became of the actions."""
    parser = argparse.ArgumentParser(prog="python -m harness.herd", description=__doc__)
    parser.add_argument("--actions", type=int, default=500)
    parser.add_argument("--gates", type=int, default=20)
    given = parser.parse_args()
    with PostgresServer.start(in_memory=True, settings={"max_connections": "200"}) as server:
        rescue = run(server.create_database("herd"), actions=given.actions, gates=given.gates)
    print(
        f"endings: {dict(rescue.endings)}; payouts: {len(rescue.payouts)}, at most {max(rescue.payouts.values())} of one action"
    )
    print(f"takeovers: {rescue.takeovers.total()} of {len(rescue.takeovers)} actions, by {rescue.rescuers} gates")
    print(f"appends in vain: {rescue.conflicts}; from the death to the last ending: {rescue.took_s:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
