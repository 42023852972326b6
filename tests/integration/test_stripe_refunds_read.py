"""Observing, looking up and burning with the real SDK, against the stand-in."""

import json
from contextlib import nullcontext
from uuid import uuid4

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.sdk import refund
from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    Burned,
    CannotTell,
    Declined,
    Done,
    Found,
    InProgress,
    KeyState,
    Settlement,
    Unknown,
)
from interlock.errors import PremiseUnreadable
from interlock.infrastructure.clock import WallDeadline
from interlock.stripe import StripeRefunds
from interlock.stripe.client import Client, UnexpectedAnswer
from interlock.stripe.marks import digest
from tests.stripe_case import PATIENCE_S, SHORT_S, Case

PAGED = 205

pytestmark = pytest.mark.usefixtures("healthy")


@pytest.fixture
def case(standin: StripeStandIn, client: stripe.StripeClient) -> Case:
    """A new case."""
    return Case(standin, client, paid_minor=1_000_000)


# ── observing ───────────────────────────────────────────────────────────────


def test_what_is_observed_is_the_payment_and_its_refunds(case: Case) -> None:
    """Integers and strings, our mark, digests of what is named, and nothing of the metadata itself."""
    case.send()
    case.standin.hand_refund(case.payment, 500, {"case": "case-9", "e_mail": "x@example.com"})
    premise = case.target.observe(case.payment)
    hand, ours = premise.facts["refunds"]
    assert premise.facts["refunded_minor"] == 2500
    assert (ours["amount"], ours["action"], ours["names"]) == (2000, case.action_id.hex, [])
    assert (hand["amount"], hand["action"]) == (500, "")
    assert hand["names"] == sorted([digest("case-9"), digest("x@example.com")])
    assert "example.com" not in premise.facts_json
    assert (premise.target, premise.policy, premise.read_at.tzinfo is None) == ("stripe", "stripe-refunds", False)


def test_observing_twice_gives_the_same_text(case: Case) -> None:
    """Canonical: facts are compared as they are recorded."""
    case.standin.hand_refund(case.payment, 500)
    first, second = case.target.observe(case.payment), case.target.observe(case.payment)
    assert first.facts_json == second.facts_json


def test_observing_reads_to_the_last_page(case: Case) -> None:
    """More refunds than fit on two pages are all there, each once."""
    for _ in range(PAGED):
        case.standin.hand_refund(case.payment, 1)
    facts = case.target.observe(case.payment).facts
    assert facts["refunded_minor"] == PAGED
    assert len({one["id"] for one in facts["refunds"]}) == PAGED


def test_a_dispute_and_a_payment_that_did_not_succeed_show(case: Case) -> None:
    """Both are facts."""
    case.standin.dispute(case.payment)
    assert case.target.observe(case.payment).facts["disputed"] is True
    unpaid = case.client.v1.payment_intents.create({"amount": 1000, "currency": "usd"}).id
    facts = case.target.observe(unpaid).facts
    assert (facts["status"], facts["disputed"]) == ("requires_payment_method", False)


def test_a_failed_refund_does_not_count(case: Case) -> None:
    """It is listed with its state."""
    answer = case.send()
    assert isinstance(answer, Done)
    case.standin.fail_refund(answer.evidence.reference)
    facts = case.target.observe(case.payment).facts
    assert (facts["refunded_minor"], facts["refunds"][0]["status"]) == (0, "failed")


@pytest.mark.parametrize("fault", [FaultKind.HTML_502, FaultKind.EMPTY_OBJECT, FaultKind.DROP_BEFORE_COMMIT])
@pytest.mark.parametrize("path", ["/v1/payment_intents", "/v1/refunds"])
def test_a_failed_read_is_no_fact(case: Case, fault: FaultKind, path: str) -> None:
    """Whichever of the two reads fails, nothing is observed (I4)."""
    case.standin.arm(fault, method="GET", path_prefix=path)
    with pytest.raises(PremiseUnreadable, match=case.payment):
        case.target.observe(case.payment)


def test_what_is_of_another_account_is_not_observed(case: Case) -> None:
    """It is not found there."""
    with pytest.raises(PremiseUnreadable, match="No such payment_intent"):
        StripeRefunds("sk_test_local_other", api_base=case.standin.api_base).observe(case.payment)


def test_what_is_of_another_mode_is_not_read(case: Case) -> None:
    """Refunds have no mode, so the payment's is checked: a client of live mode does not take one of test mode."""
    for livemode in (False, True):
        client = Client(LOCAL_API_KEY, account=None, api_base=case.standin.api_base, livemode=livemode)
        with pytest.raises(UnexpectedAnswer, match="live mode") if livemode else nullcontext():
            client.read_payment(case.payment, WallDeadline(PATIENCE_S))


# ── looking up ──────────────────────────────────────────────────────────────


def test_a_refund_is_found_by_its_mark(case: Case) -> None:
    """Sent without an answer, it is found, among others, in its present state."""
    case.standin.hand_refund(case.payment, 2000)
    case.standin.arm(FaultKind.DROP_AFTER_COMMIT)
    case.send()
    found = case.lookup()
    assert isinstance(found, Found)
    assert (found.evidence.settlement, found.evidence.disagreements) == (Settlement.FINAL, ())
    assert case.moved() == [2000, 2000]


def test_what_was_not_sent_is_absent(case: Case) -> None:
    """Absent carries a time before the first page was asked for; a hand refund of the same amount is not ours."""
    case.standin.hand_refund(case.payment, 2000)
    before = case.target.observe(case.payment).read_at
    answer = case.lookup()
    assert isinstance(answer, Absent)
    assert answer.read_at >= before


def test_the_refund_of_another_action_is_not_ours(case: Case) -> None:
    """Two actions may refund one payment by the same amount: each is found by its own mark alone (I6)."""
    assert isinstance(case.send(), Done)
    other = case.target.lookup(case.effect, action_id=uuid4(), deadline=WallDeadline(PATIENCE_S))
    assert isinstance(other, Absent)
    assert isinstance(case.lookup(), Found)


def test_the_last_page_is_looked_at(case: Case) -> None:
    """Our refund is the oldest of more than two pages, and found."""
    case.send()
    for _ in range(PAGED):
        case.standin.hand_refund(case.payment, 1)
    assert isinstance(case.lookup(), Found)


@pytest.mark.parametrize("page", [0, 1, 2])
def test_a_page_that_fails_is_no_absence(case: Case, page: int) -> None:
    """Whichever page it is (I6)."""
    for _ in range(PAGED):
        case.standin.hand_refund(case.payment, 1)
    if page:
        # A fault that changes nothing uses up the pages before.
        case.standin.arm(FaultKind.LIST_LAG, method="GET", path_prefix="/v1/refunds", seconds=0, times=page)
    case.standin.arm(FaultKind.HTML_502, method="GET", path_prefix="/v1/refunds")
    assert isinstance(case.lookup(), CannotTell)
    assert isinstance(case.lookup(), Absent)


@pytest.mark.parametrize("path", ["/v1/payment_intents", "/v1/refunds"])
@pytest.mark.parametrize(
    "fault", [FaultKind.DRIP, FaultKind.TRUNCATE, FaultKind.EMPTY_OBJECT, FaultKind.RATE_LIMIT, FaultKind.REDIRECT_302]
)
def test_a_failed_lookup_cannot_tell(case: Case, fault: FaultKind, path: str) -> None:
    """A drip, a cut, an empty object, a limit or a redirect is never an absence (I6)."""
    case.standin.arm(fault, method="GET", path_prefix=path, seconds=PATIENCE_S)
    assert isinstance(case.lookup(SHORT_S), CannotTell)


def test_the_wrong_account_cannot_tell(case: Case) -> None:
    """Where the payment is not found, an empty list proves nothing, even if Stripe gives one."""
    case.standin.set_switch("unknown_filter", "empty")
    other = StripeRefunds("sk_test_local_other", api_base=case.standin.api_base)
    answer = other.lookup(case.effect, action_id=case.action_id, deadline=WallDeadline(PATIENCE_S))
    case.standin.set_switch("unknown_filter", "error")
    assert isinstance(answer, CannotTell)


def test_two_refunds_with_our_mark_do_not_pass(case: Case) -> None:
    """That is evidence of a double, and names both."""
    marked = {"interlock_action": case.action_id.hex}
    ids = [refund(case.client, case.payment, 2000, metadata=marked).id for _ in range(2)]
    answer = case.lookup()
    assert isinstance(answer, Found)
    [said] = answer.evidence.disagreements
    assert all(one in said for one in ids)
    assert answer.evidence.reference == ids[0]


def test_a_mark_alone_is_not_enough(case: Case) -> None:
    """Metadata can be edited: a marked refund of another amount is found, and disagrees."""
    refund(case.client, case.payment, 1500, metadata={"interlock_action": case.action_id.hex})
    answer = case.lookup()
    assert isinstance(answer, Found)
    assert answer.evidence.disagreements == ("amount is 1500, not 2000",)


def test_a_target_without_lookup_cannot_tell(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Switched off, nothing is asked."""
    case = Case(standin, client, paid_minor=1_000_000, lookup=False)
    before = len(standin.requests())
    assert isinstance(case.lookup(), CannotTell)
    assert len(standin.requests()) == before


# ── burning ─────────────────────────────────────────────────────────────────


def test_a_burned_key_can_never_carry_the_refund(case: Case) -> None:
    """Burned, the original can't execute under it any more."""
    assert case.burn() == Burned()
    answer = case.send()
    assert isinstance(answer, Unknown)
    assert answer.key is KeyState.MISMATCHED
    assert case.moved() == []


def test_every_recoverer_burns_with_the_same_bytes(case: Case) -> None:
    """A second burn is the replay of the first, and as good."""
    assert (case.burn(), case.burn()) == (Burned(), Burned())
    dispositions = [one.disposition for one in case.standin.requests() if one.idempotency_key == case.key]
    assert dispositions == ["executed", "replayed"]


def test_burning_is_no_change_of_the_payment(case: Case) -> None:
    """What was decided on reads the same afterwards, and the payment gains one metadata key however many are burned."""
    before = case.target.observe(case.payment).facts_json
    for attempt in range(3):
        case.key = f"il-{case.action_id.hex}-{attempt}"
        assert case.burn() == Burned()
    assert case.target.observe(case.payment).facts_json == before
    metadata = case.client.v1.payment_intents.retrieve(case.payment).to_dict()["metadata"]
    assert list(metadata) == ["interlock_burned"]


def test_a_key_that_carried_the_refund_is_already_used(case: Case) -> None:
    """The original got there first."""
    case.send()
    assert case.burn() == AlreadyUsed()
    assert case.moved() == [2000]


@pytest.mark.parametrize("fault", [FaultKind.ERROR_500_NO_EFFECT, FaultKind.ERROR_500_WITH_EFFECT])
def test_a_key_with_a_stored_failure_is_already_used(case: Case, fault: FaultKind) -> None:
    """Also where what is stored is a 500."""
    case.standin.arm(fault)
    case.send()
    assert case.burn() == AlreadyUsed()


def test_a_key_with_a_stored_refusal_is_already_used(case: Case) -> None:
    """Also where what is stored is a no."""
    case.standin.hand_refund(case.payment, 999_000)
    assert isinstance(case.send(), Declined)
    assert case.burn() == AlreadyUsed()


def test_a_key_whose_request_is_being_worked_on_is_in_progress(case: Case) -> None:
    """Ask again: here the original wins."""
    case.standin.arm(FaultKind.HOLD, seconds=PATIENCE_S)
    case.send(seconds=SHORT_S)
    assert case.burn() == InProgress()
    case.standin.release()
    while (answer := case.burn()) == InProgress():
        pass
    assert answer == AlreadyUsed()
    assert case.moved() == [2000]


def test_a_request_on_its_way_does_not_land_under_a_burned_key(case: Case) -> None:
    """Still on its way when the key is burned: it arrives, and nothing moves."""
    case.standin.arm(FaultKind.DELAY_LANDING, seconds=PATIENCE_S)
    assert isinstance(case.send(seconds=SHORT_S), Unknown)
    assert case.burn() == Burned()
    case.standin.release()
    while case.standin.held_back():
        pass
    assert isinstance(case.lookup(), Absent)
    assert case.moved() == []


BROKEN = [
    FaultKind.DROP_BEFORE_COMMIT,
    FaultKind.DROP_AFTER_COMMIT,
    FaultKind.TRUNCATE,
    FaultKind.DRIP,
    FaultKind.EMPTY_OBJECT,
    FaultKind.HTML_502,
    FaultKind.REDIRECT_302,
    FaultKind.RATE_LIMIT,
    FaultKind.ERROR_500_NO_EFFECT,
]


@pytest.mark.parametrize("fault", BROKEN)
def test_a_failed_burn_closes_nothing(case: Case, fault: FaultKind) -> None:
    """Whatever is not the payment cannot tell."""
    case.standin.arm(fault, path_prefix="/v1/payment_intents", seconds=PATIENCE_S)
    assert isinstance(case.burn(SHORT_S), CannotTell)


def test_a_payment_without_room_for_metadata_cannot_be_burned_on(case: Case) -> None:
    """A payment has at most fifty metadata keys; a full one closes nothing."""
    full = {f"k{number}": "v" for number in range(50)}
    case.client.v1.payment_intents.update(case.payment, {"metadata": full})
    assert isinstance(case.burn(), CannotTell)


def test_a_target_without_burning_cannot_tell(standin: StripeStandIn, client: stripe.StripeClient) -> None:
    """Switched off, nothing is asked."""
    case = Case(standin, client, paid_minor=1_000_000, burn=False)
    before = len(standin.requests())
    assert isinstance(case.burn(), CannotTell)
    assert len(standin.requests()) == before


def test_no_answer_of_any_verb_holds_the_key(case: Case) -> None:
    """Neither facts nor evidence nor words."""
    shown = [case.target.observe(case.payment).facts_json, case.send(), case.lookup(), case.burn()]
    assert LOCAL_API_KEY not in json.dumps([str(one) for one in shown])
