"""JSON from strangers, read strictly: what two readers could take for two things is refused, and what would cost too much."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import from_utf8

MAX_SAFE_INTEGER = 2**53 - 1
"""Beyond it, a reader that keeps numbers as doubles reads another number (RFC 8259, section 6)."""

_MAX_DIGITS = 17
# A string that is not closed is one part too: were its end looked for from each quote in it, that would take quadratic time.
_PARTS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|(?P<open>[\[{])|(?P<close>[\]}])|,', re.DOTALL)
_Kind = TypeVar("_Kind", str, int, bool, dict[str, Any], list[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is read.

    Args:
        max_bytes: the length of the whole text.
        max_depth: how deep arrays and objects stand in each other.
        max_values: how many values there are, of any kind. (An empty array takes two bytes of text, and fifty of memory.)
    """

    max_bytes: int = 8 << 20
    max_depth: int = 32
    max_values: int = 200_000


def read_json(data: bytes, what: str, limits: Limits | None = None) -> Any:
    """Read JSON.

    Args:
        data: the text, in UTF-8.
        what: what it should be, for the message.
        limits: how much is read.

    Raises:
        MalformedEvidence: it is no JSON; a name stands twice in an object; a number is not an integer below 2^53; a string holds
            half a character; or it is larger, deeper or fuller than the limits.
    """
    limits = limits or Limits()
    text = from_utf8(data, what, max_bytes=limits.max_bytes)
    _measure(text, what, limits)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_no_number, parse_constant=_no_number)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair can't be written
    except UnicodeEncodeError as error:
        raise MalformedEvidence(f"{what} holds half a character") from error
    except MalformedEvidence as error:
        raise MalformedEvidence(f"{what}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedEvidence(f"{what} is not JSON: {error}") from error
    return value


def write_json(value: Any) -> bytes:
    """Return compact JSON that `read_json` reads back as the same.

    Raises:
        MalformedEvidence: it would not be read.
    """
    try:
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError) as error:
        raise MalformedEvidence(f"this can't be written as JSON: {error}") from error
    if read_json(data, "what was written") != value:
        raise MalformedEvidence("this is not read back as JSON as what it is")
    return data


class Reader:
    """The fields of a JSON object, each taken with the type that it must have.

    Args:
        value: what was read.
        what: what it should be, for the messages.

    Raises:
        MalformedEvidence: it is no object.
    """

    def __init__(self, value: Any, what: str) -> None:
        if not isinstance(value, dict):
            raise MalformedEvidence(f"{what} is not an object")
        self._fields: dict[str, Any] = value
        self._what = what

    def text(self, name: str) -> str:
        """Return a string.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        return self._take(name, str)

    def text_or_none(self, name: str) -> str | None:
        """Return a string, or None where there is none.

        Raises:
            MalformedEvidence: it is something else.
        """
        return None if self._fields.get(name) is None else self.text(name)

    def number(self, name: str) -> int:
        """Return an integer.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        return self._take(name, int)

    def number_or_none(self, name: str) -> int | None:
        """Return an integer, or None where there is none.

        Raises:
            MalformedEvidence: it is something else.
        """
        return None if self._fields.get(name) is None else self.number(name)

    def fields(self, name: str) -> dict[str, Any]:
        """Return an object, as it is.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        return self._take(name, dict)

    def object(self, name: str) -> Reader:
        """Return an object, to be read in turn.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        return Reader(self.fields(name), f"{name} of {self._what}")

    def object_or_none(self, name: str) -> Reader | None:
        """Return an object, to be read in turn, or None where there is none.

        Raises:
            MalformedEvidence: it is something else.
        """
        return None if self._fields.get(name) is None else self.object(name)

    def objects(self, name: str) -> tuple[Reader, ...]:
        """Return an array of objects, each to be read in turn.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        return tuple(Reader(value, f"an entry of {name} of {self._what}") for value in self._take(name, list))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an array of strings.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        values = self._take(name, list)
        if not all(isinstance(value, str) for value in values):
            raise MalformedEvidence(f"{name} of {self._what} is not an array of strings")
        return tuple(values)

    def texts_or_none(self, name: str) -> tuple[str | None, ...]:
        """Return an array of strings, in which null may stand for one.

        Raises:
            MalformedEvidence: it is missing, or something else.
        """
        values = self._take(name, list)
        if not all(isinstance(value, str | None) for value in values):
            raise MalformedEvidence(f"{name} of {self._what} is not an array of strings and nulls")
        return tuple(values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def _take(self, name: str, kind: type[_Kind]) -> _Kind:
        value = self._fields.get(name)
        # To isinstance, a bool is an int.
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise MalformedEvidence(f"{name} of {self._what} is missing, or of a wrong type")
        return value


def read_object(data: bytes, what: str, limits: Limits | None = None) -> Reader:
    """Read a JSON object, to take its fields one by one.

    Raises:
        MalformedEvidence: as `read_json` does, and if it is something else than an object.
    """
    return Reader(read_json(data, what, limits), what)


def read_objects(data: bytes, what: str, limits: Limits | None = None) -> tuple[Reader, ...]:
    """Read a JSON array of objects.

    Raises:
        MalformedEvidence: as `read_json` does, and if it is something else.
    """
    return Reader({"entries": read_json(data, what, limits)}, what).objects("entries")


def _measure(text: str, what: str, limits: Limits) -> None:
    """Refuse what is too deep or too full before anything is built from it. What is no JSON at all passes, and fails later."""
    depth = values = 0
    for part in _PARTS.finditer(text):
        if part["close"]:
            depth -= 1
        elif not part[0].startswith('"'):
            values += 1
            depth += bool(part["open"])
        if depth > limits.max_depth or values > limits.max_values:
            raise MalformedEvidence(f"{what} is deeper than {limits.max_depth}, or has more than {limits.max_values} values")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise MalformedEvidence("a name stands twice in an object")
    return fields


def _integer(digits: str) -> int:
    # The length first: Python refuses to convert thousands of digits, with an error of its own.
    if len(digits) > _MAX_DIGITS or abs(int(digits)) > MAX_SAFE_INTEGER or digits == "-0":
        raise MalformedEvidence("a number is beyond 2^53 - 1, which not every reader can read")
    return int(digits)


def _no_number(_: str) -> NoReturn:
    raise MalformedEvidence("a number has a fraction or an exponent, or is none")
