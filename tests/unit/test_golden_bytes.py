"""The stored bytes of each event, and the hashes over them: what has been hashed can't be changed later.

`golden/events.json` was written once. An event whose fields have to change gets a `class_version` and an upcaster, and a new line
beside the old one, which stays readable for ever.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from eventsourcing.domain import CanMutateAggregate
from eventsourcing.persistence import StoredEvent

from interlock.domain.action import Checks, Claim, Door, Doubt, GatedAction, Intent, SendPurpose, Via
from interlock.domain.answers import Declined, Evidence, KeyState, Settlement
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalRef, ApprovalState, ApprovalTerms
from interlock.domain.effects import DataclassCodec, Effect, Money, record_effect
from interlock.domain.log import JournalLog
from interlock.domain.premises import Premise, PremiseReading, ReadingState
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.records import leaf_hash, name_digest, record, state_digest
from interlock.infrastructure.mapper import EventMapper
from tests.provider_world import Transfer

Event = CanMutateAggregate[UUID]

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "golden" / "events.json").read_text(encoding="utf-8"))
LOG = "urn:uuid:00000000-0000-4000-8000-000000000001"
SALT = "00112233445566778899aabbccddeeff"
ACTION, APPROVAL = UUID("01890a5d-ac96-774b-bcce-b302099a8057"), UUID("01890a5d-ac96-774b-bcce-b302099a8058")
AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def events() -> Iterator[Event]:
    """Yield one event of each kind, with every field given."""
    effect = record_effect(
        Effect("world", "acct_1", Transfer("acct_1", 2000, "usd", "äöü ☃"), Money(2000, "usd")), DataclassCodec(Transfer), 3
    )
    ref = ApprovalRef("case-1", "table")
    facts = '{"entries":[],"state":"open"}'
    premise = Premise(
        target="world", subject="acct_1", facts_json=facts, read_at=AT, policy="strict", expectations_json='{"state":"open"}'
    )
    intent = Intent(
        key="refund:case-1", effect=effect, approval=ref, premises=(premise,), supersedes="refund:case-0", decision_json='{"a":1}'
    )
    checks = Checks(
        approval=ApprovalReading(
            ref=ref,
            state=ApprovalState.LIVE,
            held=True,
            read_at=AT,
            cap_minor=2000,
            currency="usd",
            remaining_minor=2000,
            by="user:17",
            expires_at=AT + timedelta(days=1),
            version=1,
            misfit="is in eur",
        ),
        premises=(
            PremiseReading(
                target="world",
                subject="acct_1",
                policy="strict",
                policy_version=1,
                state=ReadingState.COMPATIBLE,
                words="somebody took 5",
                possible="decide again",
                facts_json=facts,
                read_at=AT,
            ),
        ),
    )
    claim = Claim(holder="h" * 32, term=1, host="host-1", pid=42, lock="lock-1", expires_at=AT + timedelta(seconds=40))
    declined = Declined("insufficient", "there is not enough left", replayed=True)
    doubt = Doubt(nothing_sent=True, key=KeyState.STORED_FAILURE, declined=declined)
    evidence = Evidence(
        reference="tx_1",
        state="succeeded",
        settlement=Settlement.FINAL,
        json='{"reference":"tx_1"}',
        replayed=True,
        request_id="req_1",
        disagreements=("amount is 1",),
    )
    yield from _action_events(intent, claim, doubt, checks, evidence)
    yield from _approval_events(effect.fingerprint)
    yield from _log_events()


def _action_events(intent: Intent, claim: Claim, doubt: Doubt, checks: Checks, evidence: Evidence) -> Iterator[Event]:
    profile = CapabilityProfile(send_deadline_s=30, kernel_s=20, settle_s=10, roll_forward_s=0)
    action = GatedAction.intend(ACTION, intent, AT)
    action.take_claim(claim, "first", AT, doubt)
    action.dispatch(1, SendPurpose.EXECUTE, checks, profile, AT)
    action.leave_ambiguous("cannot_look", "it can't be looked up", AT, evidence=evidence, checks=checks)
    action.commit(Via.RESOLUTION, evidence, AT, checks=checks, by="user:17", note="seen")
    yield from action.collect_events()
    refused = GatedAction.intend(ACTION, intent, AT)
    refused.refuse(
        "approval_revoked",
        "it was revoked",
        AT,
        door=Door.BURNED,
        at_recovery=True,
        possible="approve again",
        checks=checks,
        by="user:17",
        note="",
    )
    refused.erase("subject_request", "user:19", AT)
    yield from refused.collect_events()[1:]


def _approval_events(fingerprint: str) -> Iterator[Event]:
    terms = ApprovalTerms(cap_minor=2000, currency="usd", by="user:17", expires_in_s=86_400, fingerprint=fingerprint, uses=3)
    approval = Approval.grant(APPROVAL, "case-1", terms, AT)
    effect = record_effect(
        Effect("world", "acct_1", Transfer("acct_1", 2000, "usd"), Money(2000, "usd")), DataclassCodec(Transfer), 3
    )
    approval.reserve(ACTION, effect, AT)
    approval.release(ACTION, AT)
    approval.spend(ACTION, effect, AT)
    approval.revoke("user:18", "a mistake", AT)
    approval.erase("subject_request", "user:19", AT)
    yield from approval.collect_events()


def _log_events() -> Iterator[Event]:
    log = JournalLog.open("acme.example/interlock/prod", AT)
    log.start_epoch(2, "acme.example/interlock/prod-2", "acme.example/interlock/prod-2+01234567+AQ==", "prod-1\n7\n", AT)
    log.rotate_key("log", ("old+01234567+AQ==", "new+89abcdef+AQ=="), ("b2xk", "bmV3"), AT)
    yield from log.collect_events()


def _stored(event: Any) -> StoredEvent:
    """Return the event as it is stored, with its random salt made a fixed one."""
    stored = EventMapper().to_stored_event(event)
    state, salts = re.subn(rb'"_salt":"[0-9a-f]{32}"', f'"_salt":"{SALT}"'.encode(), stored.state)
    assert salts == 1
    return StoredEvent(stored.originator_id, stored.originator_version, stored.topic, state)


def _golden(entry: dict[str, Any]) -> StoredEvent:
    return StoredEvent(UUID(entry["id"]), entry["n"], entry["topic"], entry["state"].encode())


TODAY = {type(event).__qualname__: event for event in events()}
BY_NAME = {entry["event"]: entry for entry in GOLDEN}


def test_there_is_a_golden_line_for_each_kind_of_event() -> None:
    """Seven of an action, six of an approval and three of the log, each with its own topic."""
    kinds = {
        kind.__qualname__ for base in (GatedAction.Event, Approval.Event, JournalLog.Event) for kind in base.__subclasses__()
    }
    assert set(TODAY) == set(BY_NAME) == kinds
    assert len({entry["topic"] for entry in GOLDEN}) == len(GOLDEN) == 16
    assert all(entry["topic"].startswith("interlock.") for entry in GOLDEN)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_event_is_stored_as_the_same_bytes_as_ever(name: str) -> None:
    """Field names, their order, times and texts: byte by byte, the salt apart."""
    assert _stored(TODAY[name]) == _golden(BY_NAME[name])


@pytest.mark.parametrize("name", BY_NAME)
def test_old_bytes_are_read_back_as_the_same_event(name: str) -> None:
    """With every field of the type that it was written with."""
    read = EventMapper().to_domain_event(_golden(BY_NAME[name]))
    assert read == TODAY[name]
    assert vars(read) == vars(TODAY[name])
    assert _stored(read) == _golden(BY_NAME[name])


@pytest.mark.parametrize("name", BY_NAME)
def test_the_hashes_over_an_event_are_the_same_as_ever(name: str) -> None:
    """State digest, record and leaf hash, each computed here again with nothing but SHA-256 and JSON."""
    entry, stored = BY_NAME[name], _golden(BY_NAME[name])
    prev = bytes.fromhex(entry["prev"]) if entry["prev"] else None
    header = record(
        log=LOG,
        aggregate_id=UUID(entry["id"]),
        version=entry["n"],
        topic=entry["topic"],
        state=state_digest(stored.state),
        prev=prev,
    )
    plain = {
        "id": entry["id"],
        "log": LOG,
        "n": entry["n"],
        "prev": f"sha256:{entry['prev']}" if entry["prev"] else "genesis",
        "state": f"sha256:{hashlib.sha256(entry['state'].encode()).hexdigest()}",
        "topic": entry["topic"],
        "v": 1,
    }
    assert header.decode() == entry["record"] == json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert state_digest(stored.state).hex() == entry["state_digest"]
    assert leaf_hash(header).hex() == entry["leaf_hash"] == hashlib.sha256(b"\0" + entry["record"].encode()).hexdigest()


def test_what_ids_and_fingerprints_are_made_of_is_the_same_as_ever() -> None:
    """A name's digest, an effect's fingerprint, a profile's digest: each is written down somewhere for ever."""
    effect = record_effect(
        Effect("world", "acct_1", Transfer("acct_1", 2000, "usd"), Money(2000, "usd")), DataclassCodec(Transfer), 1
    )
    canonical = (
        '{"money":[2000,"usd"],"parameters":{"account":"acct_1","amount_minor":2000,"currency":"usd"},'
        '"subject":"acct_1","target":"world"}'
    )
    assert effect.fingerprint == f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"
    name = hashlib.sha256(f'["{LOG}", "action", "refund:\\u00e9"]'.encode()).digest()
    assert name_digest(LOG, "action", "refund:é") == name
    profile = CapabilityProfile(send_deadline_s=1.5, dedupe_window_s=86_400, lookup_staleness_s=0, burns=True)
    figures = (
        '{"burns":true,"dedupe_margin_s":3600000,"dedupe_window_s":86400000,"kernel_s":960000,"lookup_staleness_s":0,'
        '"roll_forward_s":null,"send_deadline_s":1500,"settle_s":10000,"stores_failures":false}'
    )
    assert profile.digest() == f"sha256:{hashlib.sha256(figures.encode()).hexdigest()}"
