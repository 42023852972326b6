"""A provider with idempotency keys, a lookup and a ledger on disk, as a process of its own. Now and then it gives no answer.

A request is a line of JSON over TCP, and so is its answer. The ledger is a line for each payout, written before the answer.
"""

from __future__ import annotations

import json
import os
import random
import socketserver
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

LOST_ANSWERS = 0.02
"""How often the connection is closed instead of answered, before or after the payout is made."""
LATE_ANSWERS = 0.002
LATE_S = 3.0


class _Provider(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, ledger: Path, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._ledger = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        self._random = random.Random(seed)
        self._by_key: dict[str, dict[str, Any]] = {}
        self._by_action: dict[str, list[dict[str, Any]]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer, or None where there is none."""
        with self._lock:
            chance = self._random.random()
        if chance < LOST_ANSWERS / 2:
            return None
        with self._lock:
            answer = self._pay(request) if request["do"] == "pay" else {"found": self._by_action.get(request["action"], [])}
        if chance < LOST_ANSWERS:
            return None
        if chance < LOST_ANSWERS + LATE_ANSWERS:
            time.sleep(LATE_S)
        return answer

    def _pay(self, request: dict[str, Any]) -> dict[str, Any]:
        known = self._by_key.get(request["key"])
        if known is not None:
            return {**known, "replayed": True}
        payout = {"id": f"po_{len(self._by_key) + 1}", **{name: request[name] for name in ("action", "subject", "amount_minor")}}
        os.write(self._ledger, f"{json.dumps(payout)}\n".encode())
        self._by_key[request["key"]] = payout
        self._by_action.setdefault(request["action"], []).append(payout)
        return {**payout, "replayed": False}


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer one request."""
        assert isinstance(self.server, _Provider), "it made this handler"
        line = self.rfile.readline()
        if not line.endswith(b"\n"):
            return  # its sender died in the middle of it
        answer = self.server.answer(json.loads(line))
        if answer is not None:
            try:
                self.wfile.write(f"{json.dumps(answer)}\n".encode())
            except OSError:
                return  # nobody waits for it any more


def serve(ledger: Path, seed: int, started: Connection) -> None:
    """Serve at a free port, which is sent back, until the parent is gone."""
    with _Provider(ledger, seed) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        started.send(provider.server_address[1])
        try:
            started.recv()
        except EOFError:
            provider.shutdown()


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Return every payout, in the order in which they were made."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
