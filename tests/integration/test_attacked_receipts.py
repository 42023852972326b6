"""Receipts around an attack and around an erasure: what was handed out before stands, and what comes after says what it is."""

from __future__ import annotations

import pytest

from harness.attacks.catalogue import edit_commit
from harness.attacks.hands import FileHands, rewrite
from harness.attacks.scene import Scene, pay
from interlock import Gate, Receipts
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.findings import FindingKind, ReceiptVerification, StateCheck, Verdict
from interlock.evidence.policies import Policy
from interlock.evidence.signing import AttestorKey
from interlock.evidence.verifying import Trust, verify_receipt
from interlock.keyfiles import Role, create_key, read_attestor_key


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Return a journal whose log is signed, and that a monitor and two witnesses have seen."""
    folder = tmp_path_factory.mktemp("scene")
    return Scene(FileHands(folder / "journal.db"), folder)


@pytest.fixture(scope="module")
def attestor(scene: Scene) -> AttestorKey:
    """Return the key that signs receipts."""
    return read_attestor_key(create_key(Role.ATTESTOR, scene.folder / "keys").path)


def exported(scene: Scene, attestor: AttestorKey, key: str) -> bytes:
    """Return the receipt of an action as a file."""
    with Receipts.open(scene.hands.url) as reader:
        return reader.export_receipt(key, attestor=attestor).serialize()


def verified(data: bytes, attestor: AttestorKey, policy: Policy) -> ReceiptVerification:
    """Check a receipt."""
    return verify_receipt(data, Trust(policy, Attestors((Attestor(attestor.verifier),))))


def test_around_a_forged_history(scene: Scene, attestor: AttestorKey) -> None:
    """A receipt from before verifies as ever; one that the key holder issues afterwards gets no quorum of witnesses."""
    genuine = exported(scene, attestor, "pay:anna")
    assert verified(genuine, attestor, scene.policy).verdict is Verdict.OK
    with scene.attack():
        rewrite(scene.hands, edit_commit(scene.hands.rows(), 0))
        scene.hands.forget_log()
        scene.sign(scene.forged_mark())
        forged = exported(scene, attestor, "pay:anna")
    assert verified(genuine, attestor, scene.policy).verdict is Verdict.OK
    assert verified(forged, attestor, scene.policy).verdict is Verdict.OK, "whoever trusts the log's key alone is deceived"
    found = verified(forged, attestor, scene.strict_policy)
    assert found.verdict is Verdict.UNVERIFIABLE
    assert FindingKind.WITNESSES in {finding.kind for finding in found.findings if finding.verdict is Verdict.UNVERIFIABLE}


def test_around_an_erasure(scene: Scene, attestor: AttestorKey) -> None:
    """The receipt of an erased action says redacted, verifies, and tells nothing of it; so does one under an erased approval."""
    before = exported(scene, attestor, "pay:anna")
    with scene.attack():
        with Gate.open(scene.hands.url, targets=[pay]) as gate:
            gate.erase("pay:anna", reason="subject_request", by="user:19")
            gate.erase_approval("case-bert", reason="subject_request", by="user:19")
        scene.sign()
        erased, under = (exported(scene, attestor, key) for key in ("pay:anna", "pay:bert"))
        assert (scene.check_self(), scene.look(), scene.ask(scene.witness_keys[0])) == ("silent", "silent", "200")
    assert b"anna" in before
    assert b"anna" not in erased
    assert b"case-bert" in under, "the action itself still names it"
    for data, hidden in ((erased, 4), (under, 3)):
        found = verified(data, attestor, scene.policy)
        assert found.verdict is Verdict.OK
        assert [event.state for event in found.events].count(StateCheck.REDACTED) == hidden
    assert verified(before, attestor, scene.policy).verdict is Verdict.OK, "who had it before can still show it"
