"""Verdicts: what an answer of Stripe's, or the lack of one, means for a send and for a burn.

Everything that is not a definite yes or a definite no is Unknown (I6).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from traceback import walk_stack

import stripe

from interlock.domain.answers import (
    AlreadyUsed,
    BurnAnswer,
    Burned,
    CannotTell,
    Declined,
    Done,
    InProgress,
    KeyState,
    NotSent,
    SendAnswer,
    Unknown,
)
from interlock.domain.effects import Effect
from interlock.infrastructure.transports import DeadlineOver
from interlock.stripe.effect import Refund
from interlock.stripe.evidence import Json, evidence_of, is_refund, json_object

_OK = 200
_CONFLICT = 409
_MAX_WORDS = 500

# docs.stripe.com/api/errors. 424 (a dependency of Stripe's failed), 408 and whatever is new say nothing about how far
# the request came.
_DEFINITE_STATUSES = frozenset((400, 401, 402, 403, 404))
_DEFINITE_TYPES = frozenset(("invalid_request_error", "card_error"))

_SECRET = re.compile(r"\b(?:sk|rk|pk|rkcs|whsec)_\S+")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200 that could be parsed."""

    status: int
    headers: Mapping[str, str]
    body: Json

    @property
    def replayed(self) -> bool:
        """Whether Stripe answered from memory for a key that it had seen before."""
        return is_replayed(self.headers)


def is_replayed(headers: Mapping[str, str]) -> bool:
    """Whether Stripe answered from memory (docs.stripe.com/api/idempotent_requests)."""
    return headers.get("idempotent-replayed") == "true"


def verdict_of_reply(reply: Reply, effect: Effect[Refund]) -> SendAnswer:
    """Return what an answer without an error means for a send."""
    if reply.status != _OK or not is_refund(reply.body):
        return Unknown(f"status {reply.status} with something that is not a refund")
    request_id = reply.headers.get("request-id")
    return Done(evidence_of(reply.body, effect, replayed=reply.replayed, request_id=request_id))


def verdict_of_failure(error: Exception, *, written: bool) -> SendAnswer:
    """Return what a failure means for a send.

    Args:
        error: what the SDK or the transport raised.
        written: whether any byte of the request can have left.
    """
    if isinstance(error, stripe.StripeError) and (judge := _BY_CLASS.get(type(error))) is not None:
        return judge(error)
    # No answer. Nothing was written is the transport's own knowledge; no exception's class proves as much.
    return Unknown(words_of(error)) if written else NotSent(words_of(error))


def burn_verdict_of_reply(reply: Reply, payment: str) -> BurnAnswer:
    """Return what an answer without an error means for a burn.

    Replayed is as good: it is then our own burn that is stored under the key.
    """
    if reply.status == _OK and reply.body.get("object") == "payment_intent" and reply.body.get("id") == payment:
        return Burned()
    return CannotTell(f"status {reply.status} with something that is not the payment")


def burn_verdict_of_failure(error: Exception) -> BurnAnswer:
    """Return what a failure means for a burn: only a key that belongs to another request, or is in use, is news."""
    if isinstance(error, stripe.IdempotencyError):
        return AlreadyUsed()
    if isinstance(error, stripe.APIError) and error.http_status == _CONFLICT and _type_of(error):
        return InProgress()
    return CannotTell(words_of(error))


def words_of(error: Exception) -> str:
    """Return what can be said of a failure: Stripe's own words without anything like a key, or classes of exceptions."""
    causes = _causes_of(error)
    if any(isinstance(cause, DeadlineOver) for cause in causes):
        return "the deadline was over"
    if isinstance(error, stripe.StripeError) and error.http_status is not None:
        said = error.user_message if _type_of(error) else "an answer that is not Stripe's"
        return _SECRET.sub("[key]", f"status {error.http_status}: {said}")[:_MAX_WORDS]
    return f"no answer: {type(causes[-1]).__name__}"


def _definite(error: stripe.StripeError) -> SendAnswer:
    type_ = _type_of(error)
    if error.http_status not in _DEFINITE_STATUSES or type_ not in _DEFINITE_TYPES:
        return Unknown(words_of(error))
    return Declined(_code_of(error) or type_, words_of(error), replayed=is_replayed(error.headers or {}))


def _rate_limited(error: stripe.StripeError) -> SendAnswer:
    # Limiters and object locks turn a request away before it is executed (docs.stripe.com/rate-limits). An answer from
    # memory would contradict that.
    if _type_of(error) is None or is_replayed(error.headers or {}):
        return Unknown(words_of(error))
    return NotSent(_code_of(error) or "rate_limited")


def _mismatched(error: stripe.StripeError) -> SendAnswer:
    return Unknown(words_of(error), KeyState.MISMATCHED)


def _other(error: stripe.StripeError) -> SendAnswer:
    # A 500 is indeterminate, and stored under the key if its execution had begun (docs.stripe.com/error-low-level).
    # Only a replay says that it was: a first one is OPEN, because sending again under the same key is harmless, and
    # brings the action to its end where nothing was stored.
    if error.http_status == _CONFLICT and _type_of(error):
        return Unknown(words_of(error), KeyState.IN_PROGRESS)
    replayed = is_replayed(error.headers or {})
    return Unknown(words_of(error), KeyState.STORED_FAILURE if replayed else KeyState.OPEN)


_BY_CLASS: Mapping[type[stripe.StripeError], Callable[[stripe.StripeError], SendAnswer]] = {
    stripe.InvalidRequestError: _definite,
    stripe.CardError: _definite,
    stripe.AuthenticationError: _definite,
    stripe.PermissionError: _definite,
    stripe.RateLimitError: _rate_limited,
    stripe.IdempotencyError: _mismatched,
    stripe.APIError: _other,
}
"""The classes that the SDK makes of a v1 answer. `APIConnectionError` is the lack of one; the others are of v2."""


def _type_of(error: stripe.StripeError) -> str | None:
    """Return the type in Stripe's error object; None where the answer was not Stripe's JSON."""
    return _field(error, "type")


def _code_of(error: stripe.StripeError) -> str | None:
    # Not `error.code`: the SDK leaves it empty for several classes.
    return _field(error, "code")


def _field(error: stripe.StripeError, name: str) -> str | None:
    body = json_object(error.json_body)
    told = None if body is None else json_object(body.get("error"))
    value = None if told is None else told.get(name)
    return value if isinstance(value, str) else None


def _causes_of(error: BaseException) -> list[BaseException]:
    """Return an error and what led to it, the first cause last.

    What the caller was handling when it fired is the context of everything that is raised meanwhile, and no cause: its traceback
    begins in a frame that still runs.
    """
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and not _is_being_handled(cause):
        causes.append(cause)
    return causes


def _is_being_handled(error: BaseException) -> bool:
    caught_in = error.__traceback__ and error.__traceback__.tb_frame
    return any(frame is caught_in for frame, _ in walk_stack(None))
