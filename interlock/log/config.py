"""How the log is signed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from interlock.errors import InvalidConfiguration

if TYPE_CHECKING:
    from interlock.projections.log.writing import LogSigner

PathLike = str | os.PathLike[str]

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]")

BEFORE_DISPATCH: Literal["before_dispatch"] = "before_dispatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """How the journal's log is signed, and what a send waits for.

    Args:
        key_file: the log's key. Without one, and without `signers`, another process signs (`interlock log run`), and this one at
            most waits for it.
        old_key_file: the key that it takes the place of, while both sign.
        signers: keys that are not in files, the present one first.
        policy_file: a C2SP tlog-policy: which log keys and witnesses count, where the witnesses are, and how many it takes.
        every_events: a checkpoint is made as soon as so many events are under none.
        every_s: or when one of them has waited for so long, in seconds.
        high_water: where the last signed checkpoint is kept, outside the database; in the key's folder unless given, in a
            file named after the log.
        anchor: `before_dispatch`: nothing is sent before its announcement stands under a checkpoint that the policy accepts.
        anchor_wait_s: for how long a send waits for that, in seconds, before it is put off.
        witness_timeout_s: for how long a witness is waited for, in seconds.

    Raises:
        InvalidConfiguration: a figure that is not positive, an anchor without a key or a policy, or a signer without a mark.
    """

    key_file: PathLike | None = None
    old_key_file: PathLike | None = None
    signers: tuple[LogSigner, ...] = field(default=(), repr=False)
    policy_file: PathLike | None = None
    every_events: int = 256
    every_s: float = 1.0
    high_water: PathLike | None = None
    anchor: Literal["before_dispatch"] | None = None
    anchor_wait_s: float = 5.0
    witness_timeout_s: float = 3.0

    def __post_init__(self) -> None:
        for name in ("every_events", "every_s", "anchor_wait_s", "witness_timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidConfiguration(f"{name} must be positive")
        if self.anchor not in (None, BEFORE_DISPATCH):
            raise InvalidConfiguration(f"anchor is {BEFORE_DISPATCH!r} or nothing, not {self.anchor!r}")
        if not self.signs and self.policy_file is None:
            raise InvalidConfiguration("a log needs a key that signs it, or a policy that says whose signatures count")
        if self.signs and self.key_file is None and self.high_water is None:
            raise InvalidConfiguration("a log whose keys are not in files needs `high_water`: where its last checkpoint is kept")

    @property
    def signs(self) -> bool:
        """Whether this process may sign."""
        return bool(self.key_file or self.signers)

    def mark_of(self, identity: str) -> Path:
        """Return where the last signed checkpoint of a log is kept."""
        if self.high_water is not None:
            return Path(self.high_water)
        assert self.key_file is not None, "a signer without a file was given a mark"
        return Path(self.key_file).parent / f"{_NOT_IN_NAMES.sub('_', identity)}.mark"
