"""What the text formats share: base64 and decimals that can be written in one way only."""

from __future__ import annotations

import base64
import binascii
import re

from interlock.errors import MalformedEvidence

MAX_INT64 = 2**63 - 1
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def to_base64(data: bytes) -> str:
    """Return standard base64 with padding (RFC 4648, section 4)."""
    return base64.b64encode(data).decode()


def from_base64(text: str, what: str, *, length: int | None = None) -> bytes:
    """Decode standard base64.

    Args:
        text: the encoded bytes.
        what: what it is, for the message.
        length: how many bytes it has to stand for.

    Raises:
        MalformedEvidence: another alphabet, missing padding, stray bits, or another length.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedEvidence(f"{what} is not base64") from error
    # Decoders pass over bits behind the last byte, so one value would have several spellings.
    if to_base64(data) != text:
        raise MalformedEvidence(f"{what} is not base64 as an encoder writes it")
    if length is not None and len(data) != length:
        raise MalformedEvidence(f"{what} has {len(data)} bytes, not {length}")
    return data


def from_decimal(text: str, what: str) -> int:
    """Read an ASCII decimal without leading zeros, up to 2^63 - 1.

    Raises:
        MalformedEvidence: it is none.
    """
    if _DECIMAL.fullmatch(text) is None or int(text) > MAX_INT64:
        raise MalformedEvidence(f"{what} is not a decimal number from 0 to 2^63 - 1")
    return int(text)


def after(prefix: str, line: str) -> str:
    """Return what follows a fixed prefix.

    Raises:
        MalformedEvidence: the line does not begin with it.
    """
    if not line.startswith(prefix):
        raise MalformedEvidence(f"a line should begin with {prefix!r}")
    return line[len(prefix) :]


def from_utf8(data: bytes, what: str, *, max_bytes: int) -> str:
    """Decode UTF-8 of a bounded length.

    Raises:
        MalformedEvidence: it is too long, or not UTF-8.
    """
    if len(data) > max_bytes:
        raise MalformedEvidence(f"{what} has {len(data)} bytes; more than {max_bytes} are not read")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedEvidence(f"{what} is not UTF-8") from error
