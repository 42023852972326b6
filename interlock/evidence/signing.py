"""Keys and signatures. The one module here that needs `cryptography`, from the extra `evidence`.

A log, an attestor and each witness have keys of their own: what an Ed25519 key signs does not say in which role it did.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from interlock.errors import MalformedEvidence, WrongKey, WrongSignature
from interlock.evidence.checkpoints import Checkpoint
from interlock.evidence.encoding import MAX_INT64, from_base64, to_base64
from interlock.evidence.notes import NoteSignature, NoteVerifier
from interlock.evidence.vkeys import KeyType, VerifierKey

SEED_BYTES = 32
_TIME_BYTES = 8
_ED25519_BYTES = 64
_ML_DSA_44_BYTES = 2420
_MAX_NAME_BYTES = 255
_SECRET_PREFIX = "PRIVATE+KEY+"  # noqa: S105 - the word that every secret key of this format begins with
_SECRET = re.compile(re.escape(_SECRET_PREFIX) + r"(?P<name>[^+]+)\+(?P<id>[0-9a-f]{8})\+(?P<key>.+)", re.ASCII)


def new_seed() -> bytes:
    """Return a fresh secret, from the operating system's randomness."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A secret key that signs notes or checkpoints.

    Args:
        name: who signs; for a log, its origin.
        type: what it signs with.
        seed: the secret, 32 bytes.

    Raises:
        MalformedEvidence: a seed of another length, or a type that is not Ed25519's.
    """

    name: str
    type: KeyType
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.type not in (KeyType.ED25519, KeyType.COSIGNATURE_V1) or len(self.seed) != SEED_BYTES:
            raise MalformedEvidence(f"a secret key has {SEED_BYTES} bytes, and a type that is Ed25519's")

    @property
    def key(self) -> VerifierKey:
        """The public half."""
        return VerifierKey(self.name, self.type, self._private.public_key().public_bytes_raw())

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    def sign(self, text: str) -> NoteSignature:
        """Sign the text of a note, as a log signs its checkpoints.

        Raises:
            ValueError: this key is for cosignatures, which have a time.
        """
        self._require(KeyType.ED25519)
        return NoteSignature(self.name, self.key.key_id, self._private.sign(text.encode()))

    def cosign(self, checkpoint: Checkpoint, *, at_s: int) -> NoteSignature:
        """Cosign a checkpoint, as a witness does once it knows that the checkpoint continues all that it has seen of that log.

        Args:
            checkpoint: the checkpoint.
            at_s: now, in seconds since 1970.

        Raises:
            ValueError: this key is not for cosignatures, or the time is out of range.
        """
        self._require(KeyType.COSIGNATURE_V1)
        if not 0 <= at_s <= MAX_INT64:
            raise ValueError("the time of a cosignature is from 0 to 2^63 - 1")
        signature = self._private.sign(_cosigned(checkpoint.text, at_s))
        return NoteSignature(self.name, self.key.key_id, at_s.to_bytes(_TIME_BYTES, "big") + signature)

    def _require(self, key_type: KeyType) -> None:
        if self.type is not key_type:
            raise ValueError(f"the key of {self.name} is of type {self.type:#04x}, not {key_type:#04x}")

    def to_secret_text(self) -> str:
        """Return the line that Go's note package reads and writes. It is the secret: keep it as one."""
        return f"{_SECRET_PREFIX}{self.name}+{self.key.key_id.hex()}+{to_base64(bytes([self.type]) + self.seed)}"

    @classmethod
    def parse(cls, text: str) -> NoteKey:
        """Read what `to_secret_text` writes. No message repeats any of it.

        Raises:
            MalformedEvidence: it is no secret key, or its id is not that of its key.
        """
        found = _SECRET.fullmatch(text)
        if found is None:
            raise MalformedEvidence(f"a secret key is written {_SECRET_PREFIX}name+id+key")
        try:
            material = from_base64(found["key"], "the secret of a key")
            key = cls(found["name"], KeyType(material[0] if material else 0), material[1:])
        except ValueError:
            raise MalformedEvidence("the secret of a key is not what its format asks for") from None
        if key.key.key_id.hex() != found["id"]:
            raise MalformedEvidence("the id of a secret key is not that of its key")
        return key


@dataclass(frozen=True, slots=True)
class AttestorKey:
    """A secret key that signs envelopes: a `dsse.EnvelopeSigner`.

    Args:
        seed: the secret, 32 bytes.
    """

    seed: bytes = field(repr=False)

    @property
    def verifier(self) -> AttestorVerifier:
        """The public half."""
        return AttestorVerifier(self._private.public_key().public_bytes_raw())

    @property
    def keyid(self) -> str:
        """The public half's name."""
        return self.verifier.keyid

    @property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.seed)

    def sign(self, message: bytes) -> bytes:
        """Sign a message."""
        return self._private.sign(message)


@dataclass(frozen=True, slots=True)
class AttestorVerifier:
    """A public key for envelopes: a `dsse.EnvelopeVerifier`.

    Args:
        public: the Ed25519 public key, 32 bytes.
    """

    public: bytes

    @property
    def keyid(self) -> str:
        """The SHA-256 of the key's SubjectPublicKeyInfo, in hexadecimal."""
        return hashlib.sha256(self.spki).hexdigest()

    @property
    def spki(self) -> bytes:
        """The key as DER SubjectPublicKeyInfo (RFC 8410), which `openssl pkey -pubin -inform DER` reads."""
        return _ed25519_public(self.public).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check a signature.

        Raises:
            WrongSignature: this key did not sign this message.
        """
        _verify_ed25519(self.public, message, signature)


@dataclass(frozen=True, slots=True)
class _NoteVerifier:
    key: VerifierKey

    def verify(self, text: str, signature: bytes) -> int | None:
        _verify_ed25519(self.key.public, text.encode(), signature)
        return None


@dataclass(frozen=True, slots=True)
class _CosignatureVerifier:
    key: VerifierKey

    def verify(self, text: str, signature: bytes) -> int | None:
        at_s = _time_of(signature, _ED25519_BYTES)
        _verify_ed25519(self.key.public, _cosigned(text, at_s), signature[_TIME_BYTES:])
        return at_s


@dataclass(frozen=True, slots=True)
class _MlDsa44Verifier:
    key: VerifierKey

    def verify(self, text: str, signature: bytes) -> int | None:
        from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

        at_s = _time_of(signature, _ML_DSA_44_BYTES)
        message = _subtree_message(self.key.name, Checkpoint.parse(text), at_s)
        try:
            MLDSA44PublicKey.from_public_bytes(self.key.public).verify(signature[_TIME_BYTES:], message)
        except InvalidSignature as error:
            raise WrongSignature(_NOT_SIGNED) from error
        except UnsupportedAlgorithm as error:
            raise WrongKey("the cryptographic library of this machine has no ML-DSA-44; update it to check this key") from error
        return at_s


_NOT_SIGNED = "a signature does not belong to this key and this text: one of them was changed, or the signature is forged"
_VERIFIERS: dict[KeyType, Callable[[VerifierKey], NoteVerifier]] = {
    KeyType.ED25519: _NoteVerifier,
    KeyType.COSIGNATURE_V1: _CosignatureVerifier,
    KeyType.ML_DSA_44: _MlDsa44Verifier,
}


def verifier_of(key: VerifierKey) -> NoteVerifier:
    """Return what checks the signatures of a key, by its type."""
    return _VERIFIERS[key.type](key)


def _cosigned(text: str, at_s: int) -> bytes:
    return f"cosignature/v1\ntime {at_s}\n{text}".encode()


def _subtree_message(cosigner: str, checkpoint: Checkpoint, at_s: int) -> bytes:
    """Return what an ML-DSA-44 cosignature over a whole tree signs (c2sp.org/tlog-cosignature)."""
    names = [name.encode() for name in (cosigner, checkpoint.origin)]
    if any(len(name) > _MAX_NAME_BYTES for name in names):
        raise WrongSignature(f"no such cosignature can be made over names of more than {_MAX_NAME_BYTES} bytes")
    name, origin = (bytes([len(name)]) + name for name in names)
    start_and_end = bytes(8) + checkpoint.size.to_bytes(8, "big")
    return b"subtree/v1\n\0" + name + at_s.to_bytes(8, "big") + origin + start_and_end + checkpoint.root


def _time_of(signature: bytes, rest: int) -> int:
    at_s = int.from_bytes(signature[:_TIME_BYTES], "big")
    if len(signature) != _TIME_BYTES + rest or at_s > MAX_INT64:
        raise WrongSignature("a cosignature is of another length, or its time is out of range")
    return at_s


def _ed25519_public(public: bytes) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        raise MalformedEvidence("these bytes are no Ed25519 public key") from error


def _verify_ed25519(public: bytes, message: bytes, signature: bytes) -> None:
    try:
        _ed25519_public(public).verify(signature, message)
    except InvalidSignature as error:
        raise WrongSignature(_NOT_SIGNED) from error
