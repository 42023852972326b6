"""What checks a receipt without us: a program written from the documentation, openssl with sha256sum, and Go's x/mod."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from interlock.evidence.bundles import Bundle
from interlock.evidence.encoding import to_base64
from interlock.evidence.records import Record
from interlock.evidence.signing import AttestorKey
from interlock.evidence.tlog_proofs import TlogProof
from tests.foreign_programs import Ask, Shell, build_xmod, shell_in
from tests.receipt_lab import KEYS, LAB, Forgery, exported, now_s, one_of_each

BY_HAND = Path(__file__).resolve().parents[2] / "docs" / "verify_by_hand.py"


@dataclass(frozen=True)
class Handed:
    """What an auditor has been handed: receipts, the policy and the attestors."""

    folder: Path
    receipts: dict[str, Bundle]
    at_s: int

    def by_hand(self, receipt: bytes, attestors: str = "attestors.json") -> subprocess.CompletedProcess[str]:
        """Run the program of the documentation, without our package within reach."""
        (self.folder / "receipt").write_bytes(receipt)
        command = [sys.executable, "-I", str(BY_HAND), "receipt", "policy", attestors]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handed]:
    """The receipt of each status."""
    folder = tmp_path_factory.mktemp("handed")
    (folder / "policy").write_bytes(LAB.policy.serialize())
    (folder / "attestors.json").write_bytes(LAB.attestors.serialize())
    with one_of_each(folder / "journal.db") as stage:
        yield Handed(folder, {key: exported(stage, key) for key in KEYS}, now_s(stage))


# --- a program written from the documentation


def test_it_has_fewer_lines_than_anybody_can_object_to() -> None:
    """Under 120, and nothing of ours."""
    text = BY_HAND.read_text(encoding="utf-8")
    assert text.count("\n") < 120
    assert not re.search(r"^\s*(?:import|from) interlock", text, re.MULTILINE)


@pytest.mark.parametrize("key", KEYS)
def test_it_accepts_what_we_accept(handed: Handed, key: str) -> None:
    """And says what the receipt says."""
    done = handed.by_hand(handed.receipts[key].serialize())
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{json.loads(handed.receipts[key].envelope.payload)['predicate']['status']}, happened: ")


def test_it_accepts_what_is_withheld(handed: Handed) -> None:
    """A state that is not there is bound by its digest all the same."""
    fields = json.loads(handed.receipts["committed"].serialize())
    fields["states"] = [None] * len(fields["states"])
    assert handed.by_hand(json.dumps(fields).encode()).returncode == 0


@pytest.mark.parametrize("part", ["records", "states", "proofs", "version", "envelope", "attestors", "policy", "order"])
def test_it_refuses_what_we_refuse(handed: Handed, part: str) -> None:
    """A byte of any part, a key that nobody trusts, a log that nobody knows, an order that no gate writes."""
    honest, attestors = handed.receipts["committed"], "attestors.json"
    fields = json.loads(honest.serialize())
    match part:
        case "envelope":
            fields["envelope"]["payload"] = to_base64(honest.envelope.payload.replace(b'"happened":"yes"', b'"happened":"no "'))
        case "attestors":
            attestors = "others.json"
            other = AttestorKey(bytes([77]) * 32).verifier
            text = LAB.attestors.serialize().decode().replace(to_base64(LAB.attestor.verifier.spki), to_base64(other.spki))
            (handed.folder / attestors).write_text(text, encoding="utf-8")
        case "policy":
            fields["proofs"] = [proof.replace("acme.example", "acne.example") for proof in fields["proofs"]]
        case "proofs":
            fields["proofs"][1:3] = reversed(fields["proofs"][1:3])
        case "version":
            fields["proofs"][1] = fields["proofs"][1].replace("@v1", "@v2", 1)
        case "order":
            forgery = Forgery.of(LAB, honest, handed.at_s)
            swapped = [forgery.action[at] for at in (0, 1, 3, 2)]
            fields = json.loads(forgery.with_events("action", swapped).made().serialize())
        case _:
            fields[part][1] = fields[part][1].replace("1", "2", 1)
    done = handed.by_hand(json.dumps(fields).encode(), attestors)
    assert done.returncode == 1, done.stdout


# --- openssl and sha256sum, on the files of `--split`


@pytest.fixture
def split(handed: Handed, tmp_path: Path) -> Path:
    """The parts of a receipt as files."""
    for name, data in handed.receipts["committed"].split().items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "attestor.der").write_bytes(LAB.attestor.verifier.spki)
    return tmp_path


@pytest.fixture
def shell(split: Path) -> Shell:
    """What runs a command among these files."""
    return shell_in(split, "openssl", "sha256sum")


OPENSSL = ("openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "attestor.der", "-rawin", "-in", "pae.bin")


def test_openssl_verifies_the_signature(shell: Shell, split: Path) -> None:
    """Over the envelope's type and payload, as they are; and not after one byte was changed."""
    assert shell(*OPENSSL, "-sigfile", "signature-1.bin").stdout == b"Signature Verified Successfully\n"
    (split / "pae.bin").write_bytes((split / "pae.bin").read_bytes().replace(b"COMMITTED", b"COMMITTEE"))
    assert shell(*OPENSSL, "-sigfile", "signature-1.bin").returncode == 1


def test_sha256sum_finds_the_chain_and_the_states(shell: Shell, split: Path) -> None:
    """The chain's digest is the statement's subject, each state's is in its record, and records are what is linked."""
    (subject,) = json.loads((split / "statement.json").read_text())["subject"]
    assert shell("sha256sum", subject["name"]).stdout.decode().split()[0] == subject["digest"]["sha256"]
    lines = (split / subject["name"]).read_text().splitlines()
    for at, line in enumerate(lines, 1):
        assert (split / f"record-{at:03}.json").read_text() == line
        digest = shell("sha256sum", f"state-{at:03}.json").stdout.decode().split()[0]
        assert json.loads(line)["state"] == f"sha256:{digest}"
    for line, after in pairwise(lines):
        leaf = shell("sha256sum", stdin=b"\0" + line.encode()).stdout.decode().split()[0]
        assert json.loads(after)["prev"] in ("genesis", f"sha256:{leaf}")


# --- Go's x/mod


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """What asks the program in tests/foreign/xmod."""
    return build_xmod(tmp_path_factory.mktemp("xmod"))


def test_go_checks_the_checkpoint_and_every_proof(handed: Handed, ask: Ask) -> None:
    """Of receipts as they are handed over; and none of a record that was changed."""
    bundle = handed.receipts["committed"]
    proofs = [TlogProof.parse((proof or "").encode()) for proof in bundle.proofs]
    leaves = [Record.parse(record.encode()).leaf for record in bundle.records]
    opened = ask({"notes": [{"vkey": str(LAB.log_key.key), "note": proofs[0].checkpoint}]})["notes"][0]
    _, size, root, _ = opened.split("\n")
    questions = [
        {
            "index": proof.index,
            "size": int(size),
            "leaf": to_base64(leaf),
            "root": root,
            "proof": [to_base64(one) for one in proof.hashes],
        }
        for proof, leaf in zip(proofs, leaves, strict=True)
    ]
    assert set(ask({"inclusion": questions})["inclusion"]) == {""}
    changed = [{**one, "leaf": to_base64(bytes(32))} for one in questions]
    assert "" not in ask({"inclusion": changed})["inclusion"]
