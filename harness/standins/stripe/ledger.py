"""The provider's own record of what happened: append-only JSON Lines, durable line by line.

The world writes a row at the very moment of an effect. An audit reads this file and nothing else, so it judges neither
by what the gate says nor by what the API under test says.
"""

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, assert_never

VOID_STATUSES = frozenset({"failed", "canceled"})
"""A refund in one of these states moved no money, or gave it back."""


@dataclass(frozen=True, slots=True)
class PaymentCreated:
    """A payment intent came into being."""

    KIND: ClassVar = "payment_created"
    payment: str
    account: str
    amount: int
    currency: str
    status: str
    charge: str | None
    metadata: dict[str, str]
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class PaymentConfirmed:
    """A payment intent was confirmed after its creation, and charged or declined."""

    KIND: ClassVar = "payment_confirmed"
    payment: str
    status: str
    charge: str | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class RefundCreated:
    """A refund came into being."""

    KIND: ClassVar = "refund_created"
    refund: str
    payment: str
    charge: str
    account: str
    amount: int
    currency: str
    status: str
    metadata: dict[str, str]
    idempotency_key: str | None
    by: Literal["api", "hand"]


@dataclass(frozen=True, slots=True)
class RefundStatusChanged:
    """A refund went from one state to another."""

    KIND: ClassVar = "refund_status_changed"
    refund: str
    payment: str
    status: str
    failure_reason: str | None


@dataclass(frozen=True, slots=True)
class MetadataUpdated:
    """The metadata of an object was changed; `metadata` is what it is now."""

    KIND: ClassVar = "metadata_updated"
    object_id: str
    metadata: dict[str, str]
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class DisputeOpened:
    """A payment's charge is disputed."""

    KIND: ClassVar = "dispute_opened"
    payment: str
    charge: str


Effect = PaymentCreated | PaymentConfirmed | RefundCreated | RefundStatusChanged | MetadataUpdated | DisputeOpened

_EFFECTS: dict[str, Callable[..., Effect]] = {
    one.KIND: one
    for one in (
        PaymentCreated,
        PaymentConfirmed,
        RefundCreated,
        RefundStatusChanged,
        MetadataUpdated,
        DisputeOpened,
    )
}


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One effect and when it happened: `at` on the stand-in's clock, `wall_time` on the real one."""

    at: float
    wall_time: float
    effect: Effect


@dataclass(frozen=True, slots=True)
class LedgerRefund:
    """A refund as it stands at the end of the ledger."""

    refund: str
    payment: str
    charge: str
    account: str
    amount: int
    currency: str
    status: str
    metadata: dict[str, str]
    idempotency_key: str | None
    by: Literal["api", "hand"]

    @property
    def counts(self) -> bool:
        """Whether the refund moved money: everything but failed and canceled."""
        return self.status not in VOID_STATUSES


class LedgerWriter:
    """Appends effects to the ledger file; each line is on the disk before `write` returns."""

    def __init__(self, path: Path) -> None:
        """Open `path` for appending, and make it if it does not exist."""
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, effect: Effect, at: float) -> None:
        """Append one effect that happened at `at` on the stand-in's clock."""
        row = {"kind": effect.KIND, "at": at, "wall_time": time.time(), **asdict(effect)}
        os.write(self._fd, json.dumps(row, sort_keys=True).encode() + b"\n")
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def read_ledger(path: Path | str) -> list[LedgerRow]:
    """Return every row of the ledger, oldest first.

    Raises:
        ValueError: A complete line cannot be understood.
    """
    # A line without its end is being written, or died with its writer: nobody was told of that effect.
    *lines, _unfinished = Path(path).read_text(encoding="utf-8").split("\n")
    return [_row(json.loads(line)) for line in lines]


def refunds_of(path: Path | str, payment: str, *, include_void: bool = False) -> list[LedgerRefund]:
    """Return the refunds of one payment as they stand, oldest first.

    Their number and the sum of their amounts are what the crash matrix wants to know.

    Args:
        path: The ledger file.
        payment: Id of the payment intent.
        include_void: Also return failed and canceled refunds, which moved nothing.
    """
    refunds: dict[str, LedgerRefund] = {}
    for row in read_ledger(path):
        _fold(refunds, row.effect)
    return [one for one in refunds.values() if one.payment == payment and (include_void or one.counts)]


def refunded_minor(path: Path | str, payment: str) -> int:
    """Return the sum of one payment's refunds that were neither failed nor canceled, in minor units."""
    return sum(one.amount for one in refunds_of(path, payment))


def _fold(refunds: dict[str, LedgerRefund], effect: Effect) -> None:
    match effect:
        case RefundCreated():
            refunds[effect.refund] = LedgerRefund(**asdict(effect))
        case RefundStatusChanged():
            refunds[effect.refund] = replace(refunds[effect.refund], status=effect.status)
        case MetadataUpdated():
            if effect.object_id in refunds:
                refunds[effect.object_id] = replace(refunds[effect.object_id], metadata=effect.metadata)
        case PaymentCreated() | PaymentConfirmed() | DisputeOpened():
            pass
        case _:
            assert_never(effect)


def _row(raw: dict[str, Any]) -> LedgerRow:
    kind, at, wall_time = (raw.pop(name) for name in ("kind", "at", "wall_time"))
    if kind not in _EFFECTS:
        raise ValueError(f"the ledger has a row of an unknown kind: {kind!r}")
    return LedgerRow(at, wall_time, _EFFECTS[kind](**raw))
