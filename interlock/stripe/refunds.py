"""Stripe refunds as a target."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import stripe

from interlock.domain.answers import (
    Absent,
    BurnAnswer,
    CannotTell,
    Declined,
    Done,
    Evidence,
    Found,
    LookupAnswer,
    SendAnswer,
)
from interlock.domain.books import Books
from interlock.domain.effects import DataclassCodec, Effect, Money
from interlock.domain.ports import Deadline, Target
from interlock.domain.premises import Facts, Premise, facts_text
from interlock.domain.profiles import CapabilityProfile
from interlock.errors import InvalidConfiguration, InvalidEffect, InvalidPremise, PremiseUnreadable
from interlock.infrastructure.clock import WallDeadline
from interlock.infrastructure.transports import DeadlineOver, Wire, kernel_s
from interlock.stripe import facts, marks, verdicts
from interlock.stripe.client import Client, UnexpectedAnswer
from interlock.stripe.effect import Refund, refund_effect
from interlock.stripe.evidence import Json, book_entry_of, evidence_of, is_refund, metadata_of
from interlock.stripe.premises import RefundPremises

_MODE = re.compile(r"[a-z]+_(live|test)_.+")
_ACCOUNT = re.compile(r"acct_[A-Za-z0-9_]+")
_UNUSABLE = (stripe.StripeError, UnexpectedAnswer, DeadlineOver)


class StripeRefunds(Target[Refund]):
    """Refunds of payment intents at Stripe.

    What it promises (`capabilities`), and where that is written:

    - a key is recognised for at least 24 h from its first use: docs.stripe.com/api/idempotent_requests;
    - a 500 is stored and replayed under its key, and may still be carried to its end at a time that nobody states, so
      `roll_forward_s` is None: docs.stripe.com/error-low-level;
    - lists are immediately consistent: docs.stripe.com/api-v2-overview (of v1's top-level lists);
    - a key can be burned, since it works only with the endpoint and the parameters that it was first used with:
      docs.stripe.com/error-low-level;
    - the sender's kernel gives up after `TCP_USER_TIMEOUT`: tcp(7);
    - `settle_s` is as long as Stripe's own SDK waits for an answer, 80 s; Stripe states no limit.

    Args:
        api_key: a secret key, or a restricted one that may write refunds and read payment intents and refunds. To burn
            it needs to write payment intents too.
        name: the name that it is registered under; recovery finds it by it.
        account: the connected account to act for (`acct_…`).
        api_base: where the API is, if not at Stripe.
        livemode: whether payments are of live mode. By default the key says so.
        send_deadline_s: wall-clock limit of one send, in seconds.
        read_deadline_s: wall-clock limit of one observation, in seconds.
        lookup: whether refunds can be looked up; switch it off where the key lacks the right.
        burn: whether keys can be burned; switch it off where the key lacks the right.
        roll_forward_s: for how long a stored failure may still be carried to its end; None where nobody knows.
        settle_s: how long after its arrival a request may still take effect.
        dedupe_window_s: for how long a key is recognised; None counts on no key at all.

    Raises:
        InvalidConfiguration: the key's mode can't be told, or contradicts `livemode`; an account that is none; a
            figure that is negative.
    """

    codec = DataclassCodec(Refund)
    policy = RefundPremises()

    def __init__(
        self,
        api_key: str,
        *,
        name: str = "stripe",
        account: str | None = None,
        api_base: str | None = None,
        livemode: bool | None = None,
        send_deadline_s: float = 30.0,
        read_deadline_s: float = 20.0,
        lookup: bool = True,
        burn: bool = True,
        roll_forward_s: float | None = None,
        settle_s: float = 80.0,
        dedupe_window_s: float | None = 86_400.0,
    ) -> None:
        if account is not None and not _ACCOUNT.fullmatch(account):
            raise InvalidConfiguration(f"account must be the id of a connected account (acct_…), not {account!r}")
        self.name = name
        self._account = account
        self._livemode = _mode_of(api_key, stated=livemode)
        self._client = Client(api_key, account=account, api_base=api_base, livemode=self._livemode)
        self._read_deadline_s = read_deadline_s
        self._capabilities = CapabilityProfile(
            send_deadline_s=send_deadline_s,
            kernel_s=kernel_s(),
            settle_s=settle_s,
            dedupe_window_s=dedupe_window_s,
            stores_failures=True,
            roll_forward_s=roll_forward_s,
            lookup_staleness_s=0.0 if lookup else None,
            burns=burn,
        )

    def __repr__(self) -> str:
        mode = "live" if self._livemode else "test"
        return f"StripeRefunds(name={self.name!r}, mode={mode!r}, account={self._account!r})"

    @property
    def capabilities(self) -> CapabilityProfile:
        """What Stripe promises; the sources are given at the class."""
        return self._capabilities

    def refund(
        self,
        *,
        payment: str,
        amount_minor: int,
        currency: str,
        reason: str | None = None,
        reference: str | None = None,
    ) -> Effect[Refund]:
        """Return the effect of refunding a payment. Nothing is sent.

        Args:
            payment: the payment intent (`pi_…`).
            amount_minor: what to give back, in the minor unit: 2000 is $20.00 and ¥2000.
            currency: the payment's currency.
            reason: `duplicate`, `requested_by_customer` or None.
            reference: your name for what it is for, such as a case. It is written on the refund, so that somebody
                else's refund for the same is recognised as a duplicate. No personal data.

        Raises:
            InvalidEffect: any of it is wrong.
        """
        return refund_effect(self.name, payment, Refund(amount_minor, currency, reason, reference))

    def check(self, effect: Effect[Refund], premises: tuple[Premise, ...]) -> None:
        """Raise where the refund is not of the payment that was observed.

        A premise on the payment is required: Stripe takes no currency with a refund, so one in another currency than the
        payment's would move money before anybody noticed.

        Raises:
            InvalidEffect: no premise on the payment, another currency than the payment's, or more than was paid.
        """
        seen = [one.facts for one in premises if (one.target, one.subject) == (self.name, effect.subject)]
        if not seen:
            raise InvalidEffect(f"a refund needs a premise on its payment: premises=[{self.name}.observe({effect.subject!r})]")
        for payment in map(_payment, seen):
            if payment.currency != effect.parameters.currency:
                raise InvalidEffect(f"{payment.id} is in {payment.currency}, and the refund in {effect.parameters.currency}")
            if payment.amount < effect.parameters.amount_minor:
                raise InvalidEffect(f"{payment.id} is of {payment.amount}, less than {effect.parameters.amount_minor}")

    def _observe(self, subject: str) -> Premise:
        deadline = WallDeadline(self._read_deadline_s)
        read_at = datetime.now(UTC)
        try:
            payment = self._client.read_payment(subject, deadline)
            seen = facts.facts_of(payment, self._client.read_refunds(subject, deadline))
        except (*_UNUSABLE, LookupError, msgspec.ValidationError) as error:
            raise PremiseUnreadable(f"{subject} can't be read at Stripe: {_why(error)}") from error
        return Premise(
            target=self.name,
            subject=subject,
            facts_json=facts_text(facts.as_json(seen)),
            read_at=read_at,
            policy=self.policy.name,
        )

    def _send(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> SendAnswer:
        if effect.money != Money(effect.parameters.amount_minor, effect.parameters.currency):
            # The approval was held against `money`; what would be sent is in `parameters`.
            return Declined("inconsistent_effect", "its money is not what its parameters say; nothing was sent")
        metadata = marks.refund_marks(action_id, idempotency_key, effect.parameters.reference)
        wire = Wire(deadline)
        try:
            reply = self._client.create_refund(effect, metadata, idempotency_key, wire)
        except Exception as error:  # noqa: BLE001 - everything is judged, and what is not known is Unknown
            return verdicts.verdict_of_failure(error, written=wire.written)
        verdict = verdicts.verdict_of_reply(reply, effect)
        return self._as_it_is_now(verdict, effect, deadline) if reply.replayed else verdict

    def _as_it_is_now(self, verdict: SendAnswer, effect: Effect[Refund], deadline: Deadline) -> SendAnswer:
        """Return a replayed success with the refund's present state: what was stored is a picture of its first moment."""
        if not isinstance(verdict, Done):
            return verdict
        stored = verdict.evidence
        try:
            refund = self._client.read_refund(stored.reference, deadline)
            present = evidence_of(refund, effect, replayed=True, request_id=stored.request_id)
        except Exception:  # noqa: BLE001 - whatever goes wrong with the second look, the yes stands
            return verdict
        return Done(present) if is_refund(refund) and present.reference == stored.reference else verdict

    def _lookup(self, effect: Effect[Refund], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        if not self._capabilities.looks_up:
            return super()._lookup(effect, action_id=action_id, deadline=deadline)
        read_at = datetime.now(UTC)
        try:
            # That the payment is found, in the right mode, is what makes an empty list an absence.
            self._client.read_payment(effect.subject, deadline)
            refunds = self._client.read_refunds(effect.subject, deadline)
        except _UNUSABLE as error:
            return CannotTell(_why(error))
        ours = [one for one in refunds if marks.action_of(metadata_of(one)) == action_id.hex]
        return Found(_found(ours, effect)) if ours else Absent(read_at)

    def _books(self, subject: str | None, *, deadline: Deadline) -> Books | CannotTell:
        try:
            if subject is not None:  # as in _lookup: an empty list proves nothing by itself
                self._client.read_payment(subject, deadline)
            return Books(tuple(map(book_entry_of, self._client.read_refunds(subject, deadline))))
        except _UNUSABLE as error:
            return CannotTell(_why(error))

    def _burn(self, effect: Effect[Refund], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> BurnAnswer:
        if not self._capabilities.burns:
            return super()._burn(effect, action_id=action_id, idempotency_key=idempotency_key, deadline=deadline)
        metadata = marks.burn_marks(idempotency_key)
        try:
            reply = self._client.mark_payment(effect.subject, metadata, idempotency_key, Wire(deadline))
        except _UNUSABLE as error:
            return verdicts.burn_verdict_of_failure(error)
        return verdicts.burn_verdict_of_reply(reply, effect.subject)


def _found(ours: list[Json], effect: Effect[Refund]) -> Evidence:
    """Return the evidence of the refund that carries our mark; of the oldest, and saying so, where several do."""
    evidence = evidence_of(ours[-1], effect)
    if len(ours) == 1:
        return evidence
    several = f"{len(ours)} refunds carry this action's mark: {', '.join(str(one['id']) for one in ours)}"
    return replace(evidence, disagreements=(*evidence.disagreements, several))


def _mode_of(api_key: str, *, stated: bool | None) -> bool:
    match = _MODE.fullmatch(api_key)
    told = None if match is None else match[1] == "live"
    if told is None and stated is None:
        raise InvalidConfiguration("the key does not say whether it is of live or of test mode: pass livemode=")
    if None not in (told, stated) and told is not stated:
        raise InvalidConfiguration(f"livemode={stated}, and the key says otherwise")
    return bool(stated) if told is None else told


def _payment(seen: Facts) -> facts.PaymentFacts:
    try:
        return facts.parse(seen)
    except msgspec.ValidationError as error:
        raise InvalidPremise(f"a premise on a payment does not hold what a payment has: {error}") from None


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, UnexpectedAnswer) else verdicts.words_of(error)
