"""Verifier keys of signed notes: a name, a type and a public key, in one line of text (c2sp.org/signed-note)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import IntEnum

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import from_base64, to_base64

KEY_ID_BYTES = 4
_BARRED = re.compile(r"[\s+\x00-\x1f\ud800-\udfff]")
_VKEY = re.compile(r"(?P<name>[^+]+)\+(?P<id>[0-9a-f]{8})\+(?P<key>.+)", re.ASCII)


class KeyType(IntEnum):
    """The types of signature that are known here. Another one is a member, its length, and a verifier in `signing`."""

    ED25519 = 0x01
    """A log's signature over a note."""
    COSIGNATURE_V1 = 0x04
    """A witness's Ed25519 signature over a checkpoint, with the time (c2sp.org/tlog-cosignature)."""
    ML_DSA_44 = 0x06
    """The same with ML-DSA-44, which also holds against quantum computers."""


_PUBLIC_BYTES = {KeyType.ED25519: 32, KeyType.COSIGNATURE_V1: 32, KeyType.ML_DSA_44: 1312}


def key_id(name: str, key_type: int, public: bytes) -> bytes:
    """Return the four bytes that name a key in a signature line: an identifier, and no proof of anything."""
    return hashlib.sha256(name.encode() + b"\n" + bytes([key_type]) + public).digest()[:KEY_ID_BYTES]


def check_key_name(name: str) -> None:
    """Refuse what can't be the name of a key.

    Raises:
        MalformedEvidence: it is empty, or holds a space, a plus, a control character or what UTF-8 can't say.
    """
    if not name or _BARRED.search(name):
        raise MalformedEvidence("the name of a key is empty, or holds a space, a plus or a control character")


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key with the name and the type of signature that it is for.

    Args:
        name: who signs; for a log, its origin.
        type: what a signature is, and over what.
        public: the public key in the encoding of its type.

    Raises:
        MalformedEvidence: no name, or a key of another length.
    """

    name: str
    type: KeyType
    public: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.public) != _PUBLIC_BYTES[self.type]:
            raise MalformedEvidence(f"a key of type {self.type:#04x} does not have {len(self.public)} bytes")

    @property
    def key_id(self) -> bytes:
        """The four bytes by which signature lines name it."""
        return key_id(self.name, self.type, self.public)

    def __str__(self) -> str:
        """Return the vkey."""
        return f"{self.name}+{self.key_id.hex()}+{to_base64(bytes([self.type]) + self.public)}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read a vkey.

        Raises:
            MalformedEvidence: it is none, of an unknown type, or its id is not that of its key.
        """
        found = _VKEY.fullmatch(text)
        if found is None:
            raise MalformedEvidence("a verifier key is written name+id+key, the id as 8 hexadecimal digits")
        material = from_base64(found["key"], "the key of a verifier key")
        try:
            key_type = KeyType(material[0] if material else 0)
        except ValueError as error:
            raise MalformedEvidence("a verifier key of a type that is not known here") from error
        key = cls(found["name"], key_type, material[1:])
        if key.key_id.hex() != found["id"]:
            raise MalformedEvidence(f"the id of the verifier key of {key.name} is not that of its key")
        return key
