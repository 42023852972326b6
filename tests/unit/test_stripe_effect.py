"""A refund as data: what is refused before anybody is asked."""

from typing import Any

import pytest

from interlock.domain.effects import record_effect
from interlock.errors import InvalidConfiguration, InvalidEffect
from interlock.stripe import Refund, StripeRefunds
from interlock.stripe.currencies import CURRENCIES

KEY = "sk_test_local_effect"
GOOD: dict[str, Any] = {"payment": "pi_local_1", "amount_minor": 2000, "currency": "usd"}


def _refund(**changes: Any) -> Any:
    return StripeRefunds(KEY).refund(**GOOD | changes)


@pytest.mark.parametrize("amount_minor", [20.0, True, "2000", None, 0, -1, 100_000_000, 2**60])
def test_an_amount_that_is_no_integer_in_range_is_refused(amount_minor: Any) -> None:
    """An amount is an integer from 1 to 99,999,999; a float or a bool is none."""
    with pytest.raises(InvalidEffect):
        _refund(amount_minor=amount_minor)


@pytest.mark.parametrize(
    ("amount_minor", "currency"), [(1, "usd"), (99_999_999, "usd"), (9899, "jpy"), (5800, "jpy"), (5120, "kwd")]
)
def test_an_amount_is_kept_to_the_unit(amount_minor: int, currency: str) -> None:
    """Amounts in zero-, two- and three-decimal currencies go through as they are, never multiplied."""
    effect = _refund(amount_minor=amount_minor, currency=currency)
    assert (effect.parameters.amount_minor, effect.money.amount_minor) == (amount_minor, amount_minor)


@pytest.mark.parametrize("currency", ["USD", "us", "", "usdx", "xxx", "btc", None, 840])
def test_an_unknown_currency_is_refused(currency: Any) -> None:
    """Only a currency that Stripe lists is taken, in lower case."""
    with pytest.raises(InvalidEffect):
        _refund(currency=currency)


@pytest.mark.parametrize("currency", ["bhd", "jod", "kwd", "omr", "tnd"])
def test_a_three_decimal_amount_ends_in_zero(currency: str) -> None:
    """docs.stripe.com/currencies: the last digit of a three-decimal amount must be 0."""
    with pytest.raises(InvalidEffect, match="multiple of 10"):
        _refund(currency=currency, amount_minor=5124)


def test_the_currencies_are_those_that_stripe_lists() -> None:
    """More than 135, each of three lower-case letters."""
    assert len(CURRENCIES) > 135
    assert all(len(one) == 3 and one.isalpha() and one.islower() for one in CURRENCIES)


@pytest.mark.parametrize("payment", ["", "ch_local_1", "pi_", "pi_1/../../refunds", "pi_1?x=1", "pi_1\n", None, 7])
def test_a_payment_that_is_no_payment_intent_is_refused(payment: Any) -> None:
    """The id ends up in a path, so nothing but an id is taken."""
    with pytest.raises(InvalidEffect):
        _refund(payment=payment)


def test_fraudulent_is_refused_and_says_why() -> None:
    """The reason that puts a customer on a block list is not for an agent to give."""
    with pytest.raises(InvalidEffect, match="block"):
        _refund(reason="fraudulent")


@pytest.mark.parametrize("reason", ["", "because", "Duplicate"])
def test_an_unknown_reason_is_refused(reason: str) -> None:
    """Only Stripe's own words are reasons."""
    with pytest.raises(InvalidEffect):
        _refund(reason=reason)


@pytest.mark.parametrize("reference", ["", "  ", "a\nb", "x" * 201, "\ud800", 7])
def test_a_reference_that_is_not_printable_is_refused(reference: Any) -> None:
    """A reference is printable text of 1 to 200 characters."""
    with pytest.raises(InvalidEffect):
        _refund(reference=reference)


def test_an_effect_comes_back_from_the_journal_as_it_was() -> None:
    """Recovery rebuilds the effect from what is recorded alone."""
    target = StripeRefunds(KEY, name="stripe-eu")
    effect = target.refund(**GOOD, reason="duplicate", reference="case-4471")
    record = record_effect(effect, target.codec, target.version)
    assert record.effect(target.codec) == effect
    assert effect.parameters == Refund(2000, "usd", "duplicate", "case-4471")
    assert (record.target, record.subject, record.amount_minor, record.currency) == ("stripe-eu", "pi_local_1", 2000, "usd")


def test_the_key_is_never_shown() -> None:
    """Neither the target's repr nor what it holds in plain sight says the key."""
    target = StripeRefunds(KEY, account="acct_local_1")
    assert KEY not in repr(target)
    assert KEY not in str(vars(target))
    assert "acct_local_1" in repr(target)


@pytest.mark.parametrize(
    ("key", "stated", "live"),
    [
        ("sk_test_local_1", None, False),
        ("rk_test_local_1", None, False),
        ("rkcs_test_local_1", None, False),
        ("sk_live_local_fake", None, True),
        ("rk_live_local_fake", True, True),
        ("opaque", False, False),
    ],
)
def test_the_mode_is_the_keys(key: str, stated: bool | None, live: bool) -> None:  # noqa: FBT001
    """The library takes live keys (the harness refuses them), and knows the mode from the prefix."""
    assert ("live" in repr(StripeRefunds(key, livemode=stated))) is live


@pytest.mark.parametrize(
    "wrong", [{"livemode": True}, {"account": "pi_1"}, {"settle_s": -1.0}, {"dedupe_window_s": None, "burn": True}]
)
def test_a_configuration_that_contradicts_itself_is_refused(wrong: Any) -> None:
    """A mode that is not the key's, an account that is none, negative figures, burning without keys."""
    with pytest.raises(InvalidConfiguration):
        StripeRefunds(KEY, **wrong)


def test_a_key_that_does_not_tell_its_mode_needs_it_said() -> None:
    """Nothing is guessed about live mode."""
    with pytest.raises(InvalidConfiguration, match="livemode"):
        StripeRefunds("opaque")


def test_the_profile_is_what_stripe_documents() -> None:
    """24 h of keys, consistent lists, stored failures with an end that nobody states; and the switches take away."""
    profile = StripeRefunds(KEY).capabilities
    assert (profile.dedupe_window_s, profile.lookup_staleness_s, profile.burns) == (86_400, 0, True)
    assert (profile.stores_failures, profile.may_roll_forward_unbounded) == (True, True)
    bare = StripeRefunds(KEY, lookup=False, burn=False, dedupe_window_s=None, roll_forward_s=0.0).capabilities
    assert (bare.looks_up, bare.burns, bare.dedupes, bare.may_roll_forward_unbounded) == (False, False, False, False)
