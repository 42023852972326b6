"""The provider's world: payments, charges, refunds and what becomes of them, with a clock that is handed in."""

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from . import ledger, refusals
from .clock import Agenda, Appointment, Clock

SETTLING_S = 3600.0
"""How long after a refund the special test cards change its state, on the stand-in's clock."""

_ALPHABET = string.ascii_letters + string.digits


class Card(StrEnum):
    """The test cards that behave in a way of their own (docs.stripe.com/testing)."""

    PLAIN = "4242424242424242"
    DECLINED = "4000000000000002"
    DISPUTED = "4000000000000259"
    REFUND_PENDING = "4000000000007726"
    REFUND_FAILS = "4000000000005126"


class RefundStatus(StrEnum):
    """The states of a refund."""

    PENDING = "pending"
    REQUIRES_ACTION = "requires_action"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


@dataclass(slots=True)
class Switches:
    """What Stripe does not document, or does differently for different accounts: nobody should depend on it.

    Attributes:
        save_business_refusals: Whether a refusal that came out of an execution is replayed under its key.
        key_scope: Whether keys belong to the acting account or to the account of the API key.
        replay_is_snapshot: Whether a replay shows the object as it was, or as it is now.
        unknown_payment_status: HTTP status when a refund names a payment that does not exist.
        disputed_code: Error code when a disputed charge is refunded.
        insufficient_balance: What a refund comes to when the balance does not cover it.
        unknown_filter: Whether listing by an unknown payment or charge is an error or an empty list.
    """

    save_business_refusals: bool = True
    key_scope: Literal["acting", "platform"] = "acting"
    replay_is_snapshot: bool = True
    unknown_payment_status: Literal[400, 404] = 400
    disputed_code: Literal["charge_disputed", "refund_disputed_payment"] = "charge_disputed"
    insufficient_balance: Literal["covered", "pending", "error"] = "covered"
    unknown_filter: Literal["error", "empty"] = "error"


@dataclass(slots=True)
class Charge:
    """A successful charge."""

    id: str
    payment: str
    disputed: bool = False
    inquiry: bool = False


@dataclass(slots=True)
class Payment:
    """A payment intent, and its charge once it succeeded."""

    id: str
    account: str
    amount: int
    currency: str
    card: Card | None
    created: int
    status: str
    payment_method_types: tuple[str, ...]
    allows_redirects: bool
    description: str | None
    metadata: dict[str, str]
    charge: Charge | None = None
    refunds: list["Refund"] = field(default_factory=list)


@dataclass(slots=True)
class Refund:
    """A refund of a charge.

    Attributes:
        number: Rises with every refund, so it orders those of one second.
        created_at: The instant on the stand-in's clock; `created` is what the API shows of it.
    """

    id: str
    number: int
    account: str
    payment: str
    charge: str
    amount: int
    currency: str
    created: int
    created_at: float
    status: RefundStatus
    reason: str | None
    metadata: dict[str, str]
    pending_reason: str | None = None
    failure_reason: str | None = None
    failure_balance_transaction: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it takes away from what can be refunded."""
        return self.status not in (RefundStatus.FAILED, RefundStatus.CANCELED)


@dataclass(frozen=True, slots=True)
class NewPayment:
    """What a caller wants to be paid."""

    account: str
    amount: int
    currency: str
    card: Card | None
    payment_method_types: tuple[str, ...]
    allows_redirects: bool
    description: str | None
    metadata: dict[str, str]
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class NewRefund:
    """What a caller wants refunded; no amount is the remainder."""

    amount: int | None
    reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    idempotency_key: str | None = None
    by: Literal["api", "hand"] = "api"


def new_id(prefix: str) -> str:
    """Return a random id in the provider's shape that says where it comes from."""
    return f"{prefix}_3LOCAL" + "".join(secrets.choice(_ALPHABET) for _ in range(18))


class World:
    """Everything that exists at the provider. An effect is on the record before it is in the world.

    Args:
        clock: The movable clock.
        record: Takes every effect as it happens, with its time on that clock.
    """

    def __init__(self, clock: Clock, record: Callable[[ledger.Effect, float], None]) -> None:
        """Make an empty world."""
        self.clock = clock
        self.agenda = Agenda()
        self.switches = Switches()
        self.live_ids: set[str] = set()
        self.next_refund_statuses: list[RefundStatus] = []
        self._record = record
        self._payments: dict[str, Payment] = {}
        self._charged: dict[str, Payment] = {}
        self._refunds: dict[str, Refund] = {}

    # ── finding ─────────────────────────────────────────────────────────────

    def payment(self, account: str | None, payment_id: str, *, param: str = "id", status: int = 404) -> Payment:
        """Return a payment of `account` (None: of any).

        Raises:
            Refusal: There is none in that account.
        """
        payment = self._payments.get(payment_id)
        if payment is None or account not in (None, payment.account):
            raise self._missing("payment_intent", payment_id, param, status)
        return payment

    def charged(self, account: str | None, charge_id: str, *, param: str = "id") -> Payment:
        """Return the payment that a charge of `account` belongs to."""
        payment = self._charged.get(charge_id)
        if payment is None or account not in (None, payment.account):
            raise self._missing("charge", charge_id, param, 404)
        return payment

    def refund(self, account: str | None, refund_id: str, *, param: str = "id") -> Refund:
        """Return a refund of `account` (None: of any)."""
        refund = self._refunds.get(refund_id)
        if refund is None or account not in (None, refund.account):
            raise self._missing("refund", refund_id, param, 404)
        return refund

    def refunds(self, account: str) -> list[Refund]:
        """Return the refunds of `account`, newest first."""
        return [one for one in reversed(self._refunds.values()) if one.account == account]

    def refunded_minor(self, payment: Payment) -> int:
        """Return what has been refunded; failed and canceled refunds do not count."""
        return sum(one.amount for one in payment.refunds if one.counts)

    # ── payments ────────────────────────────────────────────────────────────

    def create_payment(self, new: NewPayment, *, confirm: bool) -> Payment:
        """Make a payment intent, and charge it at once if asked to."""
        payment = Payment(
            id=new_id("pi"),
            account=new.account,
            amount=new.amount,
            currency=new.currency,
            card=new.card,
            created=int(self.clock.now()),
            status="requires_confirmation" if new.card else "requires_payment_method",
            payment_method_types=new.payment_method_types,
            allows_redirects=new.allows_redirects,
            description=new.description,
            metadata=new.metadata,
        )
        if confirm:
            self._charge(payment)
        self._note(
            ledger.PaymentCreated(
                payment.id,
                payment.account,
                payment.amount,
                payment.currency,
                payment.status,
                payment.charge.id if payment.charge else None,
                dict(payment.metadata),
                new.idempotency_key,
            )
        )
        self._payments[payment.id] = payment
        return payment

    def confirm_payment(self, payment: Payment, card: Card, idempotency_key: str | None) -> None:
        """Charge a payment intent that was made without being confirmed."""
        payment.card = card
        self._charge(payment)
        charge = payment.charge.id if payment.charge else None
        self._note(ledger.PaymentConfirmed(payment.id, payment.status, charge, idempotency_key))

    def set_payment_metadata(self, payment: Payment, metadata: dict[str, str], idempotency_key: str | None) -> None:
        """Replace a payment's metadata."""
        self._note(ledger.MetadataUpdated(payment.id, dict(metadata), idempotency_key))
        payment.metadata = metadata

    def dispute(self, payment: Payment, *, inquiry: bool = False) -> None:
        """Open a dispute; an escalating inquiry still takes refunds, which then fail."""
        if payment.charge is None:
            raise refusals.no_successful_charge(payment.id)
        self._note(ledger.DisputeOpened(payment.id, payment.charge.id))
        payment.charge.disputed = not inquiry
        payment.charge.inquiry = inquiry

    def _charge(self, payment: Payment) -> None:
        if payment.card is Card.DECLINED:
            payment.status = "requires_payment_method"
            return
        payment.status = "succeeded"
        payment.charge = Charge(new_id("ch"), payment.id, disputed=payment.card is Card.DISPUTED)
        self._charged[payment.charge.id] = payment

    # ── refunds ─────────────────────────────────────────────────────────────

    def create_refund(self, payment: Payment, new: NewRefund) -> Refund:
        """Refund a payment.

        Raises:
            Refusal: No charge, disputed, nothing left, or too much: looked at in this order.
        """
        charge, amount = self._refundable(payment, new.amount)
        status, pending_reason = self._first_status(payment)
        now = self.clock.now()
        refund = Refund(
            id=new_id("re"),
            number=len(self._refunds),
            account=payment.account,
            payment=payment.id,
            charge=charge.id,
            amount=amount,
            currency=payment.currency,
            created=int(now),
            created_at=now,
            status=status,
            reason=new.reason,
            metadata=new.metadata,
            pending_reason=pending_reason,
        )
        if status is RefundStatus.FAILED:
            self._give_back(refund, "unknown")
        self._note(
            ledger.RefundCreated(
                refund.id,
                refund.payment,
                refund.charge,
                refund.account,
                refund.amount,
                refund.currency,
                refund.status.value,
                dict(refund.metadata),
                new.idempotency_key,
                new.by,
            )
        )
        self._refunds[refund.id] = refund
        payment.refunds.append(refund)
        self._plan(refund, payment)
        return refund

    def set_refund_metadata(self, refund: Refund, metadata: dict[str, str], idempotency_key: str | None) -> None:
        """Replace a refund's metadata."""
        self._note(ledger.MetadataUpdated(refund.id, dict(metadata), idempotency_key))
        refund.metadata = metadata

    def cancel_refund(self, refund: Refund) -> None:
        """Cancel a refund that waits for an action.

        Raises:
            Refusal: It is in another state.
        """
        if refund.status is not RefundStatus.REQUIRES_ACTION:
            raise refusals.business(f"This refund can't be canceled because its status is {refund.status.value}.")
        self._give_back(refund, "merchant_request")
        self._change(refund, RefundStatus.CANCELED)

    def complete_refund(self, refund: Refund) -> None:
        """Let a pending refund succeed."""
        if refund.status in (RefundStatus.PENDING, RefundStatus.REQUIRES_ACTION):
            refund.pending_reason = None
            self._change(refund, RefundStatus.SUCCEEDED)

    def fail_refund(self, refund: Refund, reason: str = "lost_or_stolen_card") -> None:
        """Let a refund fail, also a succeeded one: the money comes back to the balance (docs.stripe.com/refunds)."""
        if refund.counts:
            self._give_back(refund, reason)
            self._change(refund, RefundStatus.FAILED)

    def _refundable(self, payment: Payment, asked: int | None) -> tuple[Charge, int]:
        charge = payment.charge
        if charge is None:
            raise refusals.no_successful_charge(payment.id)
        if charge.disputed:
            raise refusals.charge_disputed(charge.id, self.switches.disputed_code)
        left = payment.amount - self.refunded_minor(payment)
        if left == 0:
            raise refusals.charge_already_refunded(charge.id)
        amount = left if asked is None else asked
        if amount > left:
            raise refusals.refund_too_large(amount, left, payment.currency)
        if self.switches.insufficient_balance == "error":
            raise refusals.business("Insufficient funds in your balance to refund this.", "balance_insufficient")
        return charge, amount

    def _first_status(self, payment: Payment) -> tuple[RefundStatus, str | None]:
        if self.next_refund_statuses:
            return self.next_refund_statuses.pop(0), None
        if self.switches.insufficient_balance == "pending":
            return RefundStatus.PENDING, "insufficient_funds"
        if payment.card is Card.REFUND_PENDING:
            return RefundStatus.PENDING, "processing"
        return RefundStatus.SUCCEEDED, None

    def _plan(self, refund: Refund, payment: Payment) -> None:
        due_at = self.clock.now() + SETTLING_S
        if payment.charge and payment.charge.inquiry:
            self.agenda.add(Appointment(due_at, "settle", refund.id, lambda: self._fail_disputed(refund)))
        elif payment.card is Card.REFUND_FAILS:
            self.agenda.add(Appointment(due_at, "settle", refund.id, lambda: self.fail_refund(refund)))
        elif payment.card is Card.REFUND_PENDING:
            self.agenda.add(Appointment(due_at, "settle", refund.id, lambda: self.complete_refund(refund)))

    def _fail_disputed(self, refund: Refund) -> None:
        self.fail_refund(refund, "charge_for_pending_refund_disputed")

    def _give_back(self, refund: Refund, reason: str) -> None:
        refund.pending_reason = None
        refund.failure_reason = reason
        refund.failure_balance_transaction = new_id("txn")

    def _change(self, refund: Refund, status: RefundStatus) -> None:
        self._note(ledger.RefundStatusChanged(refund.id, refund.payment, status.value, refund.failure_reason))
        refund.status = status

    # ────────────────────────────────────────────────────────────────────────

    def _note(self, effect: ledger.Effect) -> None:
        self._record(effect, self.clock.now())

    def _missing(self, kind: str, object_id: str, param: str, status: int) -> refusals.Refusal:
        return refusals.missing(kind, object_id, param, status=status, in_live_mode=object_id in self.live_ids)
