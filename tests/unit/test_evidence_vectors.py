"""Other projects' test data: what their programs accept, ours does, and what they refuse."""

from __future__ import annotations

import base64
import itertools
import json
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from interlock.domain.records import leaf_hash
from interlock.errors import EvidenceError, InconsistentEvidence, MalformedEvidence, WrongKey, WrongSignature
from interlock.evidence.acceptance import accept_checkpoint, accept_proof
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.dsse import Envelope, pae, verify_envelope
from interlock.evidence.merkle import (
    EMPTY_ROOT,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.policies import Log, Policy
from interlock.evidence.signing import NoteKey, verifier_of
from interlock.evidence.statements import Statement
from interlock.evidence.strict_json import read_json
from interlock.evidence.tiles import Tile, TileNodes, decode_bundle, encode_bundle, grown_tiles, tiles_of
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.vkeys import KeyType, VerifierKey, key_id
from tests.evidence_vectors import each_case, hashes, unbase64, vectors

DUMMY_ROOTS = "the roots of this case are no hashes, only equal words; what is not 32 bytes long is refused here"


def _file(case: dict[str, Any]) -> str:
    return str(case["file"]).removeprefix("testdata/").removesuffix(".json")


def _name(case: dict[str, Any]) -> str:
    return str(case["name"]).replace(" ", "-")


def _is_subtree(case: dict[str, Any]) -> bool:
    start, end = int(case["start"]), int(case["end"])
    return start < end and start % (1 << (end - start - 1).bit_length()) == 0


# Trees


def test_the_tree_of_certificate_transparency() -> None:
    """Hashes of leaves, of nodes, of the empty tree, and of the trees over the first leaves are those of RFC 6962's own tests."""
    data = vectors("rfc6962_tree.json")
    leaves = [leaf_hash(bytes.fromhex(entry)) for entry in data["leaf_inputs_hex"]]
    roots = [root_of(leaves[:size]).hex() for size in range(len(leaves) + 1)]
    assert roots == data["root_hashes_by_size_hex"]
    for op in data["hasher"]:
        parts = [op[name].encode() for name in ("data_utf8", "left_utf8", "right_utf8") if name in op]
        made: dict[str, Callable[..., bytes]] = {"empty_root": lambda: EMPTY_ROOT, "leaf": leaf_hash, "node": node_hash}
        assert made[op["op"]](*parts).hex() == op["want"]


@each_case("merkle_inclusion.json", key=_file)
def test_inclusion(case: dict[str, Any]) -> None:
    """Proofs of inclusion: 6 that hold, 92 that must be refused."""
    arguments = unbase64(case["leafHash"]), hashes(case["proof"]), unbase64(case["root"])
    _check(case["wantErr"], lambda: verify_inclusion(case["leafIdx"], case["treeSize"], *arguments))


@each_case("merkle_subtreeinclusion.json", key=_file, only=_is_subtree)
def test_inclusion_in_a_subtree(case: dict[str, Any]) -> None:
    """A proof of inclusion in a subtree is one in a tree of that width, wherever the subtree stands."""
    arguments = unbase64(case["leafHash"]), hashes(case["proof"]), unbase64(case["root"])
    index, size = case["leafIdx"] - case["start"], case["end"] - case["start"]
    _check(case["wantErr"], lambda: verify_inclusion(index, size, *arguments))


@each_case(
    "merkle_consistency.json", key=_file, skipped={"consistency/additional/sizes-are-equal-one-and-proof-is-empty": DUMMY_ROOTS}
)
def test_consistency(case: dict[str, Any]) -> None:
    """Proofs of consistency: 6 that hold, 92 that must be refused. One of those that hold is skipped by its name."""
    arguments = unbase64(case["root1"]), unbase64(case["root2"]), hashes(case["proof"])
    _check(case["wantErr"], lambda: verify_consistency(case["size1"], case["size2"], *arguments))


@each_case(
    "merkle_subtreeconsistency.json",
    key=_file,
    only=lambda case: case["start"] == 0 and case["end"] > 0,
    skipped={"subtreeconsistency/additional/sizes-are-equal-one-and-proof-is-empty": DUMMY_ROOTS},
)
def test_consistency_of_a_subtree_that_begins_at_0(case: dict[str, Any]) -> None:
    """Such a subtree is an older tree. Of others nothing is proven here, so their cases are left out."""
    arguments = unbase64(case["root1"]), unbase64(case["root2"]), hashes(case["proof"])
    _check(case["wantErr"], lambda: verify_consistency(case["end"], case["size"], *arguments))


# Tiles


def test_a_log_in_tiles() -> None:
    """Tessera's log, checkpoint by checkpoint: its entries lead to its tiles, its tiles to its roots, and its key signed them."""
    data = vectors("tessera_tiled_log.json")
    files = {path: unbase64(text) for path, text in data["files_base64"].items()}
    verifier = verifier_of(VerifierKey.parse(data["vkey"]))
    entries = [entry.encode() for entry in data["entries_utf8_in_order"]]
    leaves = [leaf_hash(entry) for entry in entries]
    seen = set()
    for size in range(len(entries) + 1):
        note = SignedNote.parse(files[f"checkpoint.{size}"])
        assert [signed.key for signed in verify_note(note, [verifier])] == [verifier.key]
        checkpoint = Checkpoint.parse(note.text)
        assert (checkpoint.size, checkpoint.root) == (size, root_of(leaves[:size]))
        for tile in tiles_of(size):
            assert dict(grown_tiles(size - 1, leaves[size - 1 : size], lambda tile: files[tile.path]))[tile] == files[tile.path]
            bundle = Tile(None, tile.index, tile.width)
            assert decode_bundle(bundle, files[bundle.path]) == tuple(entries[:size])
            assert encode_bundle(entries[:size]) == files[bundle.path]
            seen |= {tile.path, bundle.path}
        nodes = TileNodes(size, lambda tile: files[tile.path])
        assert [nodes.node(0, index) for index in range(size)] == leaves[:size]
    assert {path for path in files if path.startswith("tile/")} == seen
    assert all(Tile.parse(path).path == path for path in seen)


# Notes and checkpoints


@each_case("signed_note.json", key=_name)
def test_signed_notes(case: dict[str, Any]) -> None:
    """Signed notes of C2SP and of Go's own tests, with the keys that are trusted for each."""
    verifiers = [verifier_of(VerifierKey.parse(vkey)) for vkey in case["vkeys"]]
    if case["want"] == "reject":
        with pytest.raises(EvidenceError):
            verify_note(SignedNote.parse(case["note"].encode()), verifiers)
        return
    note = SignedNote.parse(case["note"].encode())
    names = [signed.key.name for signed in verify_note(note, verifiers)]
    assert names == case.get("verified", [verifier.key.name for verifier in verifiers])
    assert note.serialize() == case["note"].encode()


def test_verifier_keys() -> None:
    """Verifier keys that are well written are read, others refused; a secret key leads to its own."""
    keys = vectors("signed_note.json")["vkeys"]
    assert [str(VerifierKey.parse(vkey)) for vkey in keys["good"]] == keys["good"]
    for bad in keys["bad"]:
        with pytest.raises(MalformedEvidence):
            VerifierKey.parse(bad["vkey"])
    pair = keys["skey_to_vkey"]
    assert str(NoteKey.parse(pair["skey"]).key) == pair["vkey"]
    assert NoteKey.parse(pair["skey"]).to_secret_text() == pair["skey"]


@each_case("checkpoints.json", key=_name)
def test_checkpoints(case: dict[str, Any]) -> None:
    """Checkpoints of C2SP and of Go's checksum database, the latter with its real key."""
    if "body" in case:
        checkpoint = Checkpoint("go.sum database tree", 123456789012, leaf_hash(case["leaf_utf8"].encode()))
        assert checkpoint.text == case["body"]
        assert Checkpoint.parse(case["body"]) == checkpoint
        return
    note = SignedNote.parse(case["note"].encode())
    checkpoint = Checkpoint.parse(note.text)
    assert checkpoint.text == note.text
    if "vkey" in case:
        assert checkpoint.origin == case["origin_line"]
        assert verify_note(note, [verifier_of(VerifierKey.parse(case["vkey"]))])


# Proofs


@each_case("tlog_proof.json", key=_name)
def test_tlog_proofs(case: dict[str, Any]) -> None:
    """The text of a tlog-proof, well written and not."""
    if case["want"] == "reject":
        with pytest.raises(MalformedEvidence):
            TlogProof.parse(case["text"].encode())
        return
    extra = case["extra_utf8"].encode() if "extra_utf8" in case else None
    proof = TlogProof(case["index"], tuple(hashes(case["hashes"])), case["checkpoint"], extra)
    assert TlogProof.parse(case["text"].encode()) == proof
    assert proof.serialize() == case["text"].encode()


def test_the_time_of_a_cosignature() -> None:
    """A cosignature's time is read from its first eight bytes; keys of logs and witnesses are told apart."""
    data = vectors("tlog_proof.json")
    signature = NoteSignature.parse(f"\u2014 a {data['cosignature_v1_timestamp']['sig_base64']}").signature
    assert int.from_bytes(signature[:8], "big") == data["cosignature_v1_timestamp"]["unix"]
    types = {kind: VerifierKey.parse(vkey).type for kind, vkey in data["vkeys"].items()}
    assert types == {"cosignature_v1": KeyType.COSIGNATURE_V1, "ed25519": KeyType.ED25519}


def test_what_a_witness_is_sent() -> None:
    """The requests of a reference witness's test: signatures and consistency proofs are judged as it judges them."""
    data = vectors("witness_add_checkpoint.json")
    key = VerifierKey(data["log_origin"], KeyType.ED25519, bytes.fromhex(data["log_ed25519_pub_hex"]))
    policy = Policy((Log(key),), (), (), "none")
    roots: dict[int, bytes] = {}
    statuses = [_add_checkpoint(step["body"], policy, roots) for step in data["steps"]]
    assert statuses == [step["status"] for step in data["steps"]]
    assert max(roots) == data["final_size"]
    secret = bytes.fromhex(data["witness_ed25519_private_hex(seed||pub)"])
    witness = NoteKey(data["witness_name"], KeyType.COSIGNATURE_V1, secret[:32])
    assert witness.key.public == secret[32:]


def _add_checkpoint(body: str, policy: Policy, roots: dict[int, bytes]) -> int:
    """Answer as a witness would; that is not the subject here, so the rest of a witness is left out."""
    head, _, signed = body.partition("\n\n")
    old, *proof = head.split("\n")
    old_size, known = int(old.removeprefix("old ")), max(roots, default=0)
    try:
        checkpoint = accept_checkpoint(SignedNote.parse(signed.encode()), policy).checkpoint
        if old_size != known:
            return 409
        if old_size:
            verify_consistency(old_size, checkpoint.size, roots[old_size], checkpoint.root, hashes(proof))
    except (WrongKey, WrongSignature, MalformedEvidence):
        return 403  # one signature here differs in bits of its base64 that stand for nothing; Go reads past them, to a wrong one
    except InconsistentEvidence:
        return 422
    roots[checkpoint.size] = checkpoint.root
    return 200


# Rekor

# What is wrong with these bundles is not in the parts that are kept here: certificates and time-stamps are other formats.
WRONG_ELSEWHERE = (
    "rekor2-no-timestamp_fail",
    "rekor2-timestamp-",
    "rekor2-dsse-invalid-sig_fail",
    "rekor2-dsse-mismatch-envelope_fail",
    "rekor2-dsse-mismatch-sig_fail",
)


@each_case("rekor2_bundles.json", key=_name)
def test_bundles_of_a_public_log(case: dict[str, Any]) -> None:
    """Real entries of Rekor's logs: the entry is in the log by the log's own key, or the bundle is refused."""
    proof = case["inclusionProof"] or {}
    wanted = case["bundle_expected"] == "ok" or str(case["name"]).startswith(WRONG_ELSEWHERE)

    def verify() -> None:
        if not proof:
            raise MalformedEvidence
        text = TlogProof(int(proof["logIndex"]), tuple(hashes(proof["hashes"])), proof["checkpoint"]["envelope"])
        again = TlogProof.parse(text.serialize())
        leaf = leaf_hash(unbase64(case["canonicalizedBody_base64"]))
        accepted = accept_proof(again, leaf, _rekor_policy(case))
        assert accepted.checkpoint.size == int(proof["treeSize"])
        assert accepted.checkpoint.root == unbase64(proof["rootHash"])

    _check(not wanted, verify)


def test_real_witnesses() -> None:
    """Three witnesses that others run have cosigned a checkpoint of Rekor; take one away, and the quorum of three is missed."""
    data = vectors("rekor2_bundles.json")
    case = next(case for case in data["cases"] if case["name"] == "rekor2-dsse-happy-path")
    note = SignedNote.parse(case["inclusionProof"]["checkpoint"]["envelope"].encode())
    vkeys = data["witness_vkeys"]["vkeys"]
    lines = [f"witness w{number} {vkey}" for number, vkey in enumerate(vkeys)]
    lines += [f"log {_rekor_policy(case).logs[0].key}", "group all3 all w0 w1 w2", "quorum all3"]
    policy = Policy.parse("".join(f"{line}\n" for line in lines).encode())
    accepted = accept_checkpoint(note, policy)
    assert sorted(accepted.witnesses) == ["w0", "w1", "w2"]
    assert {1_778_700_000 < (signed.at_s or 0) < 1_778_800_000 for signed in accepted.witnesses.values()} == {True}
    fewer = SignedNote(note.text, note.signatures[:-1])
    with pytest.raises(EvidenceError, match="not reached by 2 of 3"):
        accept_checkpoint(fewer, policy)


def test_an_envelope_of_a_public_log() -> None:
    """A DSSE envelope that Rekor logged holds an in-toto statement, and the log has the digest of what was signed."""
    data = vectors("rekor2_bundles.json")
    case = next(case for case in data["cases"] if case["name"] == "rekor2-dsse-happy-path")
    envelope = Envelope.parse(json.dumps(case["dsseEnvelope"]).encode())
    assert Statement.of(envelope).subjects
    body = read_json(unbase64(case["canonicalizedBody_base64"]), "an entry")
    logged = unbase64(body["spec"]["hashedRekordV002"]["data"]["digest"])
    assert sha256(pae(envelope.payload_type, envelope.payload)).digest() == logged


def _rekor_policy(case: dict[str, Any]) -> Policy:
    origin = str(case["log_base_url"]).removeprefix("https://")
    spki = unbase64(case["log_public_key_spki_base64"])
    return Policy((Log(VerifierKey(origin, KeyType.ED25519, spki[-32:])),), (), (), "none")


# Envelopes and JSON


def test_what_an_envelope_signs() -> None:
    """The pre-authentication encoding is the published one."""
    for case in vectors("dsse.json")["pae"]:
        assert pae(case["payloadType"], case["body_utf8"].encode()) == case["pae_utf8"].encode()


def test_an_envelope_that_another_type_of_key_signed() -> None:
    """The published ECDSA envelope is accepted with a verifier that is not ours: the type of key is open."""
    data = vectors("dsse.json")["ecdsa_p256_raw_rs"]
    envelope = Envelope.parse(json.dumps(data["envelope"]).encode())
    verifier = _EcdsaP256(int(data["X"]), int(data["Y"]))
    assert verify_envelope(envelope, [verifier]) == (verifier,)
    with pytest.raises(WrongKey):
        verify_envelope(Envelope(envelope.payload_type, b"hello, world", envelope.signatures), [verifier])


@dataclass(frozen=True)
class _EcdsaP256:
    x: int
    y: int
    keyid: str = "test"

    def verify(self, message: bytes, signature: bytes) -> None:
        r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
        public = ec.EllipticCurvePublicNumbers(self.x, self.y, ec.SECP256R1()).public_key()
        try:
            public.verify(encode_dss_signature(r, s), message, ec.ECDSA(SHA256()))
        except InvalidSignature as error:
            raise WrongSignature from error


@each_case("jcs.json", key=_name)
def test_canonical_json(case: dict[str, Any]) -> None:
    """The canonicaliser that our records are held against writes what RFC 8785's author publishes, and we read it back."""
    value = json.loads(base64.b64decode(case["input_base64"]))
    canonical = base64.b64decode(case["output_base64"])
    assert rfc8785.dumps(value) == canonical
    if _holds_a_float(json.loads(canonical)):
        with pytest.raises(MalformedEvidence, match="fraction or an exponent"):
            read_json(canonical, "a vector")
    else:
        assert read_json(canonical, "a vector") == value


def _holds_a_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_a_float, value.values()))
    return any(map(_holds_a_float, value)) if isinstance(value, list) else isinstance(value, float)


def test_numbers_of_canonical_json() -> None:
    """The canonicaliser writes doubles as ECMAScript does: the first 10,000 of the published sequence have the published hash."""
    data = vectors("jcs.json")["es6_numbers"]
    lines = itertools.islice(_es6_lines(data["static_u64_hex"]), 10_000)
    assert sha256("".join(lines).encode()).hexdigest() == data["sha256_of_first_n_lines"]["10000"]


def _es6_lines(static: list[str]) -> Iterator[str]:
    for bits in itertools.chain((int(text, 16) for text in static), (0x0010000000000000 + at for at in range(2000)), _doubles()):
        (number,) = struct.unpack("<d", struct.pack("<Q", bits))
        yield f"{bits:x},{rfc8785.dumps(number).decode()}\n"


def _doubles() -> Iterator[int]:
    block = bytes(32)
    while True:
        block = sha256(block).digest()
        for bits, number in zip(struct.unpack("<4Q", block), struct.unpack("<4d", block), strict=True):
            if number != 0 and math.isfinite(number):
                yield bits


def test_keys_of_a_signature_line_are_named_as_published() -> None:
    """The id of a key is made from its name, its type and itself."""
    (vkey,) = vectors("signed_note.json")["cases"][0]["vkeys"]
    key = VerifierKey.parse(vkey)
    assert key_id(key.name, key.type, key.public).hex() == "530d903a" != key_id(key.name, 4, key.public).hex()


def _check(refused: object, verify: Callable[[], object]) -> None:
    if refused:
        with pytest.raises(EvidenceError):
            verify()
    else:
        verify()
