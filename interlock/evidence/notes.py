"""Signed notes (c2sp.org/signed-note): a text, and under it a line for each signature."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from interlock.errors import MalformedEvidence, WrongKey
from interlock.evidence.encoding import after, from_base64, from_utf8, to_base64
from interlock.evidence.vkeys import KEY_ID_BYTES, VerifierKey, check_key_name

MAX_NOTE_BYTES = 1 << 20
MAX_SIGNATURES = 100
"""Go's note package stops at the same number. The format asks for at least 16."""

_DASH = "\u2014 "
_BARRED = re.compile(r"[\x00-\t\x0b-\x1f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One line of signature. Who it is from is a claim until it is verified.

    Args:
        name: the name of the key.
        key_id: its id, four bytes.
        signature: what follows the id; its form depends on the key's type.

    Raises:
        MalformedEvidence: it could not be written as a line.
    """

    name: str
    key_id: bytes
    signature: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.key_id) != KEY_ID_BYTES or not self.signature:
            raise MalformedEvidence("a signature of a note needs the id of its key, and bytes")

    @property
    def line(self) -> str:
        """The line, with its newline."""
        return f"{_DASH}{self.name} {to_base64(self.key_id + self.signature)}\n"

    @classmethod
    def parse(cls, line: str) -> NoteSignature:
        """Read a line, without its newline.

        Raises:
            MalformedEvidence: it is no line of signature.
        """
        name, _, encoded = after(_DASH, line).partition(" ")
        data = from_base64(encoded, "a signature of a note")
        return cls(name, data[:KEY_ID_BYTES], data[KEY_ID_BYTES:])


@dataclass(frozen=True, slots=True)
class SignedNote:
    """A text with signatures under it. The text must be ignored until `verify_note` has accepted it.

    Args:
        text: what is signed, with its last newline.
        signatures: at least one, in their order.

    Raises:
        MalformedEvidence: it could not be written as a note.
    """

    text: str
    signatures: tuple[NoteSignature, ...]

    def __post_init__(self) -> None:
        check_text(self.text)
        if not 1 <= len(self.signatures) <= MAX_SIGNATURES:
            raise MalformedEvidence(f"a note with {len(self.signatures)} signatures: 1 to {MAX_SIGNATURES} are read")

    @classmethod
    def parse(cls, data: bytes) -> SignedNote:
        """Read a note.

        Raises:
            MalformedEvidence: it is none, or too large.
        """
        whole = from_utf8(data, "a signed note", max_bytes=MAX_NOTE_BYTES)
        # The last empty line parts text and signatures: the text may hold some of its own.
        above, blank, below = whole.rpartition("\n\n")
        if not blank or not below.endswith("\n"):
            raise MalformedEvidence("a signed note has no signatures under an empty line, or no newline at its end")
        lines = below.split("\n", MAX_SIGNATURES + 1)[:-1]
        return cls(f"{above}\n", tuple(NoteSignature.parse(line) for line in lines))

    def serialize(self) -> bytes:
        """Return the note's bytes."""
        return f"{self.text}\n{''.join(signature.line for signature in self.signatures)}".encode()

    def with_signatures(self, *signatures: NoteSignature) -> SignedNote:
        """Return the note with signatures added, such as those of witnesses; one that it has already is not added again."""
        added = dict.fromkeys((*self.signatures, *signatures))
        return SignedNote(self.text, tuple(added))


class NoteVerifier(Protocol):
    """What checks the signatures of one key."""

    @property
    def key(self) -> VerifierKey:
        """The key."""
        ...

    def verify(self, text: str, signature: bytes) -> int | None:
        """Check a signature over a note's text.

        Returns:
            When it was made, in seconds since 1970, where this type of signature says so.

        Raises:
            WrongSignature: the key did not sign this.
        """
        ...


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature that was verified.

    Args:
        key: whose it is.
        at_s: when its maker says it was made, in seconds since 1970, for cosignatures.
    """

    key: VerifierKey
    at_s: int | None = None


def verify_note(note: SignedNote, verifiers: Iterable[NoteVerifier]) -> tuple[Signed, ...]:
    """Check every signature of a key that is trusted, and pass over all others.

    Args:
        note: the note.
        verifiers: the keys that are trusted.

    Returns:
        The trusted keys that signed, each once, in the order of their lines. Of several by one key the first counts.

    Raises:
        WrongKey: none of the keys has signed it.
        WrongSignature: a line bears the name and the id of a trusted key, which did not sign this; the whole note is refused.
        ValueError: two of the keys share both name and id, so that no line could be told to be from one of them.
    """
    trusted = dict[tuple[str, bytes], NoteVerifier]()
    for verifier in verifiers:
        if trusted.setdefault((verifier.key.name, verifier.key.key_id), verifier).key != verifier.key:
            raise ValueError(f"two keys named {verifier.key.name} have the same id")
    signed = dict[VerifierKey, Signed]()
    for line in note.signatures:
        found = trusted.get((line.name, line.key_id))
        if found is not None:
            signed.setdefault(found.key, Signed(found.key, found.verify(note.text, line.signature)))
    if not signed:
        raise WrongKey("no key that is trusted here has signed this note")
    return tuple(signed.values())


def check_text(text: str) -> None:
    """Refuse what can't be the text of a note.

    Raises:
        MalformedEvidence: it does not end in a newline, or holds another control character or what UTF-8 can't say.
    """
    if not text.endswith("\n") or _BARRED.search(text):
        raise MalformedEvidence("the text of a note ends in a newline, and holds no other control character")
