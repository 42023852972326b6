"""Effects: what is to be done, as data, and its fingerprint."""

from __future__ import annotations

import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Generic, Protocol, TypeVar

from interlock.errors import InvalidEffect

P = TypeVar("P")
Scalar = str | int | bool | None

_quoted = json.encoder.encode_basestring

CURRENCY_LENGTH = 3
MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact (RFC 8259, section 6; RFC 8785 refuses more)."""


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in the currency's minor unit.

    Args:
        amount_minor: a positive integer; 2000 is $20.00 and ¥2000.
        currency: three lower-case letters (ISO 4217).

    Raises:
        InvalidEffect: a float, a bool, zero, a negative amount, or a malformed currency.
    """

    amount_minor: int
    currency: str

    def __post_init__(self) -> None:
        if type(self.amount_minor) is not int:
            msg = f"amount_minor must be an integer in the minor unit, not {type(self.amount_minor).__name__}"
            raise InvalidEffect(msg)
        if not 0 < self.amount_minor <= MAX_SAFE_INTEGER:
            msg = "amount_minor must be positive, and at most 2**53 - 1"
            raise InvalidEffect(msg)
        require_currency(self.currency)


def require_currency(currency: str) -> str:
    """Return the currency code if it is three lower-case letters.

    Raises:
        InvalidEffect: it is not.
    """
    letters = type(currency) is str and currency.isascii() and currency.isalpha() and currency.islower()
    if not letters or len(currency) != CURRENCY_LENGTH:
        msg = f"currency must be three lower-case letters, not {currency!r}"
        raise InvalidEffect(msg)
    return currency


@dataclass(frozen=True, slots=True)
class Effect(Generic[P]):
    """One thing to be done at one target.

    Made by a target (`stripe.refund(…)`), which knows its parameters.

    Args:
        target: the name under which the target is registered.
        subject: what is acted on and read again, such as a payment's id.
        parameters: the target's own frozen dataclass.
        money: what the approval's cap must cover; None where the effect moves no money.
    """

    target: str
    subject: str
    parameters: P
    money: Money | None = None


class EffectCodec(Protocol[P]):
    """Turns a target's parameters into plain JSON and back, so that recovery can rebuild an effect from the journal alone."""

    def encode(self, parameters: P) -> Mapping[str, Scalar]:
        """Return the parameters as a flat object of strings, integers, booleans and null."""
        ...

    def decode(self, values: Mapping[str, Scalar]) -> P:
        """Return the parameters that `encode` was given."""
        ...


class DataclassCodec(Generic[P]):
    """The codec for a frozen dataclass whose fields are strings, integers, booleans or None.

    Args:
        parameters_type: the dataclass.

    Raises:
        InvalidEffect: it is not a dataclass, or a field is annotated with anything else.
    """

    def __init__(self, parameters_type: type[P]) -> None:
        """Read the field types once, so that a wrong declaration fails where it stands and not at the first refund."""
        if not is_dataclass(parameters_type):
            msg = f"{parameters_type!r} is not a dataclass"
            raise InvalidEffect(msg)
        self._type = parameters_type
        hints = typing.get_type_hints(parameters_type)
        self._fields = {f.name: _scalar_types(f.name, hints[f.name]) for f in fields(parameters_type)}
        self._none_by_default = {f.name for f in fields(parameters_type) if f.default is None}
        self._required = {f.name for f in fields(parameters_type) if f.default is MISSING and f.default_factory is MISSING}

    def encode(self, parameters: P) -> Mapping[str, Scalar]:
        """Return the fields. Those that are None by default are left out, so that adding one later changes no fingerprint.

        Raises:
            InvalidEffect: a field holds a value of another type than it is annotated with.
        """
        if type(parameters) is not self._type:
            msg = f"expected {self._type.__name__}, got {type(parameters).__name__}"
            raise InvalidEffect(msg)
        values = {name: self._typed(name, getattr(parameters, name)) for name in self._fields}
        return {name: value for name, value in values.items() if value is not None or name not in self._none_by_default}

    def decode(self, values: Mapping[str, Scalar]) -> P:
        """Return the dataclass again.

        Raises:
            InvalidEffect: an unknown field, a missing one, or a value of a wrong type.
        """
        unknown = set(values) - set(self._fields)
        missing = self._required - set(values)
        if unknown or missing:
            msg = f"{self._type.__name__}: unknown fields {sorted(unknown)}, missing fields {sorted(missing)}"
            raise InvalidEffect(msg)
        return self._type(**{name: require_scalar(name, self._typed(name, value)) for name, value in values.items()})

    def _typed(self, name: str, value: Any) -> Any:
        if type(value) not in self._fields[name]:
            msg = f"{self._type.__name__}.{name} must be {_names(self._fields[name])}, not {type(value).__name__}"
            raise InvalidEffect(msg)
        return value


def require_scalar(name: str, value: Any) -> Scalar:
    """Return the value if it is a string, an integer, a boolean or None that JSON can carry exactly.

    Raises:
        InvalidEffect: a float, a container, an integer beyond 2**53 - 1, or text that is not Unicode.
    """
    if type(value) is int and abs(value) > MAX_SAFE_INTEGER:
        msg = f"{name} is an integer beyond 2**53 - 1"
        raise InvalidEffect(msg)
    if type(value) is str:
        require_unicode(name, value)
    elif type(value) not in (int, bool, type(None)):
        msg = f"{name} must be a string, an integer, a boolean or None, not {type(value).__name__}"
        raise InvalidEffect(msg)
    return typing.cast("Scalar", value)


def require_unicode(name: str, text: str) -> str:
    """Return the text if every journal can store it: no lone surrogate, which UTF-8 can't carry, and no NUL.

    PostgreSQL's text has no NUL (postgresql.org/docs/current/datatype-character.html).

    Raises:
        InvalidEffect: it can't.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        msg = f"{name} holds a lone surrogate, which is not text; nothing was written or sent"
        raise InvalidEffect(msg) from None
    if "\0" in text:
        msg = f"{name} holds a NUL character, which not every journal can store; nothing was written or sent"
        raise InvalidEffect(msg)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """An effect as the journal keeps it: enough to rebuild it without the program that made it (I5)."""

    target: str
    target_version: int
    subject: str
    parameters_json: str
    fingerprint: str
    amount_minor: int | None
    currency: str | None

    @property
    def money(self) -> Money | None:
        """The money in the effect, if there is any."""
        if self.amount_minor is None or self.currency is None:
            return None
        return Money(self.amount_minor, self.currency)

    def effect(self, codec: EffectCodec[P]) -> Effect[P]:
        """Return the effect again, with its parameters decoded by the target's codec."""
        return Effect(self.target, self.subject, codec.decode(json.loads(self.parameters_json)), self.money)


def canonical(value: Mapping[str, Scalar] | Scalar) -> str:
    """Return the canonical form of RFC 8785 of a scalar, or of a flat object of scalars.

    JSON's own encoder escapes in a text what that form escapes. A property test holds it equal to `rfc8785`, which takes four
    times as long.
    """
    match value:
        case None:
            return "null"
        case str():
            return _quoted(value)
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            members = sorted(value.items(), key=_in_utf16)
            return f"{{{','.join([f'{_quoted(name)}:{canonical(member)}' for name, member in members])}}}"


def _in_utf16(member: tuple[str, Scalar]) -> bytes:
    return member[0].encode("utf-16be")


def fingerprint_of(target: str, subject: str, parameters: str, money: Money | None) -> str:
    """Return the digest of an effect's canonical form (I5).

    Args:
        target: the target's name.
        subject: what is acted on.
        parameters: the parameters in their canonical form (RFC 8785).
        money: the money in the effect, if there is any.
    """
    amount: list[Scalar] = [money.amount_minor, money.currency] if money else []
    # The canonical form of an object is that of its parts, in the order of their names.
    whole = (
        f'{{"money":[{",".join(map(canonical, amount))}],"parameters":{parameters},"subject":{canonical(subject)},'
        f'"target":{canonical(target)}}}'
    )
    return f"sha256:{hashlib.sha256(whole.encode()).hexdigest()}"


def is_a(value: object, *kinds: type) -> bool:
    """Whether a value is what its annotation says. A type checker takes that for granted, and Python does not check it."""
    return isinstance(value, kinds)


def require_effect(effect: Effect[P]) -> Effect[P]:
    """Return the effect, if it is one: type hints are not checked by Python.

    Raises:
        InvalidEffect: it is something else, or what it moves is.
    """
    if not is_a(effect, Effect) or type(effect.target) is not str:
        msg = f"an effect is what a target makes (target.effect(…)), not {type(effect).__name__}; nothing was written or sent"
        raise InvalidEffect(msg)
    if effect.money is not None and type(effect.money) is not Money:
        msg = f"the money of an effect is a Money or None, not {type(effect.money).__name__}; nothing was written or sent"
        raise InvalidEffect(msg)
    return effect


def record_effect(effect: Effect[P], codec: EffectCodec[P], target_version: int) -> EffectRecord:
    """Return the effect in its canonical form (RFC 8785), with the fingerprint of that form.

    Raises:
        InvalidEffect: the target's codec refuses the parameters, or the subject is empty.
    """
    if type(effect.subject) is not str or not effect.subject:
        msg = "an effect needs a subject"
        raise InvalidEffect(msg)
    require_unicode("subject", effect.subject)
    parameters = canonical({name: require_scalar(name, value) for name, value in codec.encode(effect.parameters).items()})
    return EffectRecord(
        target=effect.target,
        target_version=target_version,
        subject=effect.subject,
        parameters_json=parameters,
        fingerprint=fingerprint_of(effect.target, effect.subject, parameters, effect.money),
        amount_minor=effect.money.amount_minor if effect.money else None,
        currency=effect.money.currency if effect.money else None,
    )


def _scalar_types(name: str, annotation: Any) -> frozenset[type]:
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = frozenset(typing.get_args(annotation) if union else (annotation,))
    allowed = frozenset((str, int, bool, type(None)))
    if not kinds <= allowed:
        msg = f"field {name} of an effect must be a string, an integer, a boolean or None, not {annotation!r}"
        raise InvalidEffect(msg)
    return kinds


def _names(kinds: frozenset[type]) -> str:
    return " or ".join(sorted("None" if kind is type(None) else kind.__name__ for kind in kinds))
