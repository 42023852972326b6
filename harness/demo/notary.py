"""The demo's own log key and attestor: they make of a receipt a file that can be checked without the journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlock import Receipts
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.findings import ReceiptVerification
from interlock.evidence.policies import NO_WITNESSES, Log, Policy
from interlock.evidence.verifying import Trust, verify_receipt
from interlock.evidence.vkeys import VerifierKey
from interlock.infrastructure.opening import open_journal
from interlock.keyfiles import KeyFile, Role, create_key, list_keys, read_attestor_key
from interlock.log import LogConfig
from interlock.log.service import LogService

_IDENTITY = "localhost/interlock-demo"


@dataclass(frozen=True, slots=True)
class Notary:
    """Signs the log of one journal and its receipts, and checks receipts with nothing but what is trusted.

    Args:
        journal_url: the journal.
        folder: where its keys are; they are made where there are none.
    """

    journal_url: str
    folder: Path

    def bundle(self, key: str) -> bytes:
        """Return the receipt of an action as a file for somebody who has no journal.

        Args:
            key: the action's.

        Raises:
            UnknownAction: no action has this key.
        """
        self._sign_log()
        with Receipts.open(self.journal_url) as reader:
            attestor = read_attestor_key(self._key(Role.ATTESTOR).path)
            return reader.export_receipt(key, attestor=attestor, policy=self._trust().policy).serialize()

    def check(self, bundle: bytes) -> ReceiptVerification:
        """Check a receipt as an outsider does: without the journal, trusting this log and this attestor, and nothing else."""
        return verify_receipt(bundle, self._trust())

    def _sign_log(self) -> None:
        config = LogConfig(key_file=self._key(Role.LOG).path)
        with open_journal(self.journal_url, create=False) as journal:
            writer = LogService(journal, config, journal.clock()).writer
            assert writer is not None, "it has a key"
            writer.checkpoint()

    def _trust(self) -> Trust:
        log = VerifierKey.parse(self._key(Role.LOG).public)
        attestor = read_attestor_key(self._key(Role.ATTESTOR).path)
        return Trust(Policy((Log(log),), (), (), NO_WITNESSES), Attestors((Attestor(attestor.verifier),)))

    def _key(self, role: Role) -> KeyFile:
        there = [one for one in list_keys(self.folder) if one.role is role] if self.folder.is_dir() else []
        return there[0] if there else create_key(role, self.folder, _IDENTITY if role is Role.LOG else "")
