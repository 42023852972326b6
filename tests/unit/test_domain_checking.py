"""The re-check and what it reads of an approval: what stands in the way, in which words, and what is only not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from interlock.domain.action import Checks
from interlock.domain.approvals import Approval, ApprovalReading, ApprovalRef, ApprovalState, ApprovalTerms, misfit
from interlock.domain.checking import Checked, check, read_approval, require_readable, require_usable
from interlock.domain.effects import DataclassCodec, Effect, EffectRecord, record_effect
from interlock.domain.premises import PremiseReading, ReadingState
from interlock.errors import ApprovalNotUsable, PremiseUnreadable
from tests.provider_world import Transfer
from tests.scripted import ACTION_ID, APPROVAL_ID, AT, Outside, approval, effect, intent, later

OTHER = UUID(int=9)
AGAIN = "a person may approve again, on the facts as they are now; fire under the new approval's key"


def granted(cap_minor: int | None = 2000, uses: int = 1, fingerprint: str | None = None) -> Approval:
    """Return an approval that lasts for 100 s."""
    currency = None if cap_minor is None else "usd"
    terms = ApprovalTerms(
        cap_minor=cap_minor, currency=currency, by="user:17", expires_in_s=100, fingerprint=fingerprint, uses=uses
    )
    return Approval.grant(APPROVAL_ID, "case-1", terms, AT)


def without_money() -> EffectRecord:
    """Return the record of an effect that moves none."""
    return record_effect(Effect("world", "acct_1", Transfer("acct_1", 1, "usd")), DataclassCodec(Transfer), 1)


def reading(state: ApprovalState = ApprovalState.LIVE, **more: Any) -> ApprovalReading:
    """Return what was read of an approval."""
    return ApprovalReading(ref=ApprovalRef("case-1"), state=state, held=True, read_at=AT, **more)


def premise(state: ReadingState, subject: str = "acct_1") -> PremiseReading:
    """Return a premise that was read again."""
    return PremiseReading(
        target="world",
        subject=subject,
        policy="strict",
        policy_version=1,
        state=state,
        words=f"{subject} is {state}",
        possible=f"{subject}: decide again",
        facts_json="{}",
        read_at=AT,
    )


def checked(read: ApprovalReading, *premises: PremiseReading) -> Checked:
    """Return what was read."""
    return Checked(Checks(approval=read, premises=premises), None)


# --- what an approval's reading says


def test_a_reading_says_all_that_a_receipt_needs() -> None:
    """Who gave it, for how much, until when, what is left, and the version that the commit asserts."""
    held = granted(uses=3)
    held.reserve(OTHER, effect(500), AT)
    assert held.reading(ACTION_ID, effect(), later(1)) == ApprovalReading(
        ref=ApprovalRef("case-1"),
        state=ApprovalState.USED_UP,
        held=True,
        read_at=later(1),
        cap_minor=2000,
        currency="usd",
        remaining_minor=1500,
        by="user:17",
        expires_at=later(100),
        version=2,
        misfit=None,
    )


def test_an_actions_own_reservation_leaves_it_all_that_it_reserved() -> None:
    """What it holds itself counts as left for it, reserved or spent, and for nobody else."""
    held = granted(uses=3)
    held.reserve(ACTION_ID, effect(2000), AT)
    assert held.reading(ACTION_ID, effect(), AT).remaining_minor == 2000
    assert held.reading(ACTION_ID, effect(), AT).state is ApprovalState.LIVE
    held.spend(ACTION_ID, effect(2000), AT)
    assert held.remaining_minor(ACTION_ID.hex) == 2000
    assert held.remaining_minor() == held.remaining_minor(OTHER.hex) == 0


@pytest.mark.parametrize(("uses", "state"), [(1, ApprovalState.USED_UP), (2, ApprovalState.USED_UP), (3, ApprovalState.LIVE)])
def test_a_use_is_a_use_reserved_or_spent(uses: int, state: ApprovalState) -> None:
    """Two others, one of them spent, leave the third use."""
    held = granted(uses=uses)
    held.reserve(OTHER, effect(1), AT)
    held.spend(UUID(int=8), effect(1), AT)
    assert held.state_for(ACTION_ID, effect(1), AT) is state


@pytest.mark.parametrize(("amount", "state"), [(1500, ApprovalState.LIVE), (1501, ApprovalState.USED_UP)])
def test_the_cap_is_enough_to_the_last_unit(amount: int, state: ApprovalState) -> None:
    """And not beyond."""
    held = granted(uses=3)
    held.spend(OTHER, effect(500), AT)
    assert held.state_for(ACTION_ID, effect(amount), AT) is state


def test_an_approval_without_a_cap_counts_uses_and_no_money() -> None:
    """What moves no money reserves and spends nothing of a cap, and takes a use."""
    held = granted(cap_minor=None)
    assert held.state_for(ACTION_ID, without_money(), AT) is ApprovalState.LIVE
    held.reserve(OTHER, without_money(), AT)
    held.spend(OTHER, without_money(), AT)
    (reserved,) = (event for event in held.pending_events if isinstance(event, Approval.Reserved))
    assert reserved.amount_minor == 0
    assert (held.spent, held.remaining_minor()) == ({OTHER.hex: 0}, None)
    assert held.state_for(ACTION_ID, without_money(), AT) is ApprovalState.USED_UP


def test_what_moves_no_money_needs_nothing_of_a_cap() -> None:
    """It goes on where all of it is spent, as long as a use is left."""
    held = granted(uses=2)
    held.spend(OTHER, effect(2000), AT)
    assert held.state_for(ACTION_ID, without_money(), AT) is ApprovalState.LIVE


def test_a_revocation_comes_before_an_expiry_and_says_who_and_why() -> None:
    """Once: a second one changes nothing."""
    held = granted()
    assert (held.revoked_by, held.revoked_at) == (None, None)
    held.revoke("user:18", "a mistake", AT)
    held.revoke("user:19", "again", later(1))
    assert held.state_for(ACTION_ID, effect(), later(500)) is ApprovalState.REVOKED
    assert (held.revoked_by, held.revoked_at) == ("user:18", AT)
    (revoked,) = (event for event in held.pending_events if isinstance(event, Approval.Revoked))
    assert (revoked.by, revoked.note, revoked.timestamp) == ("user:18", "a mistake", AT)


def test_what_an_action_does_to_an_approval_it_does_once() -> None:
    """Reserved, spent and released again, each event stands there once, with its action and amount."""
    held = granted()
    for at in (1, 2):
        held.reserve(ACTION_ID, effect(7), later(at))
    for at in (3, 4):
        held.spend(ACTION_ID, effect(7), later(at))
        held.release(ACTION_ID, later(at))
    events = [(type(event).__name__, event.timestamp, event.originator_version) for event in held.pending_events]
    assert events == [("Granted", AT, 1), ("Reserved", later(1), 2), ("Spent", later(3), 3)]
    held.reserve(OTHER, effect(5), later(5))
    held.release(OTHER, later(6))
    held.release(OTHER, later(7))
    assert [type(event).__name__ for event in held.pending_events[3:]] == ["Reserved", "Released"]
    assert held.reserved == {}


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({}, None),
        ({"cap_minor": 2000}, None),
        ({"cap_minor": 1999}, "covers 1999 usd, and the effect needs 2000"),
        ({"currency": "eur"}, "is in eur, and the effect in usd"),
        ({"currency": None}, "covers no money"),
        ({"cap_minor": None}, "covers no money"),
        ({"fingerprint": effect().fingerprint}, None),
        ({"fingerprint": effect(1).fingerprint}, "was given for another effect"),
    ],
)
def test_terms_that_can_never_cover_the_effect_say_why(terms: dict[str, Any], words: str | None) -> None:
    """Too small, in another currency, without money, for another effect."""
    given: dict[str, Any] = {"cap_minor": 5000, "currency": "usd", "fingerprint": None, **terms}
    assert misfit(effect(), **given) == words


def test_an_effect_without_money_fits_every_approval_but_one_for_another_effect() -> None:
    """There is nothing that a cap could be too small for."""
    assert misfit(without_money(), cap_minor=None, currency=None, fingerprint=None) is None
    assert misfit(without_money(), cap_minor=1, currency="eur", fingerprint=None) is None
    assert misfit(without_money(), cap_minor=None, currency=None, fingerprint="x") == "was given for another effect"


def test_a_misfit_is_part_of_the_reading() -> None:
    """Its terms are compared with the effect, each of them."""
    assert granted(cap_minor=1).reading(ACTION_ID, effect(), AT).misfit == "covers 1 usd, and the effect needs 2000"
    assert granted(fingerprint="x").reading(ACTION_ID, effect(), AT).misfit == "was given for another effect"
    assert granted(cap_minor=None).reading(ACTION_ID, effect(), AT).misfit == "covers no money"


# --- how it is read


def test_the_approval_is_read_after_the_premises() -> None:
    """Its version is asserted in the next commit, so nothing is read after it."""
    held, changed = approval(), (premise(ReadingState.COMPATIBLE),)
    outside = Outside(approval=held, ReadPremises=[changed])
    read = outside.run(check(ACTION_ID, intent()))
    assert outside.kinds == ["ReadPremises", "LoadApproval"]
    assert (read.approval, read.checks.premises) == (held, changed)
    assert read.checks.approval == held.reading(ACTION_ID, effect(), AT)


def test_an_approval_that_is_not_there_is_missing() -> None:
    """And says so, with when that was."""
    found, read = Outside(approval=None).run(read_approval(ACTION_ID, intent()))
    assert found is None
    assert read == ApprovalReading(ref=ApprovalRef("case-1"), state=ApprovalState.MISSING, held=False, read_at=AT)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (reading(ApprovalState.MISSING), "there is no approval 'case-1'; nothing was written or sent"),
        (reading(misfit="covers no money"), "approval 'case-1' covers no money; nothing was written or sent"),
    ],
)
def test_an_approval_that_can_never_be_used_raises(read: ApprovalReading, words: str) -> None:
    """Before anything is written."""
    with pytest.raises(ApprovalNotUsable) as raised:
        require_usable(read)
    assert str(raised.value) == words


@pytest.mark.parametrize("state", [state for state in ApprovalState if state is not ApprovalState.MISSING])
def test_an_approval_that_could_be_used_does_not_raise(state: ApprovalState) -> None:
    """It may refuse the action, which then has a receipt."""
    require_usable(reading(state))


# --- what stands in the way


def test_what_cannot_be_read_is_said_and_is_no_objection() -> None:
    """I4: the approval first, then each premise; and before the first commit it raises."""
    unread = checked(reading(ApprovalState.UNREADABLE), premise(ReadingState.UNREADABLE))
    assert unread.unreadable == "the approval case-1 could not be read"
    assert unread.objection is None
    unread = checked(reading(), premise(ReadingState.COMPATIBLE), premise(ReadingState.UNREADABLE, "acct_2"))
    assert unread.unreadable == "the premise acct_2 could not be read: acct_2 is unreadable"
    assert unread.objection is None
    with pytest.raises(PremiseUnreadable, match="the premise acct_2 could not be read"):
        require_readable(unread)
    require_readable(checked(reading(), premise(ReadingState.CONFLICTING)))


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        (ApprovalState.REVOKED, "approval_revoked", "the approval case-1 is revoked"),
        (ApprovalState.EXPIRED, "approval_expired", "the approval case-1 is expired"),
        (ApprovalState.USED_UP, "approval_used_up", "the approval case-1 is used up"),
        (ApprovalState.MISSING, "approval_missing", "the approval case-1 is missing"),
    ],
)
def test_an_approval_that_does_not_hold_objects_before_any_premise(state: ApprovalState, code: str, words: str) -> None:
    """In words a person can read, with what would still be possible."""
    objection = checked(reading(state), premise(ReadingState.CONFLICTING)).objection
    assert objection is not None
    assert (objection.code, objection.words, objection.possible) == (code, words, AGAIN)


def test_terms_that_do_not_fit_object_whatever_the_state_is() -> None:
    """Where the first reading was another one."""
    for state in (ApprovalState.LIVE, ApprovalState.REVOKED):
        objection = checked(reading(state, misfit="covers no money")).objection
        assert objection is not None
        assert (objection.code, objection.words) == ("approval_not_usable", "the approval case-1 covers no money")
        assert objection.possible == AGAIN


def test_the_first_premise_that_does_not_hold_objects() -> None:
    """What holds and what can't be read does not."""
    objection = checked(
        reading(),
        premise(ReadingState.COMPATIBLE, "acct_1"),
        premise(ReadingState.UNREADABLE, "acct_2"),
        premise(ReadingState.DUPLICATE, "acct_3"),
        premise(ReadingState.CONFLICTING, "acct_4"),
    ).objection
    assert objection is not None
    assert (objection.code, objection.words) == ("premise_duplicate", "acct_3 is duplicate")
    assert objection.possible == "acct_3: decide again"
    assert checked(reading(), premise(ReadingState.UNCHANGED)).objection is None


@pytest.mark.parametrize(("after_s", "outlives"), [(99.9, True), (100, False), (101, False)])
def test_a_reading_is_good_until_the_approval_expires(after_s: float, outlives: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """I3: a sender that was paused past that instant sends nothing; where nothing expires, it always is."""
    read = checked(granted().reading(ACTION_ID, effect(), AT))
    assert read.outlives(AT + timedelta(seconds=after_s)) is outlives
    assert checked(replace(read.checks.approval, expires_at=None)).outlives(later(10**9))
