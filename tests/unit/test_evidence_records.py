"""Records, read back."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.records import leaf_hash, record
from interlock.errors import MalformedEvidence
from interlock.evidence.records import Record

ID = UUID("01890000-0000-7000-8000-000000000001")
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), min_size=1, max_size=40)
HASHES = st.binary(min_size=32, max_size=32)


@given(log=TEXTS, topic=TEXTS, version=st.integers(1, 10**9), state=HASHES, prev=st.none() | HASHES)
def test_what_is_written_is_read(log: str, topic: str, version: int, state: bytes, prev: bytes | None) -> None:
    """Every record that a journal writes is read back as what it is, and written again as the same bytes."""
    aggregate_id = uuid4()
    written = record(log=log, aggregate_id=aggregate_id, version=version, topic=topic, state=state, prev=prev)
    read = Record.parse(written)
    assert read == Record(aggregate_id, log, version, prev, state, topic)
    assert read.serialize() == written
    assert read.leaf == leaf_hash(written)


def test_what_is_no_record() -> None:
    """Another spelling of the same JSON is no record: what is hashed can be written in one way only."""
    good = record(log="urn:x", aggregate_id=ID, version=1, topic="t", state=bytes(32), prev=None).decode()
    Record.parse(good.encode())
    bad = [
        "",
        "{}",
        good + "\n",
        good.replace(":", ": "),
        good.replace('"n":1', '"n":01'),
        good.replace('"n":1', '"n":0'),
        good.replace('"v":1', '"v":2'),
        good.replace("genesis", "Genesis"),
        good.replace(str(ID), str(ID).upper().replace("0189", "0189ABCD"[:4])).replace("-7000-", "-7A00-"),
        good.replace(str(ID), f"{str(ID).replace('-', '')}----"),
        good.replace('"t"', '"\\u0074"'),
        good.replace('"t"', '"\u00e9"'),
        good.replace('"v":1', '"v":1,"w":2'),
    ]
    for text in bad:
        with pytest.raises(MalformedEvidence):
            Record.parse(text.encode())
