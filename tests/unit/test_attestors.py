"""Who may sign receipts: a list of keys, each for a range of the log."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import MalformedEvidence
from interlock.evidence.attestors import MAX_ATTESTORS, Attestor, Attestors
from interlock.evidence.signing import AttestorKey

KEYS = [AttestorKey(bytes([number]) * 32).verifier for number in range(1, 5)]


def test_a_list_is_read_back_as_it_was() -> None:
    """Keys, their names and their ranges."""
    attestors = Attestors((Attestor(KEYS[0], 0, 10), Attestor(KEYS[1], 10)))
    assert Attestors.parse(attestors.serialize()) == attestors
    assert [key.keyid for key in attestors] == [KEYS[0].keyid, KEYS[1].keyid]
    assert json.loads(attestors.serialize())[0]["until_index"] == 10


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_a_key_speaks_of_its_range(start: int, length: int, index: int) -> None:
    """From its first index on, and no longer from its last; without a place in the log only a key in use does."""
    ended, open_ended = Attestor(KEYS[0], start, start + length), Attestor(KEYS[0], start)
    assert ended.speaks_of(index) is (start <= index < start + length)
    assert open_ended.speaks_of(index) is (start <= index)
    assert (ended.speaks_of(None), open_ended.speaks_of(None)) == (False, True)


def test_a_rotation_ends_what_was_in_use() -> None:
    """Each index has one key that speaks of it, before and after; what had ended before stays as it was."""
    rotated = Attestors((Attestor(KEYS[0]),)).rotated(KEYS[0].keyid, KEYS[1], 10).rotated(KEYS[1].keyid, KEYS[2], 20)
    speaking = {index: [key.verifier for key in rotated if key.speaks_of(index)] for index in (0, 9, 10, 19, 20, 10**9)}
    assert speaking == {0: [KEYS[0]], 9: [KEYS[0]], 10: [KEYS[1]], 19: [KEYS[1]], 20: [KEYS[2]], 10**9: [KEYS[2]]}


def test_a_rotation_ends_no_other_workers_key() -> None:
    """Each worker may sign with a key of its own: what it signs after another one's rotation stays good."""
    rotated = Attestors((Attestor(KEYS[0]), Attestor(KEYS[1]))).rotated(KEYS[0].keyid, KEYS[2], 10)
    assert [key.verifier for key in rotated if key.speaks_of(10)] == [KEYS[1], KEYS[2]]
    with pytest.raises(MalformedEvidence, match="in use"):
        rotated.rotated(KEYS[0].keyid, KEYS[2], 20)


def _entry(**changed: Any) -> dict[str, Any]:
    (entry,) = json.loads(Attestors((Attestor(KEYS[0]),)).serialize())
    return {**entry, **changed}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "of a wrong type"),
        ([7], "not an object"),
        ([_entry(), _entry()], "names a key twice"),
        ([_entry(comment="")], "not known here"),
        ([_entry(keyid=KEYS[1].keyid)], "keyid"),
        ([_entry(spki="AAAA")], "no Ed25519"),
        ([_entry(spki=_entry()["spki"] + "=")], "base64"),
        ([_entry(from_index=-1)], "the range"),
        ([_entry(from_index=5, until_index=4)], "the range"),
        ([_entry(from_index="0")], "wrong type"),
        ([_entry(until_index=True)], "wrong type"),
        ([{}] * (9 * MAX_ATTESTORS), "more than"),
    ],
    ids=range(12),
)
def test_what_is_no_list_is_refused(values: object, words: str) -> None:
    """A condition that is not understood is not passed over either."""
    with pytest.raises(MalformedEvidence, match=words):
        Attestors.parse(json.dumps(values).encode())


@pytest.mark.parametrize("spoil", [lambda d: d[:40], lambda d: d + b"]", lambda d: b"\xff" + d, lambda _: b""])
def test_what_is_cut_or_not_json_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    """With an error of ours."""
    with pytest.raises(MalformedEvidence):
        Attestors.parse(spoil(Attestors((Attestor(KEYS[0]),)).serialize()))
