"""Where holders are stopped, and for how long their claims last: shared by the tests of zombies.

What such a test waits for is that claims run out. In the quick suite the zombies of all tests of a file are stopped before the
first of them is recovered, so that all of them wait at the same time; in the long one there are too many for that.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from interlock import Gate

APPEND = "Journal.append"
MARGIN_S = 5.0
"""The shortest time to live that the configuration allows is so much longer than a send: what a test has to wait for."""
FEW, MANY = 10, 120
"""How many steps between the first and the last ones are tried."""
SAMPLES = [FEW, pytest.param(MANY, marks=pytest.mark.long)]


def all_asleep(request: pytest.FixtureRequest, samples: int, names: Sequence[str]) -> None:
    """Stop the zombies of all these fixtures now, if there are few."""
    if samples == FEW:
        for name in names:
            request.getfixturevalue(name)


def approve(gate: Gate, key: str) -> None:
    """Grant an approval."""
    gate.approve(key, by="user:1", expires_in_s=86_400, cap_minor=2000, currency="usd")


def sample(total: int, samples: int, seed: int) -> list[int]:
    """Return the first step, the last few, and some between."""
    some = random.Random(seed).sample(range(1, total + 1), min(samples, total))
    return sorted({1, *range(total - 8, total + 1), *some})
