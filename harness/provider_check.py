"""`python -m harness.provider_check`: every rule of Stripe's that the refund target relies on, tried out.

Against the local stand-in always, and against the real service where a test key is found (`STRIPE_SECRET_KEY`, or the
Stripe CLI's). What needs a clock to be moved or a failure to be made can be tried out on the stand-in only; for the
real service it rests on what Stripe documents, and the table says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import stripe
from stripe.params import RefundListParams

from harness.keys import LiveKeyRefused, stripe_key_from_environment
from harness.standins.stripe.client import LOCAL_API_KEY, StripeControl, StripeStandIn
from harness.standins.stripe.faults import FaultKind
from harness.standins.stripe.sdk import pay
from interlock.domain.answers import (
    Absent,
    AlreadyUsed,
    BurnAnswer,
    Burned,
    Declined,
    Done,
    Found,
    KeyState,
    LookupAnswer,
    NotSent,
    SendAnswer,
    Unknown,
)
from interlock.infrastructure.clock import WallDeadline
from interlock.stripe import StripeRefunds

_DEADLINE_S = 30.0
_AT_ONCE = 6
_DAY_S = 24 * 3600.0


class Violated(Exception):
    """The provider does not do what the target relies on."""


def require(holds: object, found: object) -> None:
    """Raise Violated, with what was found, unless the rule holds."""
    if not holds:
        raise Violated(str(found))


@dataclass(slots=True)
class Provider:
    """A provider under test: the raw SDK, the target, and, of the stand-in, its controls."""

    api_key: str
    api_base: str | None
    control: StripeControl | None
    sdk: stripe.StripeClient = field(init=False)
    target: StripeRefunds = field(init=False)

    def __post_init__(self) -> None:
        self.sdk = stripe.StripeClient(
            self.api_key, base_addresses={"api": self.api_base} if self.api_base else {}, max_network_retries=0
        )
        self.target = StripeRefunds(self.api_key, api_base=self.api_base)


@dataclass(slots=True)
class Try:
    """A new payment of 100.00 (or as given), and one action that refunds a part of it."""

    provider: Provider
    amount_minor: int = 2000
    currency: str = "usd"
    paid_minor: int = 10_000
    payment: str = ""
    action_id: UUID = field(default_factory=uuid4)
    key: str = field(default_factory=lambda: f"il-check-{uuid4().hex}")

    def __post_init__(self) -> None:
        if not self.payment:
            self.payment = pay(self.provider.sdk, self.paid_minor, self.currency).id

    def send(self) -> SendAnswer:
        """Send under the key."""
        effect = self.provider.target.refund(
            payment=self.payment, amount_minor=self.amount_minor, currency=self.currency, reference="provider-check"
        )
        return self.provider.target.send(
            effect, action_id=self.action_id, idempotency_key=self.key, deadline=WallDeadline(_DEADLINE_S)
        )

    def burn(self) -> BurnAnswer:
        """Burn the key."""
        effect = self.provider.target.refund(payment=self.payment, amount_minor=1, currency=self.currency)
        return self.provider.target.burn(
            effect, action_id=self.action_id, idempotency_key=self.key, deadline=WallDeadline(_DEADLINE_S)
        )

    def lookup(self) -> LookupAnswer:
        """Look the refund up."""
        effect = self.provider.target.refund(payment=self.payment, amount_minor=self.amount_minor, currency=self.currency)
        return self.provider.target.lookup(effect, action_id=self.action_id, deadline=WallDeadline(_DEADLINE_S))

    def refunds(self) -> list[stripe.Refund]:
        """Return the payment's refunds by the raw SDK, newest first."""
        return list(self.provider.sdk.v1.refunds.list({"payment_intent": self.payment}).auto_paging_iter())


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it says, where Stripe says it, how it is tried out, and whether that needs the stand-in."""

    says: str
    source: str
    check: Callable[[Provider], None]
    stand_in_only: bool


RULES: list[Rule] = []

_IDEMPOTENCY = "docs.stripe.com/api/idempotent_requests"
_LOW_LEVEL = "docs.stripe.com/error-low-level"
_REFUNDS = "docs.stripe.com/api/refunds"


def rule(says: str, source: str, *, stand_in_only: bool = False) -> Callable[[Callable[[Provider], None]], None]:
    """Register a rule."""

    def register(check: Callable[[Provider], None]) -> None:
        RULES.append(Rule(says, source, check, stand_in_only))

    return register


@rule("the same request under the same key is executed once, and then replayed with idempotent-replayed", _IDEMPOTENCY)
def _(provider: Provider) -> None:
    one = Try(provider)
    first, second = one.send(), one.send()
    require(isinstance(first, Done) and not first.evidence.replayed, first)
    require(isinstance(second, Done) and second.evidence.replayed, second)
    require(len(one.refunds()) == 1, "more than one refund")


@rule("requests under one key at the same time end in one refund; who comes second gets 409 or the replay", _LOW_LEVEL)
def _(provider: Provider) -> None:
    one = Try(provider)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda _: one.send(), range(_AT_ONCE)))
    for answer in answers:
        in_progress = isinstance(answer, Unknown) and answer.key is KeyState.IN_PROGRESS
        require(isinstance(answer, Done | NotSent) or in_progress, answer)
    require(len(one.refunds()) == 1, f"{len(one.refunds())} refunds")


@rule("a key that was used with other parameters is refused with idempotency_error", _LOW_LEVEL)
def _(provider: Provider) -> None:
    one = Try(provider)
    one.send()
    other = Try(provider, amount_minor=1000, payment=one.payment, key=one.key)
    answer = other.send()
    require(isinstance(answer, Unknown) and answer.key is KeyState.MISMATCHED, answer)
    require(len(one.refunds()) == 1, "more than one refund")


@rule("a key that was used for an update of the payment never carries a refund (burning)", _LOW_LEVEL)
def _(provider: Provider) -> None:
    one = Try(provider)
    burned = one.burn()
    require(burned == Burned(), burned)
    answer = one.send()
    require(isinstance(answer, Unknown) and answer.key is KeyState.MISMATCHED, answer)
    require(not one.refunds(), "a refund under a burned key")


@rule("a burn is replayed as itself", _IDEMPOTENCY)
def _(provider: Provider) -> None:
    one = Try(provider)
    answers = (one.burn(), one.burn())
    require(answers == (Burned(), Burned()), answers)


@rule("a key that carried a refund can't be burned", _LOW_LEVEL)
def _(provider: Provider) -> None:
    one = Try(provider)
    one.send()
    answer = one.burn()
    require(answer == AlreadyUsed(), answer)


@rule("a payment that succeeded takes metadata, and one fixed name takes one place", "docs.stripe.com/api/metadata")
def _(provider: Provider) -> None:
    one = Try(provider)
    other = Try(provider, payment=one.payment)
    require((one.burn(), other.burn()) == (Burned(), Burned()), "not burned")
    metadata = provider.sdk.v1.payment_intents.retrieve(one.payment).to_dict()["metadata"]
    require(metadata == {"interlock_burned": other.key}, metadata)


@rule("a refund that was just made is in the list at once, with its metadata", "docs.stripe.com/api-v2-overview")
def _(provider: Provider) -> None:
    one = Try(provider)
    before = one.lookup()
    one.send()
    after = one.lookup()
    require(isinstance(before, Absent), before)
    require(isinstance(after, Found) and not after.evidence.disagreements, after)


@rule("a list is newest first, pages by starting_after, and says has_more until the last page", f"{_REFUNDS}/list")
def _(provider: Provider) -> None:
    one = Try(provider, amount_minor=1000)
    made = [one.send(), *(Try(provider, amount_minor=each, payment=one.payment).send() for each in (1001, 1002))]
    params: RefundListParams = {"payment_intent": one.payment, "limit": 1}
    listed = list[str]()
    while True:
        page = provider.sdk.v1.refunds.list(params)
        listed += [each.id for each in page.data]
        if not page.has_more:
            break
        params["starting_after"] = listed[-1]
    wanted = [each.evidence.reference for each in reversed(made) if isinstance(each, Done)]
    require(listed == wanted, f"{listed}, not {wanted}")


@rule("a refund answers with id, payment, amount, currency, charge and status", f"{_REFUNDS}/object")
def _(provider: Provider) -> None:
    one = Try(provider)
    answer = one.send()
    require(isinstance(answer, Done) and not answer.evidence.disagreements, answer)
    [refund] = one.refunds()
    require(refund.charge and refund.status in ("succeeded", "pending"), refund.status)


@rule("a payment says its mode, what was received, and, expanded, whether its charge is disputed", "docs.stripe.com/api")
def _(provider: Provider) -> None:
    one = Try(provider)
    facts = provider.target.observe(one.payment).facts
    told = (facts["amount"], facts["status"], facts["livemode"], facts["disputed"], facts["refunds"])
    require(told == (10_000, "succeeded", False, False, []), told)


@rule("yen are counted in yen", "docs.stripe.com/currencies")
def _(provider: Provider) -> None:
    one = Try(provider, amount_minor=5800, currency="jpy", paid_minor=9899)
    answer = one.send()
    require(isinstance(answer, Done) and not answer.evidence.disagreements, answer)
    require(provider.target.observe(one.payment).facts["amount"] == 9899, "another amount was paid")


@rule("more than what is left is refused: 400, parsed, nothing refunded", f"{_REFUNDS}/create")
def _(provider: Provider) -> None:
    one = Try(provider, amount_minor=10_001)
    answer = one.send()
    require(isinstance(answer, Declined), answer)
    require(not one.refunds(), "a refund in spite of the no")


@rule("a payment that is refunded in full is refused with charge_already_refunded", "docs.stripe.com/error-codes")
def _(provider: Provider) -> None:
    one = Try(provider, amount_minor=10_000)
    one.send()
    answer = Try(provider, payment=one.payment).send()
    require(isinstance(answer, Declined) and answer.code == "charge_already_refunded", answer)


@rule("an unknown payment is refused with resource_missing", "docs.stripe.com/error-codes")
def _(provider: Provider) -> None:
    answer = Try(provider, payment="pi_nobodyhasthis").send()
    require(isinstance(answer, Declined) and answer.code == "resource_missing", answer)


@rule("a wrong key is refused with 401 and Stripe's own JSON", "docs.stripe.com/api/errors")
def _(provider: Provider) -> None:
    wrong = stripe.StripeClient(
        "sk_wrong", base_addresses={"api": provider.api_base} if provider.api_base else {}, max_network_retries=0
    )
    try:
        wrong.v1.refunds.list({"limit": 1})
    except stripe.AuthenticationError as error:
        require(error.error is not None and error.error.type == "invalid_request_error", "not Stripe's JSON")
    else:
        raise Violated("a wrong key was taken")


@rule("a key is recognised for 24 h from its first use", _IDEMPOTENCY, stand_in_only=True)
def _(provider: Provider) -> None:
    one = Try(provider)
    one.send()
    _control(provider).advance_clock(_DAY_S - 600)
    answer = one.send()
    require(isinstance(answer, Done) and answer.evidence.replayed, answer)
    require(len(one.refunds()) == 1, "more than one refund")


@rule("a 500 is stored under its key, replayed, and may have had an effect", _LOW_LEVEL, stand_in_only=True)
def _(provider: Provider) -> None:
    one = Try(provider)
    _control(provider).arm(FaultKind.ERROR_500_WITH_EFFECT)
    first, second = one.send(), one.send()
    require(isinstance(first, Unknown) and first.key is KeyState.OPEN, first)
    require(isinstance(second, Unknown) and second.key is KeyState.STORED_FAILURE, second)
    require(isinstance(one.lookup(), Found), "its effect is not in the list")


@rule("a 429 was not executed, and its key is as good as new", "docs.stripe.com/rate-limits", stand_in_only=True)
def _(provider: Provider) -> None:
    one = Try(provider)
    _control(provider).arm(FaultKind.RATE_LIMIT)
    first, second = one.send(), one.send()
    require(isinstance(first, NotSent), first)
    require(isinstance(second, Done) and not second.evidence.replayed, second)


def _control(provider: Provider) -> StripeControl:
    if provider.control is None:
        raise Violated("this can be tried out on the stand-in only")
    return provider.control


def checked(one: Rule, provider: Provider) -> str:
    """Return "holds", or what was found instead."""
    try:
        one.check(provider)
    except Violated as violated:
        return f"VIOLATED: {violated}"
    except Exception as error:  # noqa: BLE001 - a check that can't be made is no rule that holds
        return f"VIOLATED: the check failed with {type(error).__name__}: {error}"
    return "holds"


@contextmanager
def local_provider() -> Iterator[Provider]:
    """Start the stand-in."""
    with tempfile.TemporaryDirectory() as folder, StripeStandIn(Path(folder) / "ledger.jsonl") as standin:
        yield Provider(LOCAL_API_KEY, standin.api_base, standin)


def report(title: str, provider: Provider) -> bool:
    """Check every rule and print the table; return whether all hold."""
    print(f"\n{title}")
    held = True
    for number, one in enumerate(RULES, 1):
        found = "documented only" if one.stand_in_only and provider.control is None else checked(one, provider)
        held = held and not found.startswith("VIOLATED")
        print(f"{number:3}  {found:16} {one.says}  [{one.source}]")
    return held


def main() -> int:
    """Check the stand-in, and the real service where there is a test key."""
    parser = argparse.ArgumentParser(prog="harness.provider_check", description=__doc__)
    parser.add_argument("--local", action="store_true", help="leave the real service alone, even if there is a test key")
    arguments = parser.parse_args()
    try:
        key = None if arguments.local else stripe_key_from_environment()
    except LiveKeyRefused as refused:
        print(refused, file=sys.stderr)
        return 2
    # Telemetry writes an id under the user's home.
    stripe.enable_telemetry = False
    with local_provider() as provider:
        held = report("LOCAL: the stand-in, not Stripe", provider)
    if key is None:
        print("\nNo test key was used: Stripe itself was not asked (STRIPE_SECRET_KEY=sk_test_…).")
    else:
        held = report("STRIPE, test mode", Provider(key, None, None)) and held
    print("\nEvery rule that could be tried out holds." if held else "\nA rule that the target relies on is VIOLATED.")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
