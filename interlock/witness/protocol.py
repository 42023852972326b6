"""What is said between a log and a witness (c2sp.org/tlog-witness), as bytes: requests, and what answers them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from interlock.errors import EvidenceError, InconsistentEvidence, MalformedEvidence, WrongKey, WrongSignature
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.encoding import after, from_base64, from_decimal, from_utf8, to_base64
from interlock.evidence.merkle import EMPTY_ROOT, HASH_BYTES, verify_consistency
from interlock.evidence.notes import SignedNote, verify_note
from interlock.evidence.signing import NoteKey, verifier_of
from interlock.evidence.vkeys import VerifierKey

MAX_REQUEST_BYTES = 64 << 10
"""63 hashes and a note with a hundred signatures take 30 KiB."""
MAX_PROOF_LINES = 63
SIZE_TYPE = "text/x.tlog.size"
TEXT_TYPE = "text/plain; charset=utf-8"


class MalformedNote(MalformedEvidence):
    """What should be a signed checkpoint is none, so nobody has signed it."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A checkpoint that a log wants cosigned.

    Args:
        old_size: how many leaves the last checkpoint had that the witness cosigned, as far as the log knows.
        proof: that the checkpoint's tree continues that one.
        note: the checkpoint, signed by the log.
    """

    old_size: int
    proof: tuple[bytes, ...]
    note: SignedNote

    def serialize(self) -> bytes:
        """Return the body of the request."""
        lines = [f"old {self.old_size}", *map(to_base64, self.proof), "", ""]
        return "\n".join(lines).encode() + self.note.serialize()

    @classmethod
    def parse(cls, body: bytes) -> Submission:
        """Read the body of a request.

        Raises:
            MalformedNote: what should be the checkpoint is no signed note.
            MalformedEvidence: it is none, or too large.
        """
        text = from_utf8(body, "a request to a witness", max_bytes=MAX_REQUEST_BYTES)
        head, blank, note = text.partition("\n\n")
        old, *lines = head.split("\n", MAX_PROOF_LINES + 1)
        if not blank or len(lines) > MAX_PROOF_LINES:
            raise MalformedEvidence(f"a request has up to {MAX_PROOF_LINES} hashes, an empty line, and a checkpoint")
        proof = tuple(from_base64(line, "a hash of a proof", length=HASH_BYTES) for line in lines)
        old_size = from_decimal(after("old ", old), "the old size")
        try:
            return cls(old_size, proof, SignedNote.parse(note.encode()))
        except MalformedEvidence as error:
            raise MalformedNote(str(error)) from error


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a request.

    Args:
        status: of HTTP.
        body: what it says, with its newline.
        content_type: what the body is.
    """

    status: HTTPStatus
    body: str
    content_type: str = TEXT_TYPE


class Heads(Protocol):
    """Where a witness keeps the last checkpoint of each log that it cosigned."""

    def head(self, origin: str) -> SignedNote | None:
        """Return the last checkpoint of a log that was cosigned, with the cosignature."""
        ...

    def advance(self, origin: str, before: SignedNote | None, note: SignedNote) -> bool:
        """Put a checkpoint in the place of the one before, durably; return False where another one has that place by now."""
        ...


class Witness:
    """Decides what is cosigned.

    Args:
        key: the witness's secret key.
        logs: the keys of the logs that it serves; a log may have several.
        heads: where it keeps what it cosigned.
        now_s: the time, in seconds since 1970.
    """

    def __init__(self, key: NoteKey, logs: Iterable[VerifierKey], heads: Heads, now_s: Callable[[], int]) -> None:
        self._key, self._logs, self._heads, self._now_s = key, tuple(logs), heads, now_s
        self._origins = {hashlib.sha256(log.name.encode()).hexdigest(): log.name for log in self._logs}

    def add_checkpoint(self, body: bytes) -> Reply:
        """Answer the request to cosign a checkpoint: when the answer is a cosignature, it is durable that it was given."""
        try:
            submission = Submission.parse(body)
            checkpoint = Checkpoint.parse(submission.note.text)
        except MalformedNote as error:
            return _refused(HTTPStatus.FORBIDDEN, str(error))
        except MalformedEvidence as error:
            return _refused(HTTPStatus.BAD_REQUEST, str(error))
        try:
            note = self._signed_by_log(checkpoint.origin, submission.note)
        except _UnknownLogError:
            return _refused(HTTPStatus.NOT_FOUND, "this witness does not know the log")
        except (WrongKey, WrongSignature) as error:
            return _refused(HTTPStatus.FORBIDDEN, str(error))
        while True:
            before = self._heads.head(checkpoint.origin)
            refusal = _objection(submission, checkpoint, before)
            if refusal is not None:
                return refusal
            line = self._key.cosign(checkpoint, at_s=self._now_s())
            if self._heads.advance(checkpoint.origin, before, note.with_signatures(line)):
                return Reply(HTTPStatus.OK, line.line)

    def latest(self, origin_digest: str) -> Reply:
        """Answer the request for the last checkpoint of a log that was cosigned.

        Args:
            origin_digest: the SHA-256 of the log's origin, in lower-case hexadecimal.
        """
        origin = self._origins.get(origin_digest)
        note = None if origin is None else self._heads.head(origin)
        if note is None:
            return _refused(HTTPStatus.NOT_FOUND, "this witness has cosigned no checkpoint of that log")
        return Reply(HTTPStatus.OK, note.serialize().decode())

    def _signed_by_log(self, origin: str, note: SignedNote) -> SignedNote:
        """Return the note with the signatures of the log alone: strangers' are ignored, and not kept."""
        keys = [key for key in self._logs if key.name == origin]
        if not keys:
            raise _UnknownLogError
        verify_note(note, map(verifier_of, keys))
        ids = {(key.name, key.key_id) for key in keys}
        return SignedNote(note.text, tuple(one for one in note.signatures if (one.name, one.key_id) in ids))


class _UnknownLogError(Exception):
    """No key of a log of this origin is known."""


def _objection(submission: Submission, checkpoint: Checkpoint, before: SignedNote | None) -> Reply | None:
    """Return why a checkpoint that its log signed is not cosigned, in the order of the specification; None where it is."""
    if submission.old_size > checkpoint.size:
        return _refused(HTTPStatus.BAD_REQUEST, "the old size is larger than the checkpoint's")
    head = None if before is None else Checkpoint.parse(before.text)
    size = 0 if head is None else head.size
    if submission.old_size != size:
        return Reply(HTTPStatus.CONFLICT, f"{size}\n", SIZE_TYPE)
    try:
        _require_consistent(submission.proof, head, checkpoint)
    except EvidenceError as error:
        return _refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"the consistency proof does not hold: {error}")
    return None


def _require_consistent(proof: Sequence[bytes], head: Checkpoint | None, checkpoint: Checkpoint) -> None:
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        raise InconsistentEvidence("a tree without leaves has another root")
    if head is not None and head.size > 0:
        verify_consistency(head.size, checkpoint.size, head.root, checkpoint.root, proof)
    elif proof:
        raise InconsistentEvidence("every tree continues the empty one, so the proof has to be empty")


def _refused(status: HTTPStatus, words: str) -> Reply:
    return Reply(status, f"{words}\n")
