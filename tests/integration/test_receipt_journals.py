"""Receipts from both kinds of journal, under the checkpoints of a real log."""

from __future__ import annotations

from uuid import UUID

from interlock import Receipts
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.findings import FindingKind, Verdict
from interlock.evidence.policies import NO_WITNESSES, Log, Policy
from interlock.evidence.signing import AttestorKey
from interlock.evidence.verifying import Trust, verify_receipt
from interlock.evidence.vkeys import VerifierKey
from tests.log_stage import Stage

ATTESTOR = AttestorKey(bytes([2]) * 32)


def test_a_receipt_is_pending_until_a_checkpoint_covers_it(stage: Stage) -> None:
    """On PostgreSQL also before its events have a position; then it verifies, with every index that the log gave."""
    stage.write("first")
    writer = stage.service().writer
    assert writer is not None
    writer.checkpoint()
    stage.write("second")
    with Receipts.open(stage.url) as reader:
        state = reader.log().state()
        assert state is not None
        policy = Policy(tuple(Log(VerifierKey.parse(vkey)) for vkey in state.vkeys), (), (), NO_WITNESSES)
        trust = Trust(policy, Attestors((Attestor(ATTESTOR.verifier),)))
        early = verify_receipt(reader.export_receipt("pay:second", attestor=ATTESTOR).serialize(), trust)
        assert early.verdict is Verdict.UNVERIFIABLE
        assert {event.index for event in early.events} == {None}
        assert [one.kind for one in early.findings if one.verdict is Verdict.UNVERIFIABLE] == [FindingKind.INCLUSION]
        writer.checkpoint()
        for name in ("first", "second"):
            found = verify_receipt(reader.export_receipt(f"pay:{name}", attestor=ATTESTOR, policy=policy).serialize(), trust)
            assert found.verdict is Verdict.OK, found.findings
            assert found.claim is not None
            ids = {"action": UUID(found.claim.action), "approval": UUID(found.claim.approval or "")}
            assert [event.index for event in found.events] == [
                reader.log().index_of(ids[event.of], event.n) for event in found.events
            ]
