"""What a policy accepts: a checkpoint that a known log signed and enough witnesses cosigned, and what is proven under it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from interlock.errors import QuorumNotReached, WrongKey
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.merkle import verify_inclusion
from interlock.evidence.notes import Signed, SignedNote, verify_note
from interlock.evidence.policies import Policy
from interlock.evidence.signing import verifier_of
from interlock.evidence.tlog_proofs import TlogProof
from interlock.evidence.vkeys import VerifierKey

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_S = 2**37
"""A time that a calendar still has; a cosignature can say a later one."""


@dataclass(frozen=True, slots=True)
class AcceptedCheckpoint:
    """A checkpoint that a policy accepts.

    Args:
        checkpoint: what was signed.
        logs: the keys of the log that signed it.
        witnesses: the witnesses that cosigned it, by their names in the policy, and when they say they did.
    """

    checkpoint: Checkpoint
    logs: tuple[VerifierKey, ...]
    witnesses: dict[str, Signed]

    @property
    def cosigned_at(self) -> tuple[datetime, ...]:
        """When the witnesses say that they cosigned it."""
        times = (signed.at_s for signed in self.witnesses.values() if signed.at_s is not None)
        return tuple(_EPOCH + timedelta(seconds=min(at_s, _LAST_S)) for at_s in times)


def accept_checkpoint(note: SignedNote, policy: Policy) -> AcceptedCheckpoint:
    """Check a signed checkpoint against a policy.

    Args:
        note: the signed checkpoint.
        policy: which logs and witnesses count.

    Raises:
        MalformedEvidence: the note's text is no checkpoint.
        WrongKey: no log of the policy has this origin, or none of its keys has signed.
        WrongSignature: the log or a witness is named under something that it did not sign.
        QuorumNotReached: too few witnesses have cosigned it.
    """
    checkpoint = Checkpoint.parse(note.text)
    logs = [log.key for log in policy.logs if log.key.name == checkpoint.origin]
    if not logs:
        raise WrongKey("the policy names no log of this origin")
    # The log's keys and the witnesses' in one pass, or a forged line of either would be passed over as a stranger's.
    keys = dict.fromkeys([*logs, *(witness.key for witness in policy.witnesses)])
    signed = {found.key: found for found in verify_note(note, map(verifier_of, keys))}
    signing_logs = tuple(key for key in logs if key in signed)
    if not signing_logs:
        raise WrongKey("no key that the policy has for this log has signed this checkpoint")
    witnesses = {witness.name: signed[witness.key] for witness in policy.witnesses if witness.key in signed}
    if not policy.reached_by(witnesses):
        words = f"the quorum {policy.quorum} is not reached by {len(witnesses)} of {len(policy.witnesses)} witnesses"
        raise QuorumNotReached(words, tuple(witnesses))
    return AcceptedCheckpoint(checkpoint, signing_logs, witnesses)


def accept_proof(proof: TlogProof, leaf: bytes, policy: Policy) -> AcceptedCheckpoint:
    """Check that an entry is in a log whose checkpoint a policy accepts.

    Args:
        proof: the proof.
        leaf: the entry's leaf hash, made from the entry by whoever asks.
        policy: which logs and witnesses count.

    Raises:
        MalformedEvidence: the proof's checkpoint is none.
        WrongKey: no log of the policy has signed it.
        WrongSignature: the log or a witness is named under something that it did not sign.
        QuorumNotReached: too few witnesses have cosigned it.
        InconsistentEvidence: the entry is not in the log at that index.
    """
    accepted = accept_checkpoint(SignedNote.parse(proof.checkpoint.encode()), policy)
    verify_inclusion(proof.index, accepted.checkpoint.size, leaf, proof.hashes, accepted.checkpoint.root)
    return accepted
