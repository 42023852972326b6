"""The target: payouts at the provider of the soak."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from interlock import (
    Absent,
    Answer,
    CapabilityProfile,
    DataclassCodec,
    Deadline,
    Done,
    Effect,
    Evidence,
    Found,
    LookupAnswer,
    Money,
    NotSent,
    Settlement,
    Target,
)

CURRENCY = "usd"


@dataclass(frozen=True, slots=True)
class Payout:
    """The parameters of a payout."""

    amount_minor: int


class Payouts(Target[Payout]):
    """Payouts, with keys and a lookup.

    Args:
        port: where the provider listens.
    """

    name = "payouts"
    codec = DataclassCodec(Payout)

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def capabilities(self) -> CapabilityProfile:
        """What harness/soak/provider.py does: keys for ever, a lookup of its own memory, an answer after 3 s at the latest."""
        return CapabilityProfile(
            send_deadline_s=2.0,
            kernel_s=2.0,
            settle_s=5.0,
            dedupe_window_s=86_400.0,
            lookup_staleness_s=0.0,
            roll_forward_s=0.0,
        )

    def pay(self, subject: str, amount_minor: int) -> Effect[Payout]:
        """Return a payout."""
        return Effect(self.name, subject, Payout(amount_minor), Money(amount_minor, CURRENCY))

    def _send(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        try:
            connection = socket.create_connection(("127.0.0.1", self._port), timeout=max(deadline.remaining_s(), 0.001))
        except OSError as error:
            return NotSent(type(error).__name__)
        request = {
            "do": "pay",
            "key": idempotency_key,
            "action": action_id.hex,
            "subject": effect.subject,
            "amount_minor": effect.parameters.amount_minor,
        }
        with connection:
            answer = _ask(connection, request, deadline)
        return Done(_evidence(effect, answer, replayed=answer["replayed"]))

    def _lookup(self, effect: Effect[Payout], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        read_at = datetime.now(UTC)
        with socket.create_connection(("127.0.0.1", self._port), timeout=max(deadline.remaining_s(), 0.001)) as connection:
            found = _ask(connection, {"do": "find", "action": action_id.hex}, deadline)["found"]
        return Found(_evidence(effect, found[0], replayed=False)) if found else Absent(read_at)


def _ask(connection: socket.socket, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    left_s = deadline.remaining_s()
    if left_s <= 0:
        raise TimeoutError
    connection.settimeout(left_s)
    connection.sendall(f"{json.dumps(request)}\n".encode())
    with connection.makefile("rb") as lines:
        line = lines.readline()
    if not line.endswith(b"\n"):
        raise ConnectionError("no answer")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _evidence(effect: Effect[Payout], payout: dict[str, Any], *, replayed: bool) -> Evidence:
    same = (payout["subject"], payout["amount_minor"]) == (effect.subject, effect.parameters.amount_minor)
    return Evidence(
        reference=payout["id"],
        state="paid",
        settlement=Settlement.FINAL,
        json=json.dumps(payout),
        replayed=replayed,
        disagreements=() if same else ("subject or amount",),
    )
