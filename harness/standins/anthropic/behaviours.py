"""The ways in which the scripted model can be told to misbehave, and the switchboard that holds them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum, StrEnum


class Moment(Enum):
    """The point of a conversation at which a behaviour shows."""

    ANY_REQUEST = "any request"
    START = "nothing was read yet"
    DECISION = "the payment was read, the refund is asked for"
    AFTER_REFUND = "the refund was answered"


class Behaviour(StrEnum):
    """What the model, or the service around it, does."""

    NORMAL = "normal"
    ASK_TOO_MUCH = "ask_too_much"
    TWICE = "twice"
    TWICE_REWORDED = "twice_reworded"
    MORE = "more"
    OTHER_PAYMENT_NEXT = "other_payment_next"
    PARALLEL_TWICE = "parallel_twice"
    PARALLEL_DIFFERENT = "parallel_different"
    OTHER_PAYMENT = "other_payment"
    FRAUDULENT = "fraudulent"
    DECIMAL_AMOUNT = "decimal_amount"
    AMOUNT_IN_DOLLARS = "amount_in_dollars"
    NEGATIVE_AMOUNT = "negative_amount"
    IGNORE_LIMITS = "ignore_limits"
    EXTRA_FIELD = "extra_field"
    CUT_JSON = "cut_json"
    UNKNOWN_TOOL = "unknown_tool"
    BLIND = "blind"
    READS_AND_ASKS = "reads_and_asks"
    READS_AGAIN_AND_ASKS = "reads_again_and_asks"
    READS_FOREVER = "reads_forever"
    REWORDED = "reworded"
    CUT_STREAM = "cut_stream"
    CUT_AT_END = "cut_at_end"
    EMPTY_STREAM = "empty_stream"
    RESET_STREAM = "reset_stream"
    STREAM_ERROR = "stream_error"
    MAX_TOKENS = "max_tokens"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    OVERLOADED_529 = "overloaded_529"
    RATE_LIMIT_429 = "rate_limit_429"

    @property
    def cuts(self) -> bool:
        """Whether the answer stops before its end."""
        return self in (Behaviour.CUT_STREAM, Behaviour.EMPTY_STREAM, Behaviour.RESET_STREAM, Behaviour.STREAM_ERROR)

    @property
    def asks_again(self) -> bool:
        """Whether the model asks once more after its refund was answered."""
        return self.moment is Moment.AFTER_REFUND

    @property
    def moment(self) -> Moment:
        """When this behaviour shows; before and after, the model is normal."""
        return _MOMENTS.get(self, Moment.DECISION)


_MOMENTS = {
    Behaviour.OVERLOADED_529: Moment.ANY_REQUEST,
    Behaviour.RATE_LIMIT_429: Moment.ANY_REQUEST,
    Behaviour.BLIND: Moment.START,
    Behaviour.READS_AND_ASKS: Moment.START,
    Behaviour.TWICE: Moment.AFTER_REFUND,
    Behaviour.TWICE_REWORDED: Moment.AFTER_REFUND,
    Behaviour.MORE: Moment.AFTER_REFUND,
    Behaviour.OTHER_PAYMENT_NEXT: Moment.AFTER_REFUND,
}


@dataclass(frozen=True)
class Choice:
    """The behaviour picked for one answer."""

    behaviour: Behaviour
    retry_after_s: float


NORMAL = Choice(Behaviour.NORMAL, retry_after_s=0)


@dataclass
class _Rule:
    choice: Choice
    payment: str | None
    times_left: int | None

    def applies(self, payment: str | None, moment: Moment) -> bool:
        return (
            self.choice.behaviour.moment is moment
            and self.payment in (None, payment)
            and (self.times_left is None or self.times_left > 0)
        )


class Switchboard:
    """Which behaviour the next answer has; shared by all request threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []

    def set(self, behaviour: Behaviour, *, payment: str | None, times: int | None, retry_after_s: float) -> None:
        """Replace the rule for `payment` (None: for every payment)."""
        with self._lock:
            self._rules = [rule for rule in self._rules if rule.payment != payment]
            self._rules.append(_Rule(Choice(behaviour, retry_after_s), payment, times))

    def reset(self) -> None:
        """Forget every rule: the model is normal again."""
        with self._lock:
            self._rules.clear()

    def pick(self, payment: str | None, moment: Moment) -> Choice:
        """Take the behaviour for one answer; a rule with `times` counts only the answers that it changed."""
        with self._lock:
            # A rule for this very payment goes before one for all, so that cases can share one stand-in.
            for rule in sorted(self._rules, key=lambda rule: rule.payment is None):
                if rule.applies(payment, moment):
                    if rule.times_left is not None:
                        rule.times_left -= 1
                    return rule.choice
        return NORMAL
