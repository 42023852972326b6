"""Asking a witness for its cosignature, over HTTP. No trouble with it is an error: a log goes on, and asks again later."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import from_decimal, from_utf8
from interlock.evidence.notes import MAX_SIGNATURES, NoteSignature, SignedNote
from interlock.witness.exchange import exchange
from interlock.witness.protocol import SIZE_TYPE, Submission

_MAX_ANSWER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Cosigned:
    """The witness answered with signatures. Whose they are is for a policy to judge.

    Args:
        signatures: its lines.
    """

    signatures: tuple[NoteSignature, ...]


@dataclass(frozen=True, slots=True)
class Behind:
    """The witness has cosigned another size last: prove from there, and ask again.

    Args:
        size: that of the last checkpoint it cosigned; 0 where there is none.
    """

    size: int


@dataclass(frozen=True, slots=True)
class Declines:
    """The witness will not cosign this: an unknown log, a signature that is none, or a tree that does not continue what it saw.

    Args:
        status: of HTTP; 422 is the one that says "this is another history".
        words: what it said.
    """

    status: int
    words: str


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The witness did not answer, or not as a witness does.

    Args:
        why: in words.
    """

    why: str


WitnessAnswer = Cosigned | Behind | Declines | Unreachable


def add_checkpoint(url: str, note: SignedNote, *, old_size: int, proof: Sequence[bytes], timeout_s: float = 5.0) -> WitnessAnswer:
    """Ask a witness to cosign a checkpoint.

    Args:
        url: its submission prefix, `http://…` or `https://…`.
        note: the checkpoint, signed by the log.
        old_size: that of the last checkpoint that it cosigned, as far as is known; 0 where nothing is.
        proof: of consistency from there; empty for 0.
        timeout_s: how long each step of the network may take, in seconds.
    """
    body = Submission(old_size, tuple(proof), note).serialize()
    try:
        answer = exchange(
            "POST", f"{url.rstrip('/')}/add-checkpoint", body=body, timeout_s=timeout_s, max_bytes=_MAX_ANSWER_BYTES
        )
        return _read(answer.status, answer.content_type, answer.body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Unreachable(f"{type(error).__name__}: {error}")


def _read(status: int, kind: str, answer: bytes) -> WitnessAnswer:
    if status == HTTPStatus.OK:
        text = from_utf8(answer, "a witness's answer", max_bytes=_MAX_ANSWER_BYTES)
        lines = text.split("\n", MAX_SIGNATURES + 1)
        if lines.pop() != "" or not lines:
            raise MalformedEvidence("it is no line of signature, or too many")
        return Cosigned(tuple(map(NoteSignature.parse, lines)))
    if status == HTTPStatus.CONFLICT and kind == SIZE_TYPE:
        return Behind(from_decimal(answer.decode("ascii").removesuffix("\n"), "a witness's size"))
    words = answer[:200].decode("utf-8", "replace").strip()
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS:
        return Declines(status, words)
    return Unreachable(f"HTTP {status}: {words}")
