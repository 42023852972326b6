"""What an error says, and that it says it in another process too."""

import copy
import pickle

import pytest

from interlock import Evidence, Settlement
from interlock.errors import (
    ActionErased,
    ActionMismatch,
    InterlockError,
    InvalidKey,
    ModelUnavailable,
    OutcomeNotRecorded,
    QuorumNotReached,
)

EVIDENCE = Evidence(reference="re_1", state="succeeded", settlement=Settlement.FINAL, json="{}")


@pytest.mark.parametrize(
    "error",
    [
        InvalidKey("a key is printable"),
        ActionMismatch("key", "sha256:1", "sha256:2"),
        ActionErased("00", "COMMITTED"),
        QuorumNotReached("1 of 2", ("w1",)),
        ModelUnavailable("overloaded", status=529, request_id="req_1", retry_after_s=2.0),
        OutcomeNotRecorded("key", EVIDENCE, "the journal is closed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_out_of_another_process_as_it_was(error: InterlockError) -> None:
    """A pool of processes pickles it: one that can't be made again breaks the pool, and what it had to say is lost."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own bytes
        assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


def test_what_was_sent_is_not_said_to_be_not_sent() -> None:
    """The journal's own error ends with what it did not do; here it was done."""
    said = str(OutcomeNotRecorded("key", EVIDENCE, "the journal is closed; nothing was written or sent"))
    assert "carried out by the provider (re_1)" in said
    assert "the journal is closed." in said
    assert "nothing was" not in said
