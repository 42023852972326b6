"""Effects: what can be written down exactly, read back exactly, and named by a fingerprint."""

from __future__ import annotations

import json
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.effects import DataclassCodec, Effect, Money, record_effect, require_scalar
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


@pytest.mark.parametrize("value", [1.0, float("nan"), [], {}, b"", 2**53, -(2**53), "\ud800", b"bytes"], ids=repr)
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
