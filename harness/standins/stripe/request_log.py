"""What arrived at the API, in order: never a key, never an Authorization header, never parameters."""

import threading
import time
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request.

    Attributes:
        sequence: Rises by one with every request.
        wall_time: When it arrived, in seconds since the epoch on the real clock.
        disposition: received (still held back), read, executed, replayed, refused, not_executed or deferred.
        status: The HTTP status of the answer, also where a fault kept it from the client; None while there is none.
        fault: The fault that struck it.
    """

    sequence: int
    wall_time: float
    method: str
    path: str
    account: str | None
    idempotency_key: str | None
    disposition: str = "received"
    status: int | None = None
    fault: str | None = None


class RequestLog:
    """Every request since the start."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._entries: list[LoggedRequest] = []

    def note(self, method: str, path: str, account: str | None, key: str | None, fault: str | None) -> int:
        """Note a request as received; return its sequence number."""
        with self._lock:
            sequence = len(self._entries)
            self._entries.append(LoggedRequest(sequence, time.time(), method, path, account, key, fault=fault))
            return sequence

    def settle(self, sequence: int, disposition: str, status: int | None) -> None:
        """Say what became of a request."""
        with self._lock:
            self._entries[sequence] = replace(self._entries[sequence], disposition=disposition, status=status)

    def entries(self) -> list[LoggedRequest]:
        """Return all requests, in the order of their arrival."""
        with self._lock:
            return list(self._entries)
