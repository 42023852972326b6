"""Premises: four kinds of change, expectations, and reads that are no reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.effects import DataclassCodec, Effect, EffectRecord, record_effect
from interlock.domain.premises import (
    Change,
    ChangeKind,
    Facts,
    Judgement,
    Premise,
    Purpose,
    ReadingState,
    Strict,
    facts_text,
    judge_premise,
    require_judged,
    same,
    unreadable,
)
from interlock.errors import InvalidPremise
from tests.provider_world import Transfer

AT = datetime(2026, 3, 1, tzinfo=UTC)
EFFECT = record_effect(Effect("world", "acct_1", Transfer("acct_1", 1, "usd")), DataclassCodec(Transfer), 1)
PURPOSE = Purpose(UUID(int=1), EFFECT, frozenset({"case-1"}))


def _premise(facts: Facts) -> Premise:
    return Premise(target="world", subject="acct_1", facts_json=facts_text(facts), read_at=AT, policy="strict")


class Verdicts:
    """A policy that finds what it is told to find."""

    name, version = "verdicts", 3

    def __init__(self, *kinds: ChangeKind) -> None:
        self._kinds = kinds

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        """Return one change of each kind."""
        del decided, now, purpose
        return Judgement(tuple(Change(kind, f"a {kind} change") for kind in self._kinds), "try otherwise")


OWN, COMPATIBLE, DUPLICATE, CONFLICTING = ChangeKind


@pytest.mark.parametrize(
    ("kinds", "state", "holds"),
    [
        ((), ReadingState.UNCHANGED, True),
        ((OWN,), ReadingState.UNCHANGED, True),
        ((OWN, COMPATIBLE), ReadingState.COMPATIBLE, True),
        ((COMPATIBLE, DUPLICATE), ReadingState.DUPLICATE, False),
        ((DUPLICATE, CONFLICTING, OWN), ReadingState.CONFLICTING, False),
        ((CONFLICTING,), ReadingState.CONFLICTING, False),
    ],
)
def test_the_worst_change_decides(kinds: tuple[ChangeKind, ...], state: ReadingState, holds: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Our own effect is no change, compatible ones go on, duplicates and conflicts refuse."""
    reading = judge_premise(_premise({"a": 1}), _premise({"a": 2}), Verdicts(*kinds), PURPOSE)
    assert (reading.state, reading.holds) == (state, holds)
    assert bool(reading.possible) is not holds
    assert (reading.policy, reading.policy_version) == ("verdicts", 3)


SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3).filter(str.isascii)
FACTS = st.dictionaries(st.sampled_from("abc"), SCALARS, min_size=1)


def _text(value: Any) -> str:
    return facts_text({"": value})


@given(FACTS, FACTS)
def test_strict_refuses_any_change_and_nothing_else(decided: dict[str, Any], now: dict[str, Any]) -> None:
    """A fact that is gone and one that is null are the same."""
    reading = judge_premise(_premise(decided), _premise(now), Strict(), PURPOSE)
    changed = any(_text(decided.get(name)) != _text(now.get(name)) for name in decided.keys() | now.keys())
    assert reading.holds is not changed


@pytest.mark.parametrize("facts_json", ["{}", "[]", "null", "7", '"text"'])
def test_an_empty_read_is_unreadable_and_never_unchanged(facts_json: str) -> None:
    """Even where the decision was made on nothing, too."""
    now = Premise(target="world", subject="acct_1", facts_json=facts_json, read_at=AT, policy="strict")
    for decided in (now, _premise({"a": 1})):
        reading = judge_premise(decided, now, Strict(), PURPOSE)
        assert (reading.state, reading.holds) == (ReadingState.UNREADABLE, False)


def test_an_unreadable_premise_does_not_hold() -> None:
    """It is no conflict either: the protocol waits."""
    reading = unreadable(_premise({"a": 1}), "TimeoutError", AT)
    assert (reading.holds, reading.state, reading.words) == (False, ReadingState.UNREADABLE, "TimeoutError")
    assert (reading.policy, reading.policy_version, reading.possible, reading.facts_json) == ("strict", 0, "", "{}")


@pytest.mark.parametrize("now", [{"a": 2}, {"b": 1}, {"a": None}, {"a": "1"}])
def test_a_broken_expectation_comes_before_every_policy(now: dict[str, Any]) -> None:
    """Whatever the policy would make of it, and though nothing changed."""
    premise = _premise(now).expect(a=1)
    reading = judge_premise(premise, _premise(now), Verdicts(), PURPOSE)
    assert (reading.state, reading.holds) == (ReadingState.UNEXPECTED, False)


@pytest.mark.parametrize(("expected", "found"), [(1, True), (0, False), (True, 1), (False, 0)])
def test_one_is_not_true(expected: Any, found: Any) -> None:
    """An expectation compares what JSON says, in which 1 and true are two things."""
    premise = _premise({"a": found}).expect(a=expected)
    assert not judge_premise(premise, _premise({"a": found}), Verdicts(), PURPOSE).holds


def test_expectations_add_up() -> None:
    """A later one of the same name replaces the earlier one."""
    premise = _premise({"a": 1, "b": 2}).expect(a=0).expect(a=1, b=2)
    assert judge_premise(premise, _premise({"a": 1, "b": 2}), Strict(), PURPOSE).holds


@pytest.mark.parametrize(
    "facts",
    [{"a": float("nan")}, {"a": float("inf")}, {"a": 2**53}, {"a": "\ud800"}, {"a": b"bytes"}, {1: 2}],
    ids=["nan", "infinity", "large", "half a letter", "bytes", "key"],
)
def test_facts_are_written_down_exactly_or_not_at_all(facts: Any) -> None:
    """A number that is none, a large integer, half a letter, an object, a key that is no text."""
    with pytest.raises(InvalidPremise, match=r"facts can't be written down exactly: ."):
        facts_text(facts)


def test_what_did_not_change_says_nothing() -> None:
    """There is nothing to say, and nothing to do instead."""
    reading = judge_premise(_premise({"a": 1}), _premise({"a": 1}), Strict(), PURPOSE)
    assert (reading.state, reading.words, reading.possible) == (ReadingState.UNCHANGED, "", "")


@pytest.mark.parametrize("turned", [False, True])
def test_the_order_in_which_a_fact_names_things_is_no_change(turned: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """JSON objects have none."""
    one, other = {"x": 1, "y": [{"a": 1, "b": 2}]}, {"y": [{"b": 2, "a": 1}], "x": 1}
    assert same(*((other, one) if turned else (one, other)))


@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}, 2**60])
def test_an_expectation_that_cannot_be_compared_says_which_and_why(value: Any) -> None:
    """A float, a list, an object, a number that JSON rounds."""
    with pytest.raises(InvalidPremise, match=r"^amount "):
        _premise({"amount": 1}).expect(amount=value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"subject": "\ud800"},
        {"subject": 7},
        {"read_at": datetime(2026, 3, 1)},  # noqa: DTZ001 - that is the claim
        {"read_at": "2026-03-01T00:00:00Z"},
        {"facts_json": "{"},
        {"expectations_json": "{"},
    ],
    ids=["half a letter", "a number", "no zone", "no time", "no facts", "no expectations"],
)
def test_a_premise_that_could_not_be_stored_or_compared_is_not_made(wrong: dict[str, Any]) -> None:
    """It is refused where it is made."""
    good = {"target": "world", "subject": "acct_1", "facts_json": "{}", "read_at": AT, "policy": "strict"}
    with pytest.raises(InvalidPremise):
        Premise(**{**good, **wrong})


class OfPaymentsAlone(Strict):
    """A policy that says of which effects it can judge a change."""

    name = "payments"

    def judges(self, effect: EffectRecord) -> bool:
        """Those at one target."""
        return effect.target == "world"


def test_a_policy_is_asked_whether_it_can_judge_the_effect() -> None:
    """Where it says so at all: what it could never judge would pass for unreadable for ever."""
    premise = replace(_premise({"status": "open"}), policy="payments")
    require_judged(premise, OfPaymentsAlone(), EFFECT)
    require_judged(premise, Strict(), replace(EFFECT, target="mail"))
    with pytest.raises(InvalidPremise, match="'payments' can't judge"):
        require_judged(premise, OfPaymentsAlone(), replace(EFFECT, target="mail"))
