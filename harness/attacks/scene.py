"""Where the attacks are done: a journal whose log is signed, a monitor and two witnesses that have seen it, each on its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.attacks.hands import Hands
from interlock import Gate, Receipts, target
from interlock.domain.answers import Done, Evidence, Settlement
from interlock.domain.effects import Money
from interlock.errors import EpochNeeded, EvidenceError, JournalCorrupt, JournalUnavailable, QuorumNotReached
from interlock.evidence.acceptance import accept_checkpoint
from interlock.evidence.attestors import Attestor, Attestors
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.findings import Verdict
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.policies import Group, Log, Policy, Witness
from interlock.evidence.proving import consistency_proof
from interlock.evidence.signing import AttestorKey, NoteKey, new_seed, verifier_of
from interlock.evidence.verifying import Trust, verify_receipt
from interlock.evidence.vkeys import VerifierKey
from interlock.infrastructure.clock import Clock
from interlock.infrastructure.high_water import HighWaterMark
from interlock.infrastructure.journal import Journal
from interlock.infrastructure.opening import open_journal
from interlock.keyfiles import LogKey, Role, create_key, read_log_key, read_witness_key
from interlock.monitor.journals import JournalSource
from interlock.monitor.state import MonitorState
from interlock.monitor.watching import Monitor
from interlock.projections.log.tree import TransparencyLog
from interlock.projections.log.writing import LogWriter
from interlock.witness import protocol
from interlock.witness.client import Behind, Cosigned, Declines, add_checkpoint
from interlock.witness.server import WitnessServer
from interlock.witness.state import WitnessState

IDENTITY = "attacked.example/interlock"
ORIGIN = f"{IDENTITY}-1"
SILENT = "silent"
STATES = ("monitor.db", "w1.db", "w2.db")


@dataclass(frozen=True)
class Payment:
    """What the actions do."""

    account: str
    amount_minor: int


@target("pay", effect=Payment)
def pay(effect: Payment, /, *, idempotency_key: str, deadline_s: float) -> Done:
    """Pay, in memory."""
    del idempotency_key, deadline_s
    return Done(Evidence(reference=f"tx_{effect.account}", state="done", settlement=Settlement.FINAL, json="{}"))


@dataclass
class Scene:
    """One journal, its log's key and mark, and who watches from outside.

    Args:
        hands: the owner's, on the journal.
        folder: where keys, the mark, and the states of the watchers are.
    """

    hands: Hands
    folder: Path
    log_key: LogKey = field(init=False)
    monitor_key: NoteKey = field(init=False)
    witness_keys: tuple[NoteKey, ...] = field(init=False)
    backup: Any = None
    present: Any = None

    def __post_init__(self) -> None:
        keys = self.folder / "keys"
        self.log_key = read_log_key(create_key(Role.LOG, keys, IDENTITY).path)
        names = ("monitor.example/m1", "witness.example/w1", "witness.example/w2")
        made = [read_witness_key(create_key(Role.WITNESS, keys, name).path) for name in names]
        self.monitor_key, self.witness_keys = made[0], tuple(made[1:])
        MonitorState(self.folder / "monitor.db", self.monitor_key.key, ORIGIN, create=True).close()
        for key in self.witness_keys:
            WitnessState(self.state_of(key), key.key, create=True).close()
        self._play()

    @property
    def vkey(self) -> VerifierKey:
        """The log's public key."""
        return self.log_key.key_for(ORIGIN)

    @property
    def mark(self) -> Path:
        """Where the log keeps what it signed last, outside the database."""
        return self.folder / "log.mark"

    @property
    def policy(self) -> Policy:
        """What the monitor goes by: the log's key."""
        return Policy((Log(self.vkey),), (), (), "none")

    @property
    def strict_policy(self) -> Policy:
        """What a careful auditor goes by: both witnesses."""
        witnesses = tuple(Witness(f"w{number}", key.key) for number, key in enumerate(self.witness_keys, 1))
        return Policy((Log(self.vkey),), witnesses, (Group("both", 2, ("w1", "w2")),), "both")

    def state_of(self, witness: NoteKey) -> Path:
        """Return the file of a witness."""
        return self.folder / f"{witness.name.rpartition('/')[2]}.db"

    def _play(self) -> None:
        """Write a history, and let the watchers see it: all of them its first half, the second witness no more than that."""
        self.act("anna", "bert", "carl")
        self.sign()
        assert self.look() == SILENT, "the monitor accepts what is right"
        assert [self.ask(key) for key in self.witness_keys] == ["200", "200"], "and so do the witnesses"
        self.backup = self.hands.save()
        self.act("dora", "emil")
        self.sign()
        assert self.look() == SILENT, "as above"
        assert self.ask(self.witness_keys[0]) == "200", "as above"
        self.present = self.hands.save()

    def act(self, *names: str, clock: Clock | None = None) -> None:
        """Carry actions out, by the journal's clock or another one."""
        with Gate.open(self.hands.url, targets=[pay], clock=clock) as gate:
            for name in names:
                approval = gate.approve(f"case-{name}", cap_minor=500, currency="usd", by="user:1", expires_in_s=3600)
                effect = pay.effect(Payment(name, 100), subject=name, money=Money(100, "usd"))
                gate.fire(f"pay:{name}", effect, approval=approval)

    def sign(self, mark: Path | None = None) -> SignedNote | None:
        """Make a checkpoint with the log's key.

        Args:
            mark: what was signed last; the log's own unless another one is named, which an owner who has the keys can empty.
        """
        with open_journal(self.hands.url, create=False) as journal:
            return LogWriter(journal, [self.log_key], HighWaterMark(mark or self.mark), journal.clock()).checkpoint()

    @contextmanager
    def attack(self) -> Iterator[None]:
        """Give a journal, and watchers, that are as they were before."""
        self.hands.restore(self.present)
        kept = {path: path.read_bytes() for path in [self.mark, *(self.folder / name for name in STATES)]}
        try:
            yield
        finally:
            for path, data in kept.items():
                path.write_bytes(data)
            shutil.rmtree(self.folder / "forged", ignore_errors=True)

    def forged_mark(self) -> Path:
        """Return the mark of somebody who has the keys and cares for no mark."""
        (self.folder / "forged").mkdir(exist_ok=True)
        return self.folder / "forged" / "mark"

    # --- who looks

    def check_self(self) -> str:
        """Verify with the database and the public keys alone."""
        with Receipts.open(self.hands.url) as reader:
            found = {finding.kind.value for finding in reader.verify().findings}
            found |= set(_wrong_with_log(reader.log(), self.vkey))
        return _caught(found)

    def check_mark(self) -> str:
        """Let the log sign on, as it does every second: it refuses where the journal does not continue what it signed."""
        try:
            self.sign()
        except (EpochNeeded, JournalCorrupt) as error:
            return f"caught ({type(error).__name__})"
        return SILENT

    def look(self) -> str:
        """Let the monitor look."""
        with (
            MonitorState(self.folder / "monitor.db", self.monitor_key.key, ORIGIN) as state,
            open_journal(self.hands.url, create=False) as journal,
        ):
            sighting = Monitor(JournalSource(journal), self.policy, state, self.monitor_key, lambda: int(time.time())).look()
        return _caught({finding.kind.value for finding in sighting.findings})

    def ask(self, witness: NoteKey, note: SignedNote | None = None) -> str:
        """Ask a witness for a cosignature of the latest checkpoint, with the best proof there is; return its status."""
        with ExitStack() as stack:
            log = TransparencyLog(stack.enter_context(open_journal(self.hands.url, create=False)))
            state = stack.enter_context(WitnessState(self.state_of(witness), witness.key))
            server = WitnessServer(protocol.Witness(witness, [self.vkey], state, lambda: int(time.time())))
            url = stack.enter_context(server).url
            asked = note or log.latest()
            if asked is None:
                return "nothing to ask for"
            return _status(url, asked, log)

    def look_at(self, note: SignedNote) -> str:
        """Let the monitor look where somebody has put another checkpoint in front of the journal."""
        with (
            MonitorState(self.folder / "monitor.db", self.monitor_key.key, ORIGIN) as state,
            open_journal(self.hands.url, create=False) as journal,
        ):
            source = _Impostor(journal, note)
            sighting = Monitor(source, self.policy, state, self.monitor_key, lambda: int(time.time())).look()
        return _caught({finding.kind.value for finding in sighting.findings})

    def check_receipt(self, key: str) -> str:
        """Export a receipt, and check it as somebody who trusts the log's key, the first witness and the attestor."""
        attestor = AttestorKey(new_seed())
        first = Policy((Log(self.vkey),), (Witness("w1", self.witness_keys[0].key),), (), "w1")
        with Receipts.open(self.hands.url) as reader:
            data = reader.export_receipt(key, attestor=attestor, policy=first).serialize()
        found = verify_receipt(data, Trust(first, Attestors((Attestor(attestor.verifier),)))).findings
        return _caught({one.kind.value for one in found if one.verdict > Verdict.NOTE})

    def cosigned(self, witness: NoteKey) -> SignedNote:
        """Return the checkpoint that a witness cosigned last."""
        with WitnessState(self.state_of(witness), witness.key) as state:
            note = state.head(ORIGIN)
        assert note is not None, "it has cosigned one"
        return note

    def quorum(self, note: SignedNote) -> str:
        """Ask whether both witnesses stand under a checkpoint."""
        try:
            accept_checkpoint(note, self.strict_policy)
        except QuorumNotReached:
            return "not reached"
        return "reached"


class _Impostor(JournalSource):
    """A journal, with a checkpoint in front of it that somebody else made."""

    def __init__(self, journal: Journal, note: SignedNote) -> None:
        super().__init__(journal)
        self._note = note

    def checkpoint(self) -> bytes:
        return self._note.serialize()


def _status(url: str, note: SignedNote, log: TransparencyLog) -> str:
    size = Checkpoint.parse(note.text).size
    answer = add_checkpoint(url, note, old_size=0, proof=())
    if isinstance(answer, Behind):
        old = answer.size
        proof: Sequence[bytes] = consistency_proof(old, size, log.nodes(size)) if 0 < old <= log.size() and old <= size else ()
        answer = add_checkpoint(url, note, old_size=old, proof=proof)
    if isinstance(answer, Cosigned):
        _keep(log, size, answer)
        return "200"
    return str(answer.status) if isinstance(answer, Declines) else repr(answer)


def _keep(log: TransparencyLog, size: int, answer: Cosigned) -> None:
    """Write the cosignatures down beside the checkpoint, as the log does."""
    there = {NoteSignature.parse(line.rstrip("\n")).name for line in log.store.cosignatures(size)}
    for signature in answer.signatures:
        if signature.name not in there:
            log.store.add_cosignature(size, f"{signature.name}+{signature.key_id.hex()}", signature.line)


def _wrong_with_log(log: TransparencyLog, vkey: VerifierKey) -> Iterator[str]:
    """Say what a look at the stored checkpoint with the public key finds."""
    try:
        note = log.latest()
        if note is None:
            return
        verify_note(note, [verifier_of(vkey)])
        checkpoint = Checkpoint.parse(note.text)
        if checkpoint.size > log.size() or log.root(checkpoint.size) != checkpoint.root:
            yield "checkpoint"
    except (EvidenceError, JournalCorrupt, JournalUnavailable):
        yield "checkpoint"


def _caught(found: set[str]) -> str:
    return f"caught ({', '.join(sorted(found))})" if found else SILENT
