"""The header that is hashed, and the hashes: RFC 8785 and RFC 6962, held against other hands' implementations."""

from __future__ import annotations

import hashlib
import json
from uuid import UUID

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.records import GENESIS, leaf_hash, name_digest, record, state_digest

DIGESTS = st.binary(min_size=32, max_size=32)
ASCII = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))


@given(
    log=ASCII, aggregate_id=st.uuids(), version=st.integers(1, 2**53 - 1), topic=ASCII, state=DIGESTS, prev=st.none() | DIGESTS
)
def test_a_record_is_in_the_canonical_form_of_rfc_8785(
    log: str, aggregate_id: UUID, version: int, topic: str, state: bytes, prev: bytes | None
) -> None:
    """Byte by byte what a canonicaliser makes of the same header, whatever printable ASCII it holds."""
    made = record(log=log, aggregate_id=aggregate_id, version=version, topic=topic, state=state, prev=prev)
    assert made == rfc8785.dumps(json.loads(made))
    assert json.loads(made) == {
        "id": str(aggregate_id),
        "log": log,
        "n": version,
        "prev": f"sha256:{prev.hex()}" if prev is not None else GENESIS,
        "state": f"sha256:{state.hex()}",
        "topic": topic,
        "v": 1,
    }


@pytest.mark.parametrize("text", ["é", "\x7f", "\n", "\ud800", "\U0001f600"])
def test_what_is_not_printable_ascii_is_no_log_id_and_no_topic(text: str) -> None:
    """For those the canonical form would not be this encoder's."""
    fields = {"aggregate_id": UUID(int=1), "version": 1, "state": bytes(32), "prev": None}
    for log, topic in ((text, "t"), ("l", text)):
        with pytest.raises(ValueError, match="ASCII"):
            record(log=log, topic=topic, **fields)  # type: ignore[arg-type]  # a dictionary of several types


@given(st.binary())
def test_a_leaf_hash_is_the_one_of_rfc_6962(data: bytes) -> None:
    """SHA-256 over a zero byte and the record, so that no inner node of a tree can pass for a leaf."""
    assert leaf_hash(data) == hashlib.sha256(bytes([0]) + data).digest()
    assert state_digest(data) == hashlib.sha256(data).digest() != leaf_hash(data)


def test_the_leaf_hash_of_nothing_is_the_published_one() -> None:
    """The value that Certificate Transparency's own tests give for an empty leaf."""
    assert leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


@given(st.tuples(ASCII, st.text(), st.text()), st.tuples(ASCII, st.text(), st.text()))
def test_two_names_share_a_digest_only_if_they_are_the_same(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """Whatever they hold: no boundary between the parts can be shifted."""
    assert (name_digest(*one) == name_digest(*other)) is (one == other)


def test_the_parts_of_a_name_can_not_be_shifted_into_each_other() -> None:
    """A quote or a comma in a key does not make it another kind's name."""
    assert len({name_digest(*parts) for parts in [("a", "b", "c"), ("a", "b,c", ""), ("a", 'b", "c', ""), ("ab", "", "c")]}) == 4
