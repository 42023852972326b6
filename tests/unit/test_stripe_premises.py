"""The premise policy: which changes of a payment refuse a refund."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.domain.effects import DataclassCodec, Effect, Money, record_effect
from interlock.domain.premises import ChangeKind, Judgement, Premise, Purpose, ReadingState, facts_text, judge_premise
from interlock.stripe import RefundPremises, StripeRefunds
from interlock.stripe.marks import digest

POLICY = RefundPremises()
TARGET = StripeRefunds("sk_test_local_p")
ACTION = UUID(int=7)
OTHER_ACTION = UUID(int=8)
OURS_MINOR = 2000

Facts = dict[str, Any]


def _purpose(reference: str | None = None, references: frozenset[str] = frozenset(), **changes: Any) -> Purpose:
    asked: dict[str, Any] = {"payment": "pi_1", "amount_minor": OURS_MINOR, "currency": "usd", "reference": reference} | changes
    return Purpose(ACTION, record_effect(TARGET.refund(**asked), TARGET.codec, TARGET.version), references)


def _refund(amount: int, status: str = "succeeded", *, id_: str = "re_1", action: str = "", names: Any = ()) -> Facts:
    return {"id": id_, "amount": amount, "status": status, "action": action, "names": [digest(one) for one in names]}


def _payment(*refunds: Facts, **changes: Any) -> Facts:
    refunded = sum(one["amount"] for one in refunds if one["status"] not in ("failed", "canceled"))
    return {
        "id": "pi_1",
        "amount": 10_000,
        "currency": "usd",
        "status": "succeeded",
        "livemode": False,
        "disputed": False,
        "refunded_minor": refunded,
        "refunds": list(refunds),
    } | changes


def _judge(now: Facts, then: Facts | None = None, purpose: Purpose | None = None) -> Judgement:
    return POLICY.judge(then or _payment(), now, purpose or _purpose())


def _kinds(judgement: Judgement) -> list[ChangeKind]:
    return [change.kind for change in judgement.changes]


def test_nothing_changed() -> None:
    """The same facts are no change, also where refunds were there at the decision."""
    assert _judge(_payment()) == Judgement()
    before = _payment(_refund(5000))
    assert _judge(before, before) == Judgement()


def test_our_own_refund_is_no_change() -> None:
    """What carries the action's mark is its own, and leaves its own room alone."""
    own = _refund(OURS_MINOR, action=ACTION.hex, names=["case-1"])
    judgement = _judge(_payment(own), purpose=_purpose("case-1"))
    assert _kinds(judgement) == [ChangeKind.OWN]
    assert judgement.objection is None
    whole = _refund(10_000, action=ACTION.hex)
    assert _judge(_payment(whole), purpose=_purpose(amount_minor=10_000)).objection is None


def test_another_actions_refund_is_not_our_own() -> None:
    """A mark is compared, not merely seen."""
    judgement = _judge(_payment(_refund(OURS_MINOR, action=OTHER_ACTION.hex)))
    assert _kinds(judgement) == [ChangeKind.DUPLICATE]


@dataclass(frozen=True)
class Letter:
    """The parameters of an effect that is no refund."""

    to: str


def test_it_judges_refunds_and_nothing_else() -> None:
    """A letter about a payment is no refund of it: the gate is told so before it reads anything."""
    assert POLICY.judges(_purpose().effect)
    assert POLICY.judges(_purpose("case-1", reason="duplicate").effect)
    letter = Effect("letters", "pi_1", Letter("somebody"))
    assert not POLICY.judges(record_effect(letter, DataclassCodec(Letter), 1))
    paid = Effect("letters", "pi_1", Letter("somebody"), Money(OURS_MINOR, "usd"))
    assert not POLICY.judges(record_effect(paid, DataclassCodec(Letter), 1))


def test_a_hand_refund_of_our_amount_is_a_duplicate() -> None:
    """Support refunded the same by hand during the outage."""
    judgement = _judge(_payment(_refund(OURS_MINOR)))
    assert _kinds(judgement) == [ChangeKind.DUPLICATE]
    assert judgement.possible == "up to 8000 usd (in minor units) of pi_1 are left"


def test_a_small_hand_refund_is_compatible() -> None:
    """Support gave something unrelated; there is room, and it is said."""
    judgement = _judge(_payment(_refund(500)))
    assert _kinds(judgement) == [ChangeKind.COMPATIBLE]
    assert judgement.possible == ""


@pytest.mark.parametrize(("amounts", "kind"), [((1000, 999), ChangeKind.COMPATIBLE), ((1000, 1000), ChangeKind.DUPLICATE)])
def test_unnamed_refunds_are_a_sum(amounts: tuple[int, ...], kind: ChangeKind) -> None:
    """Two refunds that say nothing are a duplicate as soon as they reach our amount together."""
    refunds = [_refund(amount, id_=f"re_{place}") for place, amount in enumerate(amounts)]
    assert _kinds(_judge(_payment(*refunds))) == [kind]


@pytest.mark.parametrize("purpose", [_purpose("case-1"), _purpose(references=frozenset({"case-1"}))])
def test_a_refund_for_the_same_reference_is_a_duplicate(purpose: Purpose) -> None:
    """However small it is."""
    assert _kinds(_judge(_payment(_refund(1, names=["x", "case-1"])), purpose=purpose)) == [ChangeKind.DUPLICATE]


def test_a_refund_for_another_reference_is_compatible() -> None:
    """However large it is, as long as there is room."""
    assert _kinds(_judge(_payment(_refund(8000, names=["case-2"])), purpose=_purpose("case-1"))) == [ChangeKind.COMPATIBLE]


def test_the_rest_must_cover_ours() -> None:
    """What is for something else conflicts as soon as ours does not fit any more."""
    judgement = _judge(_payment(_refund(8001, names=["case-2"])), purpose=_purpose("case-1"))
    assert judgement.objection is not None
    assert judgement.objection.kind is ChangeKind.CONFLICTING
    assert judgement.possible == "up to 1999 usd (in minor units) of pi_1 are left"


def test_a_full_refund_leaves_nothing() -> None:
    """And says so."""
    assert _judge(_payment(_refund(10_000))).possible == "nothing of pi_1 can be refunded as it stands"


@pytest.mark.parametrize(
    "change",
    [
        {"disputed": True},
        {"status": "processing"},
        {"status": "canceled"},
        {"livemode": True},
        {"currency": "eur"},
        {"amount": 10_001},
        {"id": "pi_2"},
    ],
)
def test_a_state_that_makes_it_wrong_conflicts(change: Facts) -> None:
    """A dispute, a payment that is not a success, or not the one that was decided on."""
    judgement = _judge(_payment(**change))
    assert judgement.objection is not None
    assert judgement.objection.kind is ChangeKind.CONFLICTING


def test_a_currency_other_than_the_payments_conflicts_even_if_nothing_changed() -> None:
    """2000 is a lot less in yen."""
    judgement = _judge(_payment(), purpose=_purpose(currency="jpy"))
    assert judgement.objection is not None
    assert "jpy" in judgement.objection.words


def test_a_refund_that_failed_since_frees_room() -> None:
    """What was counted at the decision and has failed is no change that refuses."""
    then = _payment(_refund(9000))
    assert _judge(_payment(_refund(9000, "failed")), then) == Judgement()


def test_a_refund_that_vanished_conflicts() -> None:
    """A list without a refund that was there is not the whole list (I4)."""
    assert _kinds(_judge(_payment(), _payment(_refund(100)))) == [ChangeKind.CONFLICTING]


@pytest.mark.parametrize("broken", [{}, {"id": "pi_1"}, _payment(amount="10000"), _payment(refunds=None)])
def test_facts_that_cannot_be_understood_refuse(broken: Facts) -> None:
    """On either side, they are never "nothing changed" (I4)."""
    assert _kinds(_judge(broken)) == [ChangeKind.CONFLICTING]
    assert _kinds(POLICY.judge(broken, _payment(), _purpose())) == [ChangeKind.CONFLICTING]


def test_it_is_what_a_premise_is_judged_by() -> None:
    """Through the domain: an empty reading is unreadable, a duplicate is a duplicate, an expectation comes first."""
    seen = Premise(
        target="stripe",
        subject="pi_1",
        facts_json=facts_text(_payment()),
        read_at=datetime(2026, 1, 1, tzinfo=UTC),
        policy=POLICY.name,
    )
    now = replace(seen, facts_json=facts_text(_payment(_refund(OURS_MINOR))))
    assert judge_premise(seen, now, POLICY, _purpose()).state is ReadingState.DUPLICATE
    assert judge_premise(seen, replace(seen, facts_json="{}"), POLICY, _purpose()).state is ReadingState.UNREADABLE
    expecting = seen.expect(refunded_minor=0)
    assert judge_premise(expecting, now, POLICY, _purpose()).state is ReadingState.UNEXPECTED


STATUSES = st.sampled_from(["succeeded", "pending", "requires_action", "failed", "canceled", "unknown"])
VOID = st.sampled_from(["failed", "canceled"])


def _refunds(statuses: st.SearchStrategy[str], actions: st.SearchStrategy[str]) -> st.SearchStrategy[list[Facts]]:
    one = st.builds(
        lambda amount, status, action, names: _refund(amount, status, action=action, names=names),
        st.integers(1, 6000),
        statuses,
        actions,
        st.lists(st.sampled_from(["case-1", "case-2", "gift"]), max_size=2, unique=True),
    )
    many = st.lists(one, max_size=6)
    return many.map(lambda found: [fact | {"id": f"re_{place}"} for place, fact in enumerate(found)])


OTHERS = _refunds(STATUSES, st.sampled_from(["", OTHER_ACTION.hex]))


@given(_refunds(STATUSES, st.just(ACTION.hex)))
def test_own_never_refuses(refunds: list[Facts]) -> None:
    """Whatever state and names our own refunds have."""
    assert _judge(_payment(*refunds), purpose=_purpose("case-1")).objection is None


@given(_refunds(VOID, st.sampled_from(["", OTHER_ACTION.hex])))
def test_failed_never_counts(refunds: list[Facts]) -> None:
    """However many failed and cancelled ones there are, with whatever names."""
    assert _judge(_payment(*refunds), purpose=_purpose("case-1")) == Judgement()


@given(OTHERS, st.integers(0, 6))
def test_another_refund_never_makes_it_right(refunds: list[Facts], split: int) -> None:
    """Monotone: what refuses goes on refusing when others refund more."""
    purpose = _purpose("case-1")
    if _judge(_payment(*refunds[:split]), purpose=purpose).objection is not None:
        assert _judge(_payment(*refunds), purpose=purpose).objection is not None


@given(OTHERS)
def test_it_goes_on_exactly_where_the_rule_says(refunds: list[Facts]) -> None:
    """The rule, written a second time: room, nothing for our reference, and unnamed ones below our amount."""
    counting = [one for one in refunds if one["status"] not in ("failed", "canceled")]
    room = 10_000 - sum(one["amount"] for one in counting) >= OURS_MINOR
    ours = any(digest("case-1") in one["names"] for one in counting)
    unnamed = sum(one["amount"] for one in counting if not one["names"])
    goes_on = room and not ours and unnamed < OURS_MINOR
    assert (_judge(_payment(*refunds), purpose=_purpose("case-1")).objection is None) is goes_on


@given(OTHERS)
def test_what_was_known_at_the_decision_is_no_change(refunds: list[Facts]) -> None:
    """Only room can be missing for what was decided on with open eyes."""
    then = _payment(*refunds)
    judgement = _judge(then, then, purpose=_purpose("case-1"))
    assert all(change.kind is ChangeKind.CONFLICTING for change in judgement.changes)
    assert (judgement.objection is None) is (10_000 - then["refunded_minor"] >= OURS_MINOR)


@given(OTHERS, st.randoms())
def test_the_order_of_the_list_does_not_matter(refunds: list[Facts], random: Any) -> None:
    """Judged as a set."""
    shuffled = random.sample(refunds, len(refunds))
    first, second = _judge(_payment(*refunds)), _judge(_payment(*shuffled))
    assert (first.objection is None) is (second.objection is None)
    assert sorted(_kinds(first)) == sorted(_kinds(second))
