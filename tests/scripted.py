"""The outside of the protocol from a script: what each request is answered with, and what was asked for.

The protocol does no I/O, so a claim about one part of it can be made on that part alone: on the requests that it yields.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from interlock.domain import requests
from interlock.domain.action import Checks, GatedAction, Intent, SendPurpose
from interlock.domain.answers import Evidence, Settlement
from interlock.domain.approvals import Approval, ApprovalRef, ApprovalTerms
from interlock.domain.checking import Checked
from interlock.domain.effects import DataclassCodec, Effect, EffectRecord, Money, record_effect
from interlock.domain.profiles import CapabilityProfile
from interlock.domain.requests import AppendAnswer, Liveness, Protocol, Request
from interlock.domain.sending import Sender
from tests.provider_world import Transfer

T = TypeVar("T")

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACTION_ID, APPROVAL_ID = UUID(int=1), UUID(int=2)
KEYS = CapabilityProfile(
    send_deadline_s=10, kernel_s=20, settle_s=5, dedupe_window_s=86_400, dedupe_margin_s=600, roll_forward_s=0
)


def later(seconds: float) -> datetime:
    """Return the time so many seconds after the beginning."""
    return AT + timedelta(seconds=seconds)


def effect(amount_minor: int = 2000) -> EffectRecord:
    """Return the record of a transfer."""
    parameters = Transfer("acct_1", amount_minor, "usd")
    return record_effect(Effect("world", "acct_1", parameters, Money(amount_minor, "usd")), DataclassCodec(Transfer), 1)


def intent(key: str = "refund:1", source: str | None = None) -> Intent:
    """Return what a caller hands over."""
    return Intent(key=key, effect=effect(), approval=ApprovalRef("case-1", source))


def approval(expires_in_s: int = 100_000) -> Approval:
    """Return an approval that is durable."""
    terms = ApprovalTerms(cap_minor=2000, currency="usd", by="user:17", expires_in_s=expires_in_s, fingerprint=None, uses=1)
    granted = Approval.grant(APPROVAL_ID, "case-1", terms, AT)
    granted.collect_events()
    return granted


def evidence(reference: str = "tx_1", state: str = "succeeded", disagreements: tuple[str, ...] = ()) -> Evidence:
    """Return the provider's word for what it did."""
    return Evidence(reference=reference, state=state, settlement=Settlement.FINAL, json="{}", disagreements=disagreements)


def gate(profile: CapabilityProfile = KEYS, holder: str = "gate-1", sends_per_pass: int = 2) -> Sender:
    """Return a gate that sends."""
    return Sender(holder=holder, host="here", pid=7, lock=None, claim_ttl_s=40, profile=profile, sends_per_pass=sends_per_pass)


def intended() -> GatedAction:
    """Return an action that is intended, and durable."""
    action = GatedAction.intend(ACTION_ID, intent(), AT)
    action.collect_events()
    return action


def dispatched(sender: Sender, *attempts: int) -> GatedAction:
    """Return a claimed action with a durable send under each of these attempts' keys; the first one's if none is named."""
    action = intended()
    action.take_claim(sender.claim(action, AT), "first", AT)
    for attempt in attempts or (1,):
        action.dispatch(attempt, SendPurpose.EXECUTE, checked(action).checks, sender.profile, AT)
    action.collect_events()
    return action


def checked(action: GatedAction, held: Approval | None = None, at: datetime = AT) -> Checked:
    """Return what a re-check reads of an approval, and no premises."""
    held = held or approval()
    return Checked(Checks(approval=held.reading(action.id, action.intent.effect, at), premises=()), held)


class Outside:
    """Performs the requests of one part of the protocol. Sleeping moves its clock, and nothing else does.

    Args:
        action: what the journal has.
        approval: what the journal has.
        answers: by the kind of request, what the next ones of it are answered with, or the errors that they raise; the clock
            and the journal are its own.
    """

    def __init__(self, action: GatedAction | None = None, approval: Approval | None = None, **answers: list[Any]) -> None:
        self.action, self.approval = action, approval
        self.answers = answers
        self.now = AT
        self.trace: list[Request[Any]] = []
        self.appended: list[list[Any]] = []
        self.before: Callable[[Request[Any]], object] = lambda _request: None

    def run(self, part: Protocol[T]) -> T:
        """Perform everything that a part of the protocol asks for, and return what it comes to."""
        try:
            request = next(part)
            while True:
                self.trace.append(request)
                self.before(request)
                answer = self._answer(request)
                request = part.throw(answer) if isinstance(answer, Exception) else part.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    @property
    def kinds(self) -> list[str]:
        """The kinds of the requests so far, without the clock."""
        return [type(request).__name__ for request in self.trace if not isinstance(request, requests.Now)]

    def events(self, kind: type[T]) -> list[T]:
        """Return the events of a kind that were appended."""
        return [event for events in self.appended for event in events if isinstance(event, kind)]

    def _answer(self, request: Request[Any]) -> Any:
        scripted = self.answers.get(type(request).__name__)
        if scripted:
            return scripted.pop(0)
        match request:
            case requests.SleepUntil(at):
                self.now = at
                return None
            case requests.Append(action, held):
                self.appended.append([*action.collect_events(), *(held.collect_events() if held is not None else ())])
                return AppendAnswer.APPENDED
            case _:
                return self._known[type(request)]()

    @property
    def _known(self) -> dict[type[Request[Any]], Callable[[], Any]]:
        return {
            requests.Now: lambda: self.now,
            requests.NewActionId: lambda: ACTION_ID,
            requests.FindAction: lambda: self.action,
            requests.LoadAction: lambda: self.action,
            requests.LoadApproval: lambda: self.approval,
            requests.ReadPremises: lambda: (),
            requests.StillAt: lambda: True,
            requests.ProbeHolder: lambda: Liveness.IDLE,
        }
