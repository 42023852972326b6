"""JSON from strangers: what two readers could take for two things, or what is meant to cost too much, is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import MalformedEvidence
from interlock.evidence.strict_json import Limits, Reader, read_json, read_object, write_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)
REFUSED = {
    "a name twice": '{"a":1,"a":1}',
    "a name twice, deep inside": '[{"a":[{"b":0,"c":1,"b":0}]}]',
    "a name twice, spelled in two ways": r'{"a":1,"\u0061":2}',
    "2^53": "9007199254740992",
    "-2^53": "-9007199254740992",
    "a number of 17 digits": "[10000000000000000]",
    "a number of a million digits": "1" * 1_000_000,
    "a negative zero": "-0",
    "a fraction": "1.0",
    "an exponent": "1e3",
    "an endless number": "1e999",
    "NaN": "NaN",
    "Infinity": "[Infinity]",
    "-Infinity": '{"a":-Infinity}',
    "half a character": r'"\ud800"',
    "half a character as a name": r'{"\udc00":1}',
    "the halves the wrong way round": r'"\udc00\ud800"',
    "a byte order mark": "\ufeff{}",
    "two values": "{} {}",
    "nothing": "",
    "a comma too many": "[1,]",
    "single quotes": "{'a':1}",
    "a comment": "{}//",
    "a control character": '"\n"',
    "an open string": '"' + "\\" * 100_001,
    "an open string of four million escaped quotes": '"' + '\\"' * 4_000_000,
    "33 arrays in each other": "[" * 33 + "]" * 33,
    "a hundred thousand arrays in each other": "[" * 100_000,
    "a hundred thousand objects in each other": '{"a":' * 100_000,
    "a million empty arrays": "[" + "[]," * 1_000_000 + "[]]",
    "a million commas": "[" + "1," * 1_000_000 + "1]",
    "a million closing brackets": "]" * 1_000_000,
    "fifty megabytes": '"' + "x" * (50 << 20) + '"',
}


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    """All that can be said without fractions comes back as itself, from our writer and from Python's in either spelling."""
    for text in (write_json(value), json.dumps(value).encode(), json.dumps(value, indent=2, ensure_ascii=False).encode()):
        assert read_json(text, "a value") == value


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str) -> None:
    """With an error that says what it was that was read."""
    with pytest.raises(MalformedEvidence, match=r"^the bundle"):
        read_json(REFUSED[what].encode(), "the bundle")


@pytest.mark.parametrize("data", [b"\xff", b'"\xed\xa0\x80"', b'{"a":"\xc0\xaf"}', '{"a":1}'.encode("utf-16")])
def test_bytes_that_are_not_utf_8_are_refused(data: bytes) -> None:
    """Nor are other encodings guessed at, as Python's reader does."""
    with pytest.raises(MalformedEvidence, match="not UTF-8"):
        read_json(data, "the bundle")


@pytest.mark.parametrize(
    "text", ["9007199254740991", "-9007199254740991", "0", r'"\ud83d\ude00"', "[" * 32 + "]" * 32, r'"\"[[[{{{,,,"']
)
def test_what_is_just_within_the_limits_is_read(text: str) -> None:
    """The largest numbers, the deepest arrays, characters in two halves; and brackets in strings count for nothing."""
    assert read_json(text.encode(), "a value") == json.loads(text)


def test_brackets_in_strings_are_not_counted() -> None:
    """However the string's quotes are escaped."""
    limits = Limits(max_depth=1, max_values=2)
    for value in ['[[["', '\\"[[[', '\\\\"[[[', '","[[["', "[,{," * 50]:
        assert read_json(json.dumps([value]).encode(), "a value", limits) == [value]


def test_the_limits() -> None:
    """Eight mebibytes, 32 levels and 200,000 values are read, and nothing beyond."""
    largest, fullest = b'"%b"' % (b"x" * ((8 << 20) - 2)), b"[%b1]" % (b"1," * 199_999)
    assert len(read_json(largest, "a value")) == len(largest) - 2
    assert len(read_json(fullest, "a value")) == 200_000
    for data in (largest + b" ", fullest.replace(b"[", b"[1,"), b"[" * 33 + b"]" * 33):
        with pytest.raises(MalformedEvidence):
            read_json(data, "a value")


def test_the_limits_can_be_set() -> None:
    """Bytes, depth and values, each by itself."""
    assert read_json(b"[[1,2]]", "a value", Limits(max_bytes=7, max_depth=2, max_values=3)) == [[1, 2]]
    for limits in (Limits(max_bytes=6), Limits(max_depth=1), Limits(max_values=2)):
        with pytest.raises(MalformedEvidence):
            read_json(b"[[1,2]]", "a value", limits)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 1.0, 2**53, "\ud800", b"", {1: 1}, {None: 1}, (1,), {"a": {1, 2}}, [[1.5]]]
)
def test_what_could_not_be_read_back_is_not_written(value: object) -> None:
    """Fractions, large numbers, names that are no strings, half characters, and what is no JSON."""
    with pytest.raises(MalformedEvidence):
        write_json(value)


def test_fields_are_taken_with_their_types() -> None:
    """A field of another type, or none, is refused; a truth value is no number."""
    reader = read_object(b'{"s":"x","n":1,"o":{"a":[{"s":"y"}]},"t":["x"],"f":true,"z":null}', "it")
    assert (reader.text("s"), reader.number("n"), reader.texts("t"), list(reader)) == (
        "x",
        1,
        ("x",),
        ["s", "n", "o", "t", "f", "z"],
    )
    assert [one.text("s") for one in reader.object("o").objects("a")] == ["y"]
    assert (reader.text_or_none("z"), reader.text_or_none("absent"), reader.text_or_none("s")) == (None, None, "x")
    wrong: list[Callable[[], object]] = [
        lambda: reader.text("n"), lambda: reader.text("z"), lambda: reader.text("absent"), lambda: reader.text_or_none("n"),
        lambda: reader.number("f"), lambda: reader.number("s"), lambda: reader.object("s"), lambda: reader.objects("t"),
        lambda: reader.objects("o"), lambda: reader.texts("o"), lambda: reader.object("o").texts("a"), lambda: Reader([], "it"),
        lambda: read_object(b"[]", "it"),
    ]  # fmt: skip
    for take in wrong:
        with pytest.raises(MalformedEvidence, match=r"it is not an object|of it is"):
            take()
