"""A long test is heard of while it is at work."""

import os
from pathlib import Path

import pytest

from tests.heartbeat import Heartbeat

_HEARD = "is at work for"


@pytest.mark.parametrize("marked", [True, False])
def test_only_a_long_test_says_that_it_is_at_work(marked: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of the test
    """It says so again and again, past what is captured, until it is over; a short one says nothing."""
    if marked:
        request.node.add_marker(pytest.mark.long)
    said = tmp_path / "said"
    out = os.open(said, os.O_WRONLY | os.O_CREAT)
    running = Heartbeat(out, every_s=0.001).pytest_runtest_protocol(request.node)
    next(running)
    while marked and said.read_text().count(_HEARD) < 2:
        pass
    with pytest.raises(StopIteration, match="the result"):
        running.send("the result")
    os.close(out)
    assert (_HEARD in said.read_text()) is marked
