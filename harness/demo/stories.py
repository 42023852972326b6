"""What the pages call the rows and the columns of the matrix, and what they say about them beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.columns.job import KillPoint
from harness.scenarios import BURN_OFF, SCENARIOS, Scenario
from harness.verdicts import in_words


class Way(StrEnum):
    """A way of working, whatever carries it."""

    PLAIN = "plain"
    CHECKED = "checked"
    GATE = "gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """A column of a page.

    Args:
        column: the column of the matrix.
        way: its way of working.
        title: what it is called.
        about: how it works, in a sentence or two.
    """

    column: str
    way: Way
    title: str
    about: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"column": self.column, "way": self.way, "title": self.title, "about": self.about}


STANDALONE_TRACKS = (
    Track(
        column="standard",
        way=Way.PLAIN,
        title="Without a gate",
        about="The decision is saved, and repeated after a crash under the same idempotency key. Nothing is looked at again.",
    ),
    Track(
        column="checked",
        way=Way.CHECKED,
        title="Hand-written check",
        about="The same, with ten careful lines on top: is our refund there already, is the approval live, is anything new?",
    ),
    Track(
        column="interlock",
        way=Way.GATE,
        title="With Interlock",
        about="The decision goes through the gate, which writes down what it is about to do before it does it.",
    ),
)


TEMPORAL_TRACKS = (
    Track(
        column="temporal",
        way=Way.PLAIN,
        title="Temporal alone",
        about="The refund is an activity, and its key is the activity's own. Temporal repeats it. Nothing is looked at again.",
    ),
    Track(
        column="temporal_checked",
        way=Way.CHECKED,
        title="Hand-written check",
        about="The same, with ten careful lines at the top of the activity: is our refund there already, is the approval live?",
    ),
    Track(
        column="temporal_interlock",
        way=Way.GATE,
        title="Temporal with Interlock",
        about="The body of the activity is the gate, which writes down what it is about to do before it does it.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A row of the matrix as a reader meets it.

    Args:
        title: its name for a reader.
        words: what happens, in a sentence.
    """

    title: str
    words: str


STORIES = {
    "hand_refund_during_outage": Story(
        title="Refunded by hand",
        words="The worker dies right before it sends the refund. While it is down, support gives the same $20 back by hand.",
    ),
    "approval_revoked_during_outage": Story(
        title="Approval revoked",
        words="The worker dies right before it sends the refund. While it is down, the approval is taken back.",
    ),
    "crash_after_commit": Story(
        title="Crash after the answer",
        words="Stripe has refunded and said so. The worker dies before it could write that down.",
    ),
    "unrelated_refund_during_outage": Story(
        title="Unrelated refund",
        words="The worker dies right before it sends the refund. While it is down, support refunds $5 for something else.",
    ),
    "hand_refund_before_decision": Story(
        title="An earlier refund",
        words="Support had refunded $5 before the model looked. The worker dies after Stripe's answer, before writing it down.",
    ),
    "approval_revoked_after_commit": Story(
        title="Revoked too late",
        words="The refund is out when the worker dies. Then the approval is taken back. What is true now?",
    ),
    "key_pruned_after_24h": Story(
        title="A day later",
        words="The refund is out when the worker dies. The next one starts after 25 hours, and Stripe has dropped the key.",
    ),
    "key_lost_inside_window": Story(
        title="The key is forgotten early",
        words="The refund is out when the worker dies. Stripe forgets the idempotency key, although it should still know it.",
    ),
    "no_lookup_after_24h": Story(
        title="Nobody can know",
        words="As a day later, and the gate may not look refunds up. Nobody can find out from here what happened.",
    ),
    "hand_refund_during_outage (burn off)": Story(
        title="By hand, and no key to burn",
        words="As refunded by hand, and the gate may not use keys up: it waits until nothing can land any more, about 10 s.",
    ),
    "approval_revoked_during_outage (burn off)": Story(
        title="Revoked, and no key to burn",
        words="As approval revoked, and the gate may not use keys up: it waits until nothing can land any more, about 10 s.",
    ),
}
FIRST = (
    "hand_refund_during_outage",
    "approval_revoked_during_outage",
    "crash_after_commit",
    "unrelated_refund_during_outage",
)
"""The rows that a page offers at once; the others stand behind "more"."""


def story_json(scenario: Scenario, *, live: bool) -> dict[str, Any]:
    """Return a row for the page, as JSON values.

    Args:
        scenario: the row.
        live: whether it is played at the real services, where some of it has to be emulated.
    """
    story = STORIES[scenario.name]
    return {
        "name": scenario.name,
        "title": story.title,
        "words": story.words,
        "want": in_words(scenario.want),
        "dies": "right before the call" if scenario.dies is KillPoint.BEFORE_SEND else "right after the answer",
        "first": scenario.name in FIRST,
        "gate_only": scenario.interlock_only,
        "waits": scenario.settings == BURN_OFF,
        "emulated": live and scenario.emulated,
    }


def stories_json(*, live: bool) -> list[dict[str, Any]]:
    """Return all rows, those that are offered at once first.

    Args:
        live: whether they are played at the real services.
    """
    ordered = [*FIRST, *(name for name in SCENARIOS if name not in FIRST)]
    return [story_json(SCENARIOS[name], live=live) for name in ordered]
