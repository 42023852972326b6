"""Premises: facts read when the decision was made, and read again before every send (I4).

A policy sorts every change since the decision into four kinds; the worst of them decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, cast
from uuid import UUID

import rfc8785

from interlock.domain.answers import storable
from interlock.domain.effects import EffectRecord, Scalar, require_scalar
from interlock.errors import InvalidEffect, InvalidPremise

Facts = Mapping[str, Any]
"""What a target read of a subject, as JSON."""


class ChangeKind(StrEnum):
    """What a change in the world means for the action, from harmless to fatal."""

    OWN = "own"
    """Our own effect: it carries the action's id. Not a change."""
    COMPATIBLE = "compatible"
    """Something else changed, and there is still room. Go on, and say so on the receipt."""
    DUPLICATE = "duplicate"
    """Somebody else did the same thing. Refuse."""
    CONFLICTING = "conflicting"
    """No room is left, or the state makes the action wrong. Refuse."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change since the decision, in words a person can act on."""

    kind: ChangeKind
    words: str

    def __post_init__(self) -> None:
        """Take the words as they can be stored."""
        object.__setattr__(self, "words", storable(self.words))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a policy makes of all changes.

    Args:
        changes: every change that it found.
        possible: what would still be possible, in words; empty where nothing was refused.
    """

    changes: tuple[Change, ...] = ()
    possible: str = ""

    def __post_init__(self) -> None:
        """Take the words as they can be stored."""
        object.__setattr__(self, "possible", storable(self.possible))

    @property
    def objection(self) -> Change | None:
        """The change that refuses the action: a conflict before a duplicate; None where it may go on."""
        for kind in (ChangeKind.CONFLICTING, ChangeKind.DUPLICATE):
            for change in self.changes:
                if change.kind is kind:
                    return change
        return None


@dataclass(frozen=True, slots=True)
class Purpose:
    """For what the premises are judged: the effect, whose it is, and the references under which others may have done the same."""

    action_id: UUID
    effect: EffectRecord
    references: frozenset[str]


class PremisePolicy(Protocol):
    """A rule that compares what was decided on with what is read now. Pure: facts in, judgement out.

    A rule that fits some effects only has a method `judges(effect: EffectRecord) -> bool` too: the gate asks it beforehand.
    """

    @property
    def name(self) -> str:
        """The name it is registered under."""
        ...

    @property
    def version(self) -> int:
        """Raised whenever the rule's verdicts change."""
        ...

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        """Sort every change between the two readings."""
        ...


class Strict:
    """Any change refuses."""

    name = "strict"
    version = 1

    def judge(self, decided: Facts, now: Facts, purpose: Purpose) -> Judgement:
        """Report each field that differs as a conflict, whatever it is."""
        del purpose  # strict does not ask what for
        changed = sorted(name for name in decided.keys() | now.keys() if not same(decided.get(name), now.get(name)))
        return Judgement(
            tuple(Change(ChangeKind.CONFLICTING, f"{name} changed since the decision") for name in changed),
            possible="decide again on the facts as they are now, under a new approval" if changed else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Premise:
    """A fact that a decision was made on.

    Made by `target.observe(subject)`.

    Args:
        target: the name of the target that read it.
        subject: what was read.
        facts_json: what was read, as JSON text.
        read_at: when, in UTC.
        policy: the name of the policy that compares it; it must be registered at the gate.
        expectations_json: what must be true whatever was read, as JSON text; see `expect`.
    """

    target: str
    subject: str
    facts_json: str
    read_at: datetime
    policy: str
    expectations_json: str = "{}"

    def __post_init__(self) -> None:
        """Refuse what could not be written down or compared.

        Raises:
            InvalidPremise: a field that is no text, JSON that is none, or a time without a zone.
        """
        texts = (self.target, self.subject, self.facts_json, self.policy, self.expectations_json)
        if any(type(text) is not str or storable(text) != text for text in texts):
            raise InvalidPremise("a premise is made of text")
        if type(self.read_at) is not datetime or self.read_at.tzinfo is None:
            raise InvalidPremise("read_at must be a time with a zone")
        try:
            parse_facts(self.facts_json)
            parse_facts(self.expectations_json)
        except (ValueError, RecursionError):
            raise InvalidPremise("a premise's facts must be JSON") from None

    @property
    def facts(self) -> Facts:
        """What was read."""
        return parse_facts(self.facts_json)

    def expect(self, **expectations: Scalar) -> Premise:
        """Return the premise with facts that must hold, so that what was wrong from the start does not pass for unchanged.

        Args:
            expectations: top-level facts and the values they must have, such as `status="succeeded"`.

        Raises:
            InvalidPremise: a value is not a string, an integer, a boolean or None.
        """
        try:
            checked = {name: require_scalar(name, value) for name, value in expectations.items()}
        except InvalidEffect as error:
            raise InvalidPremise(str(error)) from None
        merged = {**json.loads(self.expectations_json), **checked}
        return replace(self, expectations_json=rfc8785.dumps(merged).decode())


class ReadingState(StrEnum):
    """How a premise stood when it was read again."""

    UNCHANGED = "unchanged"
    COMPATIBLE = "compatible"
    DUPLICATE = "duplicate"
    CONFLICTING = "conflicting"
    UNEXPECTED = "unexpected"
    """A fact that must be true is not."""
    UNREADABLE = "unreadable"
    """The read failed, or was empty. It is never "nothing changed" (I4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PremiseReading:
    """A premise, read again, as events and receipts keep it."""

    target: str
    subject: str
    policy: str
    policy_version: int
    state: ReadingState
    words: str
    possible: str
    facts_json: str
    read_at: datetime

    @property
    def holds(self) -> bool:
        """Whether the action may go on."""
        return self.state in (ReadingState.UNCHANGED, ReadingState.COMPATIBLE)


def judge_premise(premise: Premise, now: Premise, policy: PremisePolicy, purpose: Purpose) -> PremiseReading:
    """Compare a premise with what is read now: expectations first, then the policy's four kinds."""
    state, words, possible = _verdict(premise, now.facts, policy, purpose)
    return PremiseReading(
        target=premise.target,
        subject=premise.subject,
        policy=policy.name,
        policy_version=policy.version,
        state=state,
        words=words,
        possible=possible,
        facts_json=now.facts_json,
        read_at=now.read_at,
    )


def require_judged(premise: Premise, policy: PremisePolicy, effect: EffectRecord) -> None:
    """Raise where the policy could never say what a change means for the effect: each reading would pass for unreadable.

    Raises:
        InvalidPremise: it can't.
    """
    # Not asked with isinstance: that takes 35 us for a protocol, in every fire.
    judges: Callable[[EffectRecord], bool] | None = getattr(policy, "judges", None)
    if judges is not None and not judges(effect):
        raise InvalidPremise(
            f"the premise policy {policy.name!r} can't judge what a change of {premise.subject} means for this effect of "
            f"{effect.target!r}; nothing was written or sent. Where any change has to refuse it, give "
            "dataclasses.replace(premise, policy='strict'); or register a policy of your own for it"
        )


def unreadable(premise: Premise, why: str, at: datetime) -> PremiseReading:
    """Return the reading of a premise that could not be read."""
    return PremiseReading(
        target=premise.target,
        subject=premise.subject,
        policy=premise.policy,
        policy_version=0,
        state=ReadingState.UNREADABLE,
        words=why,
        possible="",
        facts_json="{}",
        read_at=at,
    )


def _verdict(premise: Premise, facts: Facts, policy: PremisePolicy, purpose: Purpose) -> tuple[ReadingState, str, str]:
    if not facts:
        return ReadingState.UNREADABLE, f"{premise.subject} read as empty", ""
    expectations = json.loads(premise.expectations_json)
    broken = sorted(name for name, value in expectations.items() if not same(facts.get(name), value))
    if broken:
        said = ", ".join(f"{name} is {facts.get(name)!r} and must be {expectations[name]!r}" for name in broken)
        return ReadingState.UNEXPECTED, said, "decide again on the facts as they are now"
    judgement = policy.judge(premise.facts, facts, purpose)
    objection = judgement.objection
    if objection is not None:
        return ReadingState(objection.kind.value), objection.words, judgement.possible
    compatible = [change.words for change in judgement.changes if change.kind is ChangeKind.COMPATIBLE]
    if compatible:
        return ReadingState.COMPATIBLE, "; ".join(compatible), ""
    return ReadingState.UNCHANGED, "", ""


def same(one: object, other: object) -> bool:
    """Whether two JSON values are the same; to Python's `==`, 1 and true are."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def parse_facts(facts_json: str) -> Facts:
    """Return facts from their JSON text; anything but an object counts as empty, that is, as unreadable."""
    value: Any = json.loads(facts_json)
    return cast("Facts", value) if isinstance(value, dict) else {}


def facts_text(facts: Facts) -> str:
    """Return facts as canonical JSON text (RFC 8785).

    Raises:
        InvalidPremise: a number that is none or that JSON can't carry exactly, or text that is not Unicode.
    """
    try:
        return rfc8785.dumps(facts).decode()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        msg = f"facts can't be written down exactly: {error}"
        raise InvalidPremise(msg) from None
