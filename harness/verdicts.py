"""Verdicts: what was wanted against what the provider's record shows, and the answer against the case's own refunds."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from harness.columns.job import Answer, Status
from harness.scenarios import Money
from harness.world import RefundAtProvider

HELD = "held"


class AnswerVerdict(StrEnum):
    """Whether a worker's report agrees with the provider's record."""

    MATCHES = "matches"
    CONTRADICTS = "CONTRADICTS"
    NONE = "no answer"


def money_of(refunds: Iterable[RefundAtProvider]) -> Money:
    """Return what went out, and in how many refunds."""
    amounts = [refund.amount_minor for refund in refunds]
    return Money(sum(amounts), len(amounts))


def judge_money(want: Money, got: Money) -> str:
    """Return `held`, `VIOLATED by $n` (too much, or in another number of refunds) or `SHORT by $n`."""
    if got == want:
        return HELD
    if got.minor < want.minor:
        return f"SHORT by {dollars(want.minor - got.minor)}"
    return f"VIOLATED by {dollars(got.minor - want.minor)}"


def judge_answer(answer: Answer | None, own: Iterable[RefundAtProvider]) -> AnswerVerdict:
    """Check a report against the refunds that carry the case's own mark.

    "Refunded" is right where there is exactly the one refund that it names, with the amount that it names; "refused" where
    there is none. "Ambiguous" claims nothing, so it contradicts nothing.
    """
    if answer is None or answer.status is Status.NOT_YET:
        return AnswerVerdict.NONE
    told = {
        Status.REFUNDED: [(answer.refund, answer.amount_minor)],
        Status.REFUSED: [],
    }
    there = [(refund.id, refund.amount_minor) for refund in own]
    agrees = answer.status is Status.AMBIGUOUS or told[answer.status] == there
    return AnswerVerdict.MATCHES if agrees else AnswerVerdict.CONTRADICTS


def dollars(minor: int) -> str:
    """Return an amount as a person writes it: $20, or $20.50."""
    return f"${minor // 100}" if minor % 100 == 0 else f"${minor / 100:.2f}"


def in_words(money: Money) -> str:
    """Return an amount with its number of refunds: `$20 in 1`."""
    return f"{dollars(money.minor)} in {money.refunds}"
