"""What a target may say: of the right types, storable as it is or made so, and anything that goes wrong is not a no."""

from __future__ import annotations

import asyncio
import binascii
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.answers import (
    Absent,
    CannotTell,
    Declined,
    Done,
    Evidence,
    Found,
    KeyState,
    NotSent,
    Settlement,
    Unknown,
    storable,
)
from interlock.domain.books import BookEntry, Books
from interlock.domain.ports import AsyncTarget, ExternalTerms, Target
from tests.scripted import ACTION_ID, AT

GOOD: dict[str, Any] = {"reference": "re_1", "state": "ok", "settlement": Settlement.FINAL, "json": "{}"}
ENTRY: dict[str, Any] = {"subject": "pi_1", "reference": "re_1", "state": "ok", "settlement": Settlement.FINAL}


# --- what is said is of the right type


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reference", 1),
        ("reference", None),
        ("settlement", "final"),
        ("replayed", 1),
        ("request_id", b"req"),
        ("disagreements", ["amount"]),
        ("disagreements", ("amount", 1)),
        ("disagreements", (None,)),
    ],
    ids=str,
)
def test_evidence_of_another_type_is_not_let_in(field: str, value: object) -> None:
    """What could not be read back from the journal raises where it is made, and says which field it is."""
    with pytest.raises(TypeError, match=f"Evidence.{field} must be "):
        Evidence(**{**GOOD, field: value})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Done(cast("Any", "evidence")),
        lambda: Found(cast("Any", None)),
        lambda: Declined("code", cast("Any", None)),
        lambda: NotSent(cast("Any", 3)),
        lambda: Unknown("why", cast("Any", "open")),
        lambda: Absent(cast("Any", "2026-03-01")),
        lambda: CannotTell(cast("Any", ValueError("x"))),
    ],
    ids=["done", "found", "declined", "not-sent", "unknown", "absent", "cannot-tell"],
)
def test_an_answer_of_another_type_is_not_let_in(make: Any) -> None:
    """Each of them: the port turns it into Unknown or CannotTell."""
    with pytest.raises(TypeError):
        make()


def test_an_answer_of_the_right_types_is_kept_as_it_is() -> None:
    """With every field given, and none."""
    given = Evidence(**GOOD, replayed=True, request_id="req_1", disagreements=("amount", "currency"))
    assert (given.request_id, given.replayed, given.disagreements) == ("req_1", True, ("amount", "currency"))
    assert Evidence(**GOOD).request_id is None
    assert Unknown("why", KeyState.IN_PROGRESS).key is KeyState.IN_PROGRESS
    assert Absent(AT).read_at is AT


# --- what a journal can't carry


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_text_that_a_journal_can_carry_is_left_alone(text: str) -> None:
    """To the letter."""
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "stored"),
    [("a\0b", "a\ufffdb"), ("é\0", "é\ufffd"), ("\ud800", "?"), ("é\udfff", "é?"), ("", "")],
    ids=["nul", "nul beyond ascii", "surrogate", "half of a letter", "nothing"],
)
def test_what_a_journal_cannot_carry_is_replaced(text: str, stored: str) -> None:
    """A lone surrogate and a NUL; in a field, and in a list of texts."""
    assert storable(text) == stored
    assert Evidence(**{**GOOD, "state": text}).state == stored
    assert Evidence(**GOOD, disagreements=("a", text)).disagreements == ("a", stored)


def test_a_replaced_text_leaves_the_record_frozen() -> None:
    """It is replaced while it is made, and never after."""
    made = NotSent("a\0")
    with pytest.raises(FrozenInstanceError):
        made.why = "b"  # type: ignore[misc]  # that it can't be done is the point


# --- the ports: whatever goes wrong is not known to have not happened


class Broken(Target[str]):
    """A provider whose every call goes wrong, or answers with something that is no answer."""

    name = "broken"

    def __init__(self, answer: object = None) -> None:
        """Answer with this, or raise it."""
        self.answer = answer
        self.asked: list[object] = []

    def _answer(self, *what: object) -> Any:
        self.asked += what
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def _send(self, effect: Any, **given: Any) -> Any:
        return self._answer(effect, given)

    def _lookup(self, effect: Any, **given: Any) -> Any:
        return self._answer(effect, given)

    def _burn(self, effect: Any, **given: Any) -> Any:
        return self._answer(effect, given)

    def _books(self, subject: str | None, **given: Any) -> Any:
        return self._answer(subject, given)


class AsyncBroken(AsyncTarget[str]):
    """The same for an event loop."""

    name = "broken"

    def __init__(self, answer: object = None) -> None:
        """Answer with this, or raise it."""
        self.sync = Broken(answer)

    async def _send(self, effect: Any, **given: Any) -> Any:
        return self.sync._send(effect, **given)

    async def _lookup(self, effect: Any, **given: Any) -> Any:
        return self.sync._lookup(effect, **given)

    async def _burn(self, effect: Any, **given: Any) -> Any:
        return self.sync._burn(effect, **given)

    async def _books(self, subject: str | None, **given: Any) -> Any:
        return self.sync._books(subject, **given)


class Silent(Target[str]):
    """A provider that can do nothing but send."""

    name = "silent"

    def _send(self, effect: Any, **given: Any) -> Any:
        del effect, given
        return NotSent("")


class AsyncSilent(AsyncTarget[str]):
    """The same for an event loop."""

    name = "silent"

    async def _send(self, effect: Any, **given: Any) -> Any:
        del effect, given
        return NotSent("")


def _asked(target: Target[str] | AsyncTarget[str], call: str) -> Any:
    keyed: dict[str, Any] = {"action_id": ACTION_ID, "deadline": None}
    given = {"books": {"deadline": None}, "lookup": keyed}.get(call, {**keyed, "idempotency_key": "il-1"})
    answer = getattr(target, call)("what", **given)
    return asyncio.run(answer) if isinstance(target, AsyncTarget) else answer


each_call = pytest.mark.parametrize("call", ["send", "lookup", "burn", "books"])
each_kind = pytest.mark.parametrize("kind", [Broken, AsyncBroken], ids=["called", "awaited"])


@each_kind
@each_call
@pytest.mark.parametrize("answer", [ValueError("secret: 4711"), None, True, {}, "done"], ids=repr)
def test_whatever_goes_wrong_is_unknown(kind: type[Broken | AsyncBroken], call: str, answer: object) -> None:
    """I6: an exception is named by its class alone, and what is no answer is none."""
    said = _asked(kind(answer), call)
    assert type(said) is (Unknown if call == "send" else CannotTell)
    assert said.why == ("builtins.ValueError" if isinstance(answer, Exception) else "builtins.TypeError")


@each_call
def test_an_exception_is_named_with_its_module(call: str) -> None:
    """So that somebody finds out whose it is."""
    assert _asked(Broken(binascii.Error("secret: 4711")), call).why == "binascii.Error"


@each_kind
@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("send", Declined("code", "words")),
        ("lookup", Absent(AT)),
        ("burn", CannotTell("why")),
        ("books", Books((BookEntry(**ENTRY),))),
    ],
)
def test_an_answer_is_passed_on_with_what_was_asked(kind: type[Broken | AsyncBroken], call: str, answer: object) -> None:
    """As it is, and the target hears what the gate said."""
    target = kind(answer)
    assert _asked(target, call) is answer
    heard = (target.sync if isinstance(target, AsyncBroken) else target).asked
    assert heard[0] == "what"
    assert set(cast("dict[str, object]", heard[1])) >= {"deadline"}


@pytest.mark.parametrize("target", [Silent(), AsyncSilent()], ids=["called", "awaited"])
def test_what_a_target_does_not_offer_cannot_be_told(target: Target[str] | AsyncTarget[str]) -> None:
    """Not absent, not burned, no empty book; and nothing to decide on."""
    assert [type(_asked(target, call)) for call in ("lookup", "burn", "books")] == [CannotTell] * 3
    with pytest.raises(NotImplementedError, match=r"'silent'.*'pi_1'"):
        asyncio.run(target.observe("pi_1")) if isinstance(target, AsyncTarget) else target.observe("pi_1")


# --- books, and approvals that live elsewhere


@pytest.mark.parametrize("field", ["subject", "reference", "state", "settlement", "action_mark", "amount_minor", "currency"])
def test_an_entry_of_another_type_is_none(field: str) -> None:
    """Named by its field: it could not be compared."""
    with pytest.raises(TypeError, match=f"other types in {field}$"):
        BookEntry(**{**ENTRY, field: 1.5})


def test_an_entry_says_as_much_as_the_provider_does() -> None:
    """A mark, an amount and a currency, or none of them."""
    assert BookEntry(**ENTRY, action_mark="1" * 32, amount_minor=5, currency="usd").amount_minor == 5
    assert BookEntry(**ENTRY, action_mark=None, amount_minor=None, currency=None) == BookEntry(**ENTRY)


@pytest.mark.parametrize("entries", [None, [], [BookEntry(**ENTRY)], (BookEntry(**ENTRY), "re_2"), "re"], ids=range(5))
def test_books_are_a_tuple_of_entries(entries: object) -> None:
    """A list that somebody goes on adding to is no record, nor is anything else."""
    with pytest.raises(TypeError):
        Books(cast("Any", entries))
    assert Books(()).entries == ()


TERMS: dict[str, Any] = {"live": True, "cap_minor": 5, "currency": "usd", "by": "u", "expires_at": AT, "fingerprint": None}


@pytest.mark.parametrize(
    ("field", "value"),
    [("live", 1), ("cap_minor", 5.0), ("cap_minor", True), ("currency", b"usd"), ("by", None), ("fingerprint", 1)],
    ids=str,
)
def test_terms_of_another_type_are_none(field: str, value: object) -> None:
    """A float is no cap, and a number is no yes."""
    with pytest.raises(TypeError, match=f": {field}$"):
        ExternalTerms(**{**TERMS, field: value})


def test_terms_end_at_a_time_that_everybody_understands() -> None:
    """One without a zone is none."""
    with pytest.raises(TypeError, match="time zone"):
        ExternalTerms(**{**TERMS, "expires_at": datetime(2026, 3, 1)})  # noqa: DTZ001 - that is the point
    assert ExternalTerms(**{**TERMS, "expires_at": datetime.now(UTC) + timedelta(days=1)}).live
    assert ExternalTerms(**{**TERMS, "cap_minor": None, "currency": None}).cap_minor is None
