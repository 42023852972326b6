"""Idempotency keys, as Stripe keeps them for the v1 API.

What is saved is the status and body of the first request once its execution begins, a 500 included; what was turned
away before that is not (docs.stripe.com/api/idempotent_requests). A key works only with the endpoint and the parameters
that it was first used with. All keys of an acting account share one namespace. After 24 hours a key may be forgotten,
and is forgotten here.
"""

from dataclasses import dataclass

from . import refusals

WINDOW_S = 24 * 3600.0
MAX_KEY_CHARS = 255

Scope = tuple[str, str]
"""Acting account and idempotency key."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a key is bound to: the endpoint and the parameters of its first request."""

    path: str
    params: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class KeyRecord:
    """The first request under a key, and its answer once there is one."""

    fingerprint: Fingerprint
    request_id: str
    first_seen_at: float
    status: int | None = None
    body: bytes = b""

    @property
    def in_progress(self) -> bool:
        """Whether the first request is still being executed."""
        return self.status is None


class IdempotencyKeys:
    """Every key that the provider still remembers."""

    def __init__(self) -> None:
        """Start with no keys."""
        self._records: dict[Scope, KeyRecord] = {}

    def begin(self, scope: Scope, fingerprint: Fingerprint, request_id: str, now: float) -> KeyRecord | None:
        """Take a key for an execution, or return the finished record that must be replayed instead.

        Raises:
            Refusal: The key is too long, in progress, or bound to another request.
        """
        key = scope[1]
        if len(key) > MAX_KEY_CHARS:
            raise refusals.key_too_long(MAX_KEY_CHARS)
        self._prune(scope, now)
        record = self._records.get(scope)
        if record is None:
            self._records[scope] = KeyRecord(fingerprint, request_id, now)
            return None
        if record.in_progress:
            raise refusals.key_in_use(key)
        if record.fingerprint.path != fingerprint.path:
            raise refusals.key_used_on_other_endpoint(fingerprint.path, record.fingerprint.path, key)
        if record.fingerprint != fingerprint:
            raise refusals.key_used_with_other_params(key)
        return record

    def save(self, scope: Scope, status: int, body: bytes) -> None:
        """Keep the answer of the execution that `begin` started."""
        record = self._records[scope]
        record.status, record.body = status, body

    def release(self, scope: Scope) -> None:
        """Give the key back unused: the request was turned away before it was executed."""
        del self._records[scope]

    def forget(self, key: str) -> int:
        """Forget a key early, in every account; return how many records went. One in progress stays."""
        gone = [scope for scope, record in self._records.items() if scope[1] == key and not record.in_progress]
        for scope in gone:
            del self._records[scope]
        return len(gone)

    def _prune(self, scope: Scope, now: float) -> None:
        record = self._records.get(scope)
        if record and not record.in_progress and now - record.first_seen_at >= WINDOW_S:
            del self._records[scope]
