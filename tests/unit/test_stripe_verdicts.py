"""Verdicts: what each answer of Stripe's means, as a table."""

import json
from typing import Any

import pytest
import stripe
from stripe._api_requestor import _APIRequestor

from interlock.domain.answers import (
    AlreadyUsed,
    Burned,
    CannotTell,
    Declined,
    Done,
    InProgress,
    KeyState,
    NotSent,
    Settlement,
    Unknown,
)
from interlock.domain.effects import Effect
from interlock.infrastructure.transports import DeadlineOver
from interlock.stripe import Refund, StripeRefunds, verdicts
from interlock.stripe.verdicts import Reply

REQUESTOR: Any = _APIRequestor  # untyped, as are the constructors of the SDK's errors
NO_ANSWER: Any = stripe.APIConnectionError
EFFECT: Effect[Refund] = StripeRefunds("sk_test_local_v").refund(payment="pi_1", amount_minor=2000, currency="usd")
REFUND = {
    "object": "refund",
    "id": "re_1",
    "status": "succeeded",
    "payment_intent": "pi_1",
    "amount": 2000,
    "currency": "usd",
    "charge": "ch_1",
    "created": 1,
    "metadata": {"interlock_action": "a", "interlock_key": "k", "e_mail": "x@example.com"},
}
REPLAYED = {"idempotent-replayed": "true", "request-id": "req_2"}


def _told(type_: str = "invalid_request_error", **fields: Any) -> dict[str, Any]:
    return {"error": {"type": type_, "message": "No.", **fields}}


def _raised(status: int, body: Any, headers: dict[str, str] | None = None) -> Exception:
    """Return what the SDK itself makes of an answer."""
    raw = body if isinstance(body, str) else json.dumps(body)
    requestor = REQUESTOR._global_instance()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, is what is under test
        requestor._interpret_response(raw.encode(), status, headers or {}, "V1")
    return caught.value


DECLINED = [
    (400, _told(code="charge_already_refunded"), "charge_already_refunded"),
    (400, _told(code="charge_disputed"), "charge_disputed"),
    (400, _told(param="amount"), "invalid_request_error"),
    (400, _told(code="resource_missing", param="payment_intent"), "resource_missing"),
    (404, _told(code="resource_missing"), "resource_missing"),
    (401, _told(), "invalid_request_error"),
    (402, _told("card_error", code="card_declined"), "card_declined"),
    (403, _told(), "invalid_request_error"),
]


@pytest.mark.parametrize(("status", "body", "code"), DECLINED)
@pytest.mark.parametrize("headers", [{}, REPLAYED])
def test_a_parsed_refusal_is_a_no(status: int, body: Any, code: str, headers: dict[str, str]) -> None:
    """Stripe's own JSON with a status that is definite is Declined, and says whether it was replayed."""
    verdict = verdicts.verdict_of_failure(_raised(status, body, headers), written=True)
    assert isinstance(verdict, Declined)
    assert (verdict.code, verdict.replayed) == (code, headers == REPLAYED)


UNKNOWN = [
    (409, _told(code="idempotency_key_in_use"), {}, KeyState.IN_PROGRESS),
    (400, _told("idempotency_error"), {}, KeyState.MISMATCHED),
    (404, _told("idempotency_error"), {}, KeyState.MISMATCHED),
    (500, _told("api_error"), {}, KeyState.OPEN),
    (500, _told("api_error"), REPLAYED, KeyState.STORED_FAILURE),
    (503, _told("api_error"), REPLAYED, KeyState.STORED_FAILURE),
    (408, _told(), {}, KeyState.OPEN),
    (424, _told("api_error"), {}, KeyState.OPEN),
    (418, _told(), {}, KeyState.OPEN),
    (400, _told("api_error"), {}, KeyState.OPEN),
    (400, _told("a_new_type"), {}, KeyState.OPEN),
    (400, {"error": {}}, {}, KeyState.OPEN),
    (400, {"error": "invalid_request"}, {}, KeyState.OPEN),
    (400, {"error": "something else"}, {}, KeyState.OPEN),
    (400, "<html>no</html>", {}, KeyState.OPEN),
    (403, "<html>no</html>", {}, KeyState.OPEN),
    (404, {}, {}, KeyState.OPEN),
    (409, "<html>no</html>", {}, KeyState.OPEN),
    (429, "<html>no</html>", {}, KeyState.OPEN),
    (429, {"message": "a proxy's"}, {}, KeyState.OPEN),
    (429, {"error": {}}, {}, KeyState.OPEN),
    (429, _told("rate_limit_error"), REPLAYED, KeyState.OPEN),
    (502, "<html>no</html>", {}, KeyState.OPEN),
    (200, "<html>no</html>", {}, KeyState.OPEN),
    (200, '{"object": "refund", "id": "re_1', {}, KeyState.OPEN),
    (302, "", {"location": "/v1/refunds"}, KeyState.OPEN),
    (307, "{}", {"location": "/v1/refunds"}, KeyState.OPEN),
    (100, "{}", {}, KeyState.OPEN),
]


@pytest.mark.parametrize(("status", "body", "headers", "key"), UNKNOWN)
def test_anything_else_is_unknown(status: int, body: Any, headers: dict[str, str], key: KeyState) -> None:
    """What is not a definite answer is Unknown, with what it says about the key (I6)."""
    verdict = verdicts.verdict_of_failure(_raised(status, body, headers), written=True)
    assert isinstance(verdict, Unknown)
    assert verdict.key is key


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (429, _told("rate_limit_error"), "rate_limited"),
        (429, _told(code="rate_limit"), "rate_limit"),
        (429, _told(code="lock_timeout"), "lock_timeout"),
        (400, _told(code="rate_limit"), "rate_limit"),
    ],
)
def test_a_limiters_refusal_was_not_executed(status: int, body: Any, why: str) -> None:
    """A rate limit or an object lock turns this request away; it may be tried again."""
    assert verdicts.verdict_of_failure(_raised(status, body), written=True) == NotSent(why)


@pytest.mark.parametrize("error", [NO_ANSWER("no"), DeadlineOver(), RuntimeError("no")])
def test_without_an_answer_only_the_wire_knows(error: Exception) -> None:
    """No answer is NotSent where nothing was written, whatever the exception, and Unknown where anything was."""
    assert isinstance(verdicts.verdict_of_failure(error, written=False), NotSent)
    assert isinstance(verdicts.verdict_of_failure(error, written=True), Unknown)


JUDGED = {
    "APIError",
    "AuthenticationError",
    "CardError",
    "IdempotencyError",
    "InvalidRequestError",
    "PermissionError",
    "RateLimitError",
}
NO_ANSWER_OF_V1 = {
    # the lack of an answer; webhooks; bases
    "APIConnectionError",
    "SignatureVerificationError",
    "StripeErrorWithParamCode",
    "OAuthError",
    "InvalidClientError",
    "InvalidGrantError",
    "InvalidScopeError",
    "UnsupportedGrantTypeError",
    "UnsupportedResponseTypeError",
    # v2 only
    "AlreadyCanceledError",
    "BlockedByStripeError",
    "CannotProceedError",
    "CapabilityNotEnabledError",
    "ControlledByAlternateResourceError",
    "FeatureNotEnabledError",
    "FinancialAccountNotOpenError",
    "FxQuoteNeedsRefreshError",
    "InsufficientFundsError",
    "InvalidPaymentMethodError",
    "InvalidPayoutMethodError",
    "InvalidVaultedCredentialError",
    "NotCancelableError",
    "QuotaExceededError",
    "RecipientNotNotifiableError",
    "TemporarySessionExpiredError",
    "VerificationAttemptFailedError",
    "VerificationExpiredError",
    "VerificationNotInitiatedError",
}


def _classes(base: type[Exception]) -> set[type[Exception]]:
    return {base} | {one for child in base.__subclasses__() for one in _classes(child)}


def test_every_error_class_of_the_sdk_is_known_here() -> None:
    """An SDK that grows an error class is looked at before it is used: until then the class means Unknown."""
    assert {one.__name__ for one in verdicts._BY_CLASS} == JUDGED
    known = {one.__name__ for one in _classes(stripe.StripeError)} - {"StripeError"}
    assert known == JUDGED | NO_ANSWER_OF_V1


def test_an_error_class_that_nobody_judged_is_unknown() -> None:
    """What the table does not name, and subclasses of what it names, are no answer."""

    class Invented(stripe.InvalidRequestError):
        pass

    invented: Any = Invented
    error = invented("No.", None, http_status=400, json_body=_told())
    assert isinstance(verdicts.verdict_of_failure(error, written=True), Unknown)


def test_a_refund_is_done() -> None:
    """A parsed 200 with a refund is Done, with the fields that matter and no metadata but our marks."""
    verdict = verdicts.verdict_of_reply(Reply(200, {"request-id": "req_1"}, REFUND), EFFECT)
    assert isinstance(verdict, Done)
    evidence = verdict.evidence
    assert (evidence.reference, evidence.state, evidence.settlement) == ("re_1", "succeeded", Settlement.FINAL)
    assert (evidence.replayed, evidence.request_id, evidence.disagreements) == (False, "req_1", ())
    assert json.loads(evidence.json)["metadata"] == {"interlock_action": "a", "interlock_key": "k"}
    assert "example.com" not in evidence.json


@pytest.mark.parametrize(
    ("status", "settlement"),
    [
        ("pending", Settlement.OPEN),
        ("requires_action", Settlement.OPEN),
        ("failed", Settlement.REVERSED),
        ("canceled", Settlement.REVERSED),
        ("a_new_state", Settlement.OPEN),
        (None, Settlement.OPEN),
    ],
)
def test_a_refund_that_is_not_at_its_end_says_so(status: str | None, settlement: Settlement) -> None:
    """Pending is not a plain success, failed is one that was taken back, and what is not known is not final."""
    verdict = verdicts.verdict_of_reply(Reply(200, {}, REFUND | {"status": status}), EFFECT)
    assert isinstance(verdict, Done)
    assert verdict.evidence.settlement is settlement


@pytest.mark.parametrize("wrong", [{"amount": 1}, {"currency": "eur"}, {"payment_intent": "pi_2"}, {"amount": None}])
def test_an_answer_that_does_not_match_is_kept_and_disagrees(wrong: dict[str, Any]) -> None:
    """Another amount, currency or payment than was asked for is evidence, and not agreement."""
    verdict = verdicts.verdict_of_reply(Reply(200, {}, REFUND | wrong), EFFECT)
    assert isinstance(verdict, Done)
    assert len(verdict.evidence.disagreements) == 1


@pytest.mark.parametrize(
    "body", [{}, {"object": "refund"}, {"object": "refund", "id": ""}, {"object": "refund", "id": "pi_1"}, {"id": "re_1"}]
)
def test_a_success_without_a_refund_is_unknown(body: dict[str, Any]) -> None:
    """200 with anything but a refund says nothing."""
    assert isinstance(verdicts.verdict_of_reply(Reply(200, {}, body), EFFECT), Unknown)


def test_a_refund_that_is_not_by_card_is_a_refund() -> None:
    """Refunds of other payments have ids of another form."""
    assert isinstance(verdicts.verdict_of_reply(Reply(200, {}, REFUND | {"id": "pyr_1"}), EFFECT), Done)


@pytest.mark.parametrize("headers", [{}, REPLAYED])
def test_a_burn_that_is_answered_with_the_payment_is_done(headers: dict[str, str]) -> None:
    """Replayed too: then it is our own burn that holds the key."""
    reply = Reply(200, headers, {"object": "payment_intent", "id": "pi_1"})
    assert verdicts.burn_verdict_of_reply(reply, "pi_1") == Burned()


@pytest.mark.parametrize("body", [{}, REFUND, {"object": "payment_intent", "id": "pi_2"}])
def test_a_burn_that_is_answered_with_something_else_closes_nothing(body: dict[str, Any]) -> None:
    """Only the payment itself proves that the update was the request of this key."""
    assert isinstance(verdicts.burn_verdict_of_reply(Reply(200, {}, body), "pi_1"), CannotTell)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (_raised(400, _told("idempotency_error")), AlreadyUsed),
        (_raised(409, _told(code="idempotency_key_in_use")), InProgress),
        (_raised(409, "<html>no</html>"), CannotTell),
        (_raised(400, _told()), CannotTell),
        (_raised(404, _told(code="resource_missing")), CannotTell),
        (_raised(403, _told()), CannotTell),
        (_raised(429, _told("rate_limit_error")), CannotTell),
        (_raised(500, _told("api_error"), REPLAYED), CannotTell),
        (NO_ANSWER("no"), CannotTell),
        (DeadlineOver(), CannotTell),
    ],
)
def test_a_failed_burn_closes_nothing_unless_the_key_is_anothers(error: Exception, answer: type) -> None:
    """Only a key that belongs to another request, or is in use, is news; every other failure is CannotTell."""
    assert isinstance(verdicts.burn_verdict_of_failure(error), answer)


def test_no_key_is_in_the_words() -> None:
    """Stripe's message about a wrong key repeats a part of it; ours does not."""
    body = _told(message="Invalid API Key provided: sk_test_local_abcdef")
    verdict = verdicts.verdict_of_failure(_raised(401, body), written=True)
    assert isinstance(verdict, Declined)
    assert "sk_test" not in verdict.words
    assert "[key]" in verdict.words
