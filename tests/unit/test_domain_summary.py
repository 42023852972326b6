"""The row that an action is found by, whether somebody has to look at it, and whether it may be forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.domain.action import GatedAction
from interlock.domain.answers import Settlement
from interlock.domain.erasure import mark_erased
from interlock.domain.requests import AppendAnswer
from interlock.domain.states import Door, Doubt, Remains, Status, Via
from interlock.domain.summary import IN_FLIGHT, ActionSummary, needs_attention, summarize
from interlock.errors import NotErasable
from tests.scripted import ACTION_ID, AT, Outside, dispatched, evidence, gate, intended, later


def ended(how: str) -> GatedAction:
    """Return an action that ended so."""
    action = dispatched(gate())
    match how:
        case "committed" | "open" | "reversed":
            settlement = {"committed": Settlement.FINAL, "open": Settlement.OPEN, "reversed": Settlement.REVERSED}[how]
            action.commit(Via.FIRST_SEND, replace(evidence(), settlement=settlement), later(1))
        case "resolved":
            action.leave_ambiguous("code", "words", later(1))
            action.commit(Via.RESOLUTION, None, later(2), by="user:17")
        case "refused" | "possible":
            possible = "" if how == "refused" else "a smaller amount"
            action.refuse("declined:card", "words", later(1), door=Door.ANSWERED, at_recovery=False, possible=possible)
        case _:
            action.leave_ambiguous("no_lookup", "words", later(1))
    action.collect_events()
    return action


FLYING = ActionSummary(
    action_id=ACTION_ID.hex,
    version=3,
    key="refund:1",
    status=IN_FLIGHT,
    target="world",
    subject="acct_1",
    approval_id="case-1",
    amount_minor=2000,
    currency="usd",
    via=None,
    code=None,
    attention=False,
    claim_lock=None,
    claim_expires_at=later(40),
    intended_at=AT,
    changed_at=AT,
)


def test_an_action_in_flight_is_found_by_its_claim() -> None:
    """By its lock and its end, where it has one."""
    assert summarize(dispatched(gate())) == FLYING
    assert summarize(dispatched(replace(gate(), lock="lock-1"))) == replace(FLYING, claim_lock="lock-1")
    assert summarize(intended()) == replace(FLYING, version=1, claim_expires_at=None)


@pytest.mark.parametrize(
    ("how", "status", "via", "code", "attention"),
    [
        ("committed", "COMMITTED", "first-send", None, False),
        ("open", "COMMITTED", "first-send", None, True),
        ("reversed", "COMMITTED", "first-send", None, True),
        ("refused", "REFUSED", None, "declined:card", False),
        ("possible", "REFUSED", None, "declined:card", True),
        ("ambiguous", "AMBIGUOUS", None, "no_lookup", True),
        ("resolved", "COMMITTED", "resolution", None, False),
    ],
)
def test_an_action_that_ended_is_nobodys(how: str, status: str, via: str | None, code: str | None, attention: bool) -> None:  # noqa: FBT001 - the case's end
    """It has an end and no claim; a person looks where nobody knows, where a way is open, and where the provider is not done."""
    action = ended(how)
    expected = replace(FLYING, version=action.version, status=status, via=via, code=code, attention=attention)
    assert summarize(action) == replace(expected, claim_expires_at=None, changed_at=action.modified_on)
    assert needs_attention(action) is attention


@pytest.mark.parametrize(
    ("how", "status", "via", "code"),
    [("committed", "COMMITTED", "first-send", None), ("possible", "REFUSED", None, "declined:card")],
)
def test_an_erased_action_says_how_it_ended_and_nothing_else(how: str, status: str, via: str | None, code: str | None) -> None:
    """Nothing of whom or what it was about, and nobody has to look at it."""
    action = ended(how)
    action.erase("request", "user:9", later(9))
    gone = replace(FLYING, key=None, subject="", approval_id="", amount_minor=None, currency=None, claim_expires_at=None)
    assert summarize(action) == replace(gone, version=5, status=status, via=via, code=code, changed_at=later(9))


# --- erasing


def marked(action: GatedAction, outside: Outside) -> None:
    """Write down that it is erased."""
    outside.run(mark_erased(action, "request", "user:9"))


@pytest.mark.parametrize(
    ("how", "status", "via", "code", "settlement"),
    [
        ("committed", Status.COMMITTED, Via.FIRST_SEND, None, Settlement.FINAL),
        ("reversed", Status.COMMITTED, Via.FIRST_SEND, None, Settlement.REVERSED),
        ("refused", Status.REFUSED, None, "declined:card", None),
        ("resolved", Status.COMMITTED, Via.RESOLUTION, None, None),
    ],
)
def test_what_is_over_may_be_forgotten(
    how: str, status: Status, via: Via | None, code: str | None, settlement: Settlement | None
) -> None:
    """It is written down first, once, with who asked and why, and what became of it."""
    outside = Outside()
    marked(ended(how), outside)
    ((erased,),) = outside.appended
    assert (erased.reason, erased.by, erased.timestamp) == ("request", "user:9", AT)
    left = Remains(status=status, via=via, code=code, settlement=settlement, target="world", intended_at=AT)
    assert erased.remains == left


@pytest.mark.parametrize("how", ["ambiguous", "open"])
def test_what_is_still_open_is_not_forgotten(how: str) -> None:
    """It has to be found again at the provider."""
    outside = Outside()
    with pytest.raises(NotErasable, match="nothing was erased"):
        marked(ended(how), outside)
    with pytest.raises(NotErasable, match="is DISPATCHED"):
        marked(dispatched(gate()), outside)
    assert outside.appended == []


def test_what_moved_meanwhile_is_read_again() -> None:
    """And thought over: it may have become something that must not be forgotten."""
    outside = Outside(ended("refused"), Append=[AppendAnswer.ACTION_MOVED])
    marked(ended("refused"), outside)
    assert outside.kinds == ["Append", "LoadAction", "Append"]
    outside = Outside(ended("open"), Append=[AppendAnswer.ACTION_MOVED])
    with pytest.raises(NotErasable):
        marked(ended("committed"), outside)


def test_what_only_one_pass_counts_is_not_kept() -> None:
    """The number of its sends; what it learned is."""
    assert Doubt(nothing_sent=True, sends=3).to_keep() == Doubt(nothing_sent=True, sends=0)
