"""The crash kit on targets of other kinds: `StripeRefunds`, one with neither keys nor lookup, and one with a lookup only."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, ControlRefusedError, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay, refund
from interlock import (
    Absent,
    Answer,
    CapabilityProfile,
    ChangeKind,
    DataclassCodec,
    Deadline,
    Done,
    Effect,
    Evidence,
    Found,
    FunctionTarget,
    LookupAnswer,
    Money,
    NotSent,
    Settlement,
    Target,
    target,
)
from interlock.stripe import StripeRefunds, marks
from interlock.stripe.effect import Refund
from interlock.testing import CrashTest, LedgerEntry, Network, WorldClock

# --- neither keys nor lookup: a plain function that sends a letter


@dataclass(frozen=True)
class Letter:
    to: str
    words: str


class PostOffice:
    """Delivers every letter that arrives; it writes down what stands on it, and recognises nothing."""

    def __init__(self, clock: WorldClock) -> None:
        self.network = Network(clock)
        self._clock = clock
        self._delivered: list[LedgerEntry] = []

    def deliver(self, reference: str) -> LedgerEntry:
        entry = LedgerEntry(
            reference=f"letter-{len(self._delivered) + 1}", at=self._clock.now(), idempotency_key=reference or None
        )
        self._delivered.append(entry)
        return entry

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry:
        del effect, action_id
        return self.deliver(idempotency_key or "")

    def ledger(self) -> list[LedgerEntry]:
        return self._delivered

    def forget_key(self, idempotency_key: str) -> None:
        raise AssertionError(f"it never knew {idempotency_key}")


def letters_of(office: PostOffice) -> FunctionTarget[Letter]:
    """Return the function that writes to this post office."""

    @target("letters", effect=Letter, send_deadline_s=20)
    def send_letter(effect: Letter, /, *, idempotency_key: str, deadline_s: float) -> Answer:
        del effect, deadline_s
        try:
            delivered = office.network.call("send", lambda: office.deliver(idempotency_key))
        except ConnectionRefusedError:
            return NotSent("the post office is closed")
        return Done(Evidence(reference=delivered.reference, state="delivered", settlement=Settlement.FINAL, json="{}"))

    return send_letter


LETTERS = CrashTest(
    world=PostOffice,
    target=letters_of,
    effect=lambda _office, letters: letters.effect(Letter("customer-1", "Dear"), subject="customer-1"),
    other_effect=lambda _office, letters: letters.effect(Letter("customer-1", "Sincerely"), subject="customer-1"),
)
TestLetters = LETTERS.as_test_case(schedules=50, steps=15)


def test_function_without_keys_and_lookup_is_never_called_twice() -> None:
    """A function that can neither recognise nor look up is called at most once an action, and the doubt is said."""
    report = LETTERS.run(150)
    print(report)  # noqa: T201 - the counts say what the claim rests on
    assert min(report.endings["COMMITTED"], report.endings["AMBIGUOUS"]) > 0


# --- a lookup only: bookings in a book, found by a note


@dataclass(frozen=True)
class Booking:
    account: str
    amount_minor: int


class Book:
    """A ledger without keys: whatever arrives is booked, with a note."""

    def __init__(self, clock: WorldClock) -> None:
        self.network = Network(clock)
        self._clock = clock
        self.rows: list[LedgerEntry] = []

    def book(self, amount_minor: int, note: UUID | None, idempotency_key: str | None = None) -> LedgerEntry:
        self.rows.append(
            LedgerEntry(
                reference=f"row-{len(self.rows) + 1}",
                at=self._clock.now(),
                action_id=note,
                idempotency_key=idempotency_key,
                amount_minor=amount_minor,
            )
        )
        return self.rows[-1]

    def apply(self, effect: Effect[Any], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry:
        return self.book(effect.parameters.amount_minor, action_id, idempotency_key)

    def ledger(self) -> list[LedgerEntry]:
        return self.rows

    def forget_key(self, idempotency_key: str) -> None:
        raise AssertionError(f"it never knew {idempotency_key}")


class Bookings(Target[Booking]):
    """Books, and can read the book."""

    name = "bookings"
    codec = DataclassCodec(Booking)

    def __init__(self, book: Book) -> None:
        self._book = book

    @property
    def capabilities(self) -> CapabilityProfile:
        return CapabilityProfile(send_deadline_s=10, kernel_s=20, settle_s=5, roll_forward_s=0, lookup_staleness_s=0)

    def booking(self, account: str, amount_minor: int) -> Effect[Booking]:
        return Effect(self.name, account, Booking(account, amount_minor), Money(amount_minor, "usd"))

    def _send(self, effect: Effect[Booking], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        if deadline.remaining_s() <= 0:
            return NotSent("too late")
        amount = effect.parameters.amount_minor
        booked = self._book.network.call("send", lambda: self._book.book(amount, action_id, idempotency_key))
        return Done(_booked(booked))

    def _lookup(self, effect: Effect[Booking], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        del effect, deadline
        rows = self._book.network.call("lookup", lambda: list(self._book.rows))
        mine = [row for row in rows if row.action_id == action_id]
        return Found(_booked(mine[0])) if mine else Absent(_now())


def _booked(row: LedgerEntry) -> Evidence:
    return Evidence(reference=row.reference, state="booked", settlement=Settlement.FINAL, json="{}")


def _now() -> datetime:
    from interlock.testing.world import START

    return START


BOOKINGS = CrashTest(
    world=Book,
    target=Bookings,
    effect=lambda _book, bookings: bookings.booking("acct_1", 2000),
    other_effect=lambda _book, bookings: bookings.booking("acct_1", 1999),
)
TestBookings = BOOKINGS.as_test_case(schedules=50, steps=15)


def test_lookup_alone_is_enough_for_a_definite_end() -> None:
    """With a lookup that is never behind, and failures that never roll forward, nothing stays ambiguous."""
    report = BOOKINGS.run(150)
    print(report)  # noqa: T201 - the counts say what the claim rests on
    assert report.endings["AMBIGUOUS"] == 0
    assert report.endings["COMMITTED"] > 0


# --- StripeRefunds, the real SDK, on the stand-in


class StripeWorld:
    """One payment at a stand-in, whose clock goes with the schedule's."""

    _faults = (
        FaultKind.ERROR_500_NO_EFFECT,
        FaultKind.ERROR_500_WITH_EFFECT,
        FaultKind.RATE_LIMIT,
        FaultKind.LOCK_TIMEOUT,
        FaultKind.DROP_BEFORE_COMMIT,
        FaultKind.DROP_AFTER_COMMIT,
        FaultKind.TRUNCATE,
        FaultKind.HTML_502,
        FaultKind.EMPTY_OBJECT,
        FaultKind.WRONG_AMOUNT,
    )
    changes: Collection[ChangeKind] = (ChangeKind.COMPATIBLE, ChangeKind.DUPLICATE, ChangeKind.CONFLICTING)

    def __init__(self, standin: StripeStandIn, client: stripe.StripeClient, clock: WorldClock) -> None:
        self._standin, self._client, self._clock = standin, client, clock
        self._seen: dict[str, LedgerEntry] = {}
        self.payment = pay(client).id
        clock.along = standin.advance_clock

    def apply(self, effect: Effect[Refund], *, action_id: UUID | None, idempotency_key: str | None) -> LedgerEntry:
        metadata = marks.refund_marks(action_id, idempotency_key, None) if action_id and idempotency_key else {}
        made = refund(self._client, self.payment, effect.parameters.amount_minor, key=idempotency_key, metadata=metadata)
        return next(entry for entry in self.ledger() if entry.reference == made.id)

    def ledger(self) -> list[LedgerEntry]:
        for one in refunds_of(self._standin.ledger_path, self.payment):
            mark = marks.action_of(one.metadata)
            entry = LedgerEntry(
                reference=one.refund,
                at=self._clock.now(),
                action_id=UUID(mark) if mark else None,
                idempotency_key=one.idempotency_key,
                amount_minor=one.amount,
            )
            self._seen.setdefault(one.refund, entry)
        return list(self._seen.values())

    def forget_key(self, idempotency_key: str) -> None:
        self._standin.forget_key(idempotency_key)

    def change(self, kind: ChangeKind, effect: Effect[Refund], reference: str) -> None:
        with suppress(ControlRefusedError):  # a disputed payment can't be refunded by hand either
            match kind:
                case ChangeKind.CONFLICTING:
                    self._standin.dispute(self.payment)
                case ChangeKind.DUPLICATE:
                    self._standin.hand_refund(self.payment, effect.parameters.amount_minor, {"case": reference})
                case _:
                    self._standin.hand_refund(self.payment, 100, {"case": "another"})

    @property
    def faults(self) -> Collection[str]:
        return tuple(fault.value for fault in self._faults)

    def arm(self, fault: str) -> None:
        self._standin.arm(FaultKind(fault))

    def disarm(self) -> None:
        self._standin.reset_faults()


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StripeStandIn]:
    """One stand-in for the whole module."""
    with StripeStandIn(tmp_path_factory.mktemp("stripe") / "ledger.jsonl") as running:
        yield running


def refunds_at(standin: StripeStandIn, **options: Any) -> CrashTest[StripeWorld, StripeRefunds]:
    """Return the crash test of `StripeRefunds` at a stand-in."""
    client = connect(standin)
    return CrashTest(
        world=lambda clock: StripeWorld(standin, client, clock),
        target=lambda _world: StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base, **options),
        effect=lambda world, refunds: refunds.refund(payment=world.payment, amount_minor=2000, currency="usd"),
        other_effect=lambda world, refunds: refunds.refund(payment=world.payment, amount_minor=1999, currency="usd"),
    )


@pytest.mark.parametrize("burn", [True, False], ids=["burning", "not burning"])
def test_stripe_refunds_can_be_crashed_anywhere(standin: StripeStandIn, *, burn: bool) -> None:
    """The real SDK against the stand-in: at most one refund an action, and everything comes to an end."""
    report = refunds_at(standin, burn=burn).run(30)
    print(report)  # noqa: T201 - the counts say what the claim rests on
    assert min(report.sends, report.effects) > 0


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_stripe_refunds_can_be_crashed_anywhere_many_times(standin: StripeStandIn) -> None:
    """As above, with many more schedules."""
    print(refunds_at(standin).run(1_000, seed=1_000_000))  # noqa: T201 - the counts say what the claim rests on


def test_ledger_is_the_standins_own(standin: StripeStandIn, tmp_path: Path) -> None:
    """The judge reads the stand-in's file, and not what the API says."""
    assert standin.ledger_path.exists()
    assert standin.ledger_path.parent != tmp_path
