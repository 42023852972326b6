"""Sending refunds with the real SDK: each verdict by a fault, and the ledger as the judge."""

from typing import Any
from uuid import uuid4

import pytest
import stripe

from harness.standins.stripe.client import LOCAL_API_KEY, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.ledger import refunds_of
from harness.standins.stripe.sdk import connect, pay
from interlock.domain.answers import Declined, Done, KeyState, NotSent, SendAnswer, Settlement, Unknown
from interlock.domain.effects import Effect, Money
from interlock.infrastructure.clock import WallDeadline
from interlock.stripe import StripeRefunds
from tests.stripe_case import PATIENCE_S, SHORT_S, Case

pytestmark = pytest.mark.usefixtures("healthy")


@pytest.fixture(scope="module")
def target(standin: StripeStandIn) -> StripeRefunds:
    """The target under test, shared as a gate shares it."""
    return StripeRefunds(LOCAL_API_KEY, api_base=standin.api_base)


@pytest.fixture
def case(standin: StripeStandIn, client: stripe.StripeClient, target: StripeRefunds) -> Case:
    """A new case."""
    return Case(standin, client, target, reference="case-1")


def _key_of(answer: SendAnswer) -> KeyState:
    assert isinstance(answer, Unknown), answer
    return answer.key


def test_a_refund_is_sent_once_and_marked(case: Case) -> None:
    """It is Done, and the ledger has one refund, under our key, with the marks that name the action."""
    answer = case.send()
    assert isinstance(answer, Done)
    evidence = answer.evidence
    assert (evidence.settlement, evidence.replayed, evidence.disagreements) == (Settlement.FINAL, False, ())
    [refund] = refunds_of(case.standin.ledger_path, case.payment)
    assert (refund.refund, refund.amount, refund.idempotency_key) == (evidence.reference, 2000, case.key)
    assert refund.metadata == {
        "interlock_action": case.action_id.hex,
        "interlock_key": case.key,
        "interlock_reference": "case-1",
    }


def test_every_send_carries_the_same_key(case: Case) -> None:
    """However often it is sent, the header is the key that was given, and one refund comes of it."""
    answers = [case.send() for _ in range(3)]
    assert [isinstance(one, Done) and one.evidence.replayed for one in answers] == [False, True, True]
    posts = [one for one in case.standin.requests() if one.method == "POST" and one.idempotency_key == case.key]
    assert len(posts) == 3
    assert case.moved() == [2000]


@pytest.mark.parametrize("amount_minor", [9899, 5800])
def test_yen_are_exact(standin: StripeStandIn, client: stripe.StripeClient, target: StripeRefunds, amount_minor: int) -> None:
    """Zero-decimal amounts reach the ledger to the yen."""
    payment = pay(client, 12_000, "jpy").id
    effect = target.refund(payment=payment, amount_minor=amount_minor, currency="jpy")
    answer = target.send(effect, action_id=uuid4(), idempotency_key=f"jpy-{uuid4()}", deadline=WallDeadline(PATIENCE_S))
    assert isinstance(answer, Done)
    assert [(one.amount, one.currency) for one in refunds_of(standin.ledger_path, payment)] == [(amount_minor, "jpy")]


NO_ANSWER = [
    (FaultKind.DROP_BEFORE_COMMIT, {}, []),
    (FaultKind.DROP_AFTER_COMMIT, {}, [2000]),
    (FaultKind.RESET_BEFORE_ANSWER, {}, [2000]),
    (FaultKind.TRUNCATE, {}, [2000]),
    (FaultKind.HTML_502, {}, []),
    (FaultKind.HTML_502, {"with_effect": True}, [2000]),
    (FaultKind.EMPTY_OBJECT, {}, [2000]),
    (FaultKind.REDIRECT_302, {}, []),
    (FaultKind.REDIRECT_302, {"with_effect": True}, [2000]),
    (FaultKind.REDIRECT_307, {}, []),
    (FaultKind.ERROR_500_NO_EFFECT, {}, []),
    (FaultKind.ERROR_500_WITH_EFFECT, {}, [2000]),
]


@pytest.mark.parametrize(("fault", "options", "moved"), NO_ANSWER)
def test_what_is_not_an_answer_is_unknown(case: Case, fault: FaultKind, options: Any, moved: list[int]) -> None:
    """A drop, a reset, a cut body, a proxy's page, an empty object, a redirect, a 500: with and without effect."""
    case.standin.arm(fault, **options)
    assert _key_of(case.send()) is KeyState.OPEN
    assert case.moved() == moved


@pytest.mark.parametrize("fault", [FaultKind.REDIRECT_302, FaultKind.REDIRECT_307])
def test_a_redirect_is_not_followed(case: Case, fault: FaultKind) -> None:
    """One request, and no second one, neither as a GET nor as a POST."""
    before = len(case.standin.requests())
    case.standin.arm(fault)
    case.send()
    assert len(case.standin.requests()) == before + 1


@pytest.mark.parametrize("fault", [FaultKind.DROP_AFTER_COMMIT, FaultKind.TRUNCATE, FaultKind.EMPTY_OBJECT])
def test_a_lost_answer_is_replayed(case: Case, fault: FaultKind) -> None:
    """Sent again under the same key, the first refund comes back, and the ledger still has one."""
    case.standin.arm(fault)
    case.send()
    answer = case.send()
    assert isinstance(answer, Done)
    assert answer.evidence.replayed
    assert case.moved() == [2000]


@pytest.mark.parametrize(("fault", "moved"), [(FaultKind.ERROR_500_NO_EFFECT, []), (FaultKind.ERROR_500_WITH_EFFECT, [2000])])
def test_a_stored_failure_shows_when_it_is_replayed(case: Case, fault: FaultKind, moved: list[int]) -> None:
    """The first 500 says nothing; sent again, it is known to be stored, with or without an effect."""
    case.standin.arm(fault)
    assert _key_of(case.send()) is KeyState.OPEN
    assert _key_of(case.send()) is KeyState.STORED_FAILURE
    assert case.moved() == moved


@pytest.mark.parametrize("fault", [FaultKind.RATE_LIMIT, FaultKind.LOCK_TIMEOUT])
@pytest.mark.parametrize("should_retry", [True, False])
def test_a_limiter_turns_a_request_away_once(case: Case, fault: FaultKind, should_retry: bool) -> None:  # noqa: FBT001
    """429 is NotSent, the SDK does not try again by itself, and the next send goes through."""
    before = len(case.standin.requests())
    case.standin.arm(fault, should_retry=should_retry)
    assert isinstance(case.send(), NotSent)
    assert len(case.standin.requests()) == before + 1
    assert case.moved() == []
    assert isinstance(case.send(), Done)


def test_a_key_in_use_is_in_progress(case: Case) -> None:
    """While the first request is held, the second is told so; then there is one refund."""
    case.standin.arm(FaultKind.HOLD, seconds=PATIENCE_S)
    assert isinstance(case.send(seconds=SHORT_S), Unknown)
    assert _key_of(case.send()) is KeyState.IN_PROGRESS
    case.standin.release()
    while _still_in_progress(answer := case.send()):
        pass
    assert isinstance(answer, Done)
    assert case.moved() == [2000]


def _still_in_progress(answer: SendAnswer) -> bool:
    return isinstance(answer, Unknown) and answer.key is KeyState.IN_PROGRESS


def test_a_key_of_another_request_is_mismatched(case: Case) -> None:
    """A key that was used for something else can never carry this refund."""
    case.send()
    other = Case(case.standin, case.client, case.target, reference="case-1")
    assert _key_of(other.send(key=case.key)) is KeyState.MISMATCHED
    assert other.moved() == []


def test_a_refusal_is_declined_and_replayed(case: Case) -> None:
    """Too much is a definite no; the stored no says that it is the first request's."""
    case.standin.hand_refund(case.payment, 9000)
    first, second = case.send(), case.send()
    assert isinstance(first, Declined)
    assert isinstance(second, Declined)
    assert (first.replayed, second.replayed) == (False, True)
    assert "greater" in first.words
    assert case.moved() == [9000]


def test_a_full_refund_and_a_dispute_are_declined(case: Case) -> None:
    """With Stripe's own codes."""
    disputed = Case(case.standin, case.client, case.target, reference="case-1")
    case.standin.dispute(disputed.payment)
    case.standin.hand_refund(case.payment, 10_000)
    answers = [case.send(), disputed.send()]
    codes = [one.code for one in answers if isinstance(one, Declined)]
    assert codes == ["charge_already_refunded", "charge_disputed"]
    assert disputed.moved() == []


@pytest.mark.parametrize("status", [400, 404])
def test_an_unknown_payment_is_declined(case: Case, status: int) -> None:
    """Whichever status Stripe gives it."""
    case.standin.set_switch("unknown_payment_status", status)
    effect = case.target.refund(payment="pi_nobody", amount_minor=1, currency="usd")
    answer = case.target.send(
        effect, action_id=case.action_id, idempotency_key=f"{case.key}-{status}", deadline=WallDeadline(PATIENCE_S)
    )
    assert isinstance(answer, Declined)
    assert answer.code == "resource_missing"


def test_a_wrong_key_is_declined_and_not_repeated(case: Case) -> None:
    """401 is a definite no, and its words hold no key."""
    wrong = StripeRefunds("sk_live_local_fake", api_base=case.standin.api_base)
    answer = wrong.send(case.effect, action_id=case.action_id, idempotency_key=case.key, deadline=WallDeadline(PATIENCE_S))
    assert isinstance(answer, Declined)
    assert "sk_live" not in answer.words
    assert case.moved() == []


def test_an_answer_that_does_not_match_disagrees(case: Case) -> None:
    """The refund is there, and what Stripe said of it is not what was asked for."""
    case.standin.arm(FaultKind.WRONG_AMOUNT, amount_minor=1)
    answer = case.send()
    assert isinstance(answer, Done)
    assert answer.evidence.disagreements == ("amount is 1, not 2000",)
    assert case.moved() == [2000]


def test_a_refund_in_another_currency_disagrees(case: Case) -> None:
    """Sent past the premises, a wrong currency is at least not taken for what was asked."""
    effect = case.target.refund(payment=case.payment, amount_minor=2000, currency="eur")
    answer = case.target.send(effect, action_id=case.action_id, idempotency_key=case.key, deadline=WallDeadline(PATIENCE_S))
    assert isinstance(answer, Done)
    assert answer.evidence.disagreements == ("currency is 'usd', not 'eur'",)


def test_an_effect_whose_money_is_not_its_parameters_is_not_sent(case: Case) -> None:
    """An approval is held against the money; more than that is not refunded."""
    case.effect = Effect(case.effect.target, case.payment, case.effect.parameters, Money(1, "usd"))
    answer = case.send()
    assert isinstance(answer, Declined)
    assert answer.code == "inconsistent_effect"
    assert case.moved() == []


@pytest.mark.parametrize(
    ("status", "settlement"),
    [("pending", Settlement.OPEN), ("requires_action", Settlement.OPEN), ("failed", Settlement.REVERSED)],
)
def test_a_refund_that_is_not_at_its_end_is_done_with_that_state(case: Case, status: str, settlement: Settlement) -> None:
    """Accepted is evidence with a state, and not a plain success."""
    case.standin.next_refund_status(status)
    answer = case.send()
    assert isinstance(answer, Done)
    assert (answer.evidence.state, answer.evidence.settlement) == (status, settlement)


def test_a_replay_shows_the_present_state(case: Case) -> None:
    """What is stored is a picture of the first moment; a refund that failed since is shown as failed."""
    first = case.send()
    assert isinstance(first, Done)
    case.standin.fail_refund(first.evidence.reference)
    second = case.send()
    assert isinstance(second, Done)
    assert (second.evidence.state, second.evidence.settlement) == ("failed", Settlement.REVERSED)
    assert second.evidence.replayed


def test_a_replay_whose_refund_cannot_be_read_keeps_what_was_stored(case: Case) -> None:
    """A failed read changes nothing about the yes."""
    case.send()
    case.standin.arm(FaultKind.HTML_502, method="GET")
    answer = case.send()
    assert isinstance(answer, Done)
    assert (answer.evidence.state, answer.evidence.replayed) == ("succeeded", True)


def test_a_connected_account_is_acted_for(case: Case) -> None:
    """With `account`, payment and refund are the connected account's."""
    account = "acct_local_connected"
    case.standin.connect_account(account)
    payment = pay(connect(case.standin, stripe_account=account)).id
    target = StripeRefunds(LOCAL_API_KEY, account=account, api_base=case.standin.api_base)
    effect = target.refund(payment=payment, amount_minor=700, currency="usd")
    sent: dict[str, Any] = {"idempotency_key": f"{case.key}-c", "deadline": WallDeadline(PATIENCE_S)}
    assert isinstance(case.target.send(effect, action_id=case.action_id, **sent), Declined)
    assert isinstance(target.send(effect, action_id=case.action_id, **sent), Done)
    assert [one.account for one in refunds_of(case.standin.ledger_path, payment)] == [account]


def test_an_empty_key_is_never_sent(case: Case) -> None:
    """The SDK would make up a random one."""
    assert isinstance(
        case.target.send(case.effect, action_id=case.action_id, idempotency_key="", deadline=WallDeadline(PATIENCE_S)),
        NotSent,
    )
    assert case.moved() == []
