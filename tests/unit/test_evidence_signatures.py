"""Who signed what: trusted keys and strangers, logs, witnesses and attestors, and what one changed bit does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from harness.make_vectors import ATTESTOR, COSIGNED_AT_S, LOG, ORIGIN, WITNESSES, seed
from interlock.domain.records import leaf_hash
from interlock.errors import EvidenceError, InconsistentEvidence, MalformedEvidence, QuorumNotReached, WrongKey, WrongSignature
from interlock.evidence.acceptance import accept_checkpoint, accept_proof
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.dsse import Envelope, EnvelopeSignature, sign_envelope, verify_envelope
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.policies import Log, Policy, Witness
from interlock.evidence.signing import AttestorKey, AttestorVerifier, NoteKey, new_seed, verifier_of
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.vkeys import KeyType, VerifierKey
from tests.evidence_vectors import own

VECTORS = own()
POLICY = Policy.parse(VECTORS["policy"].encode())
NOTE = SignedNote.parse(VECTORS["checkpoints"]["300"].encode())
PROOF = VECTORS["tlog_proof"].encode()
ENTRY = VECTORS["entries"][5].encode()
COLLISION = (65227, 67083)
"""Two keys of type 0x01, written as numbers, to which the name `a` gives the same id. Anybody can find such a pair."""

STRANGER = NoteKey(ORIGIN, KeyType.ED25519, seed("stranger"))


def _text(size: int = 8) -> str:
    return Checkpoint(ORIGIN, size, bytes(32)).text


# Notes


def test_strangers_are_passed_over() -> None:
    """A signature by an unknown key says nothing, also where it shares the name or the id of a known one."""
    text = _text()
    shared_name = STRANGER.sign(text)
    shared_id = replace(LOG.sign(text), name="acme.example/other")
    note = SignedNote(text, (shared_name, shared_id, LOG.sign(text)))
    assert [signed.key for signed in verify_note(note, [verifier_of(LOG.key)])] == [LOG.key]
    with pytest.raises(WrongKey):
        verify_note(SignedNote(text, (shared_name, shared_id)), [verifier_of(LOG.key)])
    with pytest.raises(WrongKey):
        verify_note(note, [])


def test_a_forged_line_spoils_a_note() -> None:
    """One line with a trusted key's name and id that it did not sign, and the note is refused, whoever else signed it."""
    text = _text()
    forged = NoteSignature(ORIGIN, LOG.key.key_id, STRANGER.sign(text).signature)
    cosigned = WITNESSES[0].cosign(Checkpoint.parse(text), at_s=1)
    verifiers = [verifier_of(LOG.key), verifier_of(WITNESSES[0].key)]
    for lines in ((cosigned, forged), (LOG.sign(text), forged), (forged, LOG.sign(text))):
        with pytest.raises(WrongSignature):
            verify_note(SignedNote(text, lines), verifiers)


def test_a_key_that_signed_twice_counts_once() -> None:
    """Of two cosignatures of one witness the first one's time is told; the same line is not added twice."""
    checkpoint = Checkpoint.parse(_text())
    first, second = (WITNESSES[0].cosign(checkpoint, at_s=at_s) for at_s in (7, 9))
    note = SignedNote(checkpoint.text, (first,)).with_signatures(second, first)
    assert note.signatures == (first, second)
    (signed,) = verify_note(note, [verifier_of(WITNESSES[0].key)])
    assert (signed.key, signed.at_s) == (WITNESSES[0].key, 7)


def test_keys_that_can_not_be_told_apart_are_refused() -> None:
    """Two different trusted keys of one name and one id would make it a matter of luck which one is tried."""
    one, other = (VerifierKey("a", KeyType.ED25519, number.to_bytes(32, "big")) for number in COLLISION)
    assert one.key_id == other.key_id
    with pytest.raises(ValueError, match="same id"):
        verify_note(NOTE, [verifier_of(LOG.key), verifier_of(one), verifier_of(other)])
    assert verify_note(NOTE, [verifier_of(LOG.key), verifier_of(LOG.key)])


def test_a_key_signs_in_its_own_role_only() -> None:
    """A log's key makes no cosignature, and a witness's no signature of a log."""
    with pytest.raises(ValueError, match="0x01, not 0x04"):
        LOG.cosign(Checkpoint.parse(_text()), at_s=1)
    with pytest.raises(ValueError, match="0x04, not 0x01"):
        WITNESSES[0].sign(_text())
    same_secret = NoteKey(LOG.name, KeyType.COSIGNATURE_V1, LOG.seed)
    assert same_secret.key.key_id != LOG.key.key_id
    cosigned = same_secret.cosign(Checkpoint.parse(_text()), at_s=1)
    as_log = NoteSignature(LOG.name, LOG.key.key_id, cosigned.signature[8:])
    with pytest.raises(WrongSignature):
        verify_note(SignedNote(_text(), (as_log,)), [verifier_of(LOG.key)])


@pytest.mark.parametrize("length", [1, 8, 71, 73])
def test_a_cosignature_of_another_length_is_refused(length: int) -> None:
    """It is a time and a signature."""
    line = NoteSignature(WITNESSES[0].name, WITNESSES[0].key.key_id, bytes(length))
    with pytest.raises(WrongSignature):
        verify_note(SignedNote(_text(), (line,)), [verifier_of(WITNESSES[0].key)])


def test_the_time_of_a_cosignature_is_signed() -> None:
    """A cosignature with another time is a forged one; so is one of a time that the format does not have."""
    checkpoint = Checkpoint.parse(_text())
    line = WITNESSES[0].cosign(checkpoint, at_s=COSIGNED_AT_S)
    verifier = verifier_of(WITNESSES[0].key)
    assert verifier.verify(checkpoint.text, line.signature) == COSIGNED_AT_S
    for at_s in (COSIGNED_AT_S - 1, 0, 2**63):
        with pytest.raises(WrongSignature):
            verifier.verify(checkpoint.text, at_s.to_bytes(8, "big") + line.signature[8:])
    latest = WITNESSES[0].cosign(checkpoint, at_s=2**63 - 1)
    assert verifier.verify(checkpoint.text, latest.signature) == 2**63 - 1
    for at_s in (-1, 2**63):
        with pytest.raises(ValueError, match="from 0 to"):
            WITNESSES[0].cosign(checkpoint, at_s=at_s)


def test_a_witness_that_signs_with_ml_dsa() -> None:
    """A key of another type takes part in a policy: an ML-DSA-44 cosignature over the message that the specification lays out."""
    try:
        secret = MLDSA44PrivateKey.generate()
    except UnsupportedAlgorithm:
        pytest.skip("this build of cryptography has no ML-DSA-44; 50.0 has it")
    key = VerifierKey("witness.example/pq", KeyType.ML_DSA_44, secret.public_key().public_bytes_raw())
    checkpoint, at_s = Checkpoint(ORIGIN, 300, b"r" * 32), 1_700_000_000
    message = b"subtree/v1\n\x00" + bytes([18]) + b"witness.example/pq" + at_s.to_bytes(8, "big")
    message += bytes([len(ORIGIN)]) + ORIGIN.encode() + (0).to_bytes(8, "big") + (300).to_bytes(8, "big") + b"r" * 32
    line = NoteSignature(key.name, key.key_id, at_s.to_bytes(8, "big") + secret.sign(message))
    assert VerifierKey.parse(str(key)) == key
    policy = Policy((Log(LOG.key),), (Witness("pq", key),), (), "pq")
    accepted = accept_checkpoint(SignedNote(checkpoint.text, (LOG.sign(checkpoint.text), line)), policy)
    assert accepted.witnesses["pq"].at_s == at_s
    other = replace(checkpoint, size=301).text
    with pytest.raises(WrongSignature):
        accept_checkpoint(SignedNote(other, (LOG.sign(other), line)), policy)


# Secrets


def test_a_secret_does_not_show() -> None:
    """Neither a key's representation nor an error repeats its secret."""
    secret = NoteKey("a", KeyType.ED25519, new_seed())
    text = secret.to_secret_text()
    assert NoteKey.parse(text) == secret
    material = text.rpartition("+")[2][:12]
    for shown in (repr(secret), str(secret), repr(AttestorKey(secret.seed))):
        assert material not in shown
        assert secret.seed.hex() not in shown
        assert repr(secret.seed) not in shown
    for wrong in (
        text[:-2],
        text + "A",
        text.replace("+a+", "+b+"),
        text.removeprefix("PRIVATE+"),
        text.replace("KEY+a+", "KEY+a+0"),
    ):
        with pytest.raises(MalformedEvidence) as refused:
            NoteKey.parse(wrong)
        assert material not in str(refused.value)
        assert refused.value.__cause__ is None
    assert new_seed() != new_seed()


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_secret_of_another_length_is_refused(length: int) -> None:
    """Ed25519's have 32 bytes, and only Ed25519's are kept as such a key."""
    with pytest.raises(MalformedEvidence):
        NoteKey("a", KeyType.ED25519, bytes(length))
    with pytest.raises(MalformedEvidence):
        NoteKey("a", KeyType.ML_DSA_44, bytes(32))


# Acceptance


def test_a_proof_is_accepted() -> None:
    """Log, two witnesses of three, and the entry at its place; the witnesses' times are told."""
    accepted = accept_proof(TlogProof.parse(PROOF), leaf_hash(ENTRY), POLICY)
    assert (accepted.checkpoint.origin, accepted.checkpoint.size, accepted.logs) == (ORIGIN, 300, (LOG.key,))
    assert {name: signed.at_s for name, signed in accepted.witnesses.items()} == dict.fromkeys(("w1", "w2"), COSIGNED_AT_S + 300)


def test_one_bit_anywhere_in_a_proof_undoes_it() -> None:
    """Every single bit of a tlog-proof, one after the other: none can be turned. Where the quorum needs all who signed."""
    leaf = leaf_hash(ENTRY)
    for at in range(len(PROOF)):
        for bit in range(8):
            turned = bytearray(PROOF)
            turned[at] ^= 1 << bit
            with pytest.raises(EvidenceError):
                accept_proof(TlogProof.parse(bytes(turned)), leaf, POLICY)


@given(st.integers(0, 255))
def test_another_entry_is_not_in_the_log(bit: int) -> None:
    """A proof is for one entry."""
    leaf = (int.from_bytes(leaf_hash(ENTRY), "big") ^ 1 << bit).to_bytes(32, "big")
    with pytest.raises(InconsistentEvidence):
        accept_proof(TlogProof.parse(PROOF), leaf, POLICY)


def test_too_few_witnesses() -> None:
    """The error names those that have cosigned; a stranger, and a witness of another log's checkpoint, do not count."""
    with pytest.raises(QuorumNotReached, match=r"two is not reached by 1 of 3") as missed:
        accept_checkpoint(SignedNote(NOTE.text, NOTE.signatures[:2]), POLICY)
    assert missed.value.cosigned == ("w1",)
    third = WITNESSES[2].cosign(Checkpoint.parse(NOTE.text), at_s=1)
    assert sorted(accept_checkpoint(SignedNote(NOTE.text, (*NOTE.signatures[:2], third)), POLICY).witnesses) == ["w1", "w3"]


def test_the_log_has_to_sign() -> None:
    """Witnesses without the log are not enough; nor is a log of another name, or a key of another name for this origin."""
    with pytest.raises(WrongKey, match="no key"):
        accept_checkpoint(SignedNote(NOTE.text, NOTE.signatures[1:]), POLICY)
    with pytest.raises(WrongKey, match="no log"):
        accept_checkpoint(NOTE, replace(POLICY, logs=()))
    other_epoch = NoteKey(ORIGIN.replace("-1", "-2"), KeyType.ED25519, LOG.seed)
    with pytest.raises(WrongKey, match="no log"):
        accept_checkpoint(NOTE, replace(POLICY, logs=(Log(other_epoch.key),)))
    signed_by_other = SignedNote(NOTE.text, (other_epoch.sign(NOTE.text), *NOTE.signatures[1:]))
    with pytest.raises(WrongKey, match="no key"):
        accept_checkpoint(signed_by_other, replace(POLICY, logs=(Log(LOG.key), Log(replace(STRANGER, name="other").key))))


def test_any_of_a_logs_keys_will_do() -> None:
    """While a key is being rotated, the policy has both, and each is enough."""
    rotated = replace(POLICY, logs=(Log(LOG.key), Log(STRANGER.key)))
    both = NOTE.with_signatures(STRANGER.sign(NOTE.text))
    assert accept_checkpoint(both, rotated).logs == (LOG.key, STRANGER.key)
    assert accept_checkpoint(NOTE, rotated).logs == (LOG.key,)
    after = SignedNote(NOTE.text, (STRANGER.sign(NOTE.text), *NOTE.signatures[1:]))
    assert accept_checkpoint(after, rotated).logs == (STRANGER.key,)
    with pytest.raises(WrongKey):
        accept_checkpoint(after, POLICY)


def test_a_signed_text_that_is_no_checkpoint() -> None:
    """The log's signature makes no checkpoint of another text."""
    with pytest.raises(MalformedEvidence):
        accept_checkpoint(SignedNote("hello\n", (LOG.sign("hello\n"),)), replace(POLICY, quorum="none"))


# Envelopes


def test_an_envelope_is_accepted_by_its_key_whatever_it_is_called() -> None:
    """Each trusted key is tried; the name beside a signature is a hint, and may be missing or wrong."""
    envelope = sign_envelope("text/plain", b"payload", ATTESTOR)
    (line,) = envelope.signatures
    other = AttestorKey(seed("other"))
    for keyid in (ATTESTOR.keyid, None, "", other.keyid):
        named = replace(envelope, signatures=(EnvelopeSignature(line.signature, keyid),))
        assert verify_envelope(named, [other.verifier, ATTESTOR.verifier]) == (ATTESTOR.verifier,)
    both = sign_envelope("text/plain", b"payload", other, ATTESTOR)
    assert verify_envelope(both, [ATTESTOR.verifier, other.verifier]) == (ATTESTOR.verifier, other.verifier)


@pytest.mark.parametrize("change", [{"payload": b"payloae"}, {"payload_type": "text/html"}])
def test_an_envelope_that_was_changed_is_refused(change: dict[str, object]) -> None:
    """Payload and type are both signed. It tells a forged signature from a stranger's by the name that it bears."""
    envelope = replace(sign_envelope("text/plain", b"payload", ATTESTOR), **change)  # type: ignore[arg-type]  # fields by name
    with pytest.raises(WrongSignature):
        verify_envelope(envelope, [ATTESTOR.verifier])
    nameless = replace(envelope, signatures=(EnvelopeSignature(envelope.signatures[0].signature),))
    for verifiers in ([ATTESTOR.verifier], [], [AttestorKey(seed("other")).verifier]):
        with pytest.raises(WrongKey):
            verify_envelope(nameless, verifiers)


def test_our_own_envelope() -> None:
    """The committed envelope is accepted, byte for byte."""
    envelope = Envelope.parse(VECTORS["dsse"]["envelope"].encode())
    assert verify_envelope(envelope, [AttestorVerifier(ATTESTOR.verifier.public)]) == (ATTESTOR.verifier,)
    assert envelope.serialize().decode() == VECTORS["dsse"]["envelope"]


def test_a_point_that_is_no_key() -> None:
    """Thirty-two bytes that are no public key, or that a hostile file trusts, sign nothing."""
    for public in (bytes(32), b"\xff" * 32, b"\x01" + bytes(31)):
        with pytest.raises(EvidenceError):
            AttestorVerifier(public).verify(b"message", bytes(64))
