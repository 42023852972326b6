"""What the scripted model says: pools of phrasings, drawn anew for every answer."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")

_LOOK = (
    "Let me read payment {payment} before I decide anything.",
    "I'll start with {payment}, to see what was paid and what has gone back already.",
    "First the facts: reading {payment}.",
    "Before I answer the customer I want to see {payment} itself.",
    "Opening {payment} to check its state.",
)
_READ = (
    "{payment} reads {facts}.",
    "I looked at {payment}: {facts}.",
    "According to the record, {payment} has {facts}.",
    "The payment {payment} shows {facts}.",
    "What I found on {payment}: {facts}.",
)
_WHY = (
    'The customer says "{complaint}", and a refund of {amount} {currency} was approved for that, {act}.',
    'The complaint is "{complaint}" and {amount} {currency} is approved, {act}.',
    'A person approved {amount} {currency} because of "{complaint}", {act}.',
    'This fits the complaint ("{complaint}") and the approval of {amount} {currency}, {act}.',
)
_ACT = (
    "so I am asking for that refund now",
    "so I'll issue it once",
    "which is why I request the refund",
    "hence the refund below",
    "so the right step is to refund it",
)
_EXPLAIN = (
    "Customer complaint: {complaint}",
    "Approved after the customer reported: {complaint}",
    "Refund as approved; customer wrote: {complaint}",
    "The customer is owed this because: {complaint}",
)
# Shares no phrasing with the pool above: the same request must be recognised without its words.
_EXPLAIN_REWORDED = (
    "Goodwill for a poor experience ({complaint})",
    "Making it right with the buyer - {complaint}",
    "Service recovery, see what they told us: {complaint}",
)
_DONE = (
    "Done: the refund for {payment} was answered with {facts}.",
    "The refund on {payment} went through the tool; it said {facts}.",
    "That closes it. The refund tool returned {facts} for {payment}.",
)
_STUCK = (
    "I can't go on with {payment}: {facts}. No refund was asked for.",
    "Nothing asked for on {payment}, since the tool answered {facts}.",
)
_DECLINE = (
    "I can't help with this request.",
    "I'm not able to carry on with this one.",
)


class Wording:
    """Draws phrasings from the pools; safe to share between threads."""

    def __init__(self, seed: int | None) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def pick(self, pool: Sequence[_T]) -> _T:
        """Draw one of `pool`."""
        with self._lock:
            return self._random.choice(pool)

    def looking(self, payment: str) -> str:
        """Words before the payment is read."""
        return self._say(_LOOK, payment=payment)

    def deciding(self, payment: str, read: str, complaint: str, amount: int, currency: str) -> str:
        """Words that tell what was read and why the refund is asked for."""
        reading = self._say(_READ, payment=payment, facts=describe(read))
        why = self._say(_WHY, complaint=complaint, amount=amount, currency=currency, act=self._say(_ACT))
        return f"{reading} {why}"

    def explanation(self, complaint: str, *, reworded: bool = False) -> str:
        """The free text that goes into the refund's arguments."""
        return self._say(_EXPLAIN_REWORDED if reworded else _EXPLAIN, complaint=complaint)

    def done(self, payment: str, answer: str) -> str:
        """Words after the refund was answered."""
        return self._say(_DONE, payment=payment, facts=describe(answer))

    def stuck(self, payment: str, answer: str) -> str:
        """Words when a tool could not be used."""
        return self._say(_STUCK, payment=payment, facts=describe(answer))

    def declining(self) -> str:
        """Words of a refusal."""
        return self._say(_DECLINE)

    def _say(self, pool: Sequence[str], **facts: object) -> str:
        return self.pick(pool).format(**facts)


def describe(answer: str) -> str:
    """A tool's answer in a few words: each plain field with its value, each list with its length."""
    try:
        fields = json.loads(answer)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        return answer[:200] or "nothing"
    words = [_field(name, value) for name, value in fields.items()]
    return ", ".join(word for word in words if word) or "no fields"


def _field(name: str, value: object) -> str:
    label = name.replace("_", " ")
    if isinstance(value, list):
        return f"number of {label} {len(value)}"
    return "" if isinstance(value, dict) or name == "id" else f"{label} {json.dumps(value).strip(chr(34))}"
