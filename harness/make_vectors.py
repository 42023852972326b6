"""Make the small vectors of our own, tests/unit/vectors/evidence.json: `python -m harness.make_vectors`.

They are the same each time: keys are made from words, times are fixed, and Ed25519 signs without randomness. Two programs that
are not ours check them, in tests/unit/test_evidence_foreign.py. Whoever writes a verifier can test it with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from interlock.domain.records import leaf_hash, record, state_digest
from interlock.evidence.checkpoints import Checkpoint, Origin
from interlock.evidence.dsse import pae, sign_envelope
from interlock.evidence.encoding import to_base64
from interlock.evidence.merkle import root_of
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import Group, Log, Policy, Witness
from interlock.evidence.proving import consistency_proof, inclusion_proof
from interlock.evidence.signing import AttestorKey, NoteKey
from interlock.evidence.statements import PAYLOAD_TYPE, Statement, Subject
from interlock.evidence.tiles import Tile, TileNodes, encode_bundle, grown_tiles
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.vkeys import KeyType

PATH = Path(__file__).resolve().parents[1] / "tests" / "unit" / "vectors" / "evidence.json"
ENTRIES = 300
SIZES = (1, 2, 7, 8, 256, 257, 300)
COSIGNED_AT_S = 1_700_000_000
ORIGIN = str(Origin("acme.example/interlock/test", 1))
JOURNAL = "urn:uuid:00000000-0000-4000-8000-000000000001"


def main() -> None:
    """Write the file."""
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(json.dumps(build(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {PATH.name}: {PATH.stat().st_size} bytes")


def seed(word: str) -> bytes:
    """Return a secret that is none: everybody can make it from its word."""
    return hashlib.sha256(f"interlock test key: {word}".encode()).digest()


LOG = NoteKey(ORIGIN, KeyType.ED25519, seed("log"))
WITNESSES = tuple(NoteKey(f"witness.example/w{n}", KeyType.COSIGNATURE_V1, seed(f"witness {n}")) for n in (1, 2, 3))
ATTESTOR = AttestorKey(seed("attestor"))


def build() -> dict[str, Any]:
    """Return the vectors."""
    entries = _entries()
    leaves = [leaf_hash(entry) for entry in entries]
    tiles = dict(grown_tiles(0, leaves, lambda _: b""))
    nodes = TileNodes(len(leaves), lambda tile: tiles[_stored(tile, len(leaves))])
    checkpoints = {size: _checkpoint(leaves[:size]) for size in SIZES}
    bundles = {Tile(None, at // 256, len(part)): part for at in range(0, ENTRIES, 256) if (part := entries[at : at + 256])}
    return {
        "about": "Vectors of interlock's own; made by harness/make_vectors.py from fixed words. Every key here is public.",
        "keys": _keys(),
        "policy": _policy().serialize().decode(),
        "entries": [entry.decode() for entry in entries[:8]],
        "leaf_hashes": [leaf.hex() for leaf in leaves[:8]],
        "roots": {size: root_of(leaves[:size]).hex() for size in SIZES},
        "checkpoints": {size: note.serialize().decode() for size, note in checkpoints.items()},
        "inclusion": [
            {"index": index, "size": size, "leaf": leaves[index].hex(), "proof": _hex(inclusion_proof(index, size, nodes))}
            for size in SIZES
            for index in sorted({0, size // 2, size - 1})
        ],
        "consistency": [
            {"old_size": old, "size": size, "proof": _hex(consistency_proof(old, size, nodes))}
            for size in SIZES
            for old in SIZES
            if old <= size
        ],
        "tiles": {tile.path: hashlib.sha256(data).hexdigest() for tile, data in tiles.items()},
        "bundles": {tile.path: hashlib.sha256(encode_bundle(part)).hexdigest() for tile, part in bundles.items()},
        "tlog_proof": TlogProof(5, inclusion_proof(5, ENTRIES, nodes), checkpoints[ENTRIES].serialize().decode())
        .serialize()
        .decode(),
        "dsse": _dsse(entries[:4]),
    }


def _entries() -> list[bytes]:
    """Return records as a journal writes them: of two actions in turn, each with its chain."""
    heads: dict[int, bytes] = {}
    entries = []
    for number in range(ENTRIES):
        action, version = number % 2, number // 2 + 1
        entry = record(
            log=JOURNAL,
            aggregate_id=UUID(int=action + 1),
            version=version,
            topic="interlock.action.intended" if version == 1 else "interlock.action.claimed",
            state=state_digest(b"state %d" % number),
            prev=heads.get(action),
        )
        heads[action] = leaf_hash(entry)
        entries.append(entry)
    return entries


def _checkpoint(leaves: list[bytes]) -> SignedNote:
    checkpoint = Checkpoint(ORIGIN, len(leaves), root_of(leaves))
    cosignatures = [witness.cosign(checkpoint, at_s=COSIGNED_AT_S + len(leaves)) for witness in WITNESSES[:2]]
    return SignedNote(checkpoint.text, (LOG.sign(checkpoint.text), *cosignatures))


def _policy() -> Policy:
    witnesses = tuple(Witness(f"w{number}", key.key) for number, key in enumerate(WITNESSES, start=1))
    return Policy((Log(LOG.key),), witnesses, (Group("two", 2, ("w1", "w2", "w3")),), "two")


def _keys() -> dict[str, Any]:
    return {
        "seeds": "SHA-256 of `interlock test key: ` and the word: log, witness 1, witness 2, witness 3, attestor",
        "log": str(LOG.key),
        "witnesses": [str(key.key) for key in WITNESSES],
        "attestor": {"spki": to_base64(ATTESTOR.verifier.spki), "keyid": ATTESTOR.keyid},
    }


def _dsse(entries: list[bytes]) -> dict[str, Any]:
    chain = b"".join(entry + b"\n" for entry in entries)
    statement = Statement(
        (Subject("chain.jsonl", {"sha256": hashlib.sha256(chain).hexdigest()}),),
        "https://interlock.example/receipt/test/v1",
        {"status": "COMMITTED", "words": "20,00 € erstattet", "as_of": {"size": ENTRIES, "last_n": 2}},
    )
    envelope = sign_envelope(PAYLOAD_TYPE, statement.serialize(), ATTESTOR)
    return {
        "chain": chain.decode(),
        "envelope": envelope.serialize().decode(),
        "pae_sha256": hashlib.sha256(pae(envelope.payload_type, envelope.payload)).hexdigest(),
    }


def _stored(tile: Tile, size: int) -> Tile:
    full = (size >> 8 * (tile.level or 0)) - 256 * tile.index
    return Tile(tile.level, tile.index, min(256, full))


def _hex(hashes: Iterable[bytes]) -> list[str]:
    return [value.hex() for value in hashes]


if __name__ == "__main__":
    main()
