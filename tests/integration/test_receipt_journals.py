"""Receipts from both kinds of journal, under the checkpoints of a real log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID

from interlock import Receipts
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.findings import Completeness, FindingKind, Verdict
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import NO_WITNESSES, Log, Policy
from interlock.evidence.signing import AttestorKey, NoteKey
from interlock.evidence.verifying import Known, Trust, verify_receipt
from interlock.evidence.vkeys import KeyType, VerifierKey
from interlock.monitor import findings as monitoring
from interlock.monitor.journals import JournalSource
from interlock.monitor.state import MonitorState
from interlock.monitor.watching import Monitor
from interlock.projections.exporting import export_receipt
from interlock.projections.log.tree import TransparencyLog
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


class BusyLog(TransparencyLog):
    """A log that is added to, by others, right before it is asked for a checkpoint."""

    meanwhile: Callable[[], object]

    def covering(self, index: int, policy: Policy | None = None) -> SignedNote | None:
        """Let the others write, and answer."""
        others = threading.Thread(target=self.meanwhile)
        others.start()
        others.join()
        return super().covering(index, policy)


def test_a_receipt_claims_no_more_than_it_has_read(stage: Stage) -> None:
    """What its approval is used for while it is made, and signed by the log at once, is not what it left out."""
    writer = stage.service().writer
    assert writer is not None

    def fire(name: str) -> None:
        with stage.gate() as gate:
            approval = gate.approve("shared", cap_minor=200, currency="usd", by="user:1", expires_in_s=3600, uses=2)
            gate.fire(f"pay:{name}", stage.effect(name), approval=approval)
        writer.checkpoint()

    fire("first")
    journal = stage.journal()
    log = BusyLog(journal)
    log.meanwhile = lambda: fire("second")
    action_id = journal.id_of("pay:first")
    assert action_id is not None
    bundle = export_receipt(journal, log, action_id, ATTESTOR)
    policy = Policy((Log(VerifierKey.parse(stage.key.public)),), (), (), NO_WITNESSES)
    trust = Trust(policy, Attestors((Attestor(ATTESTOR.verifier),)))
    found = verify_receipt(bundle.serialize(), trust, Known(entries=log.records(0, 1000)))
    assert found.completeness is not Completeness.CONTRADICTED, found.findings
    later = export_receipt(journal, TransparencyLog(journal), action_id, ATTESTOR)
    beside = verify_receipt(bundle.serialize(), trust, Known(others=[later.serialize()]))
    assert beside.verdict is Verdict.OK, beside.findings


def test_a_monitor_names_a_stored_checkpoint_that_is_none(stage: Stage) -> None:
    """What the database's owner made unreadable is found out, and does not end the watch."""
    stage.write("first")
    writer = stage.service().writer
    assert writer is not None
    writer.checkpoint()
    key = NoteKey("monitor.example", KeyType.COSIGNATURE_V1, bytes([7]) * 32)
    policy = Policy((Log(VerifierKey.parse(stage.key.public)),), (), (), NO_WITNESSES)
    with MonitorState(stage.folder / "monitor.db", key.key, stage.origin, create=True) as state:
        monitor = Monitor(JournalSource(stage.journal()), policy, state, key, lambda: 1)
        assert monitor.look().clean
        stage.journals.edit(stage.path, "UPDATE checkpoints SET signatures = 'none'")
        assert {finding.kind for finding in monitor.look().findings} == {monitoring.FindingKind.CHECKPOINT}
