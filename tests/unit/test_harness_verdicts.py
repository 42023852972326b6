"""The arithmetic of the crash matrix: money against the record, answers against the case's own refunds."""

import pytest

from harness.audit import wanted
from harness.audit.cases import verdict_of
from harness.columns import COLUMNS
from harness.columns.job import Answer, Status
from harness.scenarios import EXPECTED_TO_FAIL, SCENARIOS, Money
from harness.verdicts import AnswerVerdict, dollars, in_words, judge_answer, judge_money
from harness.world import RefundAtProvider


def _refund(refund_id: str = "re_local_1", amount_minor: int = 2000) -> RefundAtProvider:
    return RefundAtProvider(id=refund_id, amount_minor=amount_minor, status="succeeded", metadata={})


def _answer(status: Status, refund: str | None = None, amount_minor: int | None = None) -> Answer:
    return Answer(status=status, via="", words="", refund=refund, amount_minor=amount_minor)


@pytest.mark.parametrize(
    ("want", "got", "verdict"),
    [
        (Money(2000, 1), Money(2000, 1), "held"),
        (Money(0, 0), Money(0, 0), "held"),
        (Money(2000, 1), Money(4000, 2), "VIOLATED by $20"),
        (Money(0, 0), Money(2000, 1), "VIOLATED by $20"),
        (Money(2500, 2), Money(500, 1), "SHORT by $20"),
        (Money(2500, 2), Money(450, 1), "SHORT by $20.50"),
        (Money(2000, 1), Money(2000, 2), "VIOLATED by $0"),
    ],
)
def test_a_verdict_says_by_how_much_too_much_or_too_little_went_out(want: Money, got: Money, verdict: str) -> None:
    """Held needs the amount and the number of refunds; the audit's own arithmetic agrees."""
    assert judge_money(want, got) == verdict
    assert verdict_of(want.minor, want.refunds, got.minor, got.refunds) == verdict


@pytest.mark.parametrize(
    ("answer", "own", "verdict"),
    [
        (_answer(Status.REFUNDED, "re_local_1", 2000), [_refund()], AnswerVerdict.MATCHES),
        (_answer(Status.REFUNDED, "re_local_1", 2000), [], AnswerVerdict.CONTRADICTS),
        (_answer(Status.REFUNDED, "re_local_1", 2000), [_refund(), _refund("re_local_2")], AnswerVerdict.CONTRADICTS),
        (_answer(Status.REFUNDED, "re_local_2", 2000), [_refund()], AnswerVerdict.CONTRADICTS),
        (_answer(Status.REFUNDED, "re_local_1", 1000), [_refund()], AnswerVerdict.CONTRADICTS),
        (_answer(Status.REFUSED), [], AnswerVerdict.MATCHES),
        (_answer(Status.REFUSED), [_refund()], AnswerVerdict.CONTRADICTS),
        (_answer(Status.AMBIGUOUS), [], AnswerVerdict.MATCHES),
        (_answer(Status.AMBIGUOUS), [_refund()], AnswerVerdict.MATCHES),
        (_answer(Status.NOT_YET), [], AnswerVerdict.NONE),
        (None, [_refund()], AnswerVerdict.NONE),
    ],
)
def test_an_answer_is_checked_against_the_cases_own_refunds(
    answer: Answer | None, own: list[RefundAtProvider], verdict: AnswerVerdict
) -> None:
    """A refund that is claimed has to be the one that is there; "ambiguous" claims nothing."""
    assert judge_answer(answer, own) is verdict


def test_a_refund_by_hand_is_nobodys_own() -> None:
    """Only a refund that names the case in its metadata is the case's own."""
    ours = RefundAtProvider(id="re_local_1", amount_minor=1, status="succeeded", metadata={"case": "case-1"})
    assert ours.carries("case-1")
    assert not ours.carries("case-2")
    assert not _refund().carries("case-1")


def test_amounts_read_as_people_write_them() -> None:
    """Whole dollars have no cents."""
    assert [dollars(2000), dollars(2050), dollars(0)] == ["$20", "$20.50", "$0"]
    assert in_words(Money(2500, 2)) == "$25 in 2"


def test_the_audits_own_wants_are_the_scenarios() -> None:
    """What the audit wants, written down a second time, is what each scenario works out to."""
    assert {name: (row.want.minor, row.want.refunds, row.answer) for name, row in SCENARIOS.items()} == wanted.WANTED
    assert set(COLUMNS) == set(wanted.MATRICES["e2e"])


def test_expected_failures_are_of_rows_and_columns_that_exist() -> None:
    """A row that was renamed would otherwise be expected to hold."""
    assert EXPECTED_TO_FAIL.keys() <= COLUMNS.keys()
    assert all(rows.keys() <= SCENARIOS.keys() for rows in EXPECTED_TO_FAIL.values())
