"""The public interface as a user's type checker sees it. Never run: mypy and pyright read it."""

from dataclasses import dataclass
from uuid import UUID

from interlock import (
    Ambiguous,
    Answer,
    AsyncFunctionTarget,
    AsyncGate,
    AsyncTarget,
    CapabilityProfile,
    Committed,
    DataclassCodec,
    Deadline,
    Declined,
    Done,
    Effect,
    Evidence,
    FunctionTarget,
    Gate,
    InFlight,
    LookupAnswer,
    Outcome,
    Refused,
    Settlement,
    Target,
    Unknown,
    target,
)
from interlock.stripe import Refund, StripeRefunds


@dataclass(frozen=True)
class Payout:
    """Parameters of a target of a user's own."""

    account: str
    amount_minor: int


class AsyncPayouts(AsyncTarget[Payout]):
    """A provider for an event loop, written against the port."""

    name = "payouts"
    codec = DataclassCodec(Payout)

    @property
    def capabilities(self) -> CapabilityProfile:
        """It dedupes for a day, and can be asked."""
        return CapabilityProfile(dedupe_window_s=86_400, lookup_staleness_s=0, roll_forward_s=0)

    async def _send(self, effect: Effect[Payout], *, action_id: UUID, idempotency_key: str, deadline: Deadline) -> Answer:
        if deadline.remaining_s() < 1:
            return Unknown("no time left")
        if effect.parameters.amount_minor > 10:
            return Declined("too_much", "more than ten")
        return Done(Evidence(reference=str(action_id), state=idempotency_key, settlement=Settlement.FINAL, json="{}"))

    async def _lookup(self, effect: Effect[Payout], *, action_id: UUID, deadline: Deadline) -> LookupAnswer:
        return await super()._lookup(effect, action_id=action_id, deadline=deadline)


@target("email", effect=Payout)
def send_email(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
    """Act, as a plain function does."""
    return Unknown(f"{effect.account} {idempotency_key} {deadline_s}")


@target("notice", effect=Payout)
async def notify(effect: Payout, /, *, idempotency_key: str, deadline_s: float) -> Answer:
    """Act, as a coroutine function does."""
    return Unknown(f"{effect.account} {idempotency_key} {deadline_s}")


def a_coroutine_function_is_a_target_that_is_awaited() -> AsyncTarget[Payout]:
    """The decorator tells the two kinds apart."""
    made: AsyncFunctionTarget[Payout] = notify
    return made


def a_function_target_is_a_target_of_its_parameters() -> Effect[Payout]:
    """The decorator keeps the type of the parameters."""
    made: FunctionTarget[Payout] = send_email
    as_target: Target[Payout] = made
    del as_target
    return made.effect(Payout("acct", 1), subject="acct")


def every_outcome_is_covered(gate: Gate, stripe: StripeRefunds) -> str:
    """A match over the four outcomes is exhaustive."""
    effect: Effect[Refund] = stripe.refund(payment="pi_1", amount_minor=1, currency="usd")
    outcome: Outcome = gate.fire("key", effect, approval="case", premises=[stripe.observe("pi_1")])
    match outcome:
        case Committed() | Refused() | Ambiguous():
            return outcome.receipt.to_text()
        case InFlight(retry_after_s=seconds):
            return f"again in {seconds}"


async def an_async_target_answers_with_the_same_types(payouts: AsyncPayouts, deadline: Deadline) -> LookupAnswer:
    """Coroutines of the same names return the same answers."""
    effect = Effect("payouts", "acct", Payout("acct", 1))
    answer: Answer = await payouts.send(effect, action_id=UUID(int=0), idempotency_key="k", deadline=deadline)
    del answer
    return await payouts.lookup(effect, action_id=UUID(int=0), deadline=deadline)


async def the_async_gate_takes_both_kinds_of_targets(payouts: AsyncPayouts) -> str:
    """It can be entered or awaited, and its methods have the types of the sync gate's."""
    async with AsyncGate.open("sqlite:///interlock.db", targets=[payouts, send_email, notify]) as gate:
        outcome: Outcome = await gate.fire("key", notify.effect(Payout("acct", 1), subject="acct"), approval="case")
    other: AsyncGate = await AsyncGate.open("sqlite:///interlock.db", targets=[send_email])
    await other.close()
    return outcome.receipt.to_text()
