"""Every way in which a request can go wrong between the caller and the provider's memory, armed one by one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .api import ApiRequest  # the client imports this module and wants nothing of the server


class FaultKind(StrEnum):
    """What goes wrong. `seconds` are real ones, except where the stand-in's clock is named."""

    DROP_BEFORE_COMMIT = "drop_before_commit"
    """The connection closes; nothing was executed."""
    DROP_AFTER_COMMIT = "drop_after_commit"
    """Executed; then the connection closes without an answer."""
    RESET_BEFORE_ANSWER = "reset_before_answer"
    """The connection is reset (RST), after execution unless told otherwise."""
    TRUNCATE = "truncate"
    """Executed; the body stops short of its Content-Length."""
    DRIP = "drip"
    """Executed; the body comes byte by byte over `seconds`."""
    HOLD = "hold"
    """Admitted, and executed when released or after `seconds`; until then its key is in use."""
    DELAY_LANDING = "delay_landing"
    """Still on its way: lands as a whole after `seconds` (or when released), with or without its client; no answer."""
    ERROR_500_NO_EFFECT = "error_500_no_effect"
    """A stored 500; nothing was executed."""
    ERROR_500_WITH_EFFECT = "error_500_with_effect"
    """A stored 500; it was executed all the same."""
    ERROR_500_ROLL_FORWARD = "error_500_roll_forward"
    """A stored 500; the effect follows after `seconds` of the stand-in's clock."""
    RATE_LIMIT = "rate_limit"
    """429 before the idempotency layer."""
    LOCK_TIMEOUT = "lock_timeout"
    """429 because the object is held."""
    REDIRECT_302 = "redirect_302"
    """A redirect that clients follow with a GET."""
    REDIRECT_307 = "redirect_307"
    """A redirect that clients follow with the same POST."""
    HTML_502 = "html_502"
    """A proxy's error page."""
    EMPTY_OBJECT = "empty_object"
    """200 with `{}`, after execution unless told otherwise."""
    WRONG_AMOUNT = "wrong_amount"
    """Executed; the answer (not what is saved) says another amount."""
    LIST_LAG = "list_lag"
    """A list leaves out refunds younger than `seconds` of the stand-in's clock."""


_NEVER_EXECUTED = frozenset({FaultKind.DROP_BEFORE_COMMIT, FaultKind.RATE_LIMIT, FaultKind.LOCK_TIMEOUT})
_NOT_EXECUTED_BY_DEFAULT = frozenset({FaultKind.REDIRECT_302, FaultKind.REDIRECT_307, FaultKind.HTML_502})


@dataclass(slots=True)
class Fault:
    """One armed fault.

    Attributes:
        kind: What goes wrong.
        method: Which requests: their method,
        path_prefix: how their path begins,
        idempotency_key: and their key (None: any).
        times: For how many requests it is still armed.
        seconds: How long, where the kind has a duration.
        with_effect: Whether the request is executed, for the kinds that go either way (None: as the kind says).
        should_retry: The `Stripe-Should-Retry` header of 429 and 500 (None: absent).
        amount_minor: The amount that a wrong answer claims.
        location: Where a redirect leads (None: to the same path).
    """

    kind: FaultKind
    method: str = "POST"
    path_prefix: str = "/v1/refunds"
    idempotency_key: str | None = None
    times: int = 1
    seconds: float = 0.0
    with_effect: bool | None = None
    should_retry: bool | None = None
    amount_minor: int = 1
    location: str | None = None

    @property
    def executes(self) -> bool:
        """Whether the request is carried out at all."""
        if self.kind in _NEVER_EXECUTED:
            return False
        if self.with_effect is not None:
            return self.with_effect
        return self.kind not in _NOT_EXECUTED_BY_DEFAULT

    def matches(self, request: ApiRequest) -> bool:
        """Whether a request is one of those that it was armed for."""
        return (
            self.times > 0
            and request.method == self.method
            and request.path.startswith(self.path_prefix)
            and self.idempotency_key in (None, request.idempotency_key)
        )

    def headers(self) -> dict[str, str]:
        """Return the headers that the faulty answer carries."""
        headers = {}
        if self.should_retry is not None:
            headers["stripe-should-retry"] = str(self.should_retry).lower()
        if self.kind is FaultKind.RATE_LIMIT:
            headers["stripe-rate-limited-reason"] = "global-rate"
        return headers


class FaultBoard:
    """The armed faults, and the requests that one of them is holding back."""

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._armed: list[Fault] = []
        self._waiting: list[threading.Event] = []

    def arm(self, fault: Fault) -> None:
        """Arm a fault. Of several that match a request, the one armed first takes it."""
        with self._lock:
            self._armed.append(fault)

    def reset(self) -> int:
        """Disarm everything; return how many were armed. What is held back already stays so until released."""
        with self._lock:
            left = len(self._armed)
            self._armed.clear()
            return left

    def take(self, request: ApiRequest) -> Fault | None:
        """Return the fault that strikes this request, and use up one of its times."""
        with self._lock:
            fault = next((one for one in self._armed if one.matches(request)), None)
            if fault is not None:
                fault.times -= 1
                self._armed = [one for one in self._armed if one.times > 0]
            return fault

    def hold_back(self, seconds: float) -> None:
        """Block the calling thread until released, at most for `seconds`."""
        released = threading.Event()
        with self._lock:
            self._waiting.append(released)
        released.wait(seconds)
        with self._lock:
            self._waiting.remove(released)

    def held_back(self) -> int:
        """Return how many requests are being held back."""
        with self._lock:
            return len(self._waiting)

    def release(self) -> int:
        """Let every request go on that is held back now; return how many there were."""
        with self._lock:
            for released in self._waiting:
                released.set()
            return len(self._waiting)
