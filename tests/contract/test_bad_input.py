"""Bad input is an exception with nothing written and nothing sent, or a refusal with a receipt; never anything in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from interlock import ApprovalView, ExternalApproval, Money, Premise, Refused
from interlock.domain.effects import Effect, EffectRecord
from interlock.domain.premises import Strict
from interlock.errors import (
    ActionMismatch,
    ApprovalNotUsable,
    GateClosed,
    InterlockError,
    InvalidApproval,
    InvalidEffect,
    InvalidInput,
    InvalidKey,
    InvalidPremise,
    PremiseUnreadable,
    UnknownAction,
    UnknownApproval,
    UnknownTarget,
)
from tests.crashing import BEFORE_SEND, Stage, crashes, staged
from tests.journals import Row, present
from tests.provider_world import AMOUNT, CURRENCY, PROFILES, START, SUBJECT, ObserveFault, Table, Transfer, World


def _everything(stage: Stage) -> list[list[Row]]:
    """Return all that the journal holds."""
    return [present.journals.rows(stage.path, table) for table in ("stored_events", "names", "receipts")]


class Untouched:
    """Nothing is written and nothing is sent in here, and the key is not used up."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def __enter__(self) -> None:
        """Remember the journal."""
        self._before = _everything(self._stage)

    def __exit__(self, *_: object) -> None:
        """Compare."""
        assert _everything(self._stage) == self._before
        assert not self._stage.world.sent


# --- amounts and effects


@pytest.mark.parametrize("amount", [20.0, 0, -1, True, "2000", None, 2**53])
def test_an_amount_that_is_no_positive_integer_is_no_effect(amount: Any) -> None:
    """A float, zero, a negative amount, a bool, a text, or more than JSON can carry exactly."""
    with pytest.raises(InvalidEffect):
        Money(amount, CURRENCY)


@pytest.mark.parametrize("currency", ["USD", "us", "usdd", "", "u$d", "éur", None, 840])
def test_a_currency_is_three_lower_case_letters(currency: Any) -> None:
    """Anything else is refused where the amount is made."""
    with pytest.raises(InvalidEffect):
        Money(AMOUNT, currency)


_FLOAT: Any = 20.0


@pytest.mark.parametrize(
    "parameters",
    [
        Transfer(SUBJECT, _FLOAT, CURRENCY),
        Transfer(SUBJECT, amount_minor=True, currency=CURRENCY),
        Transfer(SUBJECT, 2**60, CURRENCY),
        "x",
        {"a": 1},
    ],
    ids=["float", "bool", "too-large", "text", "dict"],
)
def test_parameters_of_another_type_are_no_effect(parameters: Any, folder: Path) -> None:
    """The codec refuses what the dataclass does not say, and what JSON could not carry exactly."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidEffect):
        stage.gate().fire("key", Effect("world", SUBJECT, parameters, Money(AMOUNT, CURRENCY)), approval="case-1")


@pytest.mark.parametrize("text", ["\ud800", "a\x00b"])
def test_a_text_that_not_every_journal_can_keep_is_refused(text: str, folder: Path) -> None:
    """The same on all of them, and before anything is written: a lone surrogate, and the NUL that PostgreSQL's text has not."""
    effect = Effect("world", SUBJECT, Transfer(SUBJECT, AMOUNT, CURRENCY, text), Money(AMOUNT, CURRENCY))
    with (
        staged(folder, "keys-lookup") as stage,
        Untouched(stage),
        pytest.raises(InvalidEffect, match="nothing was written or sent"),
    ):
        stage.gate().fire("key", effect, approval="case-1")


@pytest.mark.parametrize("text", ["\u2192 \U0001f4b8", "a\r\nb\x7f\x01", "\ufeff\u202e\uffff", "'\"\\{}%s"])
def test_any_other_text_is_kept_as_it_was_given(text: str, folder: Path) -> None:
    """In the parameters, the subject, a note and a decision: stored, sent, listed and verified."""
    with staged(folder, "keys-lookup") as stage:
        effect = Effect("world", text, Transfer(SUBJECT, AMOUNT, CURRENCY, text), Money(AMOUNT, CURRENCY))
        gate = stage.gate()
        receipt = gate.fire("key", effect, approval="case-1", decision={text: text}).receipt
        assert (receipt.status, receipt.subject) == ("COMMITTED", text)
        assert [sent.parameters.reason for sent in stage.world.sent] == [text]
        gate.revoke("case-1", by="user:1", note=text)
        assert gate.receipts().receipts == (receipt,)
        assert gate.verify().valid


@pytest.mark.parametrize("subject", ["", "\ud800", "a\x00b", None])
def test_an_effect_needs_a_subject(subject: Any, folder: Path) -> None:
    """Without one, or with one that is not text, there is nothing to act on."""
    effect = Effect("world", subject, Transfer("x", AMOUNT, CURRENCY), Money(AMOUNT, CURRENCY))
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidEffect):
        stage.gate().fire("key", effect, approval="case-1")


@pytest.mark.parametrize("effect", [{"target": "world"}, "world", None, 5, Effect, World], ids=ascii)
def test_what_is_no_effect_is_refused(effect: Any, folder: Path) -> None:
    """Python does not check a type hint: a dict in the place of a dataclass is bad input like any other."""
    wrong: Any = {}
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        for act in (
            lambda: stage.gate().fire("key", effect, approval="case-1"),
            lambda: stage.gate().approve("bound", by="user:1", expires_in_s=60, effect=effect or wrong),
        ):
            with pytest.raises(InvalidEffect, match="nothing was written or sent"):
                act()


@pytest.mark.parametrize(
    "money", [(AMOUNT, CURRENCY), {"amount_minor": AMOUNT, "currency": CURRENCY}, AMOUNT, "20 USD"], ids=ascii
)
def test_money_is_money(money: Any, folder: Path) -> None:
    """A pair, a dict or a number of whatever unit is none."""
    effect = replace(World(PROFILES["keys-lookup"]).transfer(), money=money)
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidEffect):
        stage.gate().fire("key", effect, approval="case-1")


# --- keys


@pytest.mark.parametrize("key", ["", " ", "k" * 201, "a\nb", "a\x00b", "\ud800", "\u200b", None, 7, b"key"])
def test_a_key_is_one_to_two_hundred_printable_characters(key: Any, folder: Path) -> None:
    """Anything else is refused, wherever a key is given."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate, effect = stage.gate(), stage.world.transfer()
        with pytest.raises(InvalidKey):
            gate.fire(key, effect, approval="case-1")
        with pytest.raises(InvalidKey):
            gate.propose(key, effect, approval="case-1")
        if key is not None:
            with pytest.raises(InvalidKey):
                gate.fire("key", effect, approval="case-1", supersedes=key)
        approval_id: Any = key
        with pytest.raises(InterlockError):
            gate.approve(approval_id, by="user:1", expires_in_s=60)


@pytest.mark.parametrize("key", ["k" * 200, "ключ-1", "a b"])
def test_two_hundred_characters_of_any_script_are_a_key(key: str, folder: Path) -> None:
    """The limit counts characters."""
    with staged(folder, "keys-lookup") as stage:
        assert stage.gate().fire(key, stage.world.transfer(), approval="case-1").key == key


@pytest.mark.parametrize(
    "other",
    [
        {"amount_minor": AMOUNT - 1},
        {"currency": "eur"},
        {"subject": "acct_2"},
    ],
)
def test_another_effect_under_a_used_key_is_a_mismatch(other: dict[str, Any], folder: Path) -> None:
    """The recorded action is unchanged, and the error names both fingerprints."""
    with staged(folder, "keys-lookup") as stage:
        gate = stage.gate()
        gate.fire("key", stage.world.transfer(), approval="case-1")
        before = _everything(stage)
        with pytest.raises(ActionMismatch) as caught:
            gate.fire("key", stage.world.transfer(**other), approval="case-1")
        assert caught.value.recorded_fingerprint != caught.value.given_fingerprint
        assert _everything(stage) == before
        assert len(stage.world.sent) == 1


def test_the_same_parameters_with_another_amount_are_another_effect(folder: Path) -> None:
    """What the approval has to cover is part of the effect."""
    with staged(folder, "keys-lookup") as stage:
        gate, effect = stage.gate(), stage.world.transfer()
        gate.fire("key", effect, approval="case-1")
        with pytest.raises(ActionMismatch):
            gate.fire("key", replace(effect, money=Money(1, CURRENCY)), approval="case-1")


# --- approvals


@pytest.mark.parametrize(
    "terms",
    [
        {"cap_minor": AMOUNT, "currency": "eur"},
        {"cap_minor": AMOUNT - 1, "currency": CURRENCY},
        {"cap_minor": None, "currency": None},
    ],
    ids=["currency", "too-small", "no-money"],
)
def test_an_approval_that_can_never_cover_the_effect_is_not_usable(terms: dict[str, Any], folder: Path) -> None:
    """Nothing is written, and the key works later under an approval that covers it."""
    with staged(folder, "keys-lookup") as stage:
        stage.approve("other", **terms)
        gate = stage.gate()
        with Untouched(stage), pytest.raises(ApprovalNotUsable):
            gate.fire("key", stage.world.transfer(), approval="other")
        with Untouched(stage), pytest.raises(ApprovalNotUsable):
            gate.propose("key", stage.world.transfer(), approval="other")
        assert gate.fire("key", stage.world.transfer(), approval="case-1").receipt.status == "COMMITTED"


def test_an_approval_for_another_effect_is_not_usable(folder: Path) -> None:
    """An approval that was given for one effect covers no other one."""
    with staged(folder, "keys-lookup") as stage:
        gate = stage.gate()
        gate.approve("bound", by="user:1", expires_in_s=60, cap_minor=AMOUNT, currency=CURRENCY, effect=stage.world.transfer())
        with Untouched(stage), pytest.raises(ApprovalNotUsable):
            gate.fire("key", stage.world.transfer(AMOUNT - 1), approval="bound")
        assert gate.fire("key", stage.world.transfer(), approval="bound").receipt.status == "COMMITTED"


@pytest.mark.parametrize("approval", ["nobody-gave-it", ExternalApproval("table", "nobody-gave-it")])
def test_an_approval_that_is_missing_is_not_usable(approval: str | ExternalApproval, folder: Path) -> None:
    """Whether it should be in the journal or in a table elsewhere."""
    with staged(folder, "keys-lookup") as stage:
        stage.sources["table"] = Table()
        with Untouched(stage), pytest.raises(ApprovalNotUsable):
            stage.gate().fire("key", stage.world.transfer(), approval=approval)


def test_an_approval_source_that_is_not_registered_is_an_error(folder: Path) -> None:
    """Before anything is written."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidInput):
        stage.gate().fire("key", stage.world.transfer(), approval=ExternalApproval("nowhere", "1"))


def test_an_approval_source_that_is_down_is_unreadable(folder: Path) -> None:
    """That is neither a yes nor a no: nothing is written, and the key is not used up."""
    with staged(folder, "keys-lookup") as stage:
        table = stage.sources["table"] = Table()
        table.down = True
        table.grant("row-1", until=stage.world.clock.now() + timedelta(hours=1))
        gate = stage.gate()
        with Untouched(stage), pytest.raises(PremiseUnreadable):
            gate.fire("key", stage.world.transfer(), approval=ExternalApproval("table", "row-1"))
        table.down = False
        fired = gate.fire("key", stage.world.transfer(), approval=ExternalApproval("table", "row-1"))
        assert fired.receipt.status == "COMMITTED"


@pytest.mark.parametrize("answer", [True, {"live": True}, "row-1"], ids=str)
def test_an_approval_source_that_answers_with_something_else_is_unreadable(answer: Any, folder: Path) -> None:
    """What is no terms gives no yes, and no error of its own."""

    class Wrong:
        def read(self, approval_id: str) -> Any:
            del approval_id
            return answer

    with staged(folder, "keys-lookup") as stage:
        stage.sources["table"] = Wrong()
        gate = stage.gate()
        with Untouched(stage), pytest.raises(PremiseUnreadable):
            gate.fire("key", stage.world.transfer(), approval=ExternalApproval("table", "row-1"))


@pytest.mark.parametrize("how", ["revoked", "expired", "used_up", "no_room"])
def test_an_approval_that_no_longer_stands_refuses_with_a_receipt(how: str, folder: Path) -> None:
    """Revoked, expired or used up is a fact about the world and not a mistake of the caller."""
    with staged(folder, "keys-lookup") as stage:
        stage.approve("spoiled", expires_in_s=60, uses=2 if how == "no_room" else 1)
        gate = stage.gate()
        if how == "revoked":
            stage.revoke()
        elif how == "expired":
            stage.world.advance(60)
        else:
            gate.fire("other", stage.world.transfer(), approval="spoiled")
        sent = len(stage.world.sent)
        outcome = gate.fire("key", stage.world.transfer(), approval="spoiled")
        assert isinstance(outcome, Refused)
        assert outcome.receipt.refusal is not None
        assert outcome.receipt.refusal.code == f"approval_{'used_up' if how == 'no_room' else how}"
        assert outcome.receipt.refusal.door == "nothing-sent"
        assert not outcome.receipt.refusal.at_recovery
        assert outcome.receipt.authorized_when_fired is None
        assert gate.fire("key", stage.world.transfer(), approval="spoiled") == outcome
        assert len(stage.world.sent) == sent


@pytest.mark.parametrize(
    "terms",
    [
        {"cap_minor": -1},
        {"cap_minor": 0},
        {"cap_minor": 20.0},
        {"currency": "USD"},
        {"currency": None},
        {"cap_minor": None},
        {"expires_in_s": 0},
        {"expires_in_s": -1},
        {"expires_in_s": 60.0},
        {"expires_in_s": True},
        {"expires_in_s": 10**15},
        {"uses": 0},
        {"uses": 2**53},
        {"uses": 1.5},
        {"uses": True},
        {"by": ""},
        {"by": "x" * 201},
        {"by": "a\nb"},
        {"by": 17},
    ],
    ids=str,
)
def test_terms_that_are_malformed_grant_nothing(terms: dict[str, Any], folder: Path) -> None:
    """Each is an error of input, and nothing is written."""
    given = {"by": "user:1", "expires_in_s": 60, "cap_minor": AMOUNT, "currency": CURRENCY, **terms}
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate = stage.gate()
        with pytest.raises(InvalidInput):
            gate.approve("malformed", **given)
        with pytest.raises(UnknownApproval):
            gate.approval("malformed")


def test_an_unknown_approval_can_be_neither_read_nor_revoked(folder: Path) -> None:
    """Nothing is written for it."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate = stage.gate()
        acts: list[Callable[[], object]] = [lambda: gate.approval("nobody"), lambda: gate.revoke("nobody", by="user:1")]
        for act in acts:
            with pytest.raises(UnknownApproval):
                act()


# --- targets, premises, decisions


def test_a_target_that_is_not_registered_is_an_error(folder: Path) -> None:
    """For the effect and for a premise, before anything is written."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate, stranger = stage.gate(), World(PROFILES["keys"], "stranger")
        with pytest.raises(UnknownTarget):
            gate.fire("key", stranger.transfer(), approval="case-1")
        with pytest.raises(UnknownTarget):
            gate.fire("key", stage.world.transfer(), approval="case-1", premises=[stranger.observe(SUBJECT)])
        with pytest.raises(UnknownTarget):
            gate.approve("bound", by="user:1", expires_in_s=60, effect=stranger.transfer())


def test_a_policy_that_is_not_registered_is_an_error(folder: Path) -> None:
    """Before anything is written."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate, premise = stage.gate(), replace(stage.world.observe(SUBJECT), policy="nobody-registered-it")
        with pytest.raises(InvalidPremise):
            gate.fire("key", stage.world.transfer(), approval="case-1", premises=[premise])


class OfLetters(Strict):
    """A policy for the effects of one target."""

    name = "of-letters"

    def judges(self, effect: EffectRecord) -> bool:
        """Say whether it is a letter."""
        return effect.target == "letters"


def test_a_policy_that_fits_other_effects_is_an_error(folder: Path) -> None:
    """Before anything is written or read: nobody could ever say what a change means, and `strict` can."""
    with staged(folder, "keys-lookup") as stage:
        gate, premise = stage.gate(policies=[OfLetters()]), replace(stage.world.observe(SUBJECT), policy="of-letters")
        stage.world.observe_faults = [ObserveFault.RAISES]
        for act in (gate.fire, gate.propose):
            with Untouched(stage), pytest.raises(InvalidPremise, match="policy='strict'"):
                act("key", stage.world.transfer(), approval="case-1", premises=[premise])
        assert stage.world.observe_faults, "the premise was not read"
        stage.world.observe_faults = []
        strict = replace(premise, policy="strict")
        assert gate.fire("key", stage.world.transfer(), approval="case-1", premises=[strict]).receipt.status == "COMMITTED"


@pytest.mark.parametrize("fault", list(ObserveFault))
def test_a_premise_that_cannot_be_read_uses_no_key_up(fault: ObserveFault, folder: Path) -> None:
    """Nothing is written, and firing again works once it can be read."""
    with staged(folder, "keys-lookup") as stage:
        premise, gate = stage.world.observe(SUBJECT), stage.gate()
        stage.world.observe_faults = [fault]
        with Untouched(stage), pytest.raises(PremiseUnreadable):
            gate.fire("key", stage.world.transfer(), approval="case-1", premises=[premise])
        fired = gate.fire("key", stage.world.transfer(), approval="case-1", premises=[premise])
        assert fired.receipt.status == "COMMITTED"


@pytest.mark.parametrize("facts", ["", "not json", "NaN,"])
def test_a_premise_is_made_of_json(facts: str, folder: Path) -> None:
    """Text that is none is refused where the premise is made."""
    with staged(folder, "keys-lookup") as stage, pytest.raises(InvalidPremise):
        replace(stage.world.observe(SUBJECT), facts_json=facts)


@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}, 2**60, "\ud800"])
def test_an_expectation_is_a_scalar(value: Any, folder: Path) -> None:
    """A float or a container can't be compared exactly."""
    with staged(folder, "keys-lookup") as stage, pytest.raises(InvalidPremise):
        stage.world.observe(SUBJECT).expect(state=value)


def test_a_fact_that_was_wrong_from_the_start_does_not_pass_for_unchanged(folder: Path) -> None:
    """An expectation that the reading does not meet refuses, although nothing changed."""
    with staged(folder, "keys-lookup") as stage:
        stage.world.provider.state = "frozen"
        premise = stage.world.observe(SUBJECT).expect(state="open")
        outcome = stage.gate().fire("key", stage.world.transfer(), approval="case-1", premises=[premise])
        assert outcome.receipt.refusal is not None
        assert outcome.receipt.refusal.code == "premise_unexpected"
        assert "frozen" in outcome.receipt.refusal.words
        assert not stage.world.sent


_DEEP: list[Any] = []
for _ in range(100_000):
    _DEEP = [_DEEP]


@pytest.mark.parametrize("approval", [None, 5, {}, b"case-1", True, ApprovalView, ExternalApproval([], "x")], ids=ascii)  # type: ignore[arg-type] # what is wrong
def test_what_is_no_approval_is_refused(approval: Any, folder: Path) -> None:
    """It is named by its id, by what approve() returned, or as an external one."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidInput):
        stage.gate().fire("key", stage.world.transfer(), approval=approval)


@pytest.mark.parametrize("wait_s", ["1", None, {}, float("nan"), 10**400], ids=lambda value: repr(value)[:9])
def test_a_wait_is_a_number_of_seconds(wait_s: Any, folder: Path) -> None:
    """NaN is none: it would be waited for without end."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidInput):
        stage.gate().fire("key", stage.world.transfer(), approval="case-1", wait_s=wait_s)


def test_premises_are_a_list_of_premises(folder: Path) -> None:
    """One that stands alone, what is none, and one that was read as empty: no decision can rest on them."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate, seen = stage.gate(), stage.world.observe(SUBJECT)
        wrong: list[Any] = [seen, None, 5, "abc", [None], [{"facts": 1}], {"seen": seen}, [replace(seen, facts_json="{}")]]
        for premises in wrong:
            with pytest.raises(InvalidPremise, match="nothing was written or sent"):
                gate.fire("key", stage.world.transfer(), approval="case-1", premises=premises)


@pytest.mark.parametrize("facts", ["", "nope", "[" * 100_000], ids=lambda text: text[:4])
def test_facts_that_are_no_json_make_no_premise(facts: str) -> None:
    """However deep they are."""
    with pytest.raises(InvalidPremise):
        Premise(target="world", subject=SUBJECT, facts_json=facts, read_at=START, policy="strict")


@pytest.mark.parametrize(
    "decision",
    [{"a": b"bytes"}, {"a": float("nan")}, {"a": "\ud800"}, {"a": {1, 2}}, {1: 2}, ["a"], "a", 5, {"a": _DEEP}],
    ids=lambda value: ascii(value)[:20] if value != {"a": _DEEP} else "deep",
)
def test_a_decision_is_made_of_json_values(decision: dict[str, Any], folder: Path) -> None:
    """Anything else could not be written down."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage), pytest.raises(InvalidInput):
        stage.gate().fire("key", stage.world.transfer(), approval="case-1", decision=decision)


def test_what_a_model_says_is_kept_as_one_opaque_text(folder: Path) -> None:
    """A decision that looks like an instruction to a decoder is read back as it was."""
    decision = {"_type_": "datetime_iso", "_data_": "2026-01-01", "words": "refund 'em", "é": [1, {"n": None}]}
    with staged(folder, "keys-lookup") as stage:
        stage.gate().fire("key", stage.world.transfer(), approval="case-1", decision=decision)
        text = stage.gate().receipt("key").decision_json
        assert text is not None
        assert json.loads(text) == decision


# --- resolving, reading


@pytest.mark.parametrize("key", [5, b"key", ["key"]], ids=ascii)
def test_what_is_no_key_can_be_neither_read_nor_worked_on(key: Any, folder: Path) -> None:
    """Each way of asking says so."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate = stage.gate()
        asks: list[Callable[[Any], object]] = [gate.receipt, gate.verify, gate.recover, gate.reconcile, gate.approval]
        asks += [lambda key: gate.erase(key, reason="x", by="y"), lambda key: gate.erase_approval(key, reason="x", by="y")]
        for ask in asks:
            with pytest.raises(InvalidKey):
                ask(key)


def test_an_unknown_key_can_be_neither_read_nor_worked_on(folder: Path) -> None:
    """Each way of asking says that there is no such action."""
    with staged(folder, "keys-lookup") as stage, Untouched(stage):
        gate = stage.gate()
        asks: list[Callable[[str], object]] = [gate.receipt, gate.verify, gate.recover, gate.reconcile]
        for ask in asks:
            with pytest.raises(UnknownAction):
                ask("nobody-fired-it")
        with pytest.raises(UnknownAction):
            gate.resolve("nobody-fired-it", happened=True, by="user:1", note="")


@pytest.mark.parametrize(
    "conditions",
    [
        *({"status": "DONE"}, {"limit": 0}, {"limit": 501}, {"after": "x"}, {"since": START.replace(tzinfo=None)}),
        *({"limit": "5"}, {"limit": True}, {"after": 5}, {"since": "2026"}, {"min_amount_minor": 1.5}, {"target": 5}),
        *({"min_amount_minor": 2**53}, {"max_amount_minor": -(2**63)}, {"approval": "\ud800"}, {"target": "\0"}),
        {"until": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))},
    ],
    ids=ascii,
)
def test_a_page_is_asked_for_in_words_that_mean_something(conditions: dict[str, Any], folder: Path) -> None:
    """An unknown status, a figure out of range, a cursor that no page gave, a time without a zone, text that nothing holds."""
    with staged(folder, "keys-lookup") as stage, pytest.raises(InvalidInput):
        stage.gate().receipts(**conditions)


def test_a_closed_gate_does_nothing(folder: Path) -> None:
    """Every method says so, and nothing is written or sent; closing twice is no error."""
    with staged(folder, "keys-lookup") as stage:
        actor = stage.actor()
        assert crashes(actor.fire, BEFORE_SEND)
        gate = actor.gate
        gate.close()
        gate.close()
        with Untouched(stage):
            acts: list[Callable[[], object]] = [
                lambda: gate.fire("key", stage.world.transfer(), approval="case-1"),
                lambda: gate.propose("key", stage.world.transfer(), approval="case-1"),
                lambda: gate.approve("x", by="user:1", expires_in_s=60),
                lambda: gate.revoke("case-1", by="user:1"),
                lambda: gate.approval("case-1"),
                gate.recover,
                gate.reconcile,
                lambda: gate.resolve(actor.key, happened=True, by="user:1", note=""),
                lambda: gate.receipt(actor.key),
                gate.receipts,
                gate.attention,
                gate.verify,
            ]
            for act in acts:
                with pytest.raises(GateClosed):
                    act()


def test_an_error_of_input_is_a_value_error_and_one_of_ours() -> None:
    """A host may catch the tree's root, or what Python calls it."""
    assert issubclass(InvalidInput, InterlockError)
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(InvalidApproval, InvalidInput)
    assert not issubclass(PremiseUnreadable, InvalidInput)
    assert Premise.__module__ == "interlock.domain.premises"
