"""The figures that a gate works with; each has its unit in its name."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import InvalidConfiguration

_LARGEST = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class GateConfig:
    """How a gate works.

    Args:
        claim_ttl_s: for how long a claim holds where its holder's death can't be seen, in seconds.
        sends_per_pass: after how many sends without an answer `fire` and `recover` return InFlight.
        recover_batch: how many actions one pass of `recover_forever` works on at the most.
        recover_every_s: the mean pause between passes of `recover_forever`, in seconds. A pass that had as much to do as it may,
            and got on with it, is followed by the next one at once.
        async_threads: how many threads an `AsyncGate` has at the most: so many actions can be in the middle of a commit, or of
            a send by a sync target, at once. Others wait for a thread, and nothing of theirs is written or sent meanwhile.
            A sync target that waits for another call of the same gate holds one meanwhile: enough of them wait for ever.

    Raises:
        InvalidConfiguration: a figure that is not positive, no number, or beyond ten years of seconds.
    """

    claim_ttl_s: float = 40.0
    sends_per_pass: int = 2
    recover_batch: int = 25
    recover_every_s: float = 5.0
    async_threads: int = 32

    def __post_init__(self) -> None:
        for name in ("claim_ttl_s", "sends_per_pass", "recover_batch", "recover_every_s", "async_threads"):
            figure, whole = getattr(self, name), not name.endswith("_s")
            if type(figure) not in ((int,) if whole else (int, float)) or not 0 < figure <= _LARGEST:
                kind = "integer" if whole else "number"
                raise InvalidConfiguration(f"{name} must be a positive {kind} of at most {_LARGEST}, not {figure!r}")
