"""DSSE envelopes (github.com/secure-systems-lab/dsse): bytes and their type, signed as they are, without a canonical form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from interlock.errors import MalformedEvidence, WrongKey, WrongSignature
from interlock.evidence.encoding import to_base64
from interlock.evidence.strict_json import Reader, read_object, write_json

MAX_SIGNATURES = 16
"""Each is tried with each key that is trusted."""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed: type and payload, each with its length in front, so that neither can run into the other."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


class EnvelopeSigner(Protocol):
    """What signs envelopes."""

    @property
    def keyid(self) -> str:
        """The name of its key: a hint for whoever looks for the key, and no more."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Sign a message."""
        ...


class EnvelopeVerifier(Protocol):
    """What checks the signatures of one key."""

    @property
    def keyid(self) -> str:
        """The name of the key."""
        ...

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check a signature.

        Raises:
            WrongSignature: the key did not sign this message.
        """
        ...


_Verifier = TypeVar("_Verifier", bound=EnvelopeVerifier)


@dataclass(frozen=True, slots=True)
class EnvelopeSignature:
    """A signature of an envelope, and the name of a key that nothing vouches for."""

    signature: bytes
    keyid: str | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload, its type, and who signed them. The payload must be ignored until `verify_envelope` has accepted it.

    Args:
        payload_type: what the payload is, as a media type or an address.
        payload: the bytes that are signed.
        signatures: at least one.

    Raises:
        MalformedEvidence: no signature, or more than are read.
    """

    payload_type: str
    payload: bytes
    signatures: tuple[EnvelopeSignature, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.signatures) <= MAX_SIGNATURES:
            raise MalformedEvidence(f"an envelope with {len(self.signatures)} signatures: 1 to {MAX_SIGNATURES} are read")

    @classmethod
    def parse(cls, data: bytes) -> Envelope:
        """Read an envelope from its JSON. Fields that the format does not know are passed over, as it asks.

        Raises:
            MalformedEvidence: it is none, or beyond the limits.
        """
        return cls.from_fields(read_object(data, "an envelope"))

    @classmethod
    def from_fields(cls, fields: Reader) -> Envelope:
        """Read an envelope that is part of something else.

        Raises:
            MalformedEvidence: it is none.
        """
        signatures = fields.objects("signatures")[: MAX_SIGNATURES + 1]
        return cls(
            fields.text("payloadType"),
            _from_either_base64(fields.text("payload")),
            tuple(EnvelopeSignature(_from_either_base64(one.text("sig")), one.text_or_none("keyid")) for one in signatures),
        )

    def to_fields(self) -> dict[str, object]:
        """Return it as JSON values."""
        signatures = [
            {"sig": to_base64(one.signature)} | ({} if one.keyid is None else {"keyid": one.keyid}) for one in self.signatures
        ]
        return {"payloadType": self.payload_type, "payload": to_base64(self.payload), "signatures": signatures}

    def serialize(self) -> bytes:
        """Return it as JSON.

        Raises:
            MalformedEvidence: it is too large, or a name in it is not Unicode.
        """
        return write_json(self.to_fields())


def sign_envelope(payload_type: str, payload: bytes, *signers: EnvelopeSigner) -> Envelope:
    """Sign bytes.

    Args:
        payload_type: what they are.
        payload: the bytes.
        signers: who signs, at least one.
    """
    message = pae(payload_type, payload)
    signatures = tuple(EnvelopeSignature(signer.sign(message), signer.keyid) for signer in signers)
    return Envelope(payload_type, payload, signatures)


def verify_envelope(envelope: Envelope, verifiers: Sequence[_Verifier]) -> tuple[_Verifier, ...]:
    """Return which of the keys that are trusted have signed an envelope; each is tried, whatever the key ids say.

    Args:
        envelope: the envelope.
        verifiers: the keys that are trusted.

    Raises:
        WrongKey: none of them has signed it.
        WrongSignature: none has, although a signature bears the name of one.
    """
    message = pae(envelope.payload_type, envelope.payload)
    signatures = [one.signature for one in envelope.signatures]
    signed = tuple(one for one in verifiers if any(_verifies(one, message, signature) for signature in signatures))
    if signed:
        return signed
    if {one.keyid for one in envelope.signatures} & {one.keyid for one in verifiers}:
        raise WrongSignature("the envelope bears the name of a trusted key, which did not sign it: it was changed, or forged")
    raise WrongKey("no key that is trusted here has signed this envelope")


def _verifies(verifier: EnvelopeVerifier, message: bytes, signature: bytes) -> bool:
    try:
        verifier.verify(message, signature)
    except WrongSignature:
        return False
    return True


def _from_either_base64(text: str) -> bytes:
    """Decode standard or URL-safe base64; the format allows both."""
    standard = text.translate(str.maketrans("-_", "+/")) if not {"+", "/"} & set(text) else text
    try:
        data = base64.b64decode(standard, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedEvidence("a payload or a signature of an envelope is not base64") from error
    if to_base64(data) != standard:
        raise MalformedEvidence("a payload or a signature of an envelope is not base64 as an encoder writes it")
    return data
