"""One request from its arrival to what is put on the wire: the API, with the armed faults around it."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum

from . import refusals
from .api import TEST_KEY_PREFIXES, Answer, ApiRequest, Disposition, StripeApi
from .faults import Fault, FaultBoard, FaultKind
from .refusals import Refusal
from .request_log import RequestLog

_PROXY_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"

_BETWEEN_ADMISSION_AND_EXECUTION = frozenset(
    {
        FaultKind.HOLD,
        FaultKind.ERROR_500_NO_EFFECT,
        FaultKind.ERROR_500_WITH_EFFECT,
        FaultKind.ERROR_500_ROLL_FORWARD,
    }
)


class Mode(StrEnum):
    """How an answer is put on the wire."""

    WHOLE = "whole"
    DROPPED = "dropped"
    RESET = "reset"
    TRUNCATED = "truncated"
    DRIPPED = "dripped"


@dataclass(frozen=True, slots=True)
class Delivery:
    """An answer and how it is to be delivered."""

    answer: Answer
    mode: Mode = Mode.WHOLE
    seconds: float = 0.0


class Exchange:
    """Runs requests against the API, lets the armed faults strike, and keeps the log."""

    def __init__(self, api: StripeApi) -> None:
        """Put an exchange before `api`."""
        self.api = api
        self.faults = FaultBoard()
        self.log = RequestLog()

    def run(self, request: ApiRequest) -> Delivery:
        """Carry one request through; may block where a fault holds it back."""
        fault = self.faults.take(request)
        sequence = self._note(request, fault)
        delivery = Delivery(self.api.handle(request)) if fault is None else self._run_with(fault, request)
        answer = delivery.answer
        self.log.settle(sequence, answer.disposition.value, answer.status or None)
        return delivery

    def _note(self, request: ApiRequest, fault: Fault | None) -> int:
        # Of a request with a live key nothing is kept, not even which object it was about.
        if not request.api_key.startswith(TEST_KEY_PREFIXES):
            return self.log.note(request.method, "", None, None, None)
        try:
            account = self.api.accounts.acting(request.api_key, request.stripe_account)
        except Refusal:
            account = None
        struck = fault.kind.value if fault else None
        return self.log.note(request.method, request.path, account, request.idempotency_key, struck)

    def _run_with(self, fault: Fault, request: ApiRequest) -> Delivery:
        return _delivered(self._answered(fault, request), fault, request)

    def _answered(self, fault: Fault, request: ApiRequest) -> Answer:
        match fault.kind:
            case FaultKind.RATE_LIMIT:
                return _limited(refusals.rate_limited(fault.headers()))
            case FaultKind.LOCK_TIMEOUT:
                return _limited(refusals.lock_timeout(fault.headers()))
            case FaultKind.DELAY_LANDING:
                # Nothing of it exists at the provider yet: its key is free, and whoever burns it meanwhile wins.
                self.faults.hold_back(fault.seconds)
                return self.api.handle(request)
            case FaultKind.LIST_LAG:
                return self.api.handle(request, list_lag_s=fault.seconds)
            case _ if fault.kind in _BETWEEN_ADMISSION_AND_EXECUTION:
                return self._executed_badly(fault, request)
            case _ if fault.executes:
                return self.api.handle(request)
            case _:
                return Answer(0, b"", {}, Disposition.NOT_EXECUTED)

    def _executed_badly(self, fault: Fault, request: ApiRequest) -> Answer:
        admitted = self.api.admit(request)
        if isinstance(admitted, Answer):
            return admitted
        match fault.kind:
            case FaultKind.ERROR_500_NO_EFFECT:
                return self.api.fail(admitted, fault.headers(), with_effect=False)
            case FaultKind.ERROR_500_WITH_EFFECT:
                return self.api.fail(admitted, fault.headers(), with_effect=True)
            case FaultKind.ERROR_500_ROLL_FORWARD:
                return self.api.fail_and_roll_forward(admitted, fault.headers(), fault.seconds)
            case _:
                self.faults.hold_back(fault.seconds)
                return self.api.execute(admitted)


def _limited(refusal: Refusal) -> Answer:
    body = json.dumps(refusal.body()).encode()
    headers = {"content-type": "application/json", **refusal.headers}
    return Answer(refusal.status, body, headers, Disposition.REFUSED)


def _delivered(answer: Answer, fault: Fault, request: ApiRequest) -> Delivery:
    match fault.kind:
        case FaultKind.DROP_BEFORE_COMMIT | FaultKind.DROP_AFTER_COMMIT | FaultKind.DELAY_LANDING:
            return Delivery(answer, Mode.DROPPED)
        case FaultKind.RESET_BEFORE_ANSWER:
            return Delivery(answer, Mode.RESET)
        case FaultKind.TRUNCATE:
            return Delivery(answer, Mode.TRUNCATED)
        case FaultKind.DRIP:
            return Delivery(answer, Mode.DRIPPED, fault.seconds)
        case FaultKind.WRONG_AMOUNT:
            return Delivery(_with_amount(answer, fault.amount_minor))
        case FaultKind.EMPTY_OBJECT:
            return Delivery(_disguised(answer, 200, b"{}", "application/json"))
        case FaultKind.HTML_502:
            return Delivery(_disguised(answer, 502, _PROXY_PAGE, "text/html"))
        case FaultKind.REDIRECT_302 | FaultKind.REDIRECT_307:
            status = 302 if fault.kind is FaultKind.REDIRECT_302 else 307
            redirect = _disguised(answer, status, b"", "text/plain")
            return Delivery(replace(redirect, headers={**redirect.headers, "location": fault.location or request.path}))
        case _:
            return Delivery(answer)


def _with_amount(answer: Answer, amount_minor: int) -> Answer:
    shown = json.loads(answer.body)
    if answer.status != 200 or "amount" not in shown:
        return answer
    return replace(answer, body=json.dumps(shown | {"amount": amount_minor}).encode())


def _disguised(answer: Answer, status: int, body: bytes, content_type: str) -> Answer:
    return Answer(status, body, {"content-type": content_type}, answer.disposition)
