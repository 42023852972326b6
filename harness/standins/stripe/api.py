"""The API as a pure function of its world: who asks, what was asked before under the key, and what comes of it.

A request passes two gates. `admit` is everything before an execution: authentication, routing, the idempotency key.
What is turned away there leaves no trace under the key. `execute` (or `fail`, where a fault makes the provider stumble)
is the execution, and its answer is saved. Between the two a request can be held, which is when a second one meets the
409.
"""

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from . import refusals
from .clock import Appointment
from .endpoints import Call, Handler, find_route
from .idempotency import Fingerprint, IdempotencyKeys, Scope
from .params import Params, parse_pairs
from .refusals import Refusal
from .rendering import Json, charge_json, payment_json, refund_json
from .state import World, new_id

TEST_KEY_PREFIXES = ("sk_test_", "rk_test_", "rkcs_test_")


class Disposition(StrEnum):
    """What became of a request."""

    READ = "read"
    EXECUTED = "executed"
    REPLAYED = "replayed"
    REFUSED = "refused"
    NOT_EXECUTED = "not_executed"
    DEFERRED = "deferred"


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request as it came over the wire. The key is not shown in its repr."""

    method: str
    path: str
    pairs: tuple[tuple[str, str], ...] = ()
    api_key: str = field(default="", repr=False)
    stripe_account: str | None = None
    idempotency_key: str | None = None
    api_version: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body and headers, and what became of the request."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    disposition: Disposition


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that is about to be executed. Its key, if it has one, is in progress."""

    request: ApiRequest
    handler: Handler
    object_id: str
    account: str
    request_id: str
    scope: Scope | None


class Accounts:
    """Which key belongs to which account, and which accounts are connected. Keys are kept as digests only."""

    def __init__(self) -> None:
        """Start with no keys and no connections."""
        self._account_of: dict[bytes, str] = {}
        self._connected: set[str] = set()

    def assign(self, api_key: str, account: str) -> None:
        """Make a test key belong to `account`; a key nobody assigned has an account of its own.

        Raises:
            Refusal: It is not a test key.
        """
        self._check_test_key(api_key)
        self._account_of[_digest(api_key)] = account

    def connect(self, account: str) -> None:
        """Let every key act for `account` through `Stripe-Account`."""
        self._connected.add(account)

    def home(self, api_key: str) -> str:
        """Return the account that a key belongs to.

        Raises:
            Refusal: It is no test key; a live key is refused here, before anything of it is kept.
        """
        self._check_test_key(api_key)
        secret = api_key.partition("_test_")[2]
        return self._account_of.get(_digest(api_key)) or f"acct_LOCAL{_digest(secret).hex()[:12]}"

    def acting(self, api_key: str, stripe_account: str | None) -> str:
        """Return the account that a request acts for.

        Raises:
            Refusal: The key has no access to it.
        """
        home = self.home(api_key)
        if stripe_account in (None, home):
            return home
        if stripe_account not in self._connected:
            raise refusals.account_not_connected(str(stripe_account))
        return str(stripe_account)

    def _check_test_key(self, api_key: str) -> None:
        if not api_key:
            raise refusals.unauthenticated("You did not provide an API key.")
        if not api_key.startswith(TEST_KEY_PREFIXES):
            raise refusals.unauthenticated("This is a local stand-in: it takes test keys only, and kept nothing of yours.")


class StripeApi:
    """The whole API. Hold `lock` around anything that touches it or its world."""

    def __init__(self, world: World) -> None:
        """Put an API before `world`."""
        self.world = world
        self.accounts = Accounts()
        self.keys = IdempotencyKeys()
        self.lock = threading.RLock()

    def handle(self, request: ApiRequest, *, list_lag_s: float = 0.0) -> Answer:
        """Answer a request with nothing going wrong."""
        admitted = self.admit(request)
        return admitted if isinstance(admitted, Answer) else self.execute(admitted, list_lag_s=list_lag_s)

    def admit(self, request: ApiRequest) -> Admitted | Answer:
        """Take a request in, or answer it at once: refused, or replayed from what its key has saved."""
        with self.lock:
            self.tick()
            try:
                return self._admit(request)
            except Refusal as refusal:
                return _refused(refusal, request, new_id("req"))

    def execute(self, admitted: Admitted, *, list_lag_s: float = 0.0) -> Answer:
        """Carry the request out, and save the answer under its key."""
        with self.lock:
            try:
                rendered = self._run(admitted, list_lag_s)
            except Refusal as refusal:
                answer, saved = _refused(refusal, admitted.request, admitted.request_id), self._is_saved(refusal)
            except BaseException:
                self._settle(admitted, None)
                raise
            else:
                read = admitted.request.method == "GET"
                disposition = Disposition.READ if read else Disposition.EXECUTED
                answer, saved = _answer(200, rendered, admitted.request, admitted.request_id, disposition), True
            self._settle(admitted, answer if saved else None)
            return answer

    def fail(self, admitted: Admitted, headers: Mapping[str, str], *, with_effect: bool) -> Answer:
        """Answer 500, after the effect or instead of it, and save the 500 under the key."""
        with self.lock:
            disposition = Disposition.NOT_EXECUTED
            if with_effect and self._run_quietly(admitted):
                disposition = Disposition.EXECUTED
            return self._stumble(admitted, headers, disposition)

    def fail_and_roll_forward(self, admitted: Admitted, headers: Mapping[str, str], after_s: float) -> Answer:
        """Answer and save a 500 now, and make the effect `after_s` later on the stand-in's clock."""
        with self.lock:
            due_at = self.world.clock.now() + after_s
            reference = admitted.request.idempotency_key or ""
            self.world.agenda.add(Appointment(due_at, "roll_forward", reference, lambda: self._run_quietly(admitted)))
            return self._stumble(admitted, headers, Disposition.DEFERRED)

    def tick(self) -> None:
        """Let everything happen that has become due."""
        with self.lock:
            self.world.agenda.run_due(self.world.clock.now())

    def _admit(self, request: ApiRequest) -> Admitted | Answer:
        account = self.accounts.acting(request.api_key, request.stripe_account)
        handler, object_id = find_route(request.method, request.path)
        request_id = new_id("req")
        scope = self._scope(request, account)
        if scope is not None:
            fingerprint = Fingerprint(request.path, tuple(sorted(request.pairs)))
            record = self.keys.begin(scope, fingerprint, request_id, self.world.clock.now())
            if record is not None and record.status is not None:
                body = record.body if self.world.switches.replay_is_snapshot else self._as_it_is_now(record.body)
                headers = _headers(request, request_id, original=record.request_id, replayed=True)
                return Answer(record.status, body, headers, Disposition.REPLAYED)
        return Admitted(request, handler, object_id, account, request_id, scope)

    def _scope(self, request: ApiRequest, account: str) -> Scope | None:
        if request.method != "POST" or not request.idempotency_key:
            return None
        platform = self.world.switches.key_scope == "platform"
        return (self.accounts.home(request.api_key) if platform else account), request.idempotency_key

    def _run(self, admitted: Admitted, list_lag_s: float = 0.0) -> Json:
        request = admitted.request
        params = Params(parse_pairs(request.pairs))
        call = Call(
            world=self.world,
            account=admitted.account,
            params=params,
            object_id=admitted.object_id,
            idempotency_key=request.idempotency_key if admitted.scope else None,
            api_version=request.api_version,
            list_lag_s=list_lag_s,
        )
        return admitted.handler(call)

    def _run_quietly(self, admitted: Admitted) -> bool:
        try:
            self._run(admitted)
        except Refusal:
            return False
        return True

    def _stumble(self, admitted: Admitted, headers: Mapping[str, str], disposition: Disposition) -> Answer:
        body = refusals.internal_error(headers).body()
        answer = _answer(500, body, admitted.request, admitted.request_id, disposition, extra=headers)
        self._settle(admitted, answer)
        return answer

    def _settle(self, admitted: Admitted, answer: Answer | None) -> None:
        if admitted.scope is None:
            return
        if answer is None:
            self.keys.release(admitted.scope)
        else:
            self.keys.save(admitted.scope, answer.status, answer.body)

    def _is_saved(self, refusal: Refusal) -> bool:
        return refusal.saved and self.world.switches.save_business_refusals

    def _as_it_is_now(self, body: bytes) -> bytes:
        shown = json.loads(body)
        match shown.get("object"):
            case "refund":
                return _encode(refund_json(self.world.refund(None, shown["id"])))
            case "payment_intent":
                return _encode(payment_json(self.world.payment(None, shown["id"])))
            case "charge":
                return _encode(charge_json(self.world, self.world.charged(None, shown["id"])))
            case _:
                return body


def _refused(refusal: Refusal, request: ApiRequest, request_id: str) -> Answer:
    return _answer(refusal.status, refusal.body(), request, request_id, Disposition.REFUSED, extra=refusal.headers)


def _answer(
    status: int,
    body: Json,
    request: ApiRequest,
    request_id: str,
    disposition: Disposition,
    *,
    extra: Mapping[str, str] | None = None,
) -> Answer:
    headers = _headers(request, request_id, original=request_id, replayed=False) | dict(extra or {})
    return Answer(status, _encode(body), headers, disposition)


def _headers(request: ApiRequest, request_id: str, *, original: str, replayed: bool) -> dict[str, str]:
    headers = {"content-type": "application/json", "request-id": request_id}
    if request.api_version:
        headers["stripe-version"] = request.api_version
    if request.method == "POST" and request.idempotency_key:
        headers["idempotency-key"] = request.idempotency_key
        # A first answer names itself as the original, so only `idempotent-replayed` tells a replay.
        headers["original-request"] = original
    if replayed:
        headers["idempotent-replayed"] = "true"
    return headers


def _encode(body: Json) -> bytes:
    return json.dumps(body).encode()


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
