"""The log as an aggregate, the place of a follower, and the hash that commits to an order."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest

from interlock.domain.cursors import START, Cursor
from interlock.domain.log import ATTESTOR_ROLE, LOG_ROLE, JournalLog
from interlock.domain.log_states import LOG_ID, rotation_text
from interlock.domain.records import running_hash
from interlock.errors import InvalidInput
from tests.scripted import AT, later

IDENTITY = "acme.example/interlock/prod"


def opened() -> JournalLog:
    """Return a log that somebody began to sign."""
    return JournalLog.open(IDENTITY, AT)


def test_a_log_begins_without_an_epoch() -> None:
    """Its first event says who it is, and when; under the one id that the log has."""
    log = opened()
    assert (log.id, log.identity, log.created_on) == (LOG_ID, IDENTITY, AT)
    assert (log.epoch, log.origin, log.vkeys, log.previous_note, log.rotations) == (0, "", (), None, ())
    assert UUID("00000000-0000-8000-8000-000000000106") == LOG_ID


def test_an_epoch_begins_with_one_key_and_cites_the_one_before() -> None:
    """Whatever keys counted before."""
    log = opened()
    log.start_epoch(1, f"{IDENTITY}-1", "key-1", None, later(1))
    assert (log.epoch, log.origin, log.vkeys, log.previous_note) == (1, f"{IDENTITY}-1", ("key-1",), None)
    log.rotate_key(LOG_ROLE, ("key-1", "key-2"), ("by-1", "by-2"), later(2))
    log.start_epoch(3, f"{IDENTITY}-3", "key-3", "note", later(3))
    assert (log.epoch, log.origin, log.vkeys, log.previous_note) == (3, f"{IDENTITY}-3", ("key-3",), "note")
    assert [(event.originator_id, event.originator_version, event.timestamp) for event in log.collect_events()] == [
        (LOG_ID, 1, AT),
        (LOG_ID, 2, later(1)),
        (LOG_ID, 3, later(2)),
        (LOG_ID, 4, later(3)),
    ]


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_epochs_rise(epoch: int) -> None:
    """One that was is no new one."""
    log = opened()
    log.start_epoch(2, "origin", "key-1", None, later(1))
    with pytest.raises(ValueError, match=f"epoch {epoch} does not come after epoch 2"):
        log.start_epoch(epoch, "other", "key-2", None, later(2))
    assert (log.epoch, log.origin, log.version) == (2, "origin", 2)


def test_a_key_of_the_log_counts_beside_the_one_that_it_replaces() -> None:
    """An attestor's change is written down, and no key of the log."""
    log = opened()
    log.start_epoch(1, "origin", "key-1", None, later(1))
    log.rotate_key(LOG_ROLE, ("key-1", "key-2"), ("by-1", "by-2"), later(2))
    log.rotate_key(ATTESTOR_ROLE, ("a-1", "a-2"), ("by-a-1", "by-a-2"), later(3))
    assert log.vkeys == ("key-1", "key-2")
    assert [(one.role, one.old, one.new, one.old_signature, one.new_signature) for one in log.rotations] == [
        ("log", "key-1", "key-2", "by-1", "by-2"),
        ("attestor", "a-1", "a-2", "by-a-1", "by-a-2"),
    ]


def test_what_both_keys_sign_names_the_journal_and_the_role() -> None:
    """So that it counts for no other."""
    assert rotation_text("log-1", "log", "old", "new") == "interlock key rotation v1\nlog-1\nlog\nold\nnew\n"


# --- the place of a follower


@pytest.mark.parametrize("cursor", [START, Cursor(7, 3), Cursor(2**63, 0)], ids=str)
def test_a_cursor_is_read_as_it_was_written_down(cursor: Cursor) -> None:
    """Through its text."""
    assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", ".", "7", "7.", ".3", "7.x", "x.3", "7.3.1", "-7.3", "7,3", "7. 3"])
def test_what_is_no_cursor_is_none(text: str) -> None:
    """Nobody begins anywhere else than where they stopped."""
    with pytest.raises(InvalidInput):
        Cursor.parse(text)


def test_cursors_stand_in_the_order_of_what_was_read() -> None:
    """Transactions first, then the events within one."""
    assert START < Cursor(0, 1) < Cursor(1, 0) < Cursor(1, 2) < Cursor(2, 0)


# --- the order of all leaves


def test_the_running_hash_begins_with_zeros() -> None:
    """32 of them; and each goes on from the one before."""
    first = running_hash(None, b"a" * 32)
    assert first == hashlib.sha256(bytes(32) + b"a" * 32).digest()
    assert running_hash(first, b"b" * 32) == hashlib.sha256(first + b"b" * 32).digest()
