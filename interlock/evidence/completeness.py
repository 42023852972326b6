"""What a receipt leaves out: inclusion never proves it, and another receipt of the case, or a copy of the log, can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from interlock.domain.records import leaf_hash
from interlock.errors import EvidenceError, MalformedEvidence
from interlock.evidence.acceptance import AcceptedCheckpoint, accept_checkpoint
from interlock.evidence.bundles import Bundle, Claim
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.findings import Finding, FindingKind, Verdict
from interlock.evidence.merkle import Frontier, verify_inclusion
from interlock.evidence.notes import SignedNote
from interlock.evidence.policies import Policy
from interlock.evidence.records import Record
from interlock.evidence.tlog_proofs import TlogProof


def compare(claim: Claim, records: Sequence[Record], data: bytes, policy: Policy) -> list[Finding]:
    """Look into another receipt for events that a receipt should have had: with both, anybody can prove the lie.

    Args:
        claim: what the receipt's attestor signed.
        records: the receipt's.
        data: the other receipt.
        policy: which logs and witnesses count.
    """
    try:
        proven = proven_records(data, policy)
    except EvidenceError as error:
        return [Finding(FindingKind.COMPLETENESS, Verdict.NOTE, f"another receipt is passed over: {error}")]
    return list(_differences(claim, records, proven))


def _differences(claim: Claim, records: Sequence[Record], proven: list[tuple[Record, int, str]]) -> Iterator[Finding]:
    own = {(record.aggregate_id, record.version): record for record in records}
    chains = {record.aggregate_id for record in records}
    for record, index, origin in proven:
        mine = own.get((record.aggregate_id, record.version))
        if record.log != claim.log or record.aggregate_id not in chains or mine == record:
            continue
        place = f"event {record.version} of {record.aggregate_id}"
        if mine is not None:
            yield _contradicted(f"the log holds two different ones of {place}")
        elif claim.as_of is not None and origin == claim.as_of.origin and index < claim.as_of.size:
            yield _contradicted(
                f"{place} stands at index {index}, and this receipt, as of {claim.as_of.size} leaves, leaves it out"
            )
        elif str(record.aggregate_id) == claim.action:
            yield Finding(FindingKind.AS_OF, Verdict.STALE, f"{place} came later: another receipt has it, ask for a newer one")
        else:
            yield Finding(FindingKind.AS_OF, Verdict.NOTE, f"{place}, its approval, came later, and changes nothing here")


def audit(entries: Iterable[bytes], checkpoint: Checkpoint, here: Mapping[int, Record]) -> Finding:
    """Read a whole log, and compare what it has of a case with a receipt. Nothing of it is kept in memory.

    Args:
        entries: the log's entries, from the first on.
        checkpoint: the signed one that the receipt is under.
        here: the receipt's records, by their indexes.
    """
    frontier, found = Frontier(), dict[int, bytes]()
    marks = tuple({f'{{"id":"{record.aggregate_id}"'.encode() for record in here.values()})
    try:
        for index, entry in enumerate(islice(entries, checkpoint.size)):
            frontier.append(leaf_hash(entry))
            if entry.startswith(marks):
                found[index] = entry
    except MalformedEvidence as error:  # the copy's fault, and not the receipt's
        return Finding(FindingKind.COMPLETENESS, Verdict.UNVERIFIABLE, f"the copy of the log can't be read: {error}")
    if (frontier.size, frontier.root()) != (checkpoint.size, checkpoint.root):
        words = f"the copy of the log has not the {checkpoint.size} entries that were signed"
        return Finding(FindingKind.COMPLETENESS, Verdict.UNVERIFIABLE, words)
    if found == {index: record.serialize() for index, record in here.items()}:
        words = f"audited: the log of {checkpoint.size} leaves has no other event of this case"
        return Finding(FindingKind.COMPLETENESS, Verdict.OK, words)
    return _contradicted(f"the log has {len(found)} events of this case, and the receipt {len(here)}")


def _contradicted(words: str) -> Finding:
    return Finding(FindingKind.COMPLETENESS, Verdict.INVALID, f"{words}: keep both, they are the proof")


def proven_records(data: bytes, policy: Policy) -> list[tuple[Record, int, str]]:
    """Return the records of a receipt that a log has signed for, each with its index and the log's name.

    Args:
        data: the receipt.
        policy: which logs and witnesses count.

    Raises:
        EvidenceError: it is none, or its log is not to be relied upon.
    """
    bundle, accepted, proven = Bundle.parse(data), dict[str, AcceptedCheckpoint](), list[tuple[Record, int, str]]()
    for text, proof in zip(bundle.records, bundle.proofs, strict=True):
        if proof is None:
            continue
        note = TlogProof.parse(proof.encode()).checkpoint
        if note not in accepted:
            if accepted:
                raise MalformedEvidence("the proofs of a receipt are all under one checkpoint, and these are not")
            accepted[note] = accept_checkpoint(SignedNote.parse(note.encode()), policy)
        record = Record.parse(text.encode())
        checkpoint = accepted[note].checkpoint
        proven.append((record, included(record, proof, checkpoint), checkpoint.origin))
    return proven


def included(record: Record, proof: str, checkpoint: Checkpoint) -> int:
    """Return the index at which a record is proven to stand in a log.

    Raises:
        MalformedEvidence: the proof is none.
        InconsistentEvidence: it does not lead from the record to the signed root.
    """
    parsed = TlogProof.parse(proof.encode())
    verify_inclusion(parsed.index, checkpoint.size, record.leaf, parsed.hashes, checkpoint.root)
    return parsed.index
