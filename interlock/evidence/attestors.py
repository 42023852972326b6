"""Who may sign receipts: the second half of what a verifier trusts, beside the policy file that names logs and witnesses.

A key counts for a range of the log and not for a range of time: clocks lie, and an index can't be backdated. So a receipt that
somebody signs today with a key that was replaced last year is refused, although the signature is right.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass, replace

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import from_base64, to_base64
from interlock.evidence.signing import AttestorVerifier
from interlock.evidence.strict_json import Limits, Reader, read_objects, write_json

MAX_ATTESTORS = 1000
_LIMITS = Limits(max_bytes=1 << 20, max_depth=3, max_values=8 * MAX_ATTESTORS)
_SPKI_PREFIX = binascii.unhexlify("302a300506032b6570032100")
"""What stands before an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4)."""


@dataclass(frozen=True, slots=True)
class Attestor:
    """A key that may sign receipts, and for which part of the log.

    Args:
        verifier: the public key.
        from_index: the first leaf's index that it may speak of.
        until_index: the index from which it no longer may; None while it is in use.

    Raises:
        MalformedEvidence: a range that is none.
    """

    verifier: AttestorVerifier
    from_index: int = 0
    until_index: int | None = None

    def __post_init__(self) -> None:
        if self.from_index < 0 or (self.until_index is not None and self.until_index < self.from_index):
            raise MalformedEvidence("the range of an attestor's key is none")

    @property
    def keyid(self) -> str:
        """The key's name."""
        return self.verifier.keyid

    def speaks_of(self, index: int | None) -> bool:
        """Whether it may sign a receipt as of a tree whose last leaf has this index.

        Args:
            index: the leaf's; None for a receipt that stands under no checkpoint yet, which only a key in use may sign.
        """
        if index is None:
            return self.until_index is None
        return self.from_index <= index and (self.until_index is None or index < self.until_index)

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check a signature, so that an attestor is an `EnvelopeVerifier`.

        Raises:
            WrongSignature: this key did not sign this message.
        """
        self.verifier.verify(message, signature)


@dataclass(frozen=True, slots=True)
class Attestors:
    """The keys of a file `attestors.json`.

    Args:
        keys: the keys, each once.

    Raises:
        MalformedEvidence: a key stands twice, or there are too many.
    """

    keys: tuple[Attestor, ...]

    def __post_init__(self) -> None:
        if len({key.keyid for key in self.keys}) != len(self.keys) or len(self.keys) > MAX_ATTESTORS:
            raise MalformedEvidence(f"a list of attestors names a key twice, or has more than {MAX_ATTESTORS} of them")

    def __iter__(self) -> Iterator[Attestor]:
        return iter(self.keys)

    def rotated(self, old: str, new: AttestorVerifier, at_index: int) -> Attestors:
        """Return the list with a key ended at an index, and another one in its place from there on.

        The other keys stay as they are: each worker may sign with one of its own.

        Args:
            old: the keyid of the key that is replaced.
            new: the new key.
            at_index: the index of the leaf that says so (KeyRotated), or the log's size.

        Raises:
            MalformedEvidence: the list has no such key in use.
        """
        if not self.has_in_use(old):
            raise MalformedEvidence(f"the list of attestors has no key {old} in use")
        ended = (replace(key, until_index=at_index) if _is_in_use(key, old) else key for key in self.keys)
        return Attestors((*ended, Attestor(new, at_index)))

    def has_in_use(self, keyid: str) -> bool:
        """Say whether a key is listed, and has not been replaced."""
        return any(_is_in_use(key, keyid) for key in self.keys)

    @classmethod
    def parse(cls, data: bytes) -> Attestors:
        """Read a file `attestors.json`.

        Raises:
            MalformedEvidence: it is none, or a `keyid` is not that of its key.
        """
        return cls(tuple(map(_attestor, read_objects(data, "a list of attestors", _LIMITS))))

    def serialize(self) -> bytes:
        """Return the file, with an entry on each line."""
        entries = (
            write_json(
                {
                    "keyid": key.keyid,
                    "spki": to_base64(key.verifier.spki),
                    "from_index": key.from_index,
                    "until_index": key.until_index,
                }
            )
            for key in self.keys
        )
        return b"[\n" + b",\n".join(entries) + b"\n]\n"


def _is_in_use(key: Attestor, keyid: str) -> bool:
    return key.keyid == keyid and key.until_index is None


def _attestor(fields: Reader) -> Attestor:
    unknown = set(fields) - {"keyid", "spki", "from_index", "until_index"}
    if unknown:  # a condition that is not understood must not be passed over
        raise MalformedEvidence(f"an attestor has a field that is not known here: {min(unknown)}")
    spki = from_base64(fields.text("spki"), "the key of an attestor")
    if not spki.startswith(_SPKI_PREFIX):
        raise MalformedEvidence("the key of an attestor is no Ed25519 SubjectPublicKeyInfo")
    verifier = AttestorVerifier(spki[len(_SPKI_PREFIX) :])
    if verifier.spki != spki or verifier.keyid != fields.text("keyid"):
        raise MalformedEvidence("the keyid of an attestor is not that of its key")
    return Attestor(verifier, fields.number("from_index"), fields.number_or_none("until_index"))
