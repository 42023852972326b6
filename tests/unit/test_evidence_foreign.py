"""Two programs that are not ours agree with us: Go's golang.org/x/mod (note, tlog), and openssl with sha256sum.

Where one is not installed its tests are skipped, and say what to install.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness import make_vectors
from interlock.domain.records import leaf_hash
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.dsse import Envelope, pae
from interlock.evidence.encoding import to_base64
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import SignedNote, verify_note
from interlock.evidence.proving import consistency_proof, inclusion_proof
from interlock.evidence.signing import NoteKey, verifier_of
from interlock.evidence.tiles import Tile, TileNodes, grown_tiles
from interlock.evidence.vkeys import KeyType, VerifierKey
from tests.evidence_vectors import OWN, own, unbase64
from tests.foreign_programs import Ask, Shell, build_xmod, shell_in

VECTORS = own()
NO_TILES: dict[Tile, bytes] = {}


def test_the_committed_vectors_are_what_the_script_makes() -> None:
    """Nothing in them depends on the day or the machine."""
    assert json.loads(json.dumps(make_vectors.build())) == json.loads(OWN.read_text(encoding="utf-8"))


# Go


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Build the Go program, and return what asks it."""
    return build_xmod(tmp_path_factory.mktemp("xmod"))


def test_go_reads_our_checkpoints(ask: Ask) -> None:
    """Every committed checkpoint opens with the log's key, and none does after a change, or with another key."""
    vkey, other = VECTORS["keys"]["log"], str(NoteKey("x", KeyType.ED25519, bytes(32)).key)
    notes = list(VECTORS["checkpoints"].values())
    changed = [note.replace("\n3", "\n4", 1) if "\n3" in note else note.replace("acme", "acne", 1) for note in notes]
    answer = ask(
        {
            "notes": [
                {"vkey": key, "note": note} for key, batch in ((vkey, notes), (vkey, changed), (other, notes)) for note in batch
            ]
        }
    )
    good, bad, strange = (answer["notes"][at : at + len(notes)] for at in range(0, 3 * len(notes), len(notes)))
    assert good == [SignedNote.parse(note.encode()).text for note in notes]
    assert all(words.startswith("refused: ") for words in bad + strange)


def test_go_checks_our_proofs(ask: Ask) -> None:
    """Every committed proof of inclusion and of consistency is accepted, and none is after a bit was turned."""
    inclusion = [_inclusion(case) for case in VECTORS["inclusion"]]
    consistency = [_consistency(case) for case in VECTORS["consistency"]]
    answer = ask({"inclusion": inclusion, "consistency": consistency})
    assert set(answer["inclusion"] + answer["consistency"]) == {""}
    assert (len(answer["inclusion"]), len(answer["consistency"])) == (len(inclusion), len(consistency))
    answer = ask(
        {
            "inclusion": [case | {"leaf": _turned(case["leaf"])} for case in inclusion],
            "consistency": [case | {"root": _turned(case["root"])} for case in consistency],
        }
    )
    assert "" not in answer["inclusion"] + answer["consistency"]


def test_go_makes_the_same_trees(ask: Ask) -> None:
    """For every tree up to 64 leaves Go's root, and all of its proofs, are ours."""
    leaves = [leaf_hash(b"entry %d" % number) for number in range(64)]
    answer = ask({"leaves": [to_base64(leaf) for leaf in leaves]})
    nodes = TileNodes(64, dict(grown_tiles(0, leaves, NO_TILES.__getitem__)).__getitem__)
    assert [unbase64(root) for root in answer["roots"]] == [root_of(leaves[:size]) for size in range(1, 65)]
    for size in range(1, 65):
        for index in range(size):
            proof = tuple(map(unbase64, answer["records"][f"[{index},{size}]"] or []))
            assert proof == inclusion_proof(index, size, nodes)
            older = tuple(map(unbase64, answer["trees"][f"[{index + 1},{size}]"] or []))
            assert older == consistency_proof(index + 1, size, nodes)


def test_go_cuts_the_same_tiles(ask: Ask) -> None:
    """A log that grows in steps past three levels: each tile that we write is one of Go's, and no full one of Go's is missing."""
    steps = [1, 254, 1, 1, 255, 1000, 64_100]
    size = sum(steps)
    leaves = [leaf_hash(f"[{number},{size}]".encode()) for number in range(size)]
    answer = ask({"steps": steps})
    store: dict[Tile, bytes] = {}
    size = 0
    for step, theirs in zip(steps, answer["tiles"], strict=True):
        new = dict(grown_tiles(size, leaves[size : size + step], store.__getitem__))
        assert {tile.path: to_base64(leaf_hash(data)) for tile, data in new.items()}.items() <= theirs.items()
        assert {path for path in theirs if ".p/" not in path} <= {tile.path for tile in new}
        store |= new
        size += step
    assert {tile.level for tile in store} == {0, 1, 2}


def test_we_read_what_go_signs(ask: Ask) -> None:
    """A checkpoint that Go signed with a secret key of ours is the very note that we sign."""
    text = Checkpoint(make_vectors.ORIGIN, 7, bytes(32)).text
    answer = ask({"sign": [{"secret": make_vectors.LOG.to_secret_text(), "text": text}]})
    note = SignedNote.parse(answer["signed"][0].encode())
    assert note == SignedNote(text, (make_vectors.LOG.sign(text),))
    assert verify_note(note, [verifier_of(VerifierKey.parse(VECTORS["keys"]["log"]))])


def _inclusion(case: dict[str, Any]) -> dict[str, Any]:
    root = Checkpoint.parse(SignedNote.parse(VECTORS["checkpoints"][str(case["size"])].encode()).text).root
    return {
        "index": case["index"],
        "size": case["size"],
        "leaf": _base64(case["leaf"]),
        "root": to_base64(root),
        "proof": _all(case),
    }


def _consistency(case: dict[str, Any]) -> dict[str, Any]:
    roots = VECTORS["roots"]
    old, new = str(case["old_size"]), str(case["size"])
    sizes = {"old_size": case["old_size"], "size": case["size"]}
    return {**sizes, "oldRoot": _base64(roots[old]), "root": _base64(roots[new]), "proof": _all(case)}


def _all(case: dict[str, Any]) -> list[str]:
    return [_base64(value) for value in case["proof"]]


def _base64(hexadecimal: str) -> str:
    return to_base64(bytes.fromhex(hexadecimal))


def _turned(hash_text: str) -> str:
    data = bytearray(unbase64(hash_text))
    data[-1] ^= 1
    return to_base64(bytes(data))


# openssl and sha256sum


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Return what runs a command in a folder of its own."""
    return shell_in(tmp_path, "openssl", "sha256sum")


def _sha256sum(shell: Shell, data: bytes) -> str:
    return shell("sha256sum", stdin=data).stdout.decode().split()[0]


def test_sha256sum_makes_our_hashes(shell: Shell) -> None:
    """The leaf hash of an entry is that of a zero byte and the entry, the subject's digest that of the chain's file."""
    for entry, leaf in zip(VECTORS["entries"], VECTORS["leaf_hashes"], strict=True):
        assert _sha256sum(shell, b"\0" + entry.encode()) == leaf
    envelope = Envelope.parse(VECTORS["dsse"]["envelope"].encode())
    subject = json.loads(envelope.payload)["subject"][0]
    assert _sha256sum(shell, VECTORS["dsse"]["chain"].encode()) == subject["digest"]["sha256"]
    assert _sha256sum(shell, pae(envelope.payload_type, envelope.payload)) == VECTORS["dsse"]["pae_sha256"]
    spki = unbase64(VECTORS["keys"]["attestor"]["spki"])
    assert _sha256sum(shell, spki) == VECTORS["keys"]["attestor"]["keyid"]


def test_openssl_verifies_our_envelope(shell: Shell, tmp_path: Path) -> None:
    """With the public key alone; and not after one byte of what was signed, or of the signature, was changed."""
    envelope = Envelope.parse(VECTORS["dsse"]["envelope"].encode())
    message, signature = pae(envelope.payload_type, envelope.payload), envelope.signatures[0].signature
    (tmp_path / "key.der").write_bytes(unbase64(VECTORS["keys"]["attestor"]["spki"]))
    good = _openssl_verifies(shell, tmp_path, message, signature)
    assert (good.returncode, good.stdout) == (0, b"Signature Verified Successfully\n")
    for wrong in ((message[:-1] + b"]", signature), (message, signature[:-1] + bytes([signature[-1] ^ 1]))):
        assert _openssl_verifies(shell, tmp_path, *wrong).returncode == 1


def test_openssl_verifies_a_checkpoint(shell: Shell, tmp_path: Path) -> None:
    """A log's signature is over the text of the note, after the four bytes of the key's id; a witness's has the time in front."""
    note = SignedNote.parse(VECTORS["checkpoints"]["8"].encode())
    keys = [key.key.public for key in (make_vectors.LOG, make_vectors.WITNESSES[0])]
    at_s = make_vectors.COSIGNED_AT_S + 8
    messages = [note.text.encode(), f"cosignature/v1\ntime {at_s}\n{note.text}".encode()]
    signatures = [note.signatures[0].signature, note.signatures[1].signature[8:]]
    prefix = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: an Ed25519 key, and 32 bytes follow
    for public, message, signature in zip(keys, messages, signatures, strict=True):
        (tmp_path / "key.der").write_bytes(prefix + public)
        assert _openssl_verifies(shell, tmp_path, message, signature).returncode == 0
        assert _openssl_verifies(shell, tmp_path, message + b"\n", signature).returncode == 1


def _openssl_verifies(shell: Shell, folder: Path, message: bytes, signature: bytes) -> subprocess.CompletedProcess[bytes]:
    (folder / "message").write_bytes(message)
    (folder / "signature").write_bytes(signature)
    options = ["-pubin", "-keyform", "DER", "-inkey", "key.der", "-rawin", "-in", "message", "-sigfile", "signature"]
    return shell("openssl", "pkeyutl", "-verify", *options)
