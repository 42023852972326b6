"""Asking witnesses for their cosignatures. One that fails keeps nobody waiting: neither the log nor the others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from interlock.errors import EvidenceError
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.notes import NoteSignature, SignedNote, verify_note
from interlock.evidence.policies import Witness
from interlock.evidence.signing import verifier_of
from interlock.projections.log.tree import TransparencyLog
from interlock.witness.client import Behind, Cosigned, Declines, Unreachable, WitnessAnswer, add_checkpoint


class Witnessed(StrEnum):
    """What became of asking a witness."""

    UP_TO_DATE = "up to date"
    """It had cosigned the last checkpoint already, or there is none."""
    COSIGNED = "cosigned"
    UNREACHABLE = "unreachable"
    """It did not answer as a witness does; it is asked again."""
    DECLINED = "declined"
    """It does not know the log, or the log's key."""
    AHEAD = "ahead"
    """It has cosigned more than the journal holds: the journal was set back, or there are two."""
    FORKED = "forked"
    """It has cosigned another history."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of asking a witness, and in words."""

    witness: str
    result: Witnessed
    words: str = ""

    @property
    def is_alarm(self) -> bool:
        """Whether the witness has seen another history than the journal's."""
        return self.result in (Witnessed.AHEAD, Witnessed.FORKED)


def cosigner_of(witness: Witness) -> str:
    """Return how a witness is named beside its cosignatures."""
    return f"{witness.key.name}+{witness.key.key_id.hex()}"


def ask_witness(tree: TransparencyLog, witness: Witness, *, timeout_s: float) -> Answer:
    """Ask for a cosignature on the last checkpoint, unless there is one, and keep it.

    Args:
        tree: the log.
        witness: whom to ask.
        timeout_s: for how long each step of the network may take, in seconds.

    Raises:
        JournalError: the journal can't be read or written.
    """
    last = tree.store.last_checkpoint()
    if last is None or witness.url is None:
        return Answer(witness.name, Witnessed.UP_TO_DATE, "" if last else "there is no checkpoint yet")
    note, checkpoint = last.note, last.checkpoint
    known = tree.store.cosigned_sizes(checkpoint.origin, cosigner=cosigner_of(witness))
    if known and known[0] == checkpoint.size:
        return Answer(witness.name, Witnessed.UP_TO_DATE)
    answer = _submit(tree, witness, note, known[0] if known else 0, timeout_s)
    if isinstance(answer, Behind) and answer.size <= checkpoint.size:
        answer = _submit(tree, witness, note, answer.size, timeout_s)
    return _taken(tree, witness, note, answer)


def _submit(tree: TransparencyLog, witness: Witness, note: SignedNote, old_size: int, timeout_s: float) -> WitnessAnswer:
    size = Checkpoint.parse(note.text).size
    proof = tree.consistency(old_size, size) if old_size else ()
    assert witness.url is not None, "one without an address is not asked"
    return add_checkpoint(witness.url, note, old_size=old_size, proof=proof, timeout_s=timeout_s)


def _taken(tree: TransparencyLog, witness: Witness, note: SignedNote, answer: WitnessAnswer) -> Answer:
    size = Checkpoint.parse(note.text).size
    match answer:
        case Cosigned(signatures):
            line = _line_of(witness, note, signatures)
            if line is None:
                return Answer(
                    witness.name, Witnessed.DECLINED, "it answered with a signature that is not its own over this checkpoint"
                )
            tree.store.add_cosignature(size, cosigner_of(witness), line)
            return Answer(witness.name, Witnessed.COSIGNED)
        case Behind(seen):
            words = f"it has cosigned a checkpoint of {seen} events, and the journal's last one is of {size}"
            return Answer(witness.name, Witnessed.AHEAD, words)
        case Declines(status, words):
            forked = status in _OTHER_HISTORY
            return Answer(witness.name, Witnessed.FORKED if forked else Witnessed.DECLINED, f"HTTP {status}: {words}")
        case Unreachable(why):
            return Answer(witness.name, Witnessed.UNREACHABLE, why)


_OTHER_HISTORY = frozenset({400, 422})
"""What a witness answers to a tree that shrank, or that does not continue what it saw (c2sp.org/tlog-witness)."""


def _line_of(witness: Witness, note: SignedNote, signatures: tuple[NoteSignature, ...]) -> str | None:
    """Return the witness's own line, once it is known to be over this checkpoint."""
    for signature in signatures:
        try:
            verify_note(SignedNote(note.text, (signature,)), [verifier_of(witness.key)])
        except EvidenceError:
            continue
        return signature.line
    return None
