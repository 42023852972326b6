"""Results, reports and premises on their way through Temporal's data converters."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter

from interlock import Premise, facts_text
from interlock.temporal import AmbiguousResult, CommittedResult, GateResult, RecoveryReport, RefusedResult
from tests.integration.temporal_refunds import Case

OF_ACTION: dict[str, Any] = {"key": "refund:case-1", "action_id": "a-1", "approval_id": "case-1", "attempts": 1, "sends": 2}
COMMITTED = CommittedResult(
    **OF_ACTION,
    happened="yes",
    via="first-send",
    reference="re_1",
    state="succeeded",
    amount_minor=2000,
    currency="usd",
    replayed=False,
)
BY_A_PERSON = CommittedResult(
    **OF_ACTION, happened="yes", via="resolution", reference=None, state=None, amount_minor=None, currency=None, replayed=False
)
REFUSED = RefusedResult(
    **OF_ACTION,
    happened="no",
    code="approval_revoked",
    words="revoked",
    possible="approve again",
    at_recovery=True,
    door="burned",
)
AMBIGUOUS = AmbiguousResult(**OF_ACTION, happened="unknown", words="nobody knows")
REPORT = RecoveryReport(ended=2, in_flight=1, ambiguous=["k"], skipped={"k2": "email v1"}, failed={"k3": "JournalUnavailable"})
PREMISE = Premise(
    target="stripe",
    subject="pi_1",
    facts_json=facts_text({"amount": 10_000}),
    read_at=datetime(2026, 11, 29, 12, 0, 0, 123456, UTC),
    policy="refund",
)

CONVERTERS = {"default": DataConverter.default, "pydantic": pydantic_data_converter}


@pytest.mark.parametrize("converter", CONVERTERS.values(), ids=CONVERTERS)
@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (COMMITTED, GateResult),
        (BY_A_PERSON, GateResult),
        (REFUSED, GateResult),
        (AMBIGUOUS, GateResult),
        (REPORT, RecoveryReport),
        (Case("case-1", "pi_1", PREMISE.expect(status="succeeded")), Case),
    ],
    ids=["committed", "by a person", "refused", "ambiguous", "report", "a case with its premise"],
)
def test_what_goes_between_workflow_and_activity_survives(converter: DataConverter, value: object, hint: Any) -> None:
    """Encoded and decoded under its type it is the same, and of the same class."""

    async def there_and_back() -> object:
        [back] = await converter.decode(await converter.encode([value]), [hint])
        return back

    assert asyncio.run(there_and_back()) == value
    assert type(asyncio.run(there_and_back())) is type(value)


@pytest.mark.parametrize("result", [COMMITTED, REFUSED, AMBIGUOUS], ids=lambda result: result.status)
def test_a_result_says_by_itself_which_it_is(result: GateResult) -> None:
    """A workflow in another language tells the three apart by `status`."""

    async def as_json() -> dict[str, Any]:
        [payload] = await DataConverter.default.encode([result])
        encoded: dict[str, Any] = json.loads(payload.data)
        return encoded

    status = type(result).__name__.removesuffix("Result").upper()
    assert asyncio.run(as_json())["status"] == status
