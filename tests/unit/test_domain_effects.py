"""Effects: what can be written down exactly, read back exactly, and named by a fingerprint."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.effects import DataclassCodec, Effect, Money, canonical, record_effect, require_scalar
from interlock.errors import InvalidEffect

SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
"""Every text that a journal can store: no half of a letter, and no NUL, which PostgreSQL has no place for."""


@dataclass(frozen=True)
class Parcel:
    """Every type and every kind of default that a field may have."""

    to: str
    grams: int
    fragile: bool
    note: str | None
    tone: str | None = "formal"
    floor: int | None = None
    count: int = 1


PARCELS = st.builds(
    Parcel,
    to=TEXTS,
    grams=SAFE,
    fragile=st.booleans(),
    note=st.none() | TEXTS,
    tone=st.none() | TEXTS,
    floor=st.none() | SAFE,
    count=SAFE,
)
CODEC = DataclassCodec(Parcel)


@given(PARCELS)
def test_parameters_are_read_back_as_they_were(parcel: Parcel) -> None:
    """Whatever their defaults say; through JSON text, as recovery reads them."""
    stored = json.loads(json.dumps(dict(CODEC.encode(parcel))))
    assert CODEC.decode(stored) == parcel


@given(PARCELS, PARCELS)
def test_two_effects_share_a_fingerprint_only_if_they_are_the_same(one: Parcel, other: Parcel) -> None:
    """None and a default are two different things."""
    prints = [record_effect(Effect("post", "x", parcel), CODEC, 1).fingerprint for parcel in (one, other)]
    assert (prints[0] == prints[1]) is (one == other)


@pytest.mark.parametrize(
    "other",
    [
        Effect("mail", "anna", Parcel("a", 1, fragile=False, note=None), Money(5, "usd")),
        Effect("post", "otto", Parcel("a", 1, fragile=False, note=None), Money(5, "usd")),
        Effect("post", "anna", Parcel("b", 1, fragile=False, note=None), Money(5, "usd")),
        Effect("post", "anna", Parcel("a", 1, fragile=False, note=None), Money(6, "usd")),
        Effect("post", "anna", Parcel("a", 1, fragile=False, note=None), Money(5, "eur")),
        Effect("post", "anna", Parcel("a", 1, fragile=False, note=None)),
    ],
    ids=["target", "subject", "parameters", "amount", "currency", "no-money"],
)
def test_whatever_differs_makes_another_effect(other: Effect[Parcel]) -> None:
    """Target, subject, parameters, amount and currency; the version of the target does not."""
    effect = Effect("post", "anna", Parcel("a", 1, fragile=False, note=None), Money(5, "usd"))
    fingerprint = record_effect(effect, CODEC, 1).fingerprint
    assert record_effect(effect, CODEC, 2).fingerprint == fingerprint
    assert record_effect(other, CODEC, 1).fingerprint != fingerprint


@given(PARCELS)
def test_an_effect_is_rebuilt_from_its_record_alone(parcel: Parcel) -> None:
    """With its money, and with the parameters decoded."""
    effect = Effect("post", "anna", parcel, Money(5, "usd"))
    assert record_effect(effect, CODEC, 1).effect(CODEC) == effect


@pytest.mark.parametrize("value", [1.0, float("nan"), [], {}, b"", 2**53, -(2**53), "\ud800", b"bytes"], ids=range(9))
def test_what_json_cannot_carry_exactly_is_no_scalar(value: Any) -> None:
    """No float, no container, no integer that some reader would round, no half of a letter."""
    with pytest.raises(InvalidEffect):
        require_scalar("field", value)


@pytest.mark.parametrize("kind", [float, list[str], dict[str, str], bytes, Any, int | float, object])
def test_a_field_of_another_type_fails_where_the_codec_is_made(kind: Any) -> None:
    """Not at the first refund."""
    with pytest.raises(InvalidEffect):
        DataclassCodec(make_dataclass("Wrong", [("field", kind)]))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"to": "a", "grams": 1, "fragile": True, "note": None, "more": 1},
        {"to": "a", "grams": "1", "fragile": True, "note": None},
        {"to": "a", "grams": True, "fragile": True, "note": None},
        {"to": "a", "grams": 1, "fragile": 1, "note": None},
        {"to": None, "grams": 1, "fragile": True, "note": None},
    ],
    ids=["missing", "unknown", "text", "bool", "int", "none"],
)
def test_stored_values_of_another_shape_are_not_decoded(values: dict[str, Any]) -> None:
    """Recovery sends what was recorded, or nothing."""
    with pytest.raises(InvalidEffect):
        CODEC.decode(values)


@given(st.integers(1, 2**53 - 1))
def test_a_positive_integer_is_an_amount(amount: int) -> None:
    """Of any currency of three small letters."""
    assert Money(amount, "jpy").amount_minor == amount


@pytest.mark.parametrize("amount", [0, -1, 2**53, 1.0, True, "5", None], ids=repr)
def test_what_is_no_positive_integer_is_no_amount(amount: Any) -> None:
    """Nor one that some reader would round."""
    with pytest.raises(InvalidEffect):
        Money(amount, "usd")


@pytest.mark.parametrize(
    "currency", ["", "us", "usdx", "USD", "Usd", "u5d", "us ", "üsd", "ﬁb", b"usd", None, 840], ids=range(12)
)
def test_a_currency_is_three_small_letters(currency: Any) -> None:
    """Of the alphabet that ISO 4217 uses."""
    with pytest.raises(InvalidEffect):
        Money(5, currency)


@pytest.mark.parametrize("value", [2**53 - 1, -(2**53) + 1, 0, True, None, "", "ü"], ids=range(7))
def test_what_json_carries_exactly_is_a_scalar(value: Any) -> None:
    """Up to the last integer that every reader keeps."""
    assert require_scalar("field", value) is value


def test_a_field_that_is_none_by_default_is_left_out() -> None:
    """So that adding one later changes no fingerprint; one that is None otherwise is written down."""
    plain = {"to": "a", "grams": 1, "fragile": False, "note": None, "tone": "formal", "count": 1}
    assert CODEC.encode(Parcel("a", 1, fragile=False, note=None)) == plain
    toneless = Parcel("a", 1, fragile=False, note=None, tone=None, floor=0)
    assert CODEC.encode(toneless) == {**plain, "tone": None, "floor": 0}


def test_a_field_with_a_default_may_be_missing_where_it_was_not_there_yet() -> None:
    """An effect that was recorded before the field was added is still decoded, whatever makes its default."""
    later = make_dataclass("Later", [("to", str), ("tags", str, field(default_factory=lambda: "none")), ("n", int, 3)])
    assert DataclassCodec(later).decode({"to": "a"}) == later("a")


@pytest.mark.parametrize("parameters", [None, "parcel", {"to": "a"}, make_dataclass("Other", [("to", str)])("a")], ids=range(4))
def test_parameters_of_another_kind_are_not_encoded(parameters: Any) -> None:
    """A target's own parameters alone."""
    with pytest.raises(InvalidEffect, match="expected Parcel"):
        CODEC.encode(parameters)


def test_a_field_may_be_of_every_type_that_there_is() -> None:
    """Text, a number, a truth and nothing, all in one."""
    anything = make_dataclass("Anything", [("field", str | int | bool | None)])
    codec: DataclassCodec[Any] = DataclassCodec(anything)
    for value in ("a", 1, True, None):
        assert codec.decode(codec.encode(anything(value))) == anything(value)


def test_a_codec_is_for_a_dataclass() -> None:
    """Said where it is made."""
    with pytest.raises(InvalidEffect, match="not a dataclass"):
        DataclassCodec(dict)


@pytest.mark.parametrize("subject", ["", None, 7, "a\0", "\ud800"], ids=range(5))
def test_an_effect_is_about_something(subject: Any) -> None:
    """That every journal can store."""
    with pytest.raises(InvalidEffect, match=r"\bsubject\b"):
        record_effect(Effect("post", subject, Parcel("a", 1, fragile=False, note=None)), CODEC, 1)


def test_the_fingerprint_is_that_of_the_canonical_form() -> None:
    """As anybody makes it who has RFC 8785 and SHA-256, with money and without."""
    parcel = Parcel("a", 1, fragile=False, note=None)
    for money in (Money(5, "usd"), None):
        made = record_effect(Effect("post", "anna", parcel, money), CODEC, 4)
        whole: Any = {
            "money": [5, "usd"] if money else [],
            "parameters": dict(CODEC.encode(parcel)),
            "subject": "anna",
            "target": "post",
        }
        assert made.fingerprint == f"sha256:{hashlib.sha256(rfc8785.dumps(whole)).hexdigest()}"
        assert (made.amount_minor, made.currency, made.money) == ((5, "usd", money) if money else (None, None, None))
        assert (made.target, made.subject, made.target_version) == ("post", "anna", 4)


SCALARS = st.none() | st.booleans() | SAFE | TEXTS


@given(SCALARS | st.dictionaries(TEXTS, SCALARS))
def test_the_canonical_form_is_that_of_rfc_8785(value: Any) -> None:
    """To the byte: whatever has to be escaped, and names in the order of UTF-16."""
    assert canonical(value).encode() == rfc8785.dumps(value)


def test_names_beyond_the_first_plane_come_before_some_of_it() -> None:
    """In UTF-16 an astral letter begins with a surrogate, which is below U+E000: another order than that of code points."""
    names: Any = dict.fromkeys(("\ufb33", "\U0001f600", "\u20ac", "\x7f", "\x1f", "1"), 1)
    assert canonical(names).encode() == rfc8785.dumps(names)
    assert canonical(names).index("\U0001f600") < canonical(names).index("\ufb33")


class Loose:
    """A codec of somebody's own, which gives what it was given."""

    def encode(self, parameters: Any) -> Any:
        """Return them."""
        return parameters

    def decode(self, values: Any) -> Any:
        """Return them."""
        return values


@pytest.mark.parametrize("value", [1.5, 2**53, [], {}, "\ud800", b""], ids=range(6))
def test_what_a_codec_of_ones_own_gives_is_checked_too(value: Any) -> None:
    """A fingerprint is only made of what every reader keeps exactly."""
    with pytest.raises(InvalidEffect):
        record_effect(Effect("post", "anna", {"field": value}), Loose(), 1)
