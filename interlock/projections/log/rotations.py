"""Checking that one key took the place of another: both have signed it."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.domain.log import LOG_ROLE
from interlock.domain.log_states import KeyRotatedState, rotation_text
from interlock.errors import EvidenceError
from interlock.evidence.encoding import from_base64
from interlock.evidence.signing import AttestorVerifier, verifier_of
from interlock.evidence.vkeys import VerifierKey

_SPKI_BYTES, _KEY_BYTES = 44, 32


def verify_rotation(log_id: str, rotated: KeyRotatedState) -> None:
    """Check that both keys have signed a rotation.

    Args:
        log_id: the journal's id.
        rotated: what the event says.

    Raises:
        EvidenceError: a key or a signature is malformed, or a key did not sign this.
    """
    text = rotation_text(log_id, rotated.role, rotated.old, rotated.new)
    for public, signature in ((rotated.old, rotated.old_signature), (rotated.new, rotated.new_signature)):
        signed = from_base64(signature, "the signature of a rotation")
        if rotated.role == LOG_ROLE:
            verifier_of(VerifierKey.parse(public)).verify(text, signed)
        else:
            spki = from_base64(public, "the key of a rotation", length=_SPKI_BYTES)
            AttestorVerifier(spki[-_KEY_BYTES:]).verify(text.encode(), signed)


def trusted_through(log_id: str, ours: Iterable[str], rotations: Iterable[KeyRotatedState]) -> set[str]:
    """Return the log's keys that are trusted by whoever trusts these: those that they took the place of, and signed that they do.

    Args:
        log_id: the journal's id.
        ours: verifier keys, as text.
        rotations: the log's rotations, oldest first.
    """
    trusted = set(ours)
    for rotated in reversed(list(rotations)):
        if rotated.role == LOG_ROLE and rotated.new in trusted and _holds(log_id, rotated):
            trusted.add(rotated.old)
    return trusted


def replaced_by(log_id: str, ours: Iterable[str], rotations: Iterable[KeyRotatedState]) -> set[str]:
    """Return the log's keys that took the place of these, one after the other, as both signed.

    Args:
        log_id: the journal's id.
        ours: verifier keys, as text.
        rotations: the log's rotations, oldest first.
    """
    known, found = set(ours), set[str]()
    for rotated in rotations:
        if rotated.role == LOG_ROLE and rotated.old in known | found and _holds(log_id, rotated):
            found.add(rotated.new)
    return found - known


def _holds(log_id: str, rotated: KeyRotatedState) -> bool:
    try:
        verify_rotation(log_id, rotated)
    except EvidenceError:
        return False
    return True
