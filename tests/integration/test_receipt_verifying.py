"""Receipts that were changed, forged, cut short, copied out or made to lie: each is refused, and says why."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.bundles import CHAIN_NAME, PREDICATE_TYPE, Bundle, digest_of
from interlock.evidence.dsse import Envelope, EnvelopeSignature, sign_envelope
from interlock.evidence.findings import Completeness, FindingKind, ReceiptVerification, Verdict
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import NO_WITNESSES, Log, Policy
from interlock.evidence.signing import AttestorKey, NoteKey
from interlock.evidence.statements import PAYLOAD_TYPE, Statement, Subject
from interlock.evidence.tiles import Tile, decode_bundle
from interlock.evidence.verifying import Known, Trust, verify_receipt
from interlock.evidence.vkeys import KeyType
from interlock.infrastructure.opening import open_journal
from tests.crashing import Stage, in_doubt, to_the_end
from tests.provider_world import PROFILES, World
from tests.receipt_lab import LAB, Forgery, exported, now_s, one_of_each

OTHER_KEY = AttestorKey(bytes([99]) * 32)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A journal with an action of each status."""
    with one_of_each(tmp_path_factory.mktemp("receipts") / "journal.db") as made:
        yield made


@pytest.fixture(scope="module")
def honest(stage: Stage) -> Bundle:
    """The receipt of a commit, with nothing withheld."""
    return exported(stage, "committed")


@pytest.fixture(scope="module")
def forgery(stage: Stage, honest: Bundle) -> Forgery:
    """The same, taken apart by somebody who has all keys."""
    return Forgery.of(LAB, honest, now_s(stage))


@pytest.fixture(scope="module")
def refused(stage: Stage) -> Forgery:
    """A refusal after a send, taken apart likewise."""
    return Forgery.of(LAB, exported(stage, "declined"), now_s(stage))


def check(bundle: Bundle, trust: Trust = LAB.trust, **known: Any) -> ReceiptVerification:
    """Check a receipt, with all that is trusted unless something else is given."""
    return verify_receipt(bundle.serialize(), trust, Known(**known))


def assert_found(found: ReceiptVerification, verdict: Verdict, kind: FindingKind, words: str) -> None:
    """The verdict is this one, for this reason."""
    assert found.verdict is verdict, found.findings
    worst = [one for one in found.findings if one.verdict is verdict]
    assert any(one.kind is kind and words in one.words for one in worst), worst


def resigned(bundle: Bundle, signer: AttestorKey = LAB.attestor, **claims: Any) -> Bundle:
    """Sign other claims about the same records."""
    statement = Statement.of(bundle.envelope)
    said = Statement(statement.subjects, statement.predicate_type, {**statement.predicate, **claims})
    return replace(bundle, envelope=sign_envelope(PAYLOAD_TYPE, said.serialize(), signer))


# --- what was changed


def test_the_forgers_own_work_is_accepted_where_it_changes_nothing(forgery: Forgery, refused: Forgery) -> None:
    """Or the refusals below would be for another reason than the one that they name."""
    for one in (forgery, refused):
        assert check(one.made()).verdict is Verdict.OK


def test_no_changed_byte_says_anything_else(honest: Bundle) -> None:
    """Wherever a byte is changed, the receipt is refused, or it still says exactly what it said: a hint was changed."""
    data, before = honest.serialize(), verify_receipt(honest.serialize(), LAB.trust)
    said = (before.claim, before.events, before.states, before.signed_by)
    refused = 0
    for at in range(0, len(data), max(1, len(data) // 400)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        found = verify_receipt(changed, LAB.trust)
        refused += found.verdict is not Verdict.OK
        assert found.verdict is not Verdict.OK or (found.claim, found.events, found.states, found.signed_by) == said, at
    assert refused > 200


def _moved(values: tuple[Any, ...], *order: int) -> tuple[Any, ...]:
    return tuple(values[at] for at in order)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            lambda b: replace(b, **{n: getattr(b, n)[:-1] for n in ("records", "states", "proofs")}),
            "statement",
            "added or removed",
        ),
        (lambda b: replace(b, records=_moved(b.records, 0, 2, 1, 3, 4, 5, 6)), "statement", "are not those that were signed"),
        (lambda b: replace(b, states=_moved(b.states, 0, 1, 3, 2, 4, 5, 6)), "states", "not the one that was recorded"),
        (lambda b: replace(b, proofs=_moved(b.proofs, 0, 1, 3, 2, 4, 5, 6)), "inclusion", "does not lead"),
        (lambda b: replace(b, states=(b.states[0].replace("2000", "9000"), *b.states[1:])), "states", "event 1 of the action"),
    ],
    ids=["record removed", "records swapped", "states swapped", "proofs swapped", "amount changed"],
)
def test_changed_parts_are_named(honest: Bundle, change: Callable[[Bundle], Bundle], kind: str, words: str) -> None:
    """Each part is bound to the others, and what does not fit is named."""
    assert_found(check(change(honest)), Verdict.INVALID, FindingKind(kind), words)


def test_a_record_that_stands_twice_is_refused(honest: Bundle) -> None:
    """Before anything else is done with it."""
    fields = json.loads(honest.serialize())
    for name in ("records", "states", "proofs"):
        fields[name].append(fields[name][-1])
    assert_found(verify_receipt(json.dumps(fields).encode(), LAB.trust), Verdict.INVALID, FindingKind.FORMAT, "stands twice")


# --- who signed


def test_a_key_that_nobody_trusts_verifies_nothing(honest: Bundle) -> None:
    """It says nothing against the receipt, and nothing for it."""
    found = check(resigned(honest, OTHER_KEY))
    assert_found(found, Verdict.UNVERIFIABLE, FindingKind.SIGNATURE, "no key that is trusted here")
    assert found.signed_by is None


def test_the_name_of_a_trusted_key_is_not_its_signature(honest: Bundle) -> None:
    """A spoofed keyid is a forgery, not a stranger."""
    signature = resigned(honest, OTHER_KEY).envelope.signatures[0].signature
    envelope = Envelope(PAYLOAD_TYPE, honest.envelope.payload, (EnvelopeSignature(signature, LAB.attestor.keyid),))
    assert_found(check(replace(honest, envelope=envelope)), Verdict.INVALID, FindingKind.SIGNATURE, "did not sign it")


def test_a_key_that_was_rotated_out_signs_no_new_receipt(honest: Bundle) -> None:
    """Its signature is right, and it may no longer speak of a log of this size; nor of what is in no log yet."""
    old = Attestors((Attestor(OTHER_KEY.verifier),)).rotated(OTHER_KEY.verifier.keyid, LAB.attestor.verifier, at_index=5)
    trust = Trust(LAB.policy, old)
    assert check(honest, trust).verdict is Verdict.OK
    assert_found(check(resigned(honest, OTHER_KEY), trust), Verdict.INVALID, FindingKind.SIGNATURE, "it was replaced")
    pending = resigned(replace(honest, proofs=(None,) * 7), OTHER_KEY, as_of=None)
    assert_found(check(pending, trust), Verdict.INVALID, FindingKind.SIGNATURE, "not in the log yet")


def test_a_new_key_does_not_sign_for_the_time_before_it(honest: Bundle) -> None:
    """Its range begins behind this log's size."""
    trust = Trust(LAB.policy, Attestors((Attestor(LAB.attestor.verifier, from_index=1000),)))
    assert_found(check(honest, trust), Verdict.INVALID, FindingKind.SIGNATURE, "not in use yet")


def test_without_a_list_of_attestors_the_signature_is_not_checked(honest: Bundle) -> None:
    """And that is said, whatever the log proves."""
    assert_found(check(honest, Trust(LAB.policy, None)), Verdict.UNVERIFIABLE, FindingKind.SIGNATURE, "no list of attestors")


def test_an_envelope_of_something_else_is_no_receipt(honest: Bundle) -> None:
    """A trusted key signs other things too; none of them passes for a receipt."""
    other = Statement(Statement.of(honest.envelope).subjects, f"{PREDICATE_TYPE}0", Statement.of(honest.envelope).predicate)
    envelope = sign_envelope(PAYLOAD_TYPE, other.serialize(), LAB.attestor)
    assert_found(check(replace(honest, envelope=envelope)), Verdict.INVALID, FindingKind.STATEMENT, "another type")
    envelope = sign_envelope("text/plain", honest.envelope.payload, LAB.attestor)
    assert_found(check(replace(honest, envelope=envelope)), Verdict.INVALID, FindingKind.STATEMENT, "not of the type")


@pytest.mark.parametrize(
    "subjects",
    [(Subject("chain.jsonl", {"sha256": "0" * 64}),), (Subject("other", {"sha256": "0" * 64}),)],
    ids=["digest", "name"],
)
def test_the_statement_is_about_these_records(honest: Bundle, subjects: tuple[Subject, ...]) -> None:
    """And not about others."""
    said = Statement(subjects, PREDICATE_TYPE, Statement.of(honest.envelope).predicate)
    envelope = sign_envelope(PAYLOAD_TYPE, said.serialize(), LAB.attestor)
    assert_found(check(replace(honest, envelope=envelope)), Verdict.INVALID, FindingKind.STATEMENT, "are not those")


# --- which log


def test_a_log_that_the_policy_does_not_name_verifies_nothing(honest: Bundle) -> None:
    """Of another name, and of the same name with another key."""
    for name, words in (("other.example/log", "names no log of this origin"), (LAB.log_key.name, "no key that is trusted here")):
        stranger = NoteKey(name, KeyType.ED25519, bytes(32))
        trust = Trust(Policy((Log(stranger.key),), (), (), NO_WITNESSES), LAB.attestors)
        assert_found(check(honest, trust), Verdict.UNVERIFIABLE, FindingKind.LOG_KEY, words)


def test_too_few_witnesses_verify_nothing(stage: Stage) -> None:
    """How many of how many is said."""
    found = check(exported(stage, "committed", witnesses=1))
    assert_found(found, Verdict.UNVERIFIABLE, FindingKind.WITNESSES, "1 of 3 witnesses")
    assert (found.witnesses, found.witnesses_known) == (("w1",), 3)


def test_a_forged_cosignature_is_refused(honest: Bundle) -> None:
    """It bears a witness's name over what that witness did not sign."""
    note = SignedNote.parse((honest.proofs[0] or "").partition("\n\n")[2].encode())
    first, *cosigned = note.signatures
    forged = SignedNote(note.text, (first, replace(cosigned[0], signature=cosigned[1].signature), *cosigned[1:]))
    proofs = tuple((proof or "").replace(note.serialize().decode(), forged.serialize().decode()) for proof in honest.proofs)
    assert_found(check(replace(honest, proofs=proofs)), Verdict.INVALID, FindingKind.LOG_KEY, "does not belong")


def test_two_trees_of_one_size_prove_a_fork(stage: Stage, honest: Bundle) -> None:
    """A checkpoint that somebody else got contradicts the one in the receipt."""
    other = LAB.note([bytes([at]) * 32 for at in range(_size(stage))], now_s(stage)).serialize()
    assert_found(check(honest, checkpoints=[other]), Verdict.INVALID, FindingKind.LOG_KEY, "signed two trees")


def _size(stage: Stage) -> int:
    with open_journal(stage.url, create=False) as journal:
        return len(journal.rows(limit=1000))


@pytest.mark.parametrize(
    "change", [{"size": 99}, {"last_n": 3}, {"root": "A" * 43 + "="}, {"origin": "acme.example/other-1"}], ids=str
)
def test_what_it_says_to_be_as_of_is_what_the_log_signed(honest: Bundle, change: dict[str, Any]) -> None:
    """Size and root come from the signed checkpoint, and the last event from the proofs."""
    as_of = {**Statement.of(honest.envelope).predicate["as_of"], **change}
    assert_found(check(resigned(honest, as_of=as_of)), Verdict.INVALID, FindingKind.AS_OF, "its checkpoint says")


# --- how old, and when


def test_an_old_receipt_is_stale(stage: Stage, honest: Bundle) -> None:
    """By the witnesses' clock, and by a newer checkpoint that somebody has; not by one that says the same."""
    assert check(honest, now_s=now_s(stage) + 50, max_age_s=60).verdict is Verdict.OK
    found = check(honest, now_s=now_s(stage) + 100, max_age_s=60)
    assert_found(found, Verdict.STALE, FindingKind.AS_OF, "witnessed 100 s ago")
    newer = LAB.note([bytes([at]) * 32 for at in range(200)], now_s(stage)).serialize()
    assert_found(check(honest, checkpoints=[newer]), Verdict.STALE, FindingKind.AS_OF, "checkpoint of 200 leaves is known")
    elsewhere = replace(LAB, log_key=NoteKey("acme.example/interlock/test-2", KeyType.ED25519, bytes(32)))
    trust = Trust(replace(LAB.policy, logs=(*LAB.policy.logs, Log(elsewhere.log_key.key))), LAB.attestors)
    found = check(honest, trust, checkpoints=[elsewhere.note([bytes(32)] * 200, now_s(stage)).serialize()])
    assert found.verdict is Verdict.OK, "another log says nothing of this one"
    same = (honest.proofs[0] or "").partition("\n\n")[2].encode()
    assert check(honest, checkpoints=[same]).verdict is Verdict.OK


def test_without_witnesses_nobody_knows_how_old_it_is(honest: Bundle) -> None:
    """The log's own word for the time is none."""
    trust = Trust(replace(LAB.policy, witnesses=(), groups=(), quorum=NO_WITNESSES), LAB.attestors)
    assert check(honest, trust).verdict is Verdict.OK
    found = check(honest, trust, now_s=2e9, max_age_s=60)
    assert_found(found, Verdict.UNVERIFIABLE, FindingKind.AS_OF, "no witness says how old")
    assert {(event.not_before, event.not_after) for event in found.events} == {(None, None)}


def test_witnesses_bound_the_time(stage: Stage) -> None:
    """After the last checkpoint without an event, before the first with it, by the clocks of those who cosigned."""
    end, start = now_s(stage), int(stage.gate().action("declined").created_on.timestamp())
    first = 8  # the committed action and its approval end here
    bundle = exported(stage, "declined", checkpoints={first - 1: start - 10, _size(stage) - 2: end - 5, _size(stage): end})
    found = check(bundle)
    assert found.verdict is Verdict.OK, found.findings
    bounds = {
        (event.not_before.timestamp(), event.not_after.timestamp())
        for event in found.events
        if event.not_before and event.not_after
    }
    assert bounds == {(start - 10, end - 5)}


def test_a_time_that_witnesses_contradict_is_refused(forgery: Forgery) -> None:
    """Dated behind the first checkpoint with it: nobody sees what has not happened yet."""
    forged = forgery.edited("approval", 1, lambda state: state.update(timestamp="2040-01-01T00:00:00Z")).made()
    assert_found(check(forged), Verdict.INVALID, FindingKind.TIME, "witnesses had seen it by")


def test_a_time_before_a_checkpoint_without_it(stage: Stage, forgery: Forgery) -> None:
    """Backdated, or written between the signing of a checkpoint and its late cosigning: nobody can tell, and that is said."""
    forged = forgery.edited("action", 1, lambda state: state.update(timestamp="2020-01-01T00:00:00Z")).made()
    old = LAB.note([], now_s(stage) - 400).serialize()
    assert_found(check(forged, checkpoints=[old]), Verdict.UNVERIFIABLE, FindingKind.TIME, "backdated, or they were asked late")


def test_a_witness_that_was_asked_late_contradicts_nobody(stage: Stage) -> None:
    """The log was not signed for an hour, and gates went on; then the checkpoint from before was cosigned, and one with all."""
    end, first = now_s(stage), 8  # the committed action and its approval end here
    bundle = exported(stage, "declined", checkpoints={first - 1: end + 3600, _size(stage): end + 3601})
    found = check(bundle)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert {one.kind for one in found.findings if one.verdict is Verdict.UNVERIFIABLE} == {FindingKind.TIME}


# --- what it leaves out


def short_of_its_last_event(forgery: Forgery) -> Bundle:
    """The same case as it stood before it was committed, signed again by the operator as of the whole log."""
    whole = forgery.made()
    cut = (*range(3), *range(4, 6))
    bundle = replace(
        whole, records=_moved(whole.records, *cut), states=_moved(whole.states, *cut), proofs=_moved(whole.proofs, *cut)
    )
    as_of = {**Statement.of(whole.envelope).predicate["as_of"], "last_n": 3}
    claims = {"events": 3, "approval_events": 2, "status": "IN_FLIGHT", "happened": "unknown", "via": None, "as_of": as_of}
    said = Statement((Subject(CHAIN_NAME, {"sha256": digest_of(bundle.records)}),), PREDICATE_TYPE, {**forgery.claim, **claims})
    return replace(bundle, envelope=sign_envelope(PAYLOAD_TYPE, said.serialize(), LAB.attestor))


def test_a_left_out_event_is_not_seen_in_the_receipt_alone(forgery: Forgery) -> None:
    """Inclusion proves nothing about what is missing, so completeness is said to be unknown."""
    found = check(short_of_its_last_event(forgery))
    assert (found.verdict, found.completeness) == (Verdict.OK, Completeness.UNKNOWN)


def test_another_receipt_proves_that_an_event_was_left_out(forgery: Forgery) -> None:
    """The lie is signed, and the other receipt's proof contradicts it: whoever has both can show it to anybody."""
    found = check(short_of_its_last_event(forgery), others=[forgery.made().serialize()])
    assert_found(found, Verdict.INVALID, FindingKind.COMPLETENESS, "leaves it out: keep both")
    assert found.completeness is Completeness.CONTRADICTED
    assert check(forgery.made(), others=[short_of_its_last_event(forgery).serialize()]).verdict is Verdict.OK


def test_an_event_that_came_later_makes_a_receipt_stale(tmp_path: Path) -> None:
    """It was complete when it was made, and another receipt knows more."""
    with Stage(tmp_path / "journal.db", World(PROFILES["keys"])) as stage:
        stage.approve()
        in_doubt(stage)
        older = exported(stage, "refund:case-1")
        to_the_end(stage.actor())
        newer = exported(stage, "refund:case-1")
    assert check(older).verdict is Verdict.OK
    assert check(newer, others=[older.serialize()]).verdict is Verdict.OK
    found = check(older, others=[newer.serialize()])
    assert_found(found, Verdict.STALE, FindingKind.AS_OF, "came later")
    assert found.completeness is Completeness.UNKNOWN


def test_an_approval_that_goes_on_makes_no_receipt_stale(tmp_path: Path) -> None:
    """What others did under it later is nothing that this action's receipt should have had."""
    with Stage(tmp_path / "journal.db", World(PROFILES["keys"])) as stage:
        stage.approve(uses=2, cap_minor=100_000)
        stage.actor().fire()
        older = exported(stage, "refund:case-1")
        stage.actor("refund:other").fire()
        newer = exported(stage, "refund:case-1")
    found = check(older, others=[newer.serialize()])
    assert (found.verdict, found.completeness) == (Verdict.OK, Completeness.UNKNOWN)
    assert sum("came later" in one.words for one in found.findings) == 2


def test_the_whole_log_shows_what_was_left_out(forgery: Forgery) -> None:
    """A copy of the log, from whomever: it hashes to the signed root, and has every event of the case or one more."""
    whole = forgery.made()
    entries = _entries(whole)
    found = check(whole, entries=entries)
    assert (found.verdict, found.completeness) == (Verdict.OK, Completeness.AUDITED)
    found = check(short_of_its_last_event(forgery), entries=entries)
    assert_found(found, Verdict.INVALID, FindingKind.COMPLETENESS, "the log has 7 events of this case, and the receipt 5")
    assert_found(check(whole, entries=entries[:-1]), Verdict.UNVERIFIABLE, FindingKind.COMPLETENESS, "has not the 7 entries")


def test_a_copy_that_can_not_be_read_is_no_fault_of_the_receipt(forgery: Forgery) -> None:
    """Whoever keeps the copy can spoil it: nothing is known then, and nothing is raised."""
    spoiled = chain.from_iterable(decode_bundle(Tile(None, 0, 3), data) for data in (b"no entries",))
    found = check(forgery.made(), entries=spoiled)
    assert_found(found, Verdict.UNVERIFIABLE, FindingKind.COMPLETENESS, "the copy of the log can't be read")


def test_a_copy_of_a_log_that_nobody_trusts_shows_nothing(forgery: Forgery) -> None:
    """It hashes to a root that only a stranger has signed."""
    whole, stranger = forgery.made(), NoteKey("other.example/log", KeyType.ED25519, bytes(32))
    trust = Trust(Policy((Log(stranger.key),), (), (), NO_WITNESSES), LAB.attestors)
    found = check(whole, trust, entries=_entries(whole))
    assert (found.verdict, found.completeness) == (Verdict.UNVERIFIABLE, Completeness.UNKNOWN)


def _entries(bundle: Bundle) -> list[bytes]:
    places = [event.index or 0 for event in check(bundle).events]
    return [record.encode() for _, record in sorted(zip(places, bundle.records, strict=True))]


def test_two_histories_of_one_action_are_a_proof(forgery: Forgery) -> None:
    """The log holds another second event of the same action than this receipt."""
    other = forgery.edited("action", 2, lambda state: state.update(why="because")).made()
    found = check(forgery.made(), others=[other.serialize()])
    assert_found(found, Verdict.INVALID, FindingKind.COMPLETENESS, "two different ones")
