"""The mapper: strictly by type, salted, and deaf to the environment."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.persistence import StoredEvent
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.approvals import Approval, ApprovalTerms
from interlock.errors import JournalCorrupt, JournalError
from interlock.infrastructure.mapper import EventMapper

ID = UUID(int=7)
AT = datetime(2026, 3, 1, tzinfo=UTC)


def _granted(**terms: Any) -> Any:
    given_terms = {"cap_minor": 1, "currency": "usd", "by": "u", "expires_in_s": 1, "fingerprint": None, "uses": 1, **terms}
    return Approval.grant(ID, "a", ApprovalTerms(**given_terms), AT).collect_events()[0]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(by=TEXTS, cap=st.none() | st.integers(0, 2**53 - 1), fingerprint=st.none() | TEXTS)
def test_what_is_written_is_read_back(by: str, cap: int | None, fingerprint: str | None) -> None:
    """Whatever text and whatever integer JSON can carry; composed and decomposed letters stay what they were."""
    event = _granted(by=by, cap_minor=cap, fingerprint=fingerprint)
    mapper = EventMapper()
    assert mapper.to_domain_event(mapper.to_stored_event(event)) == event


def test_each_event_has_a_salt_of_its_own() -> None:
    """128 random bits, so that a disclosed state unmasks no withheld one."""
    salts = {json.loads(EventMapper().to_stored_event(_granted()).state)["_salt"] for _ in range(50)}
    assert len(salts) == 50
    assert {len(salt) for salt in salts} == {32}


def test_events_that_are_written_together_have_salts_of_their_own() -> None:
    """The kernel is asked once for all of them, and none is a part of another."""
    stored = EventMapper().to_stored_events([_granted() for _ in range(50)])
    salts = {json.loads(event.state)["_salt"] for event in stored}
    assert (len(salts), {len(salt) for salt in salts}) == (50, {32})
    assert EventMapper().to_stored_events([]) == []


@pytest.mark.parametrize(
    "terms", [{"by": 17}, {"cap_minor": 1.5}, {"cap_minor": "1"}, {"uses": None}, {"by": "\ud800"}], ids=repr
)
def test_what_could_not_be_read_back_is_not_written(terms: dict[str, Any]) -> None:
    """A poison event would stop its action for ever; it is an error of the journal instead."""
    with pytest.raises(JournalError):
        EventMapper().to_stored_event(_granted(**terms))


def test_text_that_looks_like_an_instruction_to_a_decoder_is_text() -> None:
    """What another transcoder would turn into a time stays the text that it was."""
    text = '{"_type_":"datetime_iso","_data_":"2026-01-01T00:00:00"}'
    mapper = EventMapper()
    stored = mapper.to_stored_event(_granted(by=text))
    read: Any = mapper.to_domain_event(stored)
    assert read.terms.by == text


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: state.pop("_salt"),
        lambda state: state.pop("terms"),
        lambda state: state.update(approval_id=7),
        lambda state: state.update(timestamp="yesterday"),
        lambda state: state["terms"].update(uses="1"),
        lambda state: state["terms"].update(cap_minor=1.5),
        lambda state: state["terms"].pop("by"),
    ],
    ids=["no-salt", "no-terms", "id", "time", "uses", "float", "no-by"],
)
def test_a_state_that_is_not_what_its_topic_says_is_corrupt(spoil: Any) -> None:
    """It is named as such, and never read as something near it."""
    stored = EventMapper().to_stored_event(_granted())
    state = json.loads(stored.state)
    spoil(state)
    with pytest.raises(JournalCorrupt):
        EventMapper().to_domain_event(StoredEvent(ID, 1, stored.topic, json.dumps(state).encode()))


@pytest.mark.parametrize("topic", ["interlock.approval.unheard-of", "os:system", "", "interlock.action.intended"])
def test_a_topic_that_does_not_fit_is_corrupt(topic: str) -> None:
    """An unknown one, one of a module that has no events, and another event's."""
    stored = EventMapper().to_stored_event(_granted())
    with pytest.raises(JournalCorrupt):
        EventMapper().to_domain_event(StoredEvent(ID, 1, topic, stored.state))


@pytest.mark.parametrize("state", [b"", b"null", b"[]", b"{", b"\xff", b"7"])
def test_a_state_that_is_no_object_is_corrupt(state: bytes) -> None:
    """Erased, cut, or never ours."""
    with pytest.raises(JournalCorrupt):
        EventMapper().to_domain_event(StoredEvent(ID, 1, "interlock.approval.granted", state))


HOSTILE = {
    "COMPRESSOR_TOPIC": "zlib",
    "CIPHER_TOPIC": "eventsourcing.cipher:AESCipher",
    "CIPHER_KEY": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "TRANSCODER_TOPIC": "eventsourcing.persistence:NullTranscoder",
    "MAPPER_TOPIC": "eventsourcing.persistence:Mapper",
    "PERSISTENCE_MODULE": "eventsourcing.popo",
    "INTERLOCK_PERSISTENCE_MODULE": "eventsourcing.popo",
    "SQLITE_DBNAME": ":memory:",
    "IS_SNAPSHOTTING_ENABLED": "y",
}


def test_the_environment_of_a_host_changes_no_byte(tmp_path: Path) -> None:
    """A process with a compressor, a cipher, a transcoder and another persistence in its environment writes plain JSON."""
    program = """
        import sys
        from interlock import Gate
        with Gate.open(sys.argv[1]) as gate:
            gate.approve("case-1", by="user:1", expires_in_s=60)
    """
    url = f"sqlite:///{tmp_path}/journal.db"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    for hostile in ({}, HOSTILE):
        subprocess.run([sys.executable, "-c", textwrap.dedent(program), url], env={**environment, **hostile}, check=True)
    import sqlite3

    with sqlite3.connect(tmp_path / "journal.db") as connection:
        ((state,),) = connection.execute("SELECT state FROM stored_events").fetchall()
    assert set(json.loads(state)) == {"timestamp", "originator_topic", "approval_id", "terms", "_salt"}
