"""Checkpoints (c2sp.org/tlog-checkpoint): what a log says of itself at one size."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interlock.errors import MalformedEvidence
from interlock.evidence.encoding import MAX_INT64, from_base64, from_decimal, to_base64
from interlock.evidence.merkle import HASH_BYTES
from interlock.evidence.notes import check_text
from interlock.evidence.vkeys import check_key_name

_EPOCH = re.compile(r"(?P<identity>.+)-(?P<epoch>[1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """The name of one of our logs: an identity, and an epoch that rises when a restored journal has to begin anew.

    Two checkpoints of one origin must never contradict each other. After a restore from a backup they would, without a new epoch.

    Args:
        identity: who the log is, as an address without a scheme, such as `acme.example/interlock/prod`.
        epoch: from 1.

    Raises:
        MalformedEvidence: it could not be an origin.
    """

    identity: str
    epoch: int

    def __post_init__(self) -> None:
        check_key_name(self.identity)
        if not 0 < self.epoch < 10**9:
            raise MalformedEvidence("the epoch of a log is a number from 1")

    def __str__(self) -> str:
        """Return it as it stands in a checkpoint."""
        return f"{self.identity}-{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Read an origin of ours.

        Raises:
            MalformedEvidence: it does not end in an epoch. Other people's logs need not.
        """
        found = _EPOCH.fullmatch(text)
        if found is None:
            raise MalformedEvidence("this origin does not end in an epoch, such as `-1`")
        return cls(found["identity"], int(found["epoch"]))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log's tree: the text of a note that the log signs.

    Args:
        origin: which log it is, one line.
        size: how many leaves.
        root: the root over them.
        extensions: further lines, opaque. None of ours has any: cosignatures say nothing of them.

    Raises:
        MalformedEvidence: it could not be written as a checkpoint.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lines = (self.origin, *self.extensions)
        if not all(lines) or any("\n" in line for line in lines):
            raise MalformedEvidence("a checkpoint has an empty line, or a line of several")
        if not 0 <= self.size <= MAX_INT64 or len(self.root) != HASH_BYTES:
            raise MalformedEvidence("a checkpoint has a size from 0 to 2^63 - 1, and a root of 32 bytes")
        check_text(self.text)

    @property
    def text(self) -> str:
        """The text of the note."""
        return "".join(f"{line}\n" for line in (self.origin, str(self.size), to_base64(self.root), *self.extensions))

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read the text of a note.

        Raises:
            MalformedEvidence: it is no checkpoint.
        """
        match text.split("\n"):
            case [origin, size, root, *extensions, ""]:
                return cls(
                    origin,
                    from_decimal(size, "the size of a checkpoint"),
                    from_base64(root, "the root of a checkpoint", length=HASH_BYTES),
                    tuple(extensions),
                )
            case _:
                raise MalformedEvidence("a checkpoint has at least three lines, each with its newline")
