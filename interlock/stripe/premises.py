"""The premise policy for refunds: what a change of the payment since the decision means for ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from interlock.domain.effects import DataclassCodec, EffectRecord
from interlock.domain.premises import Change, ChangeKind, Facts, Judgement, Purpose
from interlock.errors import InvalidEffect
from interlock.stripe import facts
from interlock.stripe.effect import Refund
from interlock.stripe.facts import PaymentFacts, RefundFacts
from interlock.stripe.marks import digest

_CODEC = DataclassCodec(Refund)


class RefundPremises:
    """Sorts what others did to a payment into own, duplicate, compatible and conflicting.

    A new refund by others (failed and cancelled ones do not count) is a *duplicate* when it names what ours is for.
    It is *compatible* when it names something else. New refunds that name nothing are taken together: below our amount
    they are compatible, from there on a duplicate. Whatever it names, the rest of the payment must still cover ours,
    or it is *conflicting*, as are a dispute, a payment that is no longer a success, and one that is not the same.
    """

    name = "stripe-refunds"
    version = 1

    def judges(self, effect: EffectRecord) -> bool:
        """Say whether the effect is a refund: how much of which currency, and perhaps what for."""
        try:
            effect.effect(_CODEC)
        except InvalidEffect:
            return False
        return True

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        """Sort every change between the two readings."""
        try:
            then, present = facts.parse(decided), facts.parse(now)
        except msgspec.ValidationError:
            # Facts that can't be understood are never "nothing changed" (I4).
            conflict = Change(ChangeKind.CONFLICTING, "the facts are not those of a payment at Stripe")
            return Judgement((conflict,), possible="observe the payment again, and decide on that")
        case = _Case(then, present, purpose)
        changes = tuple(case.changes())
        judgement = Judgement(changes)
        return judgement if judgement.objection is None else Judgement(changes, possible=case.possible())


class _Case:
    """One comparison."""

    def __init__(self, then: PaymentFacts, now: PaymentFacts, purpose: Purpose) -> None:
        self._then, self._now = then, now
        self._own_action = purpose.action_id.hex
        self._asked = purpose.effect.effect(_CODEC).parameters
        own_reference = {self._asked.reference} if self._asked.reference else frozenset[str]()
        self._references = frozenset(digest(reference) for reference in purpose.references | own_reference)

    def changes(self) -> Iterator[Change]:
        yield from self._own()
        yield from self._payment()
        yield from self._lost()
        yield from self._room()
        new = self._new_by_others()
        yield from self._named(one for one in new if one.names)
        yield from self._unnamed([one for one in new if not one.names])

    def possible(self) -> str:
        left = self._left_minor()
        if self._now.disputed or self._now.status != "succeeded" or left <= 0:
            return f"nothing of {self._now.id} can be refunded as it stands"
        return f"up to {left} {self._now.currency} (in minor units) of {self._now.id} are left"

    def _own(self) -> Iterator[Change]:
        for one in self._now.refunds:
            if one.action == self._own_action:
                yield Change(ChangeKind.OWN, f"{one.id} is this action's own refund")

    def _payment(self) -> Iterator[Change]:
        then, now = self._then, self._now
        for field in ("id", "livemode", "currency", "amount"):
            before, after = getattr(then, field), getattr(now, field)
            if before != after:
                yield _conflict(f"{field} of the payment was {before!r} and is {after!r}")
        if now.currency != self._asked.currency:
            yield _conflict(f"the payment is in {now.currency}, and the refund in {self._asked.currency}")
        if now.status != "succeeded":
            yield _conflict(f"the payment is {now.status}")
        if now.disputed:
            yield _conflict("the payment is disputed")

    def _lost(self) -> Iterator[Change]:
        # Refunds don't vanish: a list without one that was there is not the whole list (I4).
        gone = {one.id for one in self._then.refunds} - {one.id for one in self._now.refunds}
        for refund_id in sorted(gone):
            yield _conflict(f"{refund_id} was there at the decision and is not listed now")

    def _room(self) -> Iterator[Change]:
        left = self._left_minor()
        if left < self._asked.amount_minor:
            yield _conflict(f"{left} {self._now.currency} (in minor units) are left, less than {self._asked.amount_minor}")

    def _left_minor(self) -> int:
        taken = sum(one.amount for one in self._now.refunds if one.counts and one.action != self._own_action)
        return self._now.amount - taken

    def _new_by_others(self) -> list[RefundFacts]:
        known = {one.id for one in self._then.refunds if one.counts}
        now = (one for one in self._now.refunds if one.counts and one.action != self._own_action)
        return [one for one in now if one.id not in known]

    def _named(self, refunds: Iterable[RefundFacts]) -> Iterator[Change]:
        for one in refunds:
            if self._references.intersection(one.names):
                yield Change(ChangeKind.DUPLICATE, f"{_said(one)} names the same reference")
            else:
                yield Change(ChangeKind.COMPATIBLE, f"{_said(one)} is for something else")

    def _unnamed(self, refunds: list[RefundFacts]) -> Iterator[Change]:
        if not refunds:
            return
        total = sum(one.amount for one in refunds)
        said = ", ".join(_said(one) for one in refunds)
        reached = total >= self._asked.amount_minor
        yield Change(
            ChangeKind.DUPLICATE if reached else ChangeKind.COMPATIBLE,
            f"{said}: refunded by others, without saying for what; {total} in all "
            f"{'reach' if reached else 'are below'} the {self._asked.amount_minor} of this refund",
        )


def _conflict(words: str) -> Change:
    return Change(ChangeKind.CONFLICTING, words)


def _said(refund: RefundFacts) -> str:
    return f"{refund.id} ({refund.amount}, {refund.status})"
